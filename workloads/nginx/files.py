"""Fills ./files with so many files of so many KiB, named as kvload asks for them: files.py COUNT KIB."""

import os
import sys

count, kib = map(int, sys.argv[1:])
os.mkdir("files")
for number in range(count):
    with open(f"files/key:{number:012d}", "wb") as file:
        file.write(os.urandom(kib * 1024))
