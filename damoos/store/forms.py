"""What the store holds of a study: the keys that every reader relies on, and their types.

A store may be another person's, or damaged. Values are checked where `damoos.store.studies` takes them from it, and
stay as they are; keys that no reader relies on are not looked at.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, Literal, NotRequired, TypeVar

from pydantic import AfterValidator, ConfigDict, Field, TypeAdapter, with_config
from typing_extensions import TypedDict  # Pydantic takes typing's own only from Python 3.12 on

from damoos.common.unpack import MALFORMED, MOST_NUMBER, in_short
from damoos.errors import StoreError

_T = TypeVar("_T")
# More than anything is counted to, and squares of numbers under it are numbers.
_MOST_COUNT = 10**30
# A study has at most `damoos.words.studies.MOST_TRIALS` trials.
_MOST_NUMBER = 10**6


def _is_real(number: float) -> float:
    """Refuse what cannot be computed with; NaN is what nobody knows."""
    if abs(number) >= MOST_NUMBER:
        raise ValueError(f"{number:.3g} is no number of damoos's")
    return number


Flag = Annotated[bool, Field(strict=True)]
Count = Annotated[int, Field(strict=True, gt=-_MOST_COUNT, lt=_MOST_COUNT)]
Number = Annotated[int, Field(strict=True, ge=0, lt=_MOST_NUMBER)]
Finite = Annotated[float, Field(strict=True, gt=-MOST_NUMBER, lt=MOST_NUMBER)]
Positive = Annotated[float, Field(strict=True, gt=0, lt=MOST_NUMBER)]
Real = Annotated[float, Field(strict=True), AfterValidator(_is_real)]
Point = dict[str, Count]
Ends = Annotated[list[Finite], Field(min_length=2, max_length=2)]
# Nothing more is stored; and more may be, which only some readers ask for.
_closed = with_config(ConfigDict(extra="forbid"))
_open = with_config(ConfigDict(extra="allow"))


@_closed
class DamosDone(TypedDict, total=False):
    """`damoos.damon.stats.DamosStats`."""

    nr_tried: Count
    sz_tried_bytes: Count
    nr_applied: Count
    sz_applied_bytes: Count
    qt_exceeds: Count
    sz_ops_filter_passed_bytes: Count
    nr_snapshots: Count


@_open
class Provenance(TypedDict):
    """Where a run was."""

    host: NotRequired[str | None]


@_closed
class Measurement(TypedDict):
    """`damoos.model.trial.Measurement`."""

    metrics: dict[str, Real]
    damos: list[DamosDone]
    provenance: Provenance
    censored: Flag


@_closed
class Run(TypedDict):
    """`damoos.model.trial.Run`."""

    index: Number
    kind: str
    number: Number
    arm: NotRequired[str]
    params: NotRequired[Point | None]
    measurement: Measurement | None
    error: NotRequired[str]


@_open
class Score(TypedDict):
    """What a trial was worth when it ended."""

    value: Finite | None
    margins: NotRequired[dict[str, Finite]]


@_closed
class Param(TypedDict):
    """`damoos.model.space.Param`."""

    name: str
    unit: str
    low: Count
    high: Count
    step: Count
    choices: NotRequired[list[str]]


@_open
class Facts(TypedDict):
    """What a machine is."""

    kernel: str
    kernel_version: NotRequired[str | None]
    accel: str
    clock: str
    vcpus: Count
    mem_bytes: Count


@_closed
class Setting(TypedDict):
    """`damoos.study.study.Setting`."""

    workload_identity: str
    variant: str
    note: str
    params: list[Param]
    manual_us: Count
    facts: Facts
    commit: str | None
    reports: NotRequired[list[str]]
    record: NotRequired[Flag]
    has_runtime: NotRequired[Flag]
    like: NotRequired[list[str]]
    time_scale: NotRequired[Annotated[Count, Field(gt=0)]]  # of older studies


@_closed
class Experience(TypedDict):
    """`damoos.prediction.transfer.Experience`."""

    study: str
    where: str
    variant: str
    points: list[Point]
    gains: list[Finite | None]
    margins: list[Finite]


@_open
class Machine(TypedDict):
    """On which a study ran."""

    name: str
    kernel: str
    accel: str


@_open
class Origin(TypedDict):
    """What made a result."""

    damoos: str
    commit: str | None


@_open
class About(TypedDict):
    """What all results begin with: `damoos.study.result.about`."""

    study: str
    workload: str
    variant: str
    machine: Machine
    provenance: Origin
    elapsed_s: Finite


@_open
class Scheme(TypedDict):
    """A policy at a point of the space; choices are words."""

    params: dict[str, Count | str]
    scheme: str
    damo: dict[str, object] | None


@_open
class Arm(TypedDict):
    """An arm of the validation."""

    score: Finite | None
    score_ci95: Ends | None
    feasible: Flag
    limits: Literal["kept", "not shown", "broken"]
    runtime_s: Positive
    rss_avg_bytes: Positive
    net_avg_bytes: Finite
    kdamond_cpu: Finite
    policy_cpu_share: NotRequired[Finite]
    sz_applied_bytes: NotRequired[Count | None]
    slowdown: NotRequired[Finite]
    spare_core_slowdown: NotRequired[Finite | None]
    reports: NotRequired[dict[str, Finite]]
    repeats: Count
    failures: NotRequired[Count]
    params: NotRequired[dict[str, Count | str]]
    scheme: NotRequired[str | None]


def _tells_of_its_slowdown(arm: Arm) -> Arm:
    """Refuse a slowdown without what is told beside it."""
    if "slowdown" in arm and not {"spare_core_slowdown", "policy_cpu_share"} <= set(arm):
        raise ValueError("it has a slowdown, but no spare_core_slowdown or policy_cpu_share")
    return arm


@_open
class Direction(TypedDict):
    """What was scored by."""

    direction: Literal["maximize", "minimize"]
    limits: list[str]


@_open
class Drift(TypedDict):
    """How far the baselines lie apart."""

    runtime_s: Finite
    rss_avg_bytes: Finite


@_open
class EarlyAbort(TypedDict):
    """What stopping hopeless runs saved."""

    runs: Count
    saved_s: Finite


@_open
class Outlier(TypedDict):
    """A run that lay far beyond the others, and was done again."""

    run: str
    metrics: dict[str, Real]


@_open
class Failure(TypedDict):
    """A run of the validation that failed."""

    run: str
    arm: str
    error: str


@_open
class Shrinkage(TypedDict):
    """What the search owed to luck."""

    searched: Finite
    validated: Finite
    shrinkage: Finite


@_open
class Trial(TypedDict):
    """A trial."""

    number: Number
    params: dict[str, Count | str]


@_open
class Expected(TypedDict):
    """What a recording let one expect of a trial."""

    slowdown: Finite
    memory_saving: Finite
    chance: NotRequired[Finite | None]


@_open
class Measured(TypedDict):
    """What a trial then had."""

    slowdown: Finite | None
    memory_saving: Finite | None
    feasible: Flag


@_open
class Foretold(TypedDict):
    """A trial of which a recording told."""

    number: Number
    predicted: Expected | None
    measured: Measured


@_open
class Forecast(TypedDict):
    """What a recording told of the trials."""

    kept: Flag
    trials: list[Foretold]


@_open
class Believed(TypedDict):
    """A finished study, and how much it was believed."""

    study: str
    where: str
    believed: NotRequired[Finite]


@_open
class Transfer(TypedDict):
    """What finished studies told of the trials."""

    kept: Flag
    studies: list[Believed]


@_open
class Tuned(About):
    """`damoos.study.result.result_of`."""

    of: NotRequired[str | None]
    score: Direction
    memory_limits: NotRequired[dict[str, Count]]
    baselines: list[object]
    drift: Drift
    trials: list[Trial]
    early_abort: EarlyAbort
    outliers: NotRequired[list[Outlier]]
    failures: NotRequired[list[Failure]]
    prediction: NotRequired[Forecast | None]
    transfer: NotRequired[Transfer | None]
    recommended: Scheme | None
    manual: Scheme
    validation: dict[str, Annotated[Arm, AfterValidator(_tells_of_its_slowdown)]] | None
    shrinkage: Shrinkage | None
    verdict: str
    verdict_text: str


@_open
class Quantity(TypedDict):
    """`damoos.statistics.summary.told`."""

    mean: Finite
    ci95: Ends | None
    values: Annotated[list[Finite], Field(min_length=1)]


@_open
class Applied(TypedDict):
    """Sums over all schemes of a configuration's runs."""

    sz_applied_bytes: Count


