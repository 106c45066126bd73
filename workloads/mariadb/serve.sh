#!/bin/sh
# Becomes the MariaDB server of ./data.
exec mariadbd --no-defaults --user=root --datadir="$PWD/data" --socket=/tmp/damoos-mariadb.sock --skip-networking \
    --innodb-buffer-pool-size=64M --innodb-flush-log-at-trx-commit=0
