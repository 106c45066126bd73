#!/bin/sh
# Becomes the PostgreSQL server of ./data: serve.sh BINDIR SETTING ...
set -eu
bin=$1
shift
as=
[ "$(id -u)" != 0 ] || as="setpriv --reuid postgres --regid postgres --clear-groups"
for setting; do
    set -- "$@" -c "$setting"
    shift
done
# shellcheck disable=SC2086 # words of their own
exec $as "$bin/postgres" -D data -k "$PWD/socket" -h '' "$@"
