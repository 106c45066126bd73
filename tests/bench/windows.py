"""Windows that depend on each other, bursts and skew: how often guard, --adapt and rollout are wrong, what they see.

tests/bench/windows.py [SERVICES]   so many services of each kind, 200 without a number; some minutes on two cores

It ends with 1 if more go wrong than is promised.

A window is 10 s. Noise remembers the window before it (the correlation is rho); in a burst a window is 5 to 20 times as
large, alone or several in a row, and they are 5 % of all windows. A load in two states is high or low for some minutes.
"""

from __future__ import annotations

import itertools
import math
import multiprocessing
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from damoos.rollouts.effect import Effect, Track, effect
from damoos.rollouts.plan import RISK
from damoos.service.guard import FAR, Action, Guard, parse
from damoos.service.turns import MOST_TURNS, Turns

SERVICES, HOURS_6 = 200, 2160
LIMIT = parse("p99_ms<=1", ["p99_ms"])
BURSTS, LEAST_TIMES, MOST_TIMES = 0.05, 5.0, 20.0
SPREADS = {"normal": 0.3, "narrow": 0.1}
Kind = tuple[str, float]
# Shape of the noise, and rho; or bursts of so many windows.
KINDS: tuple[Kind, ...] = (
    *(("normal", rho) for rho in (0.0, 0.5, 0.7, 0.9, 0.95)),
    *(("lognormal", rho) for rho in (0.0, 0.5, 0.9, 0.95)),
    *(("bursts", length) for length in (1, 5, 15)),
)
# A load that is half as large again for so many windows on the average, then half as large.
STATES: tuple[Kind, ...] = tuple(("states", length) for length in (5, 15, 30))


def noise(rho: float, length: int, chance: np.random.Generator) -> np.ndarray:
    """Normal, with a spread of 1."""
    drawn = chance.normal(size=length)
    for nth in range(1, length):
        drawn[nth] = rho * drawn[nth - 1] + math.sqrt(1 - rho * rho) * drawn[nth]
    return drawn


def bursts(run: int, length: int, chance: np.random.Generator) -> np.ndarray:
    """Which windows are in a burst of so many in a row."""
    begins = chance.random(length) < BURSTS / run
    return np.convolve(begins, np.ones(run))[:length] > 0


def series(kind: Kind, length: int, chance: np.random.Generator) -> np.ndarray:
    """Windows whose mean is 1; the logarithm of lognormal ones has a spread of .8."""
    shape, number = kind
    if shape in SPREADS:
        return 1 + SPREADS[shape] * noise(number, length, chance)
    if shape == "states":
        is_high = np.cumsum(chance.random(length) < 1 / number) % 2 == chance.integers(2)
        return np.where(is_high, 1.5, 0.5) * (1 + 0.1 * noise(0.0, length, chance))
    if shape == "lognormal":
        return np.exp(0.8 * noise(number, length, chance) - 0.32)
    times = np.where(bursts(int(number), length, chance), chance.uniform(LEAST_TIMES, MOST_TIMES, length), 1.0)
    share = 1 - (1 - BURSTS / number) ** number
    return (1 + 0.1 * noise(0.0, length, chance)) * times / (1 + share * ((LEAST_TIMES + MOST_TIMES) / 2 - 1))


def served(values: Iterable[float], hurt: Callable[[float], float] = float) -> tuple[str, int, int]:
    """A service under its guard: why it was taken off, after how many windows, and how many in force were far beyond.

    Parameters
    ----------
    values : iterable of float
        What its windows are without the policy; the limit is 1.
    hurt : callable
        What a window is while the policy is in force.
    """
    guard, now_s, is_paused, nr, nr_far = Guard([LIMIT]), 0.0, False, 0, 0

    def reading(value: float) -> dict[str, object]:
        told = {"psi_us": {}, "counters": {}, "ages_s": {}, "missing": {}}
        return {"at_s": now_s, "is_group": True, "metrics": {"p99_ms": value}, **told}

    guard.add(reading(0.0), False)
    for value in values:
        now, now_s, nr = value if is_paused else hurt(value), now_s + 10.0, nr + 1
        nr_far += not is_paused and now > FAR
        decision = guard.add(reading(now), is_paused)
        if decision.action is Action.UNDO:
            return str(decision.reason), nr, nr_far
        if decision.action is not Action.NONE:
            is_paused = decision.action is Action.PAUSE
            guard.restart()
            guard.add(reading(now), is_paused)
    return "kept", nr, nr_far


