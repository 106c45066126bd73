"""What a study that searches is asked to do; its space, its schemes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import MISSING, dataclass, field, replace
from typing import Any, Literal

from damoos import scorers, searchers
from damoos.damon.quotas import Quotas, limited
from damoos.damon.scheme import Context, Scheme
from damoos.damon.text import ATTRS, MODULE, fill_template
from damoos.errors import ConfigError, SchemeError, nearest
from damoos.model.conditional import ConditionalSpace
from damoos.model.space import Param, Params, Space, parse_param
from damoos.policies import catalog, named
from damoos.policies.base import DamosPolicy
from damoos.policies.rule import RulePolicy
from damoos.prediction.prior import can_predict
from damoos.scorers.base import Scorer
from damoos.searchers.base import Searcher
from damoos.searchers.conditional import ConditionalSearcher
from damoos.study.evaluation_config import HARD_LIMIT
from damoos.study.plan import NR_ARMS, least_runs, samples_within
from damoos.study.run_config import RunConfig
from damoos.units import format_us
from damoos.words import again
from damoos.words.studies import DAMOS, LikeWords, PolicyWords, SearchWords, TrialWords
from damoos.workloads.base import Tuning

PRCL = "4K max  min min  MIN_AGE max  pageout"
ANY = "any"
QUOTA_RESET_MS = 1000
# A recording that takes the place of one of fewer trials than this leaves too few.
RECORD_FROM = 4


@dataclass(frozen=True, kw_only=True)
class StudyConfig(RunConfig, PolicyWords, SearchWords, LikeWords):
    """Everything that makes two studies the same study: what runs where, what is tuned, and how it is scored.

    Parameters
    ----------
    memory, write_limit, policy, tune, operations, searcher, prior, like, seed, repeats, candidates, runs
        As they are said.
    scheme : str
        Scheme text with placeholders, ``MIN_AGE`` for the tunable ``min_age``.
    league : bool
        Of several policies, each has the same number of trials, and its defaults are validated beside its best point.
    nr_samples : int
        The most trials.
    scorer : str
        Name, ``FILE.py:FUNCTION``, or the path of a program.
    scorer_options : dict
        Keyword arguments of the scorer.
    limits : sequence of str
        In place of the scorer's own on the same terms: what ``damoos validate`` proves.
    of : str or None
        The study whose runs this one begins with, to validate what they tell under ``limits``; None for a search.
    """

    nr_samples: int = again(TrialWords, "trials", default=MISSING, option="--trials")
    scheme: str = PRCL
    league: bool = False
    scorer: str = "daos"
    scorer_options: dict[str, Any] = field(default_factory=dict)
    limits: Sequence[str] = ()
    of: str | None = None

    def __post_init__(self) -> None:
        """Refuse what could only fail later, on a machine."""
        super().__post_init__()
        object.__setattr__(self, "operations", _monitoring(self.scheme, self.operations).operations)
        if self.like and (self.prior != "auto" or self.searcher != "auto"):
            raise ConfigError("--like needs --searcher auto and --prior auto: it is what the search then expects")
        self._check_policies()
        if self.memory is not None:
            named.limits_of(self.memory, 1 << 30)
        if self.write_limit is not None:
            named.write_limit(self.write_limit)
            if self.memory is not None and "memory.max" in named.limits_of(self.memory, 1):
                raise ConfigError(HARD_LIMIT)
        if self.runs is not None and self.runs < least_runs(2):
            raise ConfigError(f"--runs {self.runs}: no room for a validation; give {least_runs(2)} or more")

    def _check_policies(self) -> None:
        for name in self.policies:
            if name not in (known := (DAMOS, *catalog.names())):
                raise ConfigError(f"unknown policy '{name}'{nearest(name, (*known, ANY))}")
            if self.policies.count(name) > 1:
                raise ConfigError(f"policy '{name}' is given twice")
        if self.policy != DAMOS and self.scheme != PRCL:
            raise ConfigError(f"a scheme is tuned by policy damos, and not by '{self.policy}'; leave one of them out")
        if not self.has_several:
            if self.league:
                raise ConfigError(f"a league needs two policies or more, and '{self.policy}' is one")
            return
        if self.tune:
            raise ConfigError("--tune is for one policy; of several each is tuned over its own ranges")
        if self.pid is not None and self.league:
            raise ConfigError("a league runs workloads from their beginning, not a running process (--pid)")
        if self.like:
            raise ConfigError("--like is for one policy; what finished studies tell is of the parameters of one")
        if self.nr_trials < len(self.policies):
            raise ConfigError(
                f"--trials {self.nr_trials}: too few for {len(self.policies)} policies; give {len(self.policies)} or"
                " more (and more --runs, if they are limited), or name fewer policies"
            )

    @property
    def policies(self) -> tuple[str, ...]:
        """Names of the policies that are tuned."""
        if self.policy == ANY:
            return (DAMOS, *catalog.general())
        return tuple(name.strip() for name in self.policy.split(","))

    @property
    def has_several(self) -> bool:
        """Whether several policies are searched."""
        return len(self.policies) > 1

    @property
    def swap_write_bytes_per_s(self) -> int:
        """What a run under a policy may write to swap; 0 for no limit."""
        return 0 if self.write_limit is None else named.write_limit(self.write_limit)

    @property
    def nr_arms(self) -> int:
        """The most arms that a round of the validation has."""
        if not self.has_several:
            return NR_ARMS
        return 2 + len(self.policies) * (2 if self.league else 1)

    @property
    def nr_candidates(self) -> int:
        """The most schemes beside the manual one that are validated."""
        return self.nr_arms - 2 if self.has_several else self.candidates

    @property
    def label(self) -> str:
        """What the study's name starts with."""
        return f"{self.of}-validate" if self.of else super().label

    @property
    def nr_steps(self) -> int:
        """How many runs are counted as its progress: its trials."""
        return self.nr_trials

    @property
    def nr_trials(self) -> int:
        """Trials, the recording among them: as many as asked for, or as leave room for the validation."""
        return samples_within(self.nr_samples, self.runs, self.nr_arms)

    @property
    def nr_runs(self) -> int:
        """Runs of all kinds, if the verdict is clear as soon as it can be."""
        return least_runs(self.nr_trials, self.nr_arms)

    @property
    def direction(self) -> Literal["maximize", "minimize"]:
        """Whether a higher or a lower score is better."""
        return self.make_scorer().direction

    @property
    def scores_by_file(self) -> bool:
        """Whether its score is a file, or is of a file that the study names and has not stored, as older ones do."""
        return scorers.reads_file(self.scorer, self.scorer_options)

    @property
    def score_file(self) -> str:
        """The file of its score, for messages; for a configuration that `scores_by_file`."""
        if scorers.is_foreign(self.scorer):
            return f"score file {self.scorer}"
        named = [self.scorer_options.get(word) for word in scorers.SCORERS[self.scorer].file_options]
        return f"file {named[0]} of score '{self.scorer}'"

    def make_scorer(self) -> Scorer:
        """The scorer; ConfigError if there is none of this name, or it takes no such option."""
        return scorers.scorer(self.scorer, self.scorer_options, self.limits)

    def check(self) -> None:
        """Find every wrong name and option before a machine is started."""
        self.make_scorer()
        super().check()
        space = space_of(self, Tuning())
        searcher_of(self, space, Tuning())
        for corner in space.corners:
            policy_of(self, space, corner)
        self.wants_record(space)

    def contexts(self, tuning: Tuning) -> list[Context]:
        """Contexts at the corners of the space; none of several policies, as one that cannot run just fails there."""
        if self.has_several:
            return []
        space = space_of(self, tuning)
        policies = [policy_of(self, space, corner) for corner in space.corners]
        return [policy.damon_context for policy in policies if policy.damon_context is not None]

    @property
    def wants_transfer(self) -> bool:
        """Whether finished studies of the same workload may tell the searcher what to expect."""
        alone = self.prior == "auto" and self.searcher == "auto" and self.pid is None and self.of is None
        return alone and not self.has_several

    def wants_record(self, space: Space | ConditionalSpace) -> bool:
        """Whether the search is to begin with a recording, as far as it can be told without the machine.

        Raises
        ------
        ConfigError : one is asked for and would be of no use
        """
        if self.prior == "none":
            return False
        why = ""
        if self.policy != DAMOS:
            why = f"a recording says nothing of {self.policy}"
        elif self.searcher != "auto":
            why = f"searcher '{self.searcher}' takes no prior; 'auto' does"
        elif self.pid is not None:
            why = "a running process has no runtime to predict"
        elif self.operations != "vaddr":
            why = f"operations '{self.operations}' see more than the workload's memory; 'vaddr' sees that"
        elif isinstance(space, ConditionalSpace) or not can_predict(space, self.make_scorer()):
            why = "a recording predicts min_age of a pageout scheme, for a score of runtime and RSS"
        if why and self.prior == "record":
            raise ConfigError(f"--prior record: {why}")
        return not why and (self.nr_trials >= RECORD_FROM or self.prior == "record")