@_open
class Configuration(TypedDict):
    """`damoos.study.configurations.config_json`."""

    scheme: str | None
    thp: object
    nr_runs: Count
    error: str
    quantities: dict[str, Quantity]
    damos: Applied
    reports: NotRequired[dict[str, Quantity]]
    roles: NotRequired[dict[str, dict[str, Quantity]]]
    memory_limits: NotRequired[dict[str, Count]]


# What every run of a configuration has, so that no reader asks whether it is there.
_ALWAYS = {"runtime_s", "rss_avg_bytes", "anon_huge_avg_bytes", "performance", "memory_efficiency", "kdamond_cpu",
           "slowdown", "bloat"}  # fmt: skip


def _has_quantities(config: Configuration) -> Configuration:
    """Refuse a configuration that neither failed nor has what all have."""
    if not config["error"] and (missing := sorted(_ALWAYS - set(config["quantities"]))):
        raise ValueError(f"it has no quantity '{missing[0]}'")
    return config


@_open
class Compared(About):
    """`damoos.study.configurations.result_of`."""

    repeats: Count
    time_scale: NotRequired[Annotated[Count, Field(gt=0)]]  # of older studies
    configs: dict[str, Annotated[Configuration, AfterValidator(_has_quantities)]]


@_closed
class Prediction(TypedDict):
    """`damoos.prediction.prior.Prediction`."""

    found: dict[str, Finite | list[Finite]]
    cost: dict[str, Finite]
    runtime_s: Finite
    resolution_us: Finite


WORDS: dict[str, tuple[str, object]] = {
    "created": ("the time when it began is none", str),
    "setting": ("what it has found on its machine is damaged", Setting),
    "peak_bytes": ("the peak of its memory is none", Finite),
    "elapsed_s": ("the time that it took is none", Finite),
    "experiences": ("what finished studies told it is damaged", list[Experience]),
    "prediction": ("what a recording told it is damaged", Prediction),
}
"""What is said of a study's word that has not its form, and the form; other words are checked by their readers."""


@cache
def _adapter(form: Any) -> TypeAdapter[object]:
    return TypeAdapter(form)


def checked(study: str, what: str, form: Any, value: _T, use: Literal["read", "written"] = "read") -> _T:
    """A value that a store holds of a study, or will hold, if it has the form of one.

    Parameters
    ----------
    study : str
        The study's name.
    what : str
        What the value is, for the message.
    form : type
        One of this module's, or a list of them.
    value : any
        Of JSON.
    use : {"read", "written"}
        For the message. What has another form when it is written would keep the whole study from being read.

    Raises
    ------
    StoreError : it has another form
    """
    try:
        _adapter(form).validate_python(value)
    except MALFORMED as error:
        raise StoreError(f"study '{study}' cannot be {use}: {what} ({in_short(error)})") from None
    return value
