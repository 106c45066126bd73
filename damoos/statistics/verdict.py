"""Which of the arms of a validation is best, if that can be said, and which need more rounds before it can."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from damoos.model.trial import Measurement
from damoos.scorers.base import Scorer
from damoos.statistics.arms import (
    BASELINE,
    CANDIDATE,
    MANUAL,
    REJECTED,
    TUNED,
    Arm,
    Rounds,
    arms,
    rank,
)
from damoos.statistics.intervals import Estimate, Noise, alpha_of_a_look, moderated, of_difference
from damoos.statistics.limits import MIN_ROUNDS, Standing
from damoos.statistics.noise import of_baselines
from damoos.units import show_score

# The best arms lie within each other's noise; an arm that may be the best is not shown to keep the limits.
INDISTINGUISHABLE, NOT_COMPARABLE = "indistinguishable", "not comparable"


@dataclass(frozen=True)
class Verdict:
    """``best`` is an arm's name, `INDISTINGUISHABLE` or `NOT_COMPARABLE`; ``text`` says it in a sentence."""

    best: str
    text: str


class Judge:
    """Says after each round whether there is a winner, and which arms must go on if there is none.

    It looks after each round from the second on, so each look takes only a part of the 5 % chance of a false winner.

    Parameters
    ----------
    scorer : Scorer
    baselines : sequence of Measurement
        All runs of a study that were left alone, in their order: they tell the noise.
    previous : sequence of float
        Scores of the study's feasible trials, for scorers that look back.
    max_rounds : int
        How many rounds an arm can have.
    candidates : int
        How many candidates there can be: they share the risk that one is said to keep the limits and does not.
    """

    def __init__(
        self,
        scorer: Scorer,
        baselines: Sequence[Measurement],
        previous: Sequence[float],
        max_rounds: int,
        candidates: int = 1,
    ) -> None:
        self._scorer = scorer
        self._previous = previous
        self._left_alone = of_baselines(baselines)
        self._max_rounds = max_rounds
        self._alpha = alpha_of_a_look(max_rounds - MIN_ROUNDS + 1)
        self._candidates = candidates

    def arms(self, rounds: Rounds) -> dict[str, Arm]:
        """The arms by the names of their runs."""
        return arms(rounds, self._scorer, self._previous, self._left_alone, self._risk, self._max_rounds)

    def _risk(self, name: str) -> float:
        """What a look may take of the chance to call a limit kept that is broken.

        All schemes of a study share it. Of those that follow each other the first, which is mostly the only one, has
        half of it.
        """
        number = name.removeprefix(CANDIDATE)
        if name.startswith(CANDIDATE) and not number.isdecimal():  # of several policies, all of which are validated
            return self._alpha / self._candidates
        nth = int(number) if number.isdecimal() else 1
        return float(self._alpha / 2 ** min(nth, max(1, self._candidates - 1)))

    def verdict(self, by_name: Mapping[str, Arm], same_scheme: bool = False) -> Verdict:
        """Which arm is best: one that keeps the limits and beats every other that does, outside the noise.

        Parameters
        ----------
        by_name : mapping of str to Arm
            By the names that people read (`settle`). Rejected candidates are no rivals.
        same_scheme : bool
            The tuned scheme is the manual one, so between these two there is nothing to judge.
        """
        notes = _notes(by_name, same_scheme)
        leaders, beaten = self.leaders(by_name, same_scheme)
        if not leaders:
            return Verdict(INDISTINGUISHABLE, f"no arm is feasible{notes}")
        first, *equals = leaders
        if unknown := self._unknown(leaders, by_name, same_scheme):
            rest = f"; {first.title} beats {self._values(beaten)}" if beaten else ""
            text = (
                f"{_names([*leaders, *unknown])} are not comparable ({self._values([*leaders, *unknown])}){rest}{notes}"
            )
            return Verdict(NOT_COMPARABLE, text)
        if not equals:
            rest = f" against {self._values(beaten)}" if beaten else ""
            if first.name == BASELINE:
                return Verdict(BASELINE, f"nothing beats leaving it alone: baseline {self._shown(first)}{rest}{notes}")
            return Verdict(first.name, f"{first.title} is best: {self._shown(first)}{rest}{notes}")
        text = (
            f"{_names(leaders)} cannot be told apart ({self._values(leaders)}){self._beaten(leaders, beaten, by_name)}"
        )
        return Verdict(INDISTINGUISHABLE, f"{text}{notes}")

    def _values(self, arms: Sequence[Arm]) -> str:
        return ", ".join(f"{arm.title} {self._shown(arm)}" for arm in arms)

    def _shown(self, arm: Arm) -> str:
        score, low, high = (show_score(one, self._scorer.shown_in) for one in (arm.score, *arm.interval))
        return f"{score} [{low}, {high}]"

    def _beaten(self, leaders: Sequence[Arm], beaten: Sequence[Arm], by_name: Mapping[str, Arm]) -> str:
        """Which of the leaders beat which of the others; of one that beats none there is no word."""
        groups: dict[str, list[Arm]] = {}
        for arm in beaten:
            winners = [leader for leader in leaders if self.beats(leader, arm, by_name)]
            all_of_them = "they beat" if len(winners) == len(leaders) else ""
            who = all_of_them or f"{_names(winners)} {'beats' if len(winners) == 1 else 'beat'}"
            groups.setdefault(who, []).append(arm)
        return "".join(f"; {who} {self._values(arms)}" for who, arms in groups.items())

    def leaders(self, by_name: Mapping[str, Arm], same_scheme: bool = False) -> tuple[list[Arm], list[Arm]]:
        """The best arm that keeps the limits with those that cannot be told from it; then those that it beats."""
        rivals = [arm for arm in _rivals(by_name, same_scheme) if arm.feasible]
        if not rivals:
            return [], []
        first = rivals[0]
        beaten = [arm for arm in rivals[1:] if self.beats(first, arm, by_name)]
        return [first, *(arm for arm in rivals[1:] if arm not in beaten)], beaten

    def _unknown(self, leaders: Sequence[Arm], by_name: Mapping[str, Arm], same_scheme: bool) -> list[Arm]:
        """Arms that no leader beats and that are not shown to keep the limits: each of them may be the best."""
        rivals = [arm for arm in _rivals(by_name, same_scheme) if arm.standing is Standing.NOT_SHOWN]
        return [arm for arm in rivals if not any(self.beats(leader, arm, by_name) for leader in leaders)]

    def in_question(self, by_name: Mapping[str, Arm], same_scheme: bool = False) -> list[str]:
        """Arms that some more rounds could tell apart, or show to keep the limits; empty where the verdict stands.

        More rounds can help if the difference seen so far would lie outside the noise seen so far, were both to stay.
        An arm that is not shown to keep the limits and is not beaten may be the best, so it goes on as long as it can.
        """
        rivals = [arm for arm in _rivals(by_name, same_scheme) if not self.is_rejected(arm)]
        if not rivals:
            return []
        first = rivals[0]
        close, unknown = [], [first] if self._may_be_shown(first) else []
        for arm in rivals[1:]:
            left = self._left(first if arm.name == BASELINE else arm)
            if not left or self.beats(first, arm, by_name):
                continue
            if self._could_beat(first, arm, left):
                close.append(arm)
            elif self._may_be_shown(arm):
                unknown.append(arm)
        return list(dict.fromkeys(arm.name for arm in [*([first] if close else []), *close, *unknown]))

    def _may_be_shown(self, arm: Arm) -> bool:
        """Whether more rounds may show how an arm stands to the limits."""
        return arm.standing is Standing.NOT_SHOWN and not arm.is_hopeless and self._left(arm) > 0

    def is_live(self, by_name: Mapping[str, Arm], name: str) -> bool:
        """Whether an arm may still turn out the best: not where it broke the limits or lost to leaving it alone."""
        arm = by_name.get(name)
        return arm is None or (arm.standing is not Standing.BROKEN and not self.beats(by_name[BASELINE], arm, by_name))

    def is_rejected(self, arm: Arm) -> bool:
        """Whether an arm has broken the limits, or not shown in all of its rounds that it keeps them."""
        return arm.standing is Standing.BROKEN or (arm.standing is Standing.NOT_SHOWN and not self._left(arm))

    def _left(self, arm: Arm) -> int:
        """How many rounds an arm may still have."""
        return max(0, self._max_rounds - len(arm.runs))

    def beats(self, first: Arm, other: Arm, by_name: Mapping[str, Arm]) -> bool:
        """Whether an arm is certainly better than another, in the rounds that both have, or by way of the baseline."""
        gain = self._difference(first, other)
        if gain is None:  # they never met
            base = by_name[BASELINE]
            return base not in (first, other) and self.beats(first, base, by_name) and self.beats(base, other, by_name)
        return gain.mean > gain.half(1 - self._alpha)

    def _could_beat(self, first: Arm, other: Arm, more: int) -> bool:
        gain = self._difference(first, other)
        return gain is None or gain.mean > gain.half(1 - self._alpha, more)

    def _difference(self, first: Arm, other: Arm) -> Estimate | None:
        """By how much an arm is better than another, in the rounds that both have; None where these are too few."""
        both = sorted(set(first.gains) & set(other.gains))
        if len(both) < MIN_ROUNDS:
            return None
        # Two arms whose gains differ alike in two rounds may do so by chance: each has a noise of its own.
        own = of_difference([first.gains[n] for n in both], [other.gains[n] for n in both])
        return moderated([first.gains[n] - other.gains[n] for n in both], _noises(first, other), own)


