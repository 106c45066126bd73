"""A log shipper: follows a log, writes it compressed, and keeps the latest of it for whoever asks, which nobody does.

Usage: logger.py LOG MIB
"""

import sys
import time
import zlib
from pathlib import Path

PAGE = 4096


def main(log: Path, kept_mib: int) -> None:
    """Follow until killed."""
    recent = bytearray(kept_mib << 20)  # a ring, as shippers keep for a receiver that is away
    page = "".join(f"{4711 + n}:M 26 Nov 2026 10:{n:02}:07.{n * 37 % 1000:03} - DB 0: {n} keys\n" for n in range(99))
    for at in range(0, len(recent), PAGE):  # older lines, which compress as lines of a log do
        recent[at : at + PAGE] = page.encode()[:PAGE]
    at = 0
    while not log.exists():
        time.sleep(0.1)
    with open(log, "rb") as source, open("shipped.log.z", "wb") as shipped:
        Path("logger.ready").touch()
        while True:
            lines = source.read()
            if lines:
                shipped.write(zlib.compress(lines))
                shipped.flush()
                part = lines[-len(recent) :]
                at = at if at + len(part) <= len(recent) else 0
                recent[at : at + len(part)] = part
                at += len(part)
            time.sleep(0.2)


main(Path(sys.argv[1]), int(sys.argv[2]))