def space_of(config: StudyConfig, tuning: Tuning) -> Space | ConditionalSpace:
    """The space of a study: the ranges asked for, or the workload's own, in steps of DAMON's aggregation interval."""
    if config.has_several:
        return ConditionalSpace({name: _space_of(config, name, tuning) for name in config.policies})
    return _space_of(config, config.policy, tuning)


def _space_of(config: StudyConfig, policy: str, tuning: Tuning) -> Space:
    """The space of one policy."""
    if policy != DAMOS:
        return Space(policy, catalog.rule(policy).space(config.tune))
    step = _monitoring(config.scheme).attrs.aggr_us
    if isinstance(config.tune, str):
        raise ConfigError(f"tune is a list: ['{config.tune}']")
    params = [parse_param(text, step) for text in config.tune]
    return Space(config.scheme, tuple(params) or (Param("min_age", "us", tuning.low_us, tuning.high_us, step),))


def _monitoring(template: str, operations: str = "vaddr") -> Context:
    """What a template says of the monitoring, which has no placeholders."""
    lines = template.splitlines()
    firsts = ["".join(line.split("#")[0].split()[:1]) for line in lines]
    if MODULE in firsts:
        return Context((), "paddr")
    # The other lines stay as empty ones, so that errors tell the right line.
    only = [line if word == ATTRS else "" for line, word in zip(lines, firsts, strict=True)]
    return Context.parse("\n".join(only), operations)


