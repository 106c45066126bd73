#!/usr/bin/env python3
"""A load with the command line and the report of YCSB's: bin/ycsb.sh load|run cassandra-cql -P FILE -p NAME=VALUE ..."""

import socket
import sys
import time

phase, words = sys.argv[1], sys.argv[2:]
given = dict(words[n + 1].split("=", 1) for n, word in enumerate(words) if word == "-p")
open(words[words.index("-P") + 1]).close()
records, operations = int(given["recordcount"]), int(given["operationcount"])
reads, begun = [], time.monotonic()
with socket.create_connection((given["hosts"], 9042)) as line, line.makefile("rwb") as talk:
    for n in range(records // 20 if phase == "load" else operations // 20):
        started = time.monotonic_ns()
        write = phase == "load" or n % 2
        talk.write(b"put user%d 1000\n" % n if write else b"get user%d\n" % (n % (records // 20)))
        talk.flush()
        talk.readline()
        if not write:
            reads.append((time.monotonic_ns() - started) // 1000)
print(f"[OVERALL], RunTime(ms), {(time.monotonic() - begun) * 1000:.0f}")
print(f"[OVERALL], Throughput(ops/sec), {n / (time.monotonic() - begun)}")
for percent in given.get("hdrhistogram.percentiles", "").split(",") if reads else ():
    print(f"[READ], {percent}thPercentileLatency(us), {sorted(reads)[int(len(reads) * int(percent) / 100)]}")
