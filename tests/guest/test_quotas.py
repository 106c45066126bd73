"""What a quota of bytes is spent on first, on a real kernel."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

from damoos.damon.attrs import Attrs
from damoos.damon.damo_json import context_to_json
from damoos.damon.quotas import limited
from damoos.damon.scheme import Context, Scheme
from damoos.machines.guest import GuestSession
from damoos.workloads.base import PatternWorkload, Tuning
from tests.conftest import MIB, shell

# Strips lie side by side, so that a quota that is spent by address reaches warm ones, wherever it begins.
NR_STRIPS, COLD_MIB, WARM_MIB = 8, 12, 6
NUMBERS = range(NR_STRIPS)
SIZES = "".join(f"warm{nth}, {WARM_MIB}M\ncold{nth}, {COLD_MIB}M\n" for nth in NUMBERS)
FILLED = "".join(f"warm{nth}, 0, 4096, 4\ncold{nth}, 0, 4096, 8\n" for nth in NUMBERS)
ACCESSED = "".join(f"warm{nth}, 0, 4096, 10\n" for nth in NUMBERS)
PATTERN = f"""#regions
hot, 1M
{SIZES}
fill
60
hot, 0, 4096, 4
{FILLED}
warm is accessed
8000
hot, 0, 4096, 20
{ACCESSED}
all but hot is idle
60000
hot, 0, 4096, 100
"""
# Pages of the strips that are on swap, cold ones and warm ones. Memory is mapped from the top down.
COUNT = f"""
import struct, sys
cold, warm = {256 * COLD_MIB}, {256 * WARM_MIB}
spans = [line.split()[0].split("-") for line in open(f"/proc/{{sys.argv[1]}}/maps")]
start, end = max(([int(word, 16) for word in span] for span in spans), key=lambda span: span[1] - span[0])
nr_pages = (end - start) // 4096
assert nr_pages == {NR_STRIPS} * (cold + warm), nr_pages
with open(f"/proc/{{sys.argv[1]}}/pagemap", "rb") as pagemap:
    pagemap.seek(start // 4096 * 8)
    on_swap = [entry >> 62 & 1 for entry, in struct.iter_unpack("=Q", pagemap.read(nr_pages * 8))]
nr_cold = sum(sum(on_swap[at : at + cold]) for at in range(0, nr_pages, cold + warm))
print(nr_cold, sum(on_swap) - nr_cold)
"""


def test_what_is_idle_for_longest_goes_first(fresh_guest: GuestSession, tmp_path: Path) -> None:
    """Ages count in steps of a factor of 2: until 24 s have passed, those of the cold strips are a step ahead."""
    (tmp_path / "cold.pattern").write_text(PATTERN)
    (tmp_path / "count.py").write_text(COUNT)
    workload = PatternWorkload("cold", tmp_path / "cold.pattern", 1250, 1, 1, Tuning(), paced=True)
    scheme = Scheme.parse("4K max  min min  1s max  pageout")
    quota = limited("pageout", time_ms=0, sz_bytes=4 * MIB, reset_interval_ms=1000)
    # Regions must stay small: neighbours that are merged share their mean age.
    attrs = Attrs(min_nr_regions=100, max_nr_regions=1000)
    context = Context((replace(scheme, quotas=quota),), "vaddr", attrs)
    # The heap follows the program at once: a gap of up to 1 GiB between them would be a region like any other.
    shell(fresh_guest, "echo 0 > /proc/sys/kernel/randomize_va_space")
    count = fresh_guest.copy(tmp_path / "count.py")
    argv = workload.spec(fresh_guest.copy)["argv"]
    fresh_guest.agent.call("apply", argv=argv, env={}, context=context_to_json(context))
    try:
        cold = warm = 0
        # The warm strips become old enough at 36 MiB. At 60 MiB, a slow kernel is past those 24 s.
        while cold + warm < 48 * 256:
            status = fresh_guest.agent.call("status")
            assert status["in_force"]
            cold, warm = map(int, shell(fresh_guest, f"python3 {count} {status['pid']}").split())
            time.sleep(0.5)
    finally:
        fresh_guest.agent.call("stop")
    # By address a third of the last 12 MiB, of all a twelfth. Regions that lie on a border hold some of both.
    assert warm < 0.05 * (cold + warm)
