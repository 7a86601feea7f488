#!/usr/bin/env bash
# Runs the tests that need PostgreSQL on a container, by way of testcontainers: with a container engine of its own, in a
# temporary folder, and an image made from Debian's packages, so that neither an engine nor a registry of images is
# needed. Needs root and a Debian with apt. Leaves nothing behind but the packages it installed.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { echo "test-container: $*"; }

if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
    echo "test-container: needs root, and apt" >&2
    exit 1
fi

image=fencerow-test-postgres:debian
work=$(mktemp -d)
engine_pid=''

clean_up() {
    if [ -n "$engine_pid" ]; then
        kill "$engine_pid" 2>/dev/null || true
        wait "$engine_pid" 2>/dev/null || true
    fi
    # A folder that is still mounted somewhere below must not be emptied.
    awk -v below="$work/" 'index($2, below) == 1 { print $2 }' /proc/mounts | sort -r | xargs -r umount
    rm -rf --one-file-system "$work"
}
trap clean_up EXIT

# Services of the packages are not started here: the policy stays as short as the installation.
install_missing() {
    local packages=() policy=/usr/sbin/policy-rc.d made=''
    command -v dockerd >/dev/null || packages+=(docker.io)
    command -v iptables >/dev/null || packages+=(iptables)
    command -v debootstrap >/dev/null || packages+=(debootstrap)
    if [ ${#packages[@]} -eq 0 ]; then return; fi
    say "installing ${packages[*]}"
    if ! [ -e "$policy" ]; then
        made=$policy
        printf '#!/bin/sh\nexit 101\n' >"$policy"
        chmod 755 "$policy"
    fi
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null
    if [ -n "$made" ]; then rm "$made"; fi
}

# make_root fills $work/root with a Debian of this machine's release that has a PostgreSQL server, from the mirror that
# this machine's apt uses.
make_root() {
    local codename mirror root=$work/root
    codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
    mirror=$(apt-get indextargets --format '$(CODENAME) $(REPO_URI)' 'Created-By: Packages' |
        awk -v codename="$codename" '$1 == codename { print $2; exit }')
    if [ -z "$mirror" ]; then
        echo "test-container: apt has no mirror of $codename; run apt-get update" >&2
        exit 1
    fi
    say "making a root folder of $codename"
    debootstrap --variant=minbase "$codename" "$root" "$mirror" >"$work/debootstrap.log" 2>&1 ||
        { tail "$work/debootstrap.log" >&2; exit 1; }
    apt-config dump Acquire >"$root/etc/apt/apt.conf.d/90build-machine"
    mkdir -p "$root/etc/postgresql-common/createcluster.d"
    echo 'create_main_cluster = false' >"$root/etc/postgresql-common/createcluster.d/no-cluster.conf"
    printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
    chmod 755 "$root/usr/sbin/policy-rc.d"
    cp /etc/resolv.conf "$root/etc/resolv.conf"
    DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 chroot "$root" \
        apt-get install -y -qq --no-install-recommends postgresql >"$work/apt.log" 2>&1 ||
        { tail "$work/apt.log" >&2; exit 1; }
    # An image names no machine: neither its mirror nor its resolver.
    rm -rf "$root"/etc/apt/apt.conf.d/90build-machine "$root"/etc/apt/sources.list "$root"/etc/resolv.conf \
        "$root"/var/lib/apt/lists/* "$root"/var/cache/apt/*.bin "$root"/var/cache/apt/archives/*.deb
    install -m 755 scripts/container-entrypoint.sh "$root/usr/local/bin/docker-entrypoint.sh"
}

start_engine() {
    export DOCKER_HOST=unix://$work/engine.sock
    say "starting a container engine in $work"
    dockerd --host "$DOCKER_HOST" --data-root "$work/data" --exec-root "$work/exec" --pidfile "$work/engine.pid" \
        >"$work/engine.log" 2>&1 &
    engine_pid=$!
    local tries
    for ((tries = 0; tries < 120; tries++)); do
        if docker version >/dev/null 2>&1; then return; fi
        if ! kill -0 "$engine_pid" 2>/dev/null; then break; fi
        sleep 0.5
    done
    tail -n 20 "$work/engine.log" >&2
    exit 1
}

install_missing
make_root
start_engine
say "importing the image $image"
tar -C "$work/root" -c . | docker import --change 'ENTRYPOINT ["docker-entrypoint.sh"]' --change 'CMD ["postgres"]' \
    --change 'EXPOSE 5432' - "$image" >/dev/null

export FENCEROW_TEST_POSTGRES_IMAGE=$image
# The library's own janitor is an image, too. The engine ends with this script, and all containers with it.
export TESTCONTAINERS_RYUK_DISABLED=true
unset TREX_POSTGRESQL_TEST_DSN

make --no-print-directory test-tools
say "a server for one test binary, started by the test itself"
go test -count=1 -run 'Template|Roles|Terminate' -v ./internal/pgtest
say "a server for the packages of one run"
.tools/bin/pgtest-server -- .tools/bin/gotest -packages './internal/pgtest/... ./internal/pgstore/...' -- -count=1
if [ -n "$(docker ps --all --quiet)" ]; then
    echo "test-container: a container was left behind" >&2
    exit 1
fi
say "the engine was $(docker version --format '{{.Server.Version}}'), no container was left behind"
