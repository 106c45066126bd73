#!/bin/sh
# Fills ./files with so many files of so many KiB, named as kvload asks for them: files.sh COUNT KIB
set -eu
count=$1 kib=$2
mkdir files
n=0
while [ "$n" -lt "$count" ]; do
    name=$(printf 'key:%012d' "$n")
    head -c "$((kib * 1024))" /dev/urandom >"files/$name"
    n=$((n + 1))
done