def _noises(first: Arm, other: Arm) -> list[Noise]:
    """What is known of the noise of a difference of two arms from others than these: the mean of what either has."""
    names = (first.noises.keys() & other.noises.keys()) - {first.name, other.name} | {BASELINE}
    found = [[arm.noises[name] for arm in (first, other) if name in arm.noises] for name in sorted(names)]
    return [Noise(math.sqrt(fmean(noise.deviation**2 for noise in pair)), pair[0].freedom) for pair in found if pair]


def wants_baseline(rounds: Rounds, names: Collection[str]) -> bool:
    """Whether the next round has a baseline.

    The first two have. Later ones only if it is in question itself, and every second one, in case the machine
    changes: what arms differ by does not depend on the baseline that both are scored against.

    Parameters
    ----------
    rounds : sequence of mapping
        Those before it.
    names : collection of str
        Arms that are in question.
    """
    return BASELINE in names or len(rounds) < MIN_ROUNDS or BASELINE not in rounds[-1]


def settle(by_name: Mapping[str, Arm], has_several: bool = False) -> tuple[dict[str, Arm], dict[str, str]]:
    """Arms by the names that people read, and these names by those of the runs.

    The candidate that is shown to keep the limits is ``tuned``: the last one, as none is validated after it. Where
    none is, it is the one that comes closest to that. The others are ``rejected``.

    Parameters
    ----------
    by_name : mapping of str to Arm
    has_several : bool
        The candidates are of several policies and rivals: ``tuned`` is the one that gained most, of those that stand
        best to the limits, and the others are called by their policies.
    """
    order = list(Standing)
    candidates = [name for name in by_name if name.startswith(CANDIDATE)]
    if has_several:
        ranked = sorted(candidates, key=lambda name: (order.index(by_name[name].standing), -_gain(by_name[name])))
        names = {name: name.removeprefix(CANDIDATE) for name in ranked} | dict.fromkeys(ranked[:1], TUNED)
        labels = dict.fromkeys(ranked[:1], f"{TUNED} ({''.join(ranked[:1]).removeprefix(CANDIDATE)})")
    else:
        ranked = sorted(candidates, key=lambda name: (order.index(by_name[name].standing), -_number(name)))
        numbered = [TUNED, REJECTED, *(f"{REJECTED}-{n}" for n in range(2, len(ranked)))]
        names, labels = dict(zip([*ranked[:1], *sorted(ranked[1:], key=_number)], numbered, strict=False)), {}
    named = [
        replace(
            arm, name=names.get(name, name), label=labels.get(name, ""),
            noises={names.get(other, other): noise for other, noise in arm.noises.items()},
        )
        for name, arm in by_name.items()
    ]  # fmt: skip
    return {arm.name: arm for arm in sorted(named, key=lambda arm: rank(arm.name))}, names


