"""Any sampler that Optuna has, as a searcher: ``optuna:tpe``, ``optuna:cmaes``, ``optuna:qmc`` …"""

from __future__ import annotations

import importlib.util
import warnings
from typing import TYPE_CHECKING, Any

from damoos.errors import ConfigError, nearest
from damoos.model.space import Params, Space
from damoos.model.trial import History, Trial
from damoos.searchers.base import Searcher, best, feasible, value

if TYPE_CHECKING:
    import optuna

# These need more than a seed to be made, or cannot be asked for places in a cube.
_UNFIT = {"base", "basega", "bruteforce", "partialfixed"}
# Optuna finds out only at the first ask.
# Those whose classes take constraints.
_CONSTRAINED = {"tpe", "nsgaii", "nsgaiii", "gp"}
_PACKAGES = {"gp": "torch", "cmaes": "cmaes"}


def sampler_names() -> dict[str, str]:
    """Short names of Optuna's samplers and the names of their classes."""
    from optuna import samplers

    ending = "Sampler"
    short = {name.removesuffix(ending).lower(): name for name in dir(samplers) if name.endswith(ending)}
    return {name: long for name, long in short.items() if name not in _UNFIT}


class OptunaSearcher(Searcher):
    """Asks one of Optuna's samplers; recommends the best feasible trial.

    The sampler sees the unit cube, so times and sizes are on a logarithmic scale. One that knows constraints is told
    the margins. For the others, and where a score has no margins, a run that broke the limits counts as the worst score
    so far, as in the paper's Listing 2; before there is one it counts as pruned.

    Samplers keep state of their own. So that an ask stays a pure function of the history, the sampler is made anew and
    led through the history whenever it has not just seen the same one.

    Parameters
    ----------
    sampler : str
        A key of `sampler_names`.
    """

    def __init__(self, space: Space, nr_samples: int, seed: int, sampler: str) -> None:
        super().__init__(space, nr_samples, seed)
        self.name = f"optuna:{sampler}"
        self._sampler_name = sampler
        self._study: optuna.Study | None = None
        self._seen: History = ()
        self._asked: list[tuple[optuna.Trial, Params]] = []
        self._sampler()  # a wrong name or a missing package shows now

    def ask(self, history: History) -> Params:
        """What the sampler suggests."""
        is_known = history[: len(self._seen)] == self._seen and _limits(history) == _limits(self._seen)
        if self._study is None or (self._seen and not is_known):
            self._restart()
        for number in range(len(self._seen), len(history)):
            self._tell(history, number)
        self._seen = history
        return self._nth(len(history))[1]

    def recommend(self, history: History) -> Params:
        """The best feasible trial's point."""
        return best(history).params

    def _restart(self) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._study = optuna.create_study(direction="maximize", sampler=self._sampler())
        self._seen, self._asked = (), []

    def _sampler(self) -> Any:
        from optuna import samplers

        known = sampler_names()
        if self._sampler_name not in known:
            raise ConfigError(f"unknown sampler '{self.name}'{nearest(self._sampler_name, known)}")
        package = _PACKAGES.get(self._sampler_name)
        if package and importlib.util.find_spec(package) is None:
            raise ConfigError(f"searcher '{self.name}' needs a package that is not installed: {package}")
        kind = getattr(samplers, known[self._sampler_name])
        options: dict[str, Any] = {"seed": self.seed}
        if self._sampler_name == "tpe":
            options["constant_liar"] = True  # points that run elsewhere count, as bad ones
        if self._sampler_name == "grid":
            options["search_space"] = {p.key: [p.to_unit(v) for v in p.values] for p in self.space.params}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return kind(**options)

    def _nth(self, number: int) -> tuple[optuna.Trial, Params]:
        """The n-th trial as the sampler asked it, and its point."""
        assert self._study is not None
        if number == len(self._asked):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                trial = self._study.ask()
                point = self.space.from_unit([self._suggest(trial, n) for n in range(len(self.space.params))])
            self._asked.append((trial, point))
        return self._asked[number]

    def _suggest(self, trial: optuna.Trial, number: int) -> float:
        param = self.space.params[number]
        if param.choices:
            return param.to_unit(param.choices.index(str(trial.suggest_categorical(param.key, param.choices))))
        return float(trial.suggest_float(param.key, 0.0, 1.0))

    def _tell(self, history: History, number: int) -> None:
        import optuna

        assert self._study is not None
        trial, point = self._nth(number)
        real = history[number]
        constraints = _excesses(real, history) if self._sampler_name in _CONSTRAINED else {}
        score = real.score.objective if constraints else None
        if score is None:
            score = _told(real, history[:number])
        if real.params == point:
            for limit, excess in constraints.items():
                trial.set_constraint(limit, excess)
            state = None if score is not None else optuna.trial.TrialState.PRUNED
            self._study.tell(trial, score, state=state)
            return
        # Somebody else chose this point: the sampler learns of it, but not as of one of its own.
        self._study.tell(trial, state=optuna.trial.TrialState.FAIL)
        if score is not None:
            self._study.add_trial(
                optuna.trial.create_trial(
                    params={
                        p.key: p.text(real.params[p.key]) if p.choices else p.to_unit(real.params[p.key])
                        for p in self.space.params
                    },
                    distributions={
                        p.key: optuna.distributions.CategoricalDistribution(p.choices)
                        if p.choices
                        else optuna.distributions.FloatDistribution(0.0, 1.0)
                        for p in self.space.params
                    },
                    value=score,
                    constraints=constraints,
                )
            )


def _limits(history: History) -> list[str]:
    """All limits of which a trial says by how much it kept or broke them."""
    return list(dict.fromkeys(limit for trial in history for limit in trial.score.margins))


def _excesses(trial: Trial, history: History) -> dict[str, float]:
    """By how much a trial broke each limit, negative where it kept it; a sampler wants the same limits of all trials.

    One that was stopped does not say it of every limit: the others are as if they were just kept. One that failed broke
    all of them.
    """
    unknown = 0.0 if trial.score.margins or trial.score.feasible else 1.0
    margins = trial.score.margins
    return {limit: -margins[limit] if limit in margins else unknown for limit in _limits(history)}


def _told(trial: Trial, before: History) -> float | None:
    if trial.score.feasible:
        return trial.score.value
    seen = [value(earlier) for earlier in feasible(before)]
    return min(seen) if seen else None
