"""A study in its store, with all that follows from its runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from damoos import scorers
from damoos.common.unpack import MALFORMED, in_short
from damoos.errors import ConfigError, DamoosError, StoreError
from damoos.model.conditional import ConditionalSpace, split
from damoos.model.space import Param, Params, Space
from damoos.model.trial import History, Measurement, Run, Score, mean_measurement, orientation
from damoos.policies import catalog, named
from damoos.policies.base import DamosPolicy
from damoos.policies.rule import RulePolicy
from damoos.prediction.prior import Prediction, RecordedPrior
from damoos.prediction.transfer import Experience, TransferPrior
from damoos.scorers.base import Direction, Scorer
from damoos.scorers.stored import NotedScorer, SeenScorer, StoredScorer
from damoos.searchers.base import Prior, Searcher
from damoos.searchers.conditional import ConditionalSearcher
from damoos.statistics.arms import Arm, rounds_of, scheme_noise
from damoos.statistics.verdict import Judge, settle
from damoos.store.studies import StudyRecord
from damoos.study.config import StudyConfig, default_of, manual_policy, policy_of, searcher_of
from damoos.study.evaluation_config import EvaluationConfig
from damoos.study.scoring import feasible_scores, is_baseline, oriented, score_trials, score_validation
from damoos.words.studies import DAMOS
from damoos.workloads.base import Tuning

if TYPE_CHECKING:
    from damoos.store.listing import Listed

# Word of a study: what it has stored of a user's score file.
SCORES = "scores"
# As many baselines come before the first trial.
NR_FIRST_BASELINES = 2


@dataclass(frozen=True)
class Setting:
    """What a study found out when it first reached its machine; stored, and the same ever after."""

    workload_identity: str
    variant: str
    note: str
    params: tuple[Param, ...]
    manual_us: int
    facts: dict[str, Any]
    commit: str | None
    reports: tuple[str, ...] = ()
    record: bool = False
    has_runtime: bool = True
    like: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain form for the store."""
        return asdict(self)

    @classmethod
    def from_json(cls, form: dict[str, Any]) -> Setting:
        """Read what `to_json` wrote."""
        params = tuple(Param(**param) for param in form["params"])
        form = {key: value for key, value in form.items() if key != "time_scale"}  # of older studies
        return cls(**{**form, "params": params, "reports": tuple(form.get("reports", ())),
                      "like": tuple(form.get("like", ()))})  # fmt: skip


class StoredStudy:
    """A study in its store: its configuration, what it found on its machine, its runs."""

    config: StudyConfig | EvaluationConfig

    def __init__(self, record: StudyRecord) -> None:
        self.record = record
        self.name = record.name

    @cached_property
    def setting(self) -> Setting:
        """What the study found on its machine, read once; ConfigError before its first run."""
        form = self.record.get("setting")
        if form is None:
            raise ConfigError(
                f"study '{self.name}' has not reached its machine yet; continue it with damoos resume {self.name}"
            )
        try:
            return Setting.from_json(form)
        except (ConfigError, *MALFORMED) as error:
            raise StoreError(
                f"study '{self.name}' cannot be read: what it has found on its machine is damaged ({in_short(error)})"
            ) from error

    def runs(self) -> list[Run]:
        """Finished runs in the order of the plan."""
        return sorted(self.record.runs().values(), key=lambda run: run.index)

    @property
    def direction(self) -> Direction:
        """Whether a higher or a lower score is better."""
        return self.config.direction

    def trials_of(self, runs: Sequence[Run]) -> History:
        """The trials among some runs, with their scores; none where nothing is searched."""
        return ()

    def trials(self) -> History:
        """Finished trials with their scores; none where nothing is searched."""
        return self.trials_of(self.runs())


class EvaluationStudy(StoredStudy):
    """A study that compares listed configurations."""

    config: EvaluationConfig

    def __init__(self, record: StudyRecord) -> None:
        super().__init__(record)
        config = config_of(record.name, record.config)
        assert isinstance(config, EvaluationConfig)
        self.config = config


