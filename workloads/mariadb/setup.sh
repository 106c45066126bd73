#!/bin/sh
# Makes a MariaDB in ./data, for the user who runs this and nobody else, and fills sysbench's table: setup.sh ROWS
set -eu
me=$(id -un)
socket=$PWD/mariadb.sock
mkdir -m 700 data files scratch
export TMPDIR="$PWD/scratch"
mariadb-install-db --no-defaults --datadir="$PWD/data" --skip-test-db --auth-root-authentication-method=socket \
    --auth-root-socket-user="$me" >/dev/null
mariadbd --no-defaults --datadir="$PWD/data" --socket="$socket" --skip-networking --tmpdir="$TMPDIR" \
    --innodb-flush-log-at-trx-commit=0 &
server=$!
until mariadb-admin --no-defaults --socket="$socket" --silent ping 2>/dev/null; do sleep 0.2; done
mariadb --no-defaults --socket="$socket" -e 'CREATE DATABASE test'
sysbench oltp_point_select --mysql-socket="$socket" --mysql-user="$me" --mysql-db=test --tables=1 --table-size="$1" prepare >/dev/null
mariadb-admin --no-defaults --socket="$socket" shutdown
wait "$server"
