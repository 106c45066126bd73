"""A serverless host: a proxy that hands requests to ten short-lived workers, and a logger. Nine tenths of it is idle.

functions.py REQUESTS [LIFE]

Each worker is a process of its own with 8 MiB of runtime and data, of which a request uses a tenth. After LIFE
requests (80 by default) a worker ends, and a new one takes its place. The proxy and the logger have tables of which
they use a tenth. Requests come at a fixed rate, so a run takes as long on every machine, and longer only if requests
are answered late.
"""

from __future__ import annotations

import json
import os
import sys
import time
from multiprocessing.connection import Connection, Pipe

WORKERS = 10
PAGE = 4096
PAGES = 2048
USED = PAGES // 10
REQUESTS_PER_S = 25
COMPRESSION = 3  # of the memory, about what TMO's fleet has on average


def memory() -> bytearray:
    """Pages of which a part is random and the rest zero."""
    table = bytearray(PAGES * PAGE)
    noise = PAGE // COMPRESSION
    for at in range(0, len(table), PAGE):
        table[at : at + noise] = os.urandom(noise)
    return table


def use(table: bytearray) -> int:
    """Read and write one byte of each page in use."""
    total = 0
    for at in range(0, USED * PAGE, PAGE):
        total += table[at]
        table[at] = total & 0xFF
    return total


def started(serve: object, *others: Connection) -> Connection:
    """A new process that serves one end of a pipe; returns the other end."""
    ours, theirs = Pipe()
    if os.fork() == 0:
        ours.close()
        for other in others:
            other.close()
        try:
            serve(theirs)  # type: ignore[operator]
        except EOFError:
            pass
        os._exit(0)
    theirs.close()
    return ours


def work(requests: Connection) -> None:
    """A worker: answers until its life is over."""
    table = memory()
    requests.send(0)
    while True:
        requests.recv()
        requests.send(use(table))


def log(lines: Connection) -> None:
    """The logger: keeps what it is told, over and over in the same place."""
    table = memory()
    lines.send(0)
    while True:
        line = lines.recv()
        use(table)
        table[: len(line)] = line


def main() -> None:
    """The proxy."""
    nr_requests, life = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 80
    routes = memory()
    logger = started(log)
    logger.recv()
    workers: list[Connection] = []
    for _ in range(WORKERS):
        workers.append(started(work, logger, *workers))
        workers[-1].recv()
    answered = [life * nth // WORKERS for nth in range(WORKERS)]  # so that they do not end all at once
    nr_workers = WORKERS
    latencies, begun = [], time.monotonic()
    for number in range(nr_requests):
        due = begun + number / REQUESTS_PER_S
        time.sleep(max(0.0, due - time.monotonic()))
        nth = number % WORKERS
        use(routes)
        workers[nth].send(number)
        answer = workers[nth].recv()
        latencies.append(time.monotonic() - due)
        logger.send(b"%d %d\n" % (number, answer))
        answered[nth] += 1
        if answered[nth] >= life:
            workers[nth].close()
            os.wait()
            workers[nth] = started(work, logger, *(other for other in workers if not other.closed))
            workers[nth].recv()
            answered[nth] = 0
            nr_workers += 1
    seconds = time.monotonic() - begun
    latencies.sort()
    report = {
        "workers": nr_workers,
        "ops_per_s": nr_requests / seconds,
        "p50_ms": 1e3 * latencies[nr_requests // 2],
        "p99_ms": 1e3 * latencies[nr_requests * 99 // 100],
    }
    print(json.dumps(report))
    logger.close()
    for worker in workers:
        worker.close()


if __name__ == "__main__":
    main()
