#!/usr/bin/env bash
# Installs what the build and the tests need besides Go: git, make, a C compiler (for -race and for sqlc's parser), the
# programs of a PostgreSQL server of version 14 or later with its client and contrib modules, pgbouncer, and psycopg2
# for Python.
# Says nothing when nothing is missing. Starts and enables no service, and makes no database cluster.
set -euo pipefail

say() { echo "setup: $*" >&2; }

have() { command -v "$1" >/dev/null 2>&1; }

# The same places, in the same order, as the tests look at.
have_postgresql_server() {
    local dir major
    if [ -n "${FENCEROW_TEST_POSTGRES_BIN:-}" ]; then
        [ -x "$FENCEROW_TEST_POSTGRES_BIN/initdb" ] && [ -x "$FENCEROW_TEST_POSTGRES_BIN/postgres" ]
        return
    fi
    for dir in /usr/lib/postgresql/*/bin /usr/pgsql-*/bin /usr/libexec/postgresql*; do
        major=${dir%/bin}
        major=${major##*[!0-9]}
        if [ "${major:-0}" -ge 14 ] && [ -x "$dir/initdb" ] && [ -x "$dir/postgres" ]; then
            return 0
        fi
    done
    have initdb && [ -x "$(dirname "$(readlink -f "$(command -v initdb)")")/postgres" ]
}

have_pooler() {
    if [ -n "${FENCEROW_TEST_PGBOUNCER:-}" ]; then
        [ -x "$FENCEROW_TEST_PGBOUNCER" ]
        return
    fi
    have pgbouncer || [ -x /usr/sbin/pgbouncer ] || [ -x /usr/local/sbin/pgbouncer ]
}

have_compiler() { have gcc && echo '#include <stdlib.h>' | gcc -E - >/dev/null 2>&1; }

have_psycopg2() {
    local python
    for python in /usr/bin/python3 python3; do
        if have "$python" && "$python" -c 'import psycopg2' >/dev/null 2>&1; then
            return 0
        fi
    done
    return 1
}

missing=()
have git || missing+=(git)
have make || missing+=(make)
have_compiler || missing+=(compiler)
have_postgresql_server || missing+=(server)
have psql || missing+=(client)
have_pooler || missing+=(pgbouncer)
have_psycopg2 || missing+=(psycopg2)

if ! have go; then
    say "Go is missing: install the version that go.mod names, or a later one"
    exit 1
fi
if [ ${#missing[@]} -eq 0 ]; then
    exit 0
fi

# packages_for KIND prints the packages that bring what is missing, in the words of the package manager KIND.
packages_for() {
    local what
    for what in "${missing[@]}"; do
        case $1:$what in
        *:git | *:make | *:pgbouncer) echo "$what" ;;
        apt:compiler) echo gcc libc6-dev ;;
        apt:server) echo postgresql postgresql-contrib ;;
        apt:client) echo postgresql-client ;;
        apt:psycopg2 | dnf:psycopg2) echo python3-psycopg2 ;;
        dnf:compiler) echo gcc glibc-devel ;;
        dnf:server) echo postgresql-server postgresql-contrib ;;
        dnf:client) echo postgresql ;;
        apk:compiler) echo build-base ;;
        apk:server) echo postgresql postgresql-contrib ;;
        apk:client) echo postgresql-client ;;
        apk:psycopg2) echo py3-psycopg2 ;;
        brew:compiler) echo gcc ;;
        brew:server | brew:client) echo postgresql@17 ;;
        brew:psycopg2) echo psycopg2 ;;
        esac
    done
}

as_root=()
if [ "$(id -u)" -ne 0 ]; then
    as_root=(sudo)
    # Nobody can type a password where there is no terminal.
    if ! [ -t 0 ]; then as_root+=(-n); fi
fi

# give_up prints what a person with the rights has to run.
give_up() {
    say "missing: ${missing[*]}"
    say "$1"
    exit 1
}

need_root() {
    if [ "$(id -u)" -ne 0 ] && ! have sudo; then
        give_up "as root, run: $*"
    fi
}

# Debian's server package makes a cluster and starts it when it is installed. A drop-in file of the package's own
# configuration prevents the first, a policy for service starts the second, both for this call only.
guard_debian_services() {
    local dropin=/etc/postgresql-common/createcluster.d/fencerow-setup.conf policy=/usr/sbin/policy-rc.d
    undo=("$dropin")
    "${as_root[@]}" mkdir -p "$(dirname "$dropin")"
    echo 'create_main_cluster = false' | "${as_root[@]}" tee "$dropin" >/dev/null
    if ! [ -e "$policy" ]; then
        undo+=("$policy")
        printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee "$policy" >/dev/null
        "${as_root[@]}" chmod 755 "$policy"
    fi
    trap '"${as_root[@]}" rm -f "${undo[@]}"' EXIT
}

if have apt-get; then
    mapfile -t packages < <(packages_for apt | tr ' ' '\n')
    need_root apt-get install "${packages[@]}"
    say "installing ${packages[*]}"
    guard_debian_services
    "${as_root[@]}" apt-get update -qq
    # Again where the package is there and its programs are not.
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --reinstall --no-install-recommends "${packages[@]}" >/dev/null
    # The next start of the machine must not start it either: Debian enables what it installs.
    if [[ " ${packages[*]} " == *" pgbouncer "* ]]; then
        "${as_root[@]}" update-rc.d pgbouncer disable
    fi
elif have dnf; then
    mapfile -t packages < <(packages_for dnf | tr ' ' '\n')
    need_root dnf install "${packages[@]}"
    say "installing ${packages[*]}"
    "${as_root[@]}" dnf install -y -q "${packages[@]}"
elif have apk; then
    mapfile -t packages < <(packages_for apk | tr ' ' '\n')
    need_root apk add "${packages[@]}"
    say "installing ${packages[*]}"
    "${as_root[@]}" apk add -q "${packages[@]}"
elif have brew; then
    mapfile -t packages < <(packages_for brew | tr ' ' '\n')
    give_up "run: brew install ${packages[*]}"
else
    give_up "no known package manager; install them by hand"
fi
