#!/bin/sh
# Makes a PostgreSQL cluster in ./data, for the user who runs this and nobody else, and fills it with pgbench's tables:
# setup.sh BINDIR SCALE
set -eu
bin=$1 scale=$2
mkdir -m 700 data socket
"$bin/initdb" -D data -A peer -U "$(id -un)" --no-sync >/dev/null
"$bin/pg_ctl" -D data -w -s -l /dev/null -o "-k $PWD/socket -h '' -c unix_socket_permissions=0700 -c fsync=off" start
"$bin/psql" -q -h "$PWD/socket" -c "CREATE EXTENSION pg_prewarm" postgres
"$bin/pgbench" -h "$PWD/socket" -q -i -s "$scale" postgres
"$bin/pg_ctl" -D data -w -s stop