def _gain(arm: Arm) -> float:
    """What an arm gained on the average; the least of all where no round tells."""
    return -math.inf if math.isnan(arm.gain) else arm.gain


def _number(candidate: str) -> int:
    return int(candidate.removeprefix(CANDIDATE))


def _rivals(by_name: Mapping[str, Arm], same_scheme: bool) -> list[Arm]:
    """Arms that may be best, the one that looks best first."""
    left_out = [MANUAL] if same_scheme else []
    rivals = [
        arm
        for name, arm in by_name.items()
        if arm.standing is not Standing.BROKEN and name not in left_out and not name.startswith(REJECTED)
    ]
    return sorted(rivals, key=_gain, reverse=True)


def _notes(by_name: Mapping[str, Arm], same_scheme: bool) -> str:
    notes = [
        f"{arm.title} failed in a run" if arm.has_failed else f"{arm.title} breaks the scorer's limit"
        for arm in by_name.values()
        if arm.standing is Standing.BROKEN
    ]
    notes += [
        f"{arm.title} is not shown to keep the scorer's limit"
        for arm in by_name.values()
        if arm.standing is Standing.NOT_SHOWN
    ]
    notes += [f"{name} has no valid runs" for name in (BASELINE, MANUAL, TUNED) if name not in by_name]
    notes += ["manual is the same scheme as tuned"] if same_scheme else []
    return "".join(f"; {note}" for note in notes)


def _names(arms: Sequence[Arm]) -> str:
    return " and ".join(arm.title for arm in arms)