class Study(StoredStudy):
    """A study that searches."""

    config: StudyConfig
    # Of a score of a user's file, without limits; whether it is the file itself.
    _file_scorer: Scorer | None = None
    _is_loaded = False

    def __init__(self, record: StudyRecord) -> None:
        super().__init__(record)
        config = config_of(record.name, record.config)
        assert isinstance(config, StudyConfig)
        self.config = config
        self._recorded: RecordedPrior | None = None
        self._transfer: TransferPrior | None = None

    @cached_property
    def scorer(self) -> Scorer:
        """The scorer; for a score of a user's file what the study has stored of it, until `load_scorer`.

        A study of an older damoos may name a file of prices. It shows the scores that its trials had when they ended.

        Raises
        ------
        ConfigError : nothing is stored of the file
        StoreError : what is stored is damaged
        """
        if not self.config.scores_by_file:
            return self.config.make_scorer()
        return scorers.with_limits(self._file_scorer or self._stored_scorer(), self.config.limits)

    @property
    def direction(self) -> Direction:
        """That of its scorer; no file is read to tell it."""
        return self.scorer.direction

    def _stored_scorer(self) -> Scorer:
        form = self.record.get(SCORES)
        if form is None and not scorers.is_foreign(self.config.scorer):
            return SeenScorer(scorers.SCORERS[self.config.scorer], self._seen())
        if form is None:
            raise ConfigError(
                f"study '{self.name}' has not stored the scores of {self.config.scorer}, and damoos does not run that"
                f" file to look at a study; 'damoos resume {self.name}' stores them"
            )
        try:
            return StoredScorer(self.config.scorer, form)
        except MALFORMED as error:
            raise StoreError(f"study '{self.name}' cannot be read: its scores are none ({in_short(error)})") from error

    def _seen(self) -> Iterator[tuple[Measurement, Score]]:
        """Measurements of the trials, with the scores that they had when they were stored."""
        scores = self.record.scores()
        return ((run.measurement, scores[run.key]) for run in self.runs() if run.measurement and run.key in scores)

    def load_scorer(self, is_named_by_user: bool = False) -> None:
        """Compute scores by the user's own file from now on: for what goes on with a study, not for what looks at it.

        Parameters
        ----------
        is_named_by_user : bool
            Whether the user has just named the file, so that the store need not be the user's own.

        Raises
        ------
        StoreError : another user can have put the name of the file into the store
        ConfigError : the file is gone
        """
        if not self.config.scores_by_file or self._is_loaded:
            return
        if not is_named_by_user:
            self.record.check_own(self.config.score_file)
        self._file_scorer = scorers.scorer(self.config.scorer, self.config.scorer_options)
        self._is_loaded = True
        self.__dict__.pop("scorer", None)

    def noted(self) -> tuple[Study, NotedScorer]:
        """The study as people who look will see it, and the scorer that notes what they ask; `load_scorer` first."""
        assert self._file_scorer
        noted, other = NotedScorer(self._file_scorer), Study(self.record)
        other._file_scorer = noted
        return other, noted

    @cached_property
    def space(self) -> Space | ConditionalSpace:
        """The space that is searched."""
        if self.config.has_several:
            templates = {name: self.config.scheme if name == DAMOS else name for name in self.config.policies}
            return split(self.setting.params, templates)
        return Space(self.config.scheme, self.setting.params)

    @property
    def memory_limits(self) -> dict[str, int]:
        """Limits of the memory of each run in bytes, by the names of their files; empty where there is none."""
        if self.config.memory is None:
            return {}
        return named.limits_of(self.config.memory, self.record.get("peak_bytes") or 0.0)

    @property
    def where(self) -> str:
        """Its machine and kernel."""
        return f"{self.config.machine}, Linux {self.setting.facts['kernel']}"

    @property
    def manual_us(self) -> int:
        """``min_age`` of the manual scheme in microseconds."""
        return self.setting.manual_us

    @property
    def manual(self) -> Params:
        """``min_age`` of the manual scheme, whatever is tuned here; of another policy the values of its source.

        Of several policies those of the first one.
        """
        if isinstance(self.space, ConditionalSpace):
            name = self.config.policies[0]
            return self.space.lifted(name, self._default(name, self.space.branches[name]))
        return self._default(self.config.policy, self.space)

    def _default(self, policy: str, space: Space) -> Params:
        if policy != DAMOS:
            return catalog.rule(policy).default_point(space.params)
        return {"min_age_us": self.manual_us}

    @property
    def manual_policy(self) -> DamosPolicy | RulePolicy:
        """What the tuned policy is compared with: the paper's prcl, or a policy at its own defaults."""
        return self.default_policy(self.config.policies[0])

    def default_policy(self, name: str) -> DamosPolicy | RulePolicy:
        """A policy at its own defaults; of ``damos`` the manual scheme."""
        if name != DAMOS:
            return catalog.rule(name).defaults()
        return manual_policy(self.manual_us, self.config.operations)

    def default_point(self, name: str) -> Params:
        """The point of the space that is nearest to the defaults of one of several policies."""
        assert isinstance(self.space, ConditionalSpace)
        own = default_of(name, self.space.branches[name], self._tuning)
        return self.space.lifted(name, own)

    @property
    def searcher(self) -> Searcher | ConditionalSearcher:
        """The searcher, with what a recording or finished studies let it expect."""
        self._searcher.prior = self.prior
        return self._searcher

    @property
    def _tuning(self) -> Tuning:
        return Tuning(manual_us=self.manual_us)

    @cached_property
    def _searcher(self) -> Searcher | ConditionalSearcher:
        """Kept, because some are quicker when they are asked again."""
        return searcher_of(self.config, self.space, self._tuning)

    @property
    def prior(self) -> Prior | None:
        """What a recording or finished studies let one expect; None where nothing does."""
        return self.recorded_prior or self.transfer_prior

    @cached_property
    def experiences(self) -> list[Experience]:
        """What the finished studies know that this one learns from."""
        known = map(Experience.from_json, self.record.get("experiences") or []) if self.setting.like else ()
        return [experience for experience in known if experience.study in self.setting.like]

    @property
    def transfer_prior(self) -> TransferPrior | None:
        """What finished studies let one expect, under this study's own limits; None where there are none."""
        if isinstance(self.space, ConditionalSpace):
            return None
        if self._transfer is None and self.experiences and not self.config.limits and (base := self._first_baseline()):
            usual = self.scorer.score(base, base, ()).objective or 0.0
            self._transfer = TransferPrior(
                self.experiences, self.space, orientation(self.scorer.direction) * usual
            )  # fmt: skip
        return self._transfer

    @property
    def recorded_prior(self) -> RecordedPrior | None:
        """What a recording lets one expect; None where there is none, or only stored scores of a user's file."""
        if self.config.scores_by_file and not self._is_loaded:
            return None
        if self._recorded is None and self.setting.record:
            fields, base = self.record.get("prediction"), self._first_baseline()
            if fields and base:
                self._recorded = RecordedPrior(Prediction.from_json(fields), base, self.scorer)
        return self._recorded

    def _first_baseline(self) -> Measurement | None:
        """The mean of the baselines before the first trial; None until they are there."""
        first = [run.measurement for run in self.runs() if run.kind == "baseline" and run.number < NR_FIRST_BASELINES]
        measured = [measurement for measurement in first if measurement]
        return mean_measurement(measured) if len(measured) == NR_FIRST_BASELINES else None

    def trials_of(self, runs: Sequence[Run]) -> History:
        """The trials among some runs, with their scores."""
        return score_trials(runs, self.scorer)

    def trials(self) -> History:
        """Finished trials with their scores, and with intervals as soon as repeated runs tell the noise."""
        runs = self.runs()
        history = self.trials_of(runs)
        if not any(run.kind == "validation" for run in runs):
            return history
        noise = scheme_noise(self.judge(runs).arms(rounds_of(runs)))
        if noise is None:
            return history
        return tuple(
            replace(trial, interval=noise.around(trial.score.value))
            if trial.score.feasible and trial.score.value is not None
            else trial
            for trial in history
        )

    def evidence(self, runs: Sequence[Run]) -> History:
        """All that some runs tell of points, as the searcher is shown it: the trials, then the validation's."""
        trials = self.trials_of(runs)
        return self.known((*trials, *score_validation(runs, self.scorer, first_number=len(trials))))

    def asked_again(self, **words: Any) -> Study:
        """A study of the same runs under another score, or other limits, as `auto` sees them.

        Parameters
        ----------
        **words
            Fields of `damoos.study.config.StudyConfig` that are not this study's own.
        """
        other = Study(self.record)
        other.config = replace(self.config, searcher="auto", **words)
        if "scorer" in words:
            other.load_scorer(is_named_by_user=True)
        else:
            other._file_scorer, other._is_loaded = self._file_scorer, self._is_loaded
        return other

    def judge(self, runs: Sequence[Run]) -> Judge:
        """Who judges a validation, with the noise that some runs tell."""
        baselines = [run.measurement for run in runs if is_baseline(run) and run.measurement]
        previous = feasible_scores(self.trials_of(runs))
        return Judge(self.scorer, baselines, previous, self.config.repeats, self.config.nr_candidates)

    def arms(self) -> tuple[dict[str, Arm], dict[str, str]]:
        """The arms of the validation by the names that people read, and these names by those of the runs."""
        runs = self.runs()
        return settle(self.judge(runs).arms(rounds_of(runs)), self.config.has_several)

    def known(self, history: History) -> History:
        """What the searcher is shown of a history."""
        return oriented(history, self.scorer.direction)

    def estimate(self, points: Sequence[Params]) -> list[float] | None:
        """The searcher's idea of the score at some points; None where it has none."""
        history = self.known(self.trials())
        if not any(trial.score.feasible for trial in history):
            return None
        scores = self.searcher.estimate(history, points)
        sign = orientation(self.scorer.direction)
        return None if scores is None else [sign * score for score in scores]

    def deviation(self, points: Sequence[Params]) -> list[float] | None:
        """How far the scores may lie from the estimate, as standard deviations; None where the searcher has no idea."""
        history = self.known(self.trials())
        return self.searcher.deviation(history, points) if any(trial.score.feasible for trial in history) else None

    def policy(self, point: Params) -> DamosPolicy | RulePolicy:
        """The policy of one point."""
        return policy_of(self.config, self.space, point)


