"""Rollouts on 100,000 machines that are not there: which policies get through, in what time, and what the driver costs.

tests/bench/rollout.py [MACHINES]           one rollout of each kind on so many machines; 100,000 without a number
tests/bench/rollout.py --canary [ROLLOUTS]  the first step alone, again and again: how often is it wrong?
"""

from __future__ import annotations

import itertools
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from damoos.rollouts.driver import Driver
from damoos.rollouts.rollout import Rollout
from damoos.testing.rollout_fleet import BEGIN_S, FakeFleet, Nature, fake_plan

# How often the driver looks; every 2 s on real machines, which here would be most of the time spent.
LOOKS_S = 300.0
FLEET = {"drift": 0.3, "lost": 0.02, "lying": 0.01}
# The tolerance is 10 % of the limit of 10 %: one percentage point of memory pressure.
KINDS: Mapping[str, Nature] = {
    "good": Nature(saving=0.2, **FLEET),
    "saves nothing": Nature(saving=0.0, **FLEET),
    "at the tolerance": Nature(saving=0.2, pressure=0.01, **FLEET),
    "twice the tolerance": Nature(saving=0.2, pressure=0.02, **FLEET),
    "five times the tolerance": Nature(saving=0.2, pressure=0.05, **FLEET),
    "five times, on a tenth of the machines": Nature(saving=0.2, pressure=0.05, hurts=0.1, **FLEET),
    "at the tolerance, in 5 % of the windows": Nature(saving=0.2, pressure=0.01, burst=0.05, **FLEET),
    **{
        f"{kind}, rho {rho}": Nature(memory_of_noise=rho, **nature, **FLEET)
        for rho in (0.5, 0.9, 0.95)
        for kind, nature in {
            "good": {"saving": 0.2},
            "saves nothing": {"saving": 0.0},
            "at the tolerance": {"saving": 0.2, "pressure": 0.01},
            "twice the tolerance": {"saving": 0.2, "pressure": 0.02},
        }.items()
    },
}
ROLLOUTS = 200
BAKE_S, TOLERANCE = 3600.0, 0.1


def driven(folder: str, nature: Nature, steps: list[int], seed: int, last_step: int) -> tuple[Rollout, FakeFleet]:
    """A rollout until it ends, is held, or is beyond a step."""
    rollout = Rollout.create(Path(folder), fake_plan(steps[-1], steps, seed=seed, bake_s=BAKE_S, tolerance=TOLERANCE))
    fleet = FakeFleet(rollout.plan, nature, seed)
    driver = Driver(rollout, fleet, lambda what: None, lambda: fleet.now_s)
    while driver.advance() and rollout.progress.step <= last_step:
        fleet.now_s += LOOKS_S
    return rollout, fleet


def canaries(nr: int) -> None:
    """What becomes of the first step, of so many rollouts of each kind."""
    print(f"first step: 1 machine of 8, an hour, beside 3; {nr} rollouts of each kind")
    print("| the policy | goes on | held | taken back |\n| --- | --- | --- | --- |")
    for kind, nature in KINDS.items():
        ends: Counter[str] = Counter()
        for seed in range(nr):
            with tempfile.TemporaryDirectory() as folder:
                rollout, _ = driven(folder, nature, [1, 4, 8], seed, last_step=0)
            ends["goes on" if rollout.progress.step else str(rollout.progress.state)] += 1
        shares = [ends[end] / nr for end in ("goes on", "held", "undone")]
        print(f"| {kind} | {' | '.join(f'{share:.1%}' for share in shares)} |", flush=True)


def fleets(nr: int) -> None:
    """A rollout of each kind on all machines."""
    steps = sorted({1, *(max(nr * share // 100, 1) for share in (1, 10, 50)), nr})
    print(f"{nr:,} machines, steps {steps}")
    print("| the policy | ends | machines that had it | fleet's time | driver's time | messages |")
    print("| --- | --- | --- | --- | --- | --- |")
    for kind, nature in itertools.islice(KINDS.items(), 6):
        begun = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            rollout, fleet = driven(folder, nature, steps, seed=0, last_step=len(steps))
        took_s = time.perf_counter() - begun
        had = {one for one, part in fleet.past if part == "policy"} | {
            one for one, own in fleet.has.items() if "policy" in own
        }
        progress = rollout.progress
        print(
            f"| {kind} | {progress.state} in step {progress.step + 1} | {len(had):,} |"
            f" {(fleet.now_s - BEGIN_S) / 60:.0f} min | {took_s:.1f} s | {fleet.messages:,} |",
            flush=True,
        )
    print(f"memory of the driver, with its machines: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10} MiB")


def main() -> None:
    """Do what the words ask for."""
    words = sys.argv[1:]
    if words[:1] == ["--canary"]:
        canaries(int(words[1]) if words[1:] else ROLLOUTS)
    else:
        fleets(int(words[0]) if words else 100_000)


if __name__ == "__main__":
    main()
