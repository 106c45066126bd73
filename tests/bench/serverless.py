"""An hour of a serverless host under `damoos apply`, with swap in zram and in a file: the DAOS paper's Figure 9.

tests/bench/serverless.py RESULTS [SECONDS]   measure both at once, in guests; then make the figure and the table
tests/bench/serverless.py --page              make them from what is kept
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from generate.results import CURATED, TOP, between

from damoos.machines import catalog
from damoos.machines.guest import GuestSession
from damoos.report.charts import Axis, Chart, Level, Line, Panel
from damoos.service import keeper, listing
from damoos.service.journal import Journal
from damoos.service.specification import specification
from damoos.testing.hosts import host_file
from tests.conftest import proven_study, shell

KEPT = CURATED / "service/serverless-hour.json"
PAGE = TOP / "docs/published.md"
GROUP = "/sys/fs/cgroup/servers/functions"
SWAPS = {"zram": 'kind = "zram"\nsize = "256M"\nalgorithm = "lz4"', "file": 'kind = "file"\nsize = "256M"'}
# The paper's prcl.
SCHEME, AGES = "4K max  min min  MIN_AGE max  pageout", "min_age=5s:5100ms"
WATCHED_S, HOUR_S = 180, 3600
# Requests that a worker lives for: two minutes and a half.
LIFE = 375
MIB = 1 << 20


def begun(swap: str, folder: Path) -> tuple[GuestSession, Path]:
    """A guest whose serverless host runs in a group of its own, and the file by which it is reached."""
    guest = catalog.machine("guest", "damoos").open()
    assert isinstance(guest, GuestSession)
    program = guest.copy(TOP / "workloads/serverless/functions.py")
    guest.agent.close()
    shell(guest, f"mkdir -p {GROUP} && echo +memory > /sys/fs/cgroup/cgroup.subtree_control")
    shell(guest, "echo +memory > /sys/fs/cgroup/servers/cgroup.subtree_control")
    argv = f"python3 {program} 100000000 {LIFE}"
    shell(guest, f"sh -c 'echo $$ > {GROUP}/cgroup.procs; exec {argv}' > /dev/null 2>&1 &")
    shell(guest, f"until [ $(cat {GROUP}/memory.current) -gt {100 * MIB} ]; do sleep 0.5; done")
    return guest, host_file(folder, swap, guest, SWAPS[swap])


def serve(guests: Mapping[str, tuple[GuestSession, Path]], study: str, results: Path, arm: str, for_s: float) -> None:
    """Have all of them in service until their clocks have gone on so far."""
    for swap, (_, file) in guests.items():
        keeper.apply(
            specification(
                study, results, arm=arm, machine=str(file), on="cgroup:/servers/functions", label=f"{swap}-{arm}"
            )
        )
    ends = {swap: uptime_s(guest) + for_s for swap, (guest, _) in guests.items()}
    for swap, (guest, _) in guests.items():
        while uptime_s(guest) < ends[swap]:
            time.sleep(5.0)


def uptime_s(guest: GuestSession) -> float:
    """A guest's clock."""
    return float(shell(guest, "cut -d' ' -f1 /proc/uptime"))


def measure(folder: Path, hour_s: float) -> dict[str, Any]:
    """Without a scheme for some minutes, then with the paper's for an hour."""
    folder.mkdir(parents=True)
    study = proven_study(folder, scheme=SCHEME, tune=[AGES])
    guests = {}
    try:
        for swap in SWAPS:
            guests[swap] = begun(swap, folder)
        facts = {swap: shell(guest, "uname -r") for swap, (guest, _) in guests.items()}
        serve(guests, study, folder, "none", WATCHED_S)
        for name in list(listing.listed(folder)):
            keeper.stop(folder, name)
        serve(guests, study, folder, "tuned", hour_s)
        states = listing.listed(folder)
        for name in list(states):
            keeper.stop(folder, name)
        return {
            swap: told(Journal.of(folder, str(file)), swap, states[f"{swap}-tuned"]) | {"kernel": facts[swap]}
            for swap, (_, file) in guests.items()
        }
    finally:
        for guest, _ in guests.values():
            guest.close()


def told(journal: Journal, swap: str, state: Mapping[str, Any]) -> dict[str, Any]:
    """What a host's windows have shown."""
    without = journal.windows(f"{swap}-none")
    before = {what: fmean(one[what] for one in without) for what in ("rss_bytes", "net_bytes")}
    windows = journal.windows(f"{swap}-tuned")
    begin_s = windows[0]["at_s"]
    return {
        "scheme": state["scheme"],
        "date": time.strftime("%Y-%m-%d"),
        "without": before,
        "minutes": [round((one["at_s"] - begin_s) / 60, 2) for one in windows],
        **{what: [one[what] for one in windows] for what in before},
        "memory_pressure": fmean(one["watched"]["memory_pressure"] for one in windows),
        "kdamond_cpu": state["kdamond_cpu_s"] / state["for_s"],
        "audit": (journal.folder / "audit.log").read_text().splitlines(),
    }


def saved(kept: Mapping[str, Any], what: str) -> list[float]:
    """Shares saved, window by window."""
    return [1 - value / kept["without"][what] for value in kept[what]]


def table(kept: Mapping[str, Any]) -> str:
    """A line for each kind of swap."""
    lines = [
        "| swap | RSS saved | of it after half an hour | net memory saved | memory pressure | DAMON CPU |",
        "| --- " * 6 + "|",
    ]
    for swap, one in kept.items():
        rss, net = saved(one, "rss_bytes"), saved(one, "net_bytes")
        late = rss[len(rss) // 2 :]
        cells = [swap, f"{fmean(rss):.1%}", f"{fmean(late):.1%}", f"{fmean(net):.1%}", f"{one['memory_pressure']:.2%}"]
        lines.append(_line([*cells, f"{one['kdamond_cpu']:.1%}"]))
    return "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def chart(kept: Mapping[str, Any]) -> Chart:
    """Savings over time, beside the paper's."""
    panels = []
    for swap, one in kept.items():
        minutes = one["minutes"]
        layers = [
            Level("paper", 0.8 if swap == "zram" else 0.9),
            Line("RSS", minutes, saved(one, "rss_bytes")),
            Line("net memory", minutes, saved(one, "net_bytes"), colour="#888888"),
        ]
        panels.append(
            Panel(Axis("minutes", "minutes"), Axis("saved", "saved", is_share=True, from_zero=True), layers, swap)
        )
    return Chart("a serverless host under damoos apply", panels)


def main(words: Sequence[str]) -> None:
    """What the command line says."""
    if words[:1] != ["--page"]:
        found = measure(Path(words[0]), float(words[1]) if len(words) > 1 else HOUR_S)
        KEPT.write_text(json.dumps(found) + "\n")
    kept = json.loads(KEPT.read_text())
    chart(kept).save(PAGE.parent / "published-daos-9.svg")
    PAGE.write_text(between(PAGE.read_text(), "daos-9-hour", f"\n{table(kept)}\n"))


if __name__ == "__main__":
    main(sys.argv[1:])
