#!/bin/sh
# Becomes the MariaDB server of ./data. Only the user who runs this can log in, through a socket in this folder.
exec mariadbd --no-defaults --datadir="$PWD/data" --socket="$PWD/mariadb.sock" --skip-networking --tmpdir="$PWD/scratch" \
    --secure-file-priv="$PWD/files" --innodb-buffer-pool-size=64M --innodb-flush-log-at-trx-commit=0
