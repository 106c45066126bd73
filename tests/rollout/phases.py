"""A service that changes its working set for an hour, with and without `--adapt`: part of `make test-rollout`.

Two guests run the same program at the same time: 4 MiB in steady use, 16 MiB that is never used again, and 8 parts of
2 MiB that take turns to be used, each after one minute in the first twenty minutes, then after 12 s, then after half a
minute. The limit is on the pages that are swapped in, 250 a second. Both begin with an age that is right for the
first phase; one adapts. In the meantime the best age for each phase is measured on a third guest, so that the hour can
be compared with what somebody would have had who knew the phases.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from damoos.machines.guest import GuestSession
from damoos.service.journal import Journal
from damoos.service.min_age import ages_around
from damoos.testing.hosts import guest_hosts
from damoos.workloads.tools import tool
from tests.conftest import MIB, damoos, proven_study, shell

GROUP = "/sys/fs/cgroup/servers/phases"
PERIODS_S, PHASE_S = (60, 12, 30), 1200
PARTS, PART_MIB, RATE = 8, 2, 100
# An emulated CPU wakes up late, so the program and DAMON do so less often than they usually do.
# With few regions, what was idle for long is soon taken for as young as its neighbours: ages are averaged when regions
# are merged.
BURST_MS, SCHEME = 16, "attrs  sample=20ms  aggr=200ms  nr_regions.min=200\n4K max  min min  MIN_AGE max  pageout"
AGE_S = 4
METRIC, BOUND = "swap_ins_per_s", 250
WINDOW_S = 5
# A run of one age in one phase; its first part is not counted.
ORACLE_S, SETTLE_S = 240, 60


def pattern(periods_s: Sequence[int], phase_s: int) -> str:
    """Phases of ``mempat``."""
    regions = ["#regions", "hot, 4M", "cold, 16M", *(f"part{nth}, {PART_MIB}M" for nth in range(PARTS)), ""]
    filled = [("hot", 4), ("cold", 16), *((f"part{nth}", PART_MIB) for nth in range(PARTS))]
    lines = ["fill", "2000", *(f"{name}, 0, 4096, {mib}, wo" for name, mib in filled), ""]
    for period_s in periods_s:
        for nth in range(phase_s * PARTS // period_s):
            lines += ["turn", str(period_s * 1000 // PARTS), "hot, 1, 4096, 50", f"part{nth % PARTS}, 1, 4096, 50", ""]
    return "\n".join([*regions, *lines])


@dataclass(frozen=True)
class Host:
    """A guest, and the file by which it is reached as any host is."""

    guest: GuestSession
    file: Path

    def begin(self, periods_s: Sequence[int], phase_s: int, folder: Path) -> None:
        """Start the program in its group."""
        file = folder / "phases.pattern"
        file.write_text(pattern(periods_s, phase_s))
        program = self.guest.copy(tool("mempat", self.guest.facts.get("arch", "")))
        argv = f"{program} -p -b {BURST_MS} -c 3 -r {RATE} {self.guest.copy(file)}"
        shell(self.guest, f"mkdir -p {GROUP}; echo +memory > /sys/fs/cgroup/servers/cgroup.subtree_control")
        shell(self.guest, f"sh -c 'echo $$ > {GROUP}/cgroup.procs; exec {argv}' > /dev/null 2>&1 &")
        shell(self.guest, f"until [ $(cat {GROUP}/memory.current) -gt {34 * MIB} ]; do sleep 0.2; done")

    def wait(self, up_to_s: float) -> None:
        """Until the program has ended, or the guest's clock has gone on so far."""
        end_s = float(shell(self.guest, "cut -d' ' -f1 /proc/uptime")) + up_to_s
        while shell(self.guest, f"cat {GROUP}/cgroup.procs; cut -d' ' -f1 /proc/uptime").split()[:-1]:
            if float(shell(self.guest, "cut -d' ' -f1 /proc/uptime")) > end_s:
                return
            time.sleep(10.0)

    def end(self) -> None:
        """End the program."""
        shell(self.guest, f"echo 1 > {GROUP}/cgroup.kill; until rmdir {GROUP}; do sleep 0.2; done 2> /dev/null")


@pytest.fixture(scope="module")
def hosts(guest_image: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Host]]:
    """Three guests."""
    with guest_hosts(["web0", "web1", "web2"], tmp_path_factory.mktemp("hosts"), kernel="damoos") as opened:
        for guest in opened.values():
            shell(guest, "mkdir -p /sys/fs/cgroup/servers; echo +memory > /sys/fs/cgroup/cgroup.subtree_control")
        yield [Host(guest, Path(file)) for file, guest in opened.items()]


def study(results: Path, age_us: int) -> str:
    """A study whose best scheme has about this age, by a machine that is not there."""
    return proven_study(results, scheme=SCHEME, tune=[f"min_age={age_us}us:{age_us + 200_000}us"])


