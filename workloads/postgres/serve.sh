#!/bin/sh
# Becomes the PostgreSQL server of ./data: serve.sh BINDIR SETTING ...
set -eu
bin=$1
shift
for setting; do
    set -- "$@" -c "$setting"
    shift
done
exec "$bin/postgres" -D data -k "$PWD/socket" -h '' -c unix_socket_permissions=0700 "$@"