def false_alarms(kind: Kind, nr: int) -> str:
    """Services at 80 % and at 100 % of their limit, under a policy that does nothing."""
    cells = []
    for share in (0.8, 1.0):
        chance = np.random.default_rng([1, *map(ord, named(kind))])
        ends = Counter(served((share * series(kind, HOURS_6, chance)).tolist())[0] for _ in range(nr))
        cells += [f"{(nr - ends['kept']) / nr:.1%}", f"{ends['mean'] / nr:.1%}"]
    return f"| {named(kind)} | {' | '.join(cells)} |"


def detection(rho: float, nr: int) -> str:
    """A service at 30 % of its limit that a policy brings to 120, 150 and 200 % of it: minutes until it is off."""
    cells = []
    for share in (1.2, 1.5, 2.0):
        chance = np.random.default_rng(2)
        own = (0.3 * series(("normal", rho), HOURS_6, chance) for _ in range(nr))
        ends = [served(one.tolist(), lambda value, share=share: value * share / 0.3) for one in own]  # type: ignore[misc]
        seen = sorted(nr_windows for why, nr_windows, _ in ends if why != "kept")
        late = seen[math.ceil(0.9 * nr) - 1] / 6 if len(seen) >= 0.9 * nr else math.inf
        cells.append(f"{median([nr_windows for _, nr_windows, _ in ends]) / 6:.0f} ({late:.0f}), {len(seen) / nr:.0%}")
    return f"| {rho} | {' | '.join(cells)} |"


def far_windows(share: float, nr: int) -> str:
    """A policy that makes such a share of the windows in force three times the limit."""
    chance, toss = np.random.default_rng(3), random.Random(3)
    own = (0.3 * series(("normal", 0.5), HOURS_6, chance) for _ in range(nr))
    ends = [served(one.tolist(), lambda value: 3.0 if toss.random() < share else value) for one in own]
    off = sum(why != "kept" for why, _, _ in ends) / nr
    return (
        f"| {share:.0%} | {off:.0%} | {median(n for _, n, _ in ends) / 6:.0f} | {median(n for _, _, n in ends):.0f} |"
    )


def tracks(
    nr: int,
    kind: Kind,
    hours: float,
    chance: np.random.Generator,
    *,
    times: float = 1.0,
    added: float = 0.0,
    run: int = 0,
) -> list[Track]:
    """Machines whose windows have a mean of 1 before; after, they are so many times that, and have so much added.

    Parameters
    ----------
    run : int
        What is added comes in bursts of so many windows; 0 adds the same to each window.
    """
    after, found = round(hours * 360), []
    before = after // 2
    for _ in range(nr):
        values = np.abs(series(kind, before + after, chance))
        come = bursts(run, after, chance) if run else np.ones(after, bool)
        values[before:] = times * values[before:] + added * come / (1 - (1 - BURSTS / run) ** run if run else 1.0)
        windows = [{"at_s": 10.0 * nth, "x": float(value)} for nth, value in enumerate(values)]
        found.append(Track(windows[:before], windows[before:]))
    return found


def compared(policy: list[Track], control: list[Track], *, relative: bool, most: float = 0.0) -> Effect:
    """How the judge of a rollout finds it."""
    return effect(policy, control, lambda window: window["x"], 10.0, RISK, relative=relative, most=most)


def false_proofs(kind: Kind, nr_policy: int, nr: int) -> str:
    """An hour of bake: nothing saved, and harm at the tolerance (10 % of a limit that is five times the mean)."""
    chance, rows = np.random.default_rng(4), []
    for run in (None, 0, 1, 5):
        wrong = 0
        for _ in range(nr):
            control = tracks(max(nr_policy, 3), kind, 1.0, chance)
            if run is None:
                found = compared(tracks(nr_policy, kind, 1.0, chance), control, relative=True)
                wrong += found.upper < 0
            else:
                policy = tracks(nr_policy, kind, 1.0, chance, added=0.5, run=run)
                wrong += compared(policy, control, relative=False, most=5 * FAR).upper <= 0.5
        rows.append(f"{wrong / nr:.1%}")
    return f"| {named(kind)}, {nr_policy} beside {max(nr_policy, 3)} | {' | '.join(rows)} |"


def power(rho: float, hours: float, nr: int) -> str:
    """Savings of 10, 20 and 30 % on one machine beside three, whose windows differ by 10 %."""
    cells = []
    for saving in (0.1, 0.2, 0.3):
        chance, seen = np.random.default_rng(5), 0
        for _ in range(nr):
            both = [
                tracks(number, ("narrow", rho), hours, chance, times=times)
                for number, times in ((1, 1 - saving), (3, 1.0))
            ]
            seen += compared(*both, relative=True).upper < 0
        cells.append(f"{seen / nr:.0%}")
    return f"| {rho} | {hours:g} h | {' | '.join(cells)} |"


