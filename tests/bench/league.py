"""The league of docs/league.md: ten policies on real programs and models, on two kernels. `make bench-league` runs it.

    tests/bench/league.py STUDIES                   run what is left, a process for each machine; then make the page
    tests/bench/league.py STUDIES --only MACHINE    run what is left on one machine
    tests/bench/league.py --page                    make the page from what is kept

What a workload has come to on a machine is kept in results/curated/league, a file each, and is not run again; a study
that was interrupted goes on where it stopped. The raw data of the studies lies in STUDIES.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from generate.results import CURATED, TOP, between

from damoos.api.comparisons import league
from damoos.comparison.league import Entry
from damoos.errors import DamoosError
from damoos.report.comparison.league import markdown
from damoos.store.studies import slug

KEPT = CURATED / "league"
PAGE = TOP / "docs/league.md"
POLICIES = (
    "damos", "senpai", "oomd", "gswap", "damon-reclaim", "dama", "damos-psi", "mglru", "memory-high", "swappiness",
)  # fmt: skip
# Real programs and models in turns, so that a run that is cut has some of both.
WORKLOADS = (
    "lmdb/read", "parsec3/raytrace", "memcached/idle", "splash2x/radiosity", "git/gc", "parsec3/freqmine",
    "java/cache", "parsec3/facesim", "ffmpeg/encode", "splash2x/volrend", "mariadb/sysbench", "splash2x/raytrace",
    "node/service", "parsec3/blackscholes", "redis/idle", "splash2x/lu_cb",
)  # fmt: skip
MACHINES = ("guest-zram", "guest-zram-newest")
TRIALS, REPEATS = 3, 3
# As in the DAOS paper. DAMON alone takes 3 to 7 % of the one emulated CPU.
LIMIT = "slowdown<=0.1"


def file_of(workload: str, machine: str) -> Path:
    """Where the outcome of a workload on a machine is kept."""
    return KEPT / f"{slug(workload)}-{machine}.json"


def keep(found: Sequence[Entry]) -> None:
    """Keep what studies have come to."""
    KEPT.mkdir(parents=True, exist_ok=True)
    for one in found:
        file = file_of(one["workload"], one["machine"]["name"])
        draft = file.with_suffix(".new")
        draft.write_text(json.dumps(rounded(one)) + "\n")
        draft.rename(file)


def rounded(value: Any) -> Any:
    """Five digits are more than any of these numbers is known to."""
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, dict):
        return {key: rounded(one) for key, one in value.items()}
    return [rounded(one) for one in value] if isinstance(value, list) else value


def kept() -> list[Entry]:
    """All that is kept, in the order of the workloads."""
    files = [file_of(workload, machine) for machine in MACHINES for workload in WORKLOADS]
    return [json.loads(file.read_text()) for file in files if file.is_file()]


def event(kind: str, said: dict[str, Any]) -> None:
    """Say how it goes."""
    if kind == "study" or said.get("error"):
        print(kind, said.get("study"), said.get("run", ""), said.get("state", ""), said.get("error", ""), flush=True)


def run(folder: Path, machine: str) -> None:
    """Run what is left on a machine, a workload after the other."""
    for workload in WORKLOADS:
        if file_of(workload, machine).is_file():
            continue
        try:
            found = league(
                [workload], POLICIES, [machine], limits=[LIMIT], trials=TRIALS, repeats=REPEATS,
                results=folder / machine, event=event,
            )  # fmt: skip
            keep(found.entries)
        except DamoosError as error:
            print(f"{workload} on {machine}: {error}", flush=True)


def page() -> None:
    """Make the page from what is kept."""
    found = kept()
    content = markdown(found) if found else "*Not run yet.*"
    PAGE.write_text(between(PAGE.read_text(), "league", f"\n{content}\n"))


def main() -> None:
    """Do what the words ask for."""
    folder, *words = sys.argv[1:]
    if words[:1] == ["--only"]:
        run(Path(folder), words[1])
        return
    if folder != "--page":
        begun = [subprocess.Popen([sys.executable, __file__, folder, "--only", machine]) for machine in MACHINES]
        for process in begun:
            process.wait()
    page()


if __name__ == "__main__":
    main()