def default_of(policy: str, space: Space, tuning: Tuning) -> dict[str, int]:
    """The point of a policy's space that is nearest to its defaults; of ``damos`` to the manual scheme."""
    if policy == DAMOS:
        point: Params = {"min_age_us": tuning.manual_us}
    else:
        point = catalog.rule(policy).default_point(space.params)
    return {p.key: point[p.key] if p.choices else p.snap(point[p.key]) for p in space.params}


def searcher_of(config: StudyConfig, space: Space | ConditionalSpace, tuning: Tuning) -> Searcher | ConditionalSearcher:
    """The searcher of a study; ConfigError if there is none of this name."""

    def make(own: Space, nr_samples: int, seed: int) -> Searcher:
        return searchers.searcher(config.searcher, own, nr_samples, seed)

    if not isinstance(space, ConditionalSpace):
        return make(space, config.nr_trials, config.seed)
    defaults = {name: default_of(name, own, tuning) for name, own in space.branches.items()}
    return ConditionalSearcher(space, config.nr_trials, config.seed, make, defaults, config.league)


def policy_of(config: StudyConfig, space: Space | ConditionalSpace, point: Params) -> DamosPolicy | RulePolicy:
    """The policy of one point; a tuned quota belongs to each scheme."""
    if isinstance(space, ConditionalSpace):
        name = space.name(point)
        return _policy_of(config, name, space.branches[name], space.own(point))
    return _policy_of(config, config.policy, space, point)


def _policy_of(config: StudyConfig, policy: str, space: Space, point: Params) -> DamosPolicy | RulePolicy:
    if policy != DAMOS:
        return catalog.rule(policy).at(space.params, point)
    # Values are as wide as their placeholders, where they are short enough: errors tell the columns of the template.
    texts = {name: text.ljust(len(name)) for name, text in space.texts(point).items()}
    try:
        context = Context.parse(fill_template(space.template, texts), config.operations, space.words(point))
    except SchemeError as error:
        raise error.within(space.template) from None
    quotas = space.quotas(point)
    if quotas:
        limits = (quotas.get("time_ms", 0), quotas.get("sz_bytes", 0), QUOTA_RESET_MS)
        schemes = tuple(replace(scheme, quotas=_with_limits(scheme, *limits)) for scheme in context.schemes)
        context = replace(context, schemes=schemes)
    return DamosPolicy(context)


def _with_limits(scheme: Scheme, time_ms: int, sz_bytes: int, reset_interval_ms: int) -> Quotas:
    """A scheme's quotas with limits of its action's."""
    own = scheme.quotas
    return replace(
        limited(scheme.action, time_ms, sz_bytes, reset_interval_ms),
        goals=own.goals, goal_tuner=own.goal_tuner, fail_charge=own.fail_charge,
    )  # fmt: skip


def manual_policy(min_age_us: int, operations: str) -> DamosPolicy:
    """The manual scheme: the paper's prcl."""
    return DamosPolicy(Context.parse(fill_template(PRCL, {"MIN_AGE": format_us(min_age_us)}), operations))