def adapted(kind: Kind, nr: int) -> str:
    """Two ages that use the same memory, and two of which the lower one saves 30 %: is the lower one taken?"""
    cells = []
    limit = parse("memory_pressure<=1%")
    for saving in (0.0, 0.3):
        chance, downs = np.random.default_rng(6), 0
        for seed in range(nr):
            turns, values = Turns([limit], 2, random.Random(seed)), iter(series(kind, 1000, chance).tolist())
            turns.next_turn(may_be_lower=True)
            while turns.nr_turns < MOST_TURNS and not (turns.saves_more and turns.keeps_limits):
                if turns.add(next(values) * (1 - saving * turns.is_lower), {"memory_pressure": 0.003}):
                    turns.next_turn(may_be_lower=True)
            downs += bool(turns.saves_more and turns.keeps_limits)
        cells.append(f"{downs / nr:.1%}")
    return f"| {named(kind)} | {' | '.join(cells)} |"


def named(kind: Kind) -> str:
    """A kind of windows in words."""
    shape, number = kind
    return f"{shape} of {number:g}" if shape in ("bursts", "states") else f"{shape}, rho {number}"


def line(cell: tuple[Callable[..., str], tuple[object, ...]]) -> str:
    """One line of a table."""
    make, words = cell
    return make(*words)


@dataclass(frozen=True)
class Table:
    """What a table says, its heads, how its lines are made, and what the shares of its columns may be at most."""

    title: str
    heads: str
    cells: Sequence[tuple[Callable[..., str], tuple[object, ...]]]
    most: Sequence[float | None] = ()

    def broken(self, text: str, nr: int) -> bool:
        """Whether a line has a share that is beyond what it may be, and by more than chance explains."""
        shares = text.strip("| ").split(" | ")[1:]
        return any(
            float(share.rstrip("%")) / 100 > most + 2.33 * math.sqrt(most * (1 - most) / nr)
            for share, most in zip(shares, self.most, strict=False)
            if most is not None
        )


def tables(nr: int) -> Iterator[Table]:
    """All of them, for so many services of each kind."""
    few = max(nr // 4, 1)
    yield Table(
        f"guard: taken off within 6 h although the policy does nothing, of {nr} services of each kind",
        "windows | 80 % of the limit | by the mean | 100 % | by the mean",
        [(false_alarms, (kind, nr)) for kind in (*KINDS, *STATES)],
        (0.05, 0.05, None, 0.05),
    )
    yield Table(
        f"guard: minutes until a policy is off that brings a service from 30 % to so much of its limit: median (90 % of"
        f" them), share within 6 h, of {few}",
        "rho | 120 % | 150 % | 200 %",
        [(detection, (rho, few)) for rho in (0.0, 0.5, 0.9, 0.95)],
    )
    yield Table(
        f"guard: a policy that makes a share of the windows in force three times the limit, of {few}",
        "share | off within 6 h | minutes | such windows",
        [(far_windows, (share, few)) for share in (1.0, 0.5, 0.2, 0.1, 0.05, 0.02)],
    )
    yield Table(
        f"rollout: falsely proven after an hour of bake, of {nr}",
        "windows, machines | saves nothing | at the tolerance | in bursts of 1 | of 5",
        [(false_proofs, (kind, number, nr)) for number in (1, 4) for kind in KINDS[:11] if kind[1] != 0.7],
        (RISK, RISK, RISK),
    )
    yield Table(
        f"rollout: savings shown on one machine beside three, of {few}",
        "rho | bake | 10 % | 20 % | 30 %",
        [(power, (rho, hours, few)) for rho, hours in itertools.product((0.0, 0.5, 0.9, 0.95), (1, 3, 6, 12))],
    )
    yield Table(
        f"--adapt: the lower age is taken, of {nr}",
        "windows | it saves nothing | it saves 30 %",
        [(adapted, (kind, nr)) for kind in KINDS],
        (0.05,),
    )


def main() -> int:
    """Print all tables; 1 if a share is beyond what is promised."""
    nr = int(sys.argv[1]) if sys.argv[1:] else SERVICES
    broken: list[str] = []
    with multiprocessing.Pool(2) as pool:
        for table in tables(nr):
            print(f"\n{table.title}\n\n| {table.heads} |\n|{' --- |' * len(table.heads.split('|'))}")
            for text in pool.imap(line, table.cells):
                print(text, flush=True)
                broken += [text] if table.broken(text, nr) else []
    print("\n" + "\n".join(["beyond what is promised:", *broken] if broken else ["all within what is promised"]))
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
