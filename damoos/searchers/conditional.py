"""The search over several policies: a searcher for each, and who has the next trial."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from damoos.model.conditional import ConditionalSpace
from damoos.model.space import Params, Space
from damoos.model.trial import History
from damoos.searchers.base import Prior, Searcher, best, feasible, value

# A policy whose last trials failed, so many in a row, has no further one: this machine cannot do it.
MAX_FAILURES = 2

Make = Callable[[Space, int, int], Searcher]


class ConditionalSearcher:
    """Asks for points of several policies, each by a searcher of its own; the first trial of each is its defaults.

    Trials are shared out by successive halving: after one trial each, the better half goes on, with about as many
    trials for all of each round together, until one policy is left. Where the shares are equal, each policy has the
    same number of trials, in turns.

    Parameters
    ----------
    space : ConditionalSpace
    nr_samples : int
        How many trials there will be.
    seed : int
    make : callable
        ``(space, number of trials, seed) -> Searcher``, for a policy.
    defaults : mapping of str to Params
        The defaults of each policy, as points of its own space.
    equal : bool
        Whether all policies have the same number of trials.

    References
    ----------
    Jamieson and Talwalkar, Non-stochastic Best Arm Identification and Hyperparameter Optimization (2016)
    """

    prior: Prior | None = None

    def __init__(
        self,
        space: ConditionalSpace,
        nr_samples: int,
        seed: int,
        make: Make,
        defaults: Mapping[str, Params],
        equal: bool,
    ) -> None:
        self.space = space
        self.nr_samples = nr_samples
        self._share = max(1, nr_samples // len(space.names))
        each = self._share if equal else nr_samples
        self._searchers = {name: make(branch, each, seed) for name, branch in space.branches.items()}
        self._defaults = defaults
        self._equal = equal

    def ask(self, history: History) -> Params:
        """The point to try next."""
        turn = self._turns(history)
        name = turn[0] if turn else self.space.names[0]
        own = self.space.history_of(name, history)
        point = self._searchers[name].ask(own) if own else self._defaults[name]
        return self.space.lifted(name, point)

    def is_done(self, history: History) -> bool:
        """Whether no policy that may have a trial is expected to gain by one."""
        turns = self._turns(history)
        if any(not self.space.history_of(name, history) for name in turns):
            return False
        return not turns or (
            not self._equal
            and all(self._searchers[name].is_done(self.space.history_of(name, history)) for name in turns)
        )

    def bests(self, history: History) -> dict[str, Params]:
        """The point that each policy would be put into service with, the best policy first.

        A policy of which no trial kept the limits is left out.
        """
        own = {name: self.space.history_of(name, history) for name in self.space.names}
        kept = [name for name in own if feasible(own[name])]
        kept.sort(key=lambda name: -value(best(own[name])))
        return {name: self.space.lifted(name, self._searchers[name].recommend(own[name])) for name in kept}

    def recommend(self, history: History) -> Params:
        """The best policy's point; needs a trial that kept the limits."""
        return self.shortlist(history, 1)[0]

    def shortlist(self, history: History, count: int) -> list[Params]:
        """A point of each policy, the best one first."""
        return list(self.bests(history).values())[:count]

    def estimate(self, history: History, points: Sequence[Params]) -> list[float] | None:
        """None: scores of different policies lie on no common line."""
        return None

    def deviation(self, history: History, points: Sequence[Params]) -> list[float] | None:
        """None, as for `estimate`."""
        return None

    def _turns(self, history: History) -> list[str]:
        """The policies that may have the next trial, the one whose turn it is first; empty where none may."""
        names = [name for name in self.space.names if not self._has_failed(name, history)]
        if not self._equal:
            return self._halved(history, names)
        counts = {name: len(self.space.history_of(name, history)) for name in names}
        return sorted((name for name in names if counts[name] < self._share), key=lambda name: counts[name])

    def _halved(self, history: History, fit: Sequence[str]) -> list[str]:
        """The policies of the round of halving that the history is in."""
        alive, begun, trials_each = list(self.space.names), 0, 1
        nr_rounds = math.ceil(math.log2(len(alive)))
        each_round = (self.nr_samples - len(alive)) / nr_rounds
        while len(alive) > 1 and len(history) >= begun + trials_each * len(alive):
            begun += trials_each * len(alive)
            alive = self._ranked(history[:begun], alive)[: math.ceil(len(alive) / 2)]
            trials_each = max(1, round(each_round / len(alive)))
        nth = (len(history) - begun) % len(alive)
        return [name for name in [*alive[nth:], *alive[:nth]] if name in fit]

    def _ranked(self, history: History, names: Sequence[str]) -> list[str]:
        """Policies by their best scores; those that never kept the limits come last, by how near they came."""

        def worth(name: str) -> tuple[bool, float]:
            own = self.space.history_of(name, history)
            if feasible(own):
                return True, value(best(own))
            margins = [trial.score.margin for trial in own if trial.score.margin is not None]
            return False, max(margins, default=-math.inf)

        return sorted(names, key=worth, reverse=True)

    def _has_failed(self, name: str, history: History) -> bool:
        last = self.space.history_of(name, history)[-MAX_FAILURES:]
        return len(last) == MAX_FAILURES and all(trial.state == "fail" for trial in last)
