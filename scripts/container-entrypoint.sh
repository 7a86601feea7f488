#!/bin/bash
# Entry point of the test image: a cluster made at the first start from POSTGRES_USER, POSTGRES_PASSWORD and POSTGRES_DB,
# then the server with the arguments of the command. Like the usual PostgreSQL images it says "ready to accept
# connections" twice: once for the server that makes the database and that nobody can reach, once for the one to use.
set -euo pipefail

data=/var/lib/postgresql/data
user=${POSTGRES_USER:-postgres}
database=${POSTGRES_DB:-$user}
: "${POSTGRES_PASSWORD:?is not set}"

programs=$(printf '%s\n' /usr/lib/postgresql/*/bin | sort -V | tail -n 1)
PATH=$programs:$PATH

as_postgres() { setpriv --reuid=postgres --regid=postgres --clear-groups "$@"; }

if [ "${1:-}" = postgres ]; then shift; fi

if ! [ -e "$data/PG_VERSION" ]; then
    install -d -o postgres -g postgres -m 700 "$data"
    password_file=$(mktemp)
    chown postgres "$password_file"
    printf '%s' "$POSTGRES_PASSWORD" >"$password_file"
    as_postgres initdb --pgdata="$data" --username="$user" --pwfile="$password_file" --auth-local=trust \
        --auth-host=scram-sha-256 --encoding=UTF8 --locale=C.UTF-8 --no-sync >/dev/null
    rm "$password_file"
    echo 'host all all all scram-sha-256' >>"$data/pg_hba.conf"
    as_postgres pg_ctl --pgdata="$data" --options="-c listen_addresses=''" --wait start
    if [ "$database" != postgres ]; then
        as_postgres createdb --username="$user" --maintenance-db=postgres "$database"
    fi
    as_postgres pg_ctl --pgdata="$data" --mode=fast --wait stop
fi

exec setpriv --reuid=postgres --regid=postgres --clear-groups \
    "$programs/postgres" -D "$data" -c listen_addresses='*' "$@"