def apply(results: Path, host: Host, age_us: int, *words: str, bound: float = BOUND) -> None:
    """Put a scheme into service."""
    done = damoos(
        "apply", study(results, age_us), "--on", "cgroup:/servers/phases", "--machine", host.file, "--window",
        f"{WINDOW_S}s", "--guard", f"{METRIC}<={bound}", "--name", host.file.stem, "--results", results, *words,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


@dataclass(frozen=True)
class Served:
    """What a host's windows have shown.

    Parameters
    ----------
    net_bytes : float
        Mean.
    broken : float
        Share of the windows that broke the limit.
    windows : list of dict
    audit : str
    """

    net_bytes: float
    broken: float
    windows: list[dict[str, Any]]
    audit: str


def served(results: Path, host: Host) -> Served:
    """All windows."""
    journal = Journal.of(results, str(host.file))
    windows = journal.windows(host.file.stem)
    return shown(windows, (journal.folder / "audit.log").read_text())


def shown(windows: list[dict[str, Any]], audit: str) -> Served:
    """What windows have shown."""
    broken = [window["watched"].get(METRIC, 0.0) > BOUND for window in windows]
    return Served(fmean(window["net_bytes"] for window in windows), fmean(broken), windows, audit)


def alone(folder: Path, host: Host, period_s: int, age_us: int) -> Served:
    """One age in one phase; 0 for no policy."""
    results = folder / f"{period_s}-{age_us}"
    host.begin([period_s], ORACLE_S + SETTLE_S, folder)
    try:
        # The guard lets it go on, so that its windows can be counted.
        apply(results, host, age_us or AGE_S * 1_000_000, *(() if age_us else ("--arm", "none")), bound=1000 * BOUND)
        host.wait(SETTLE_S)
        nr_before = len(served(results, host).windows)
        host.wait(ORACLE_S)
        damoos("stop", "--all", "--results", results)
    finally:
        host.end()
    found = served(results, host)
    return shown(found.windows[nr_before:], found.audit)


def oracle(folder: Path, host: Host, period_s: int, ages_us: Sequence[int]) -> tuple[int, float]:
    """The age that saves most of those that keep the limit in 99 % of the windows, and its net bytes.

    From the age with which the others begin, lower ones are tried as long as they keep it, else higher ones.
    """
    kept: list[tuple[float, int]] = []

    def keeps(age_us: int) -> bool:
        run = alone(folder, host, period_s, age_us)
        told = f"{run.net_bytes / MIB:.2f} MiB, {run.broken:.1%} broken"
        print(f"period {period_s} s, age {age_us / 1e6:g} s: {told}", flush=True)
        if run.broken <= 0.01:
            kept.append((run.net_bytes, age_us))
        return run.broken <= 0.01

    first = ages_us.index(AGE_S * 1_000_000)
    for age_us in reversed(ages_us[: first + 1]):
        if not keeps(age_us):
            break
    if not kept:
        for age_us in ages_us[first + 1 :]:
            if keeps(age_us):
                break
    assert kept, "no age keeps the limit"
    net_bytes, age_us = min(kept)
    return age_us, net_bytes


@contextmanager
def hour(folder: Path, hosts: Sequence[Host]) -> Iterator[None]:
    """All phases, with and without adaptation, while something else is done on another host."""
    for host in hosts:
        host.begin(PERIODS_S, PHASE_S, folder)
    try:
        apply(folder, hosts[0], AGE_S * 1_000_000, "--adapt")
        apply(folder, hosts[1], AGE_S * 1_000_000)
        yield
        for host in hosts:
            host.wait(PHASE_S * len(PERIODS_S) + 60)
        damoos("stop", "--all", "--results", folder)
    finally:
        for host in hosts:
            host.end()


@pytest.mark.timeout(0)
def test_a_scheme_that_adapts_keeps_up_with_one_who_knows_the_phases(tmp_path: Path, hosts: list[Host]) -> None:
    ages_us = ages_around(AGE_S * 1_000_000, 100_000)
    together = tmp_path / "hour"
    together.mkdir()
    with hour(together, hosts[:2]):
        best = [oracle(tmp_path, hosts[2], period_s, ages_us) for period_s in PERIODS_S]
        without = alone(tmp_path, hosts[2], PERIODS_S[0], 0).net_bytes
    adapted, frozen = (served(together, host) for host in hosts[:2])
    print(adapted.audit, frozen.audit, sep="\n")
    most = without - fmean(net_bytes for _, net_bytes in best)
    found = {
        name: {"saved": (without - one.net_bytes) / most, "broken": one.broken, "windows": len(one.windows)}
        for name, one in (("adapted", adapted), ("frozen", frozen))
    }
    print(json.dumps({"oracle": best, "without": without, **found}))
    assert "taken it off" not in adapted.audit
    assert found["adapted"]["saved"] >= 0.9
    assert adapted.broken <= 0.01
    assert frozen.broken > 0.01
