#!/bin/sh
# Makes a PostgreSQL cluster in ./data and fills it with pgbench's tables: setup.sh BINDIR SCALE
set -eu
bin=$1 scale=$2
as=
[ "$(id -u)" != 0 ] || as="setpriv --reuid postgres --regid postgres --clear-groups"
mkdir data socket
[ -z "$as" ] || chown postgres: data socket
$as "$bin/initdb" -D data -A trust -U postgres --no-sync >/dev/null
$as "$bin/pg_ctl" -D data -w -s -l /dev/null -o "-k $PWD/socket -h '' -c fsync=off" start
"$bin/psql" -q -h "$PWD/socket" -U postgres -c "CREATE EXTENSION pg_prewarm" postgres
"$bin/pgbench" -h "$PWD/socket" -U postgres -q -i -s "$scale" postgres
$as "$bin/pg_ctl" -D data -w -s stop