def tuning_study(record: StudyRecord) -> Study:
    """A stored study that searches.

    Raises
    ------
    ConfigError : it compares listed configurations instead
    """
    study = open_study(record)
    if isinstance(study, EvaluationStudy):
        raise ConfigError(f"study '{study.name}' compares configurations and tunes no scheme")
    return study


def config_of(name: str, stored: dict[str, Any]) -> StudyConfig | EvaluationConfig:
    """The configuration of a stored study, of its own kind.

    Raises
    ------
    StoreError : it is none: the store may be another person's
    """
    kind = EvaluationConfig if "configs" in stored else StudyConfig
    try:
        if unknown := sorted(set(stored) - {field.name for field in fields(kind)}):
            raise ValueError(f"unknown key '{unknown[0]}'")
        return _form(kind).validate_python(stored)
    except MALFORMED as error:  # Pydantic's is a ValueError
        raise StoreError(f"study '{name}' cannot be read: its configuration is none ({in_short(error)})") from error


def with_configs(
    studies: Sequence[Listed],
) -> tuple[list[tuple[Listed, StudyConfig | EvaluationConfig]], list[str]]:
    """Listed studies with their configurations, and names of those whose configuration cannot be read."""
    found, broken = [], []
    for study in studies:
        try:
            found.append((study, config_of(study.name, study.config)))
        except DamoosError:
            broken.append(study.name)
    return found, broken


@cache
def _form(kind: type[StudyConfig | EvaluationConfig]) -> TypeAdapter[StudyConfig | EvaluationConfig]:
    return TypeAdapter(kind)


def open_study(record: StudyRecord) -> Study | EvaluationStudy:
    """A stored study of its own kind."""
    return EvaluationStudy(record) if "configs" in record.config else Study(record)
