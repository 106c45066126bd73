"""How long the page of a sweep of a thousand studies takes to write and to open, and how large it is."""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

from damoos.machines import catalog
from damoos.report.html import write
from damoos.testing.fake import FakeMachine
from tests.browser import started
from tests.thousand import sweep_of_many

BOUND_MB, BOUND_S = 20, 3.0


def main() -> None:
    machines: dict[str, FakeMachine] = {}
    catalog.machine = lambda name, kernel=None: machines.setdefault(name, FakeMachine(noise=0.002, seed=len(machines)))
    with tempfile.TemporaryDirectory() as place, started() as browser:
        sweep = sweep_of_many(Path(place))
        begun = time.perf_counter()
        page = write(sweep.name, Path(place))[0]
        wrote_s = time.perf_counter() - begun
        times = []
        for _ in range(3):
            begun = time.perf_counter()
            browser.open(page)
            times.append(time.perf_counter() - begun)
        print(f"a page of {len(sweep.config.configs())} studies, written in {wrote_s:.1f} s")
        print(f"size: {page.stat().st_size / 1e6:.1f} MB (bound: {BOUND_MB})")
        print(f"opened, first screen drawn: {statistics.median(times):.1f} s (bound: {BOUND_S:g})")


if __name__ == "__main__":
    main()
