#!/bin/sh
# Makes a MariaDB in ./data and fills sysbench's table: setup.sh ROWS
set -eu
socket=/tmp/damoos-mariadb.sock
mariadb-install-db --no-defaults --user=root --datadir="$PWD/data" --skip-test-db --auth-root-authentication-method=normal >/dev/null
mariadbd --no-defaults --user=root --datadir="$PWD/data" --socket="$socket" --skip-networking --innodb-flush-log-at-trx-commit=0 &
server=$!
until mariadb-admin --socket="$socket" --silent ping 2>/dev/null; do sleep 0.2; done
mariadb --socket="$socket" -e 'CREATE DATABASE test'
sysbench oltp_point_select --mysql-socket="$socket" --mysql-user=root --mysql-db=test --tables=1 --table-size="$1" prepare >/dev/null
mariadb-admin --socket="$socket" shutdown
wait "$server"
