"""A metrics agent: reads counters of the machine and of redis each second, and keeps their history, mostly unread.

Usage: agent.py SOCKET MIB
"""

import array
import math
import socket
import sys
import time
from pathlib import Path


def counters(server: str) -> list[float]:
    """Numbers of /proc/stat and /proc/meminfo, and those that redis tells (none while it does not answer)."""
    words = Path("/proc/stat").read_text().split() + Path("/proc/meminfo").read_text().split()
    try:
        with socket.socket(socket.AF_UNIX) as link:
            link.settimeout(1)
            link.connect(server)
            link.sendall(b"INFO\r\n")
            words += link.recv(1 << 16).decode().replace(":", " ").split()
    except OSError:
        pass
    return [float(word) for word in words if word.isdigit()]


def main(server: str, kept_mib: int) -> None:
    """Collect until killed."""
    page = array.array("d", (round(math.sin(n) * 50 + n, 2) for n in range(512)))
    history = page * ((kept_mib << 20) // 4096)  # older values, which compress as measurements do
    at = 0
    Path("agent.ready").touch()
    while True:
        for value in counters(server):
            history[at % len(history)] = value
            at += 1
        time.sleep(1)


main(sys.argv[1], int(sys.argv[2]))
