"""What an agent answers to each of its calls, checked when it arrives: the machine may be another's.

The agent's own docstrings say what the values are.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Annotated, Any, Literal, NotRequired

from pydantic import AfterValidator, ConfigDict, Field, TypeAdapter, with_config
from typing_extensions import TypedDict  # Pydantic takes typing's own only from Python 3.12 on

from damoos.agent.children import OUTPUT_BYTES
from damoos.agent.meter import SAMPLE_COLUMNS
from damoos.agent.metric_files import FILES_BYTES, MOST_FILES
from damoos.common.terminal import plain
from damoos.common.unpack import MALFORMED, MOST_NUMBER, in_short
from damoos.errors import MachineError

Text = Annotated[str, Field(max_length=1 << 16), AfterValidator(plain)]
# What a program has printed.
Output = Annotated[str, Field(max_length=OUTPUT_BYTES)]
# What is kept of them has to fit where it is kept: Parquet's integers, and numbers of `damoos.store.forms`.
_MOST_COUNT = 1 << 63
Int = Annotated[int, Field(strict=True, gt=-_MOST_COUNT, lt=_MOST_COUNT)]
Bytes = Annotated[Int, Field(ge=0)]
Flag = Annotated[bool, Field(strict=True)]
# What a program or a command reports may be anything.
Finite = Int | Annotated[float, Field(strict=True, gt=-MOST_NUMBER, lt=MOST_NUMBER)]
# In seconds, 30,000 years; microseconds and shares have the bound, too.
_MOST_TIME = 1e12
Time = Annotated[float, Field(strict=True, gt=-_MOST_TIME, lt=_MOST_TIME)]
# No clock tells less than a nanosecond, and no CPU executes more than that a second.
Positive = Annotated[float, Field(strict=True, ge=1e-9, lt=_MOST_TIME)]


def _is_count(number: float) -> float:
    """Refuse what the kernel does not count to; NaN is what it does not tell."""
    if abs(number) >= _MOST_COUNT:
        raise ValueError(f"{number:.3g} is more than the kernel counts")
    return number


Number = Int | Annotated[float, Field(strict=True), AfterValidator(_is_count)]
# Nothing more is told; and more may be told, which is passed on.
_closed = with_config(ConfigDict(extra="forbid"))
_open = with_config(ConfigDict(extra="allow"))


@_closed
class Hello(TypedDict):
    """Its first words."""

    pid: Int


@_closed
class DamonStat(TypedDict):
    """`damoos.agent.damon_stat.readings`."""

    idle_ms_percentiles: list[Int]
    bandwidth_bytes_per_s: Bytes
    aggr_us: Bytes | None


@_closed
class Facts(TypedDict):
    """What a machine is; a session adds what it knows beside."""

    kernel: Text
    kernel_version: Text
    arch: Text
    hostname: Text
    vcpus: Annotated[Int, Field(gt=0, lt=1 << 20)]
    mem_bytes: Annotated[Int, Field(gt=0)]
    swap_bytes: Bytes
    cmdline: Text
    boot_id: Text
    damon_in_use: Text
    damon_stat: DamonStat | None
    flushes_tlb: Flag
    has_thp: Flag
    metrics: list[Text]
    records: Literal["trace", "tried_regions"] | None
    left_behind: list[Text]


@_closed
class Look(TypedDict):
    """What can be known of a machine without having it."""

    kernel: Text
    hostname: Text
    boot_id: Text
    mem_bytes: Annotated[Int, Field(gt=0)]
    uid: Int
    damon_in_use: Text
    has_damon_stat: Flag
    damon_stat: DamonStat | None


def _is_an_offer(words: dict[str, list[str]]) -> dict[str, list[str]]:
    """Refuse what is not nothing and lacks what every kernel with DAMON has, or what is read of every offer."""
    if words and not all(words.get(name) for name in ("interfaces", "operations", "actions")):
        raise ValueError("it names no interfaces, operations or actions")
    if words and not {"files", "modules"} <= set(words):
        raise ValueError("it does not say which files and modules there are")
    return words


@_closed
class Node(TypedDict):
    """`damoos.agent.nodes.nodes`."""

    node: Int
    sz_bytes: Bytes
    has_cpus: Flag
    tier: Int | None


@_closed
class State(TypedDict):
    """`damoos.agent.state.state`."""

    uid: Int
    mem_available_bytes: Bytes
    swaps: list[Text]
    cgroup_v2: Flag
    cgroups: Flag
    psi: Flag
    emulated: Flag
    clocksource: Text
    nodes: list[Node]
    wall_s: Time
    boot_s: Time


_Pieces = Annotated[list[Positive], Field(min_length=2)]


@_closed
class Steadiness(TypedDict):
    """`damoos.agent.timing_noise.steadiness`."""

    a_s: _Pieces
    b_s: _Pieces
    elapsed_s: Positive
    steal_s: Time
    others_cpu_s: Time


def _are_pairs(measured: Any) -> Any:
    """Refuse what has not as many pieces of A as of B."""
    if len(measured["a_s"]) != len(measured["b_s"]):
        raise ValueError("it has not as many pieces of A as of B")
    return measured


@_closed
class SeenAccesses(TypedDict):
    """`damoos.agent.access_probe.seen_accesses`."""

    accessed: Time
    idle: Time


@_closed
class SwapCost(TypedDict):
    """`damoos.agent.paging_cost.swap_cost`."""

    pageout_us: Time
    fault_us: Time
    rounds: list[list[Time]]


@_open
class Usage(TypedDict):
    """What each role of a run reports, and the run itself."""

    user_s: Time
    system_s: Time
    counters: dict[Text, Number]
    psi_us: dict[Text, Number]
    peak_bytes: Number
    sample_columns: list[Text]
    samples: list[list[Number]]


def _are_tables(usage: Any) -> Any:
    """Refuse samples that are no table, or lack a column."""
    columns = usage["sample_columns"]
    if not set(SAMPLE_COLUMNS) <= set(columns) or any(len(row) != len(columns) for row in usage["samples"]):
        raise ValueError("its samples are not those of a run")
    return usage


_Usage = Annotated[Usage, AfterValidator(_are_tables)]


@_closed
class DamosDone(TypedDict, total=False):
    """`damoos.damon.stats.DamosStats`."""

    nr_tried: Int
    sz_tried_bytes: Int
    nr_applied: Int
    sz_applied_bytes: Int
    qt_exceeds: Int
    sz_ops_filter_passed_bytes: Int
    nr_snapshots: Int


@_open
class Controller(TypedDict):
    """What a rule in user space has spent."""

    cpu_s: Time


@_closed
class WriteLimit(TypedDict):
    """`damoos.agent.write_limit.WriteLimit.told`."""

    bytes_per_s: Number
    limited_s: Time


@_closed
class Recorded(TypedDict):
    """What came of a recording."""

    sent_bytes: Bytes
    lost_events: Bytes
    full: Flag


@_open
class Done(Usage):
    """What a run and a window of a live process have in common."""

    exit_status: Int
    aborted: Flag
    runtime_s: Positive
    kdamond_cpu_s: Time
    sampling_cpu_s: Time
    oom_kills: Int
    damos: list[DamosDone]
    accepted: dict[Text, Text]
    swapped_to: dict[Text, Bytes]
    huge_pages: dict[Text, Text]
    roles: NotRequired[dict[Text, _Usage]]
    controller: NotRequired[Controller]
    record: NotRequired[Recorded]
    began_s: NotRequired[Time]
    swap_write_limit: NotRequired[WriteLimit]
    placement: NotRequired[dict[Text, dict[Text, Int]]]
    tuned_intervals: NotRequired[dict[Text, Int]]
    left_on_swap_bytes: NotRequired[Bytes]
    kdamond_restarts: NotRequired[Int]


def _are_few(files: dict[str, str]) -> dict[str, str]:
    """Refuse more than an agent sends."""
    if len(files) > MOST_FILES or sum(map(len, files.values())) > FILES_BYTES:
        raise ValueError(f"its files are more than {MOST_FILES}, or larger than {FILES_BYTES >> 20} MiB")
    return files


@_open
class Ran(Done):
    """What a run has come to."""

    stdout: Output
    stderr: Output
    files: Annotated[dict[str, str], AfterValidator(_are_few)]


@_open
class Observed(Done):
    """What a window of a live process has come to."""

    readings: dict[Text, list[Finite]]


@_closed
class Applied(TypedDict):
    """What was put into service."""

    pid: Int
    started: Int | None
    accepted: dict[Text, Text]
    swap_bytes: Bytes


@_closed
class Reading(TypedDict):
    """What a guard judges by."""

    at_s: Time
    is_group: Flag
    psi_us: dict[Text, Int]
    counters: dict[Text, Int]
    memory_bytes: Bytes | None
    swap_bytes: Bytes | None
    compressed_bytes: Bytes | None
    metrics: dict[Text, Finite]
    ages_s: dict[Text, Finite]
    missing: dict[Text, Text]


@_closed
class NotInService(TypedDict):
    """What an agent says that has begun since."""

    in_service: Literal[False]
    alive: Flag


@_closed
class InService(TypedDict):
    """How what is in service is doing: all that `damoos.service.kept` reads, and passes on to its state."""

    in_service: Literal[True]
    alive: Flag
    in_force: Flag
    paused: Flag
    pid: Int
    nr_processes: Int
    rss_bytes: Bytes
    for_s: Time
    restarts: Int
    changed: list[Text]
    why: NotRequired[Text]
    damos: NotRequired[list[DamosDone]]
    # A quota without an end is the largest number of 64 bits.
    effective_bytes: NotRequired[list[Annotated[int, Field(strict=True, ge=0, lt=1 << 64)]]]
    # A rule may have decided on no end.
    rule: NotRequired[dict[Text, Int | Annotated[float, Field(strict=True)]]]
    kdamond_cpu_s: NotRequired[Time]
    reading: NotRequired[Reading]


_Words = list[Text]
_ANSWERS: dict[str, Any] = {
    "hello": Hello, "facts": Facts, "look": Look, "state": State, "swap_cost": SwapCost,
    "instruction_rate": Positive | None,
    "steadiness": Annotated[Steadiness, AfterValidator(_are_pairs)],
    "seen_accesses": SeenAccesses,
    "probe": Annotated[dict[Text, _Words], AfterValidator(_is_an_offer)], "tryout": dict[Text, Bytes],
    "features": dict[Text, Text], "which": Text | None, "clean": _Words, "bye": _Words, "leave": _Words,
    "prepare": None, "set_wall_clock": None, "run": Annotated[Ran, AfterValidator(_are_tables)],
    "observe": Annotated[Observed, AfterValidator(_are_tables)], "apply": Applied,
    "status": Annotated[InService | NotInService, Field(discriminator="in_service")],
    "commit": dict[Text, Text], "renew": Flag, "pause": None, "resume": None, "stop": None,
    "regions": list[Annotated[list[Int], Field(min_length=4, max_length=4)]],
}  # fmt: skip


@cache
def _adapter(name: str) -> TypeAdapter[Any]:
    return TypeAdapter(_ANSWERS[name])


def checked(name: str, result: Any) -> Any:
    """The result of a call, if it is one; that of a call that no agent has, as it is.

    Raises
    ------
    MachineError : it is none
    """
    if name not in _ANSWERS:
        return result
    try:
        return _adapter(name).validate_python(result)
    except MALFORMED as error:
        raise MachineError(f"the machine's answer to '{name}' is none: {in_short(error)}") from None


@contextmanager
def computed_with(machine: str) -> Iterator[None]:
    """Where code computes with a machine's answers: whatever cannot be, although each has its form, is the machine's.

    Parameters
    ----------
    machine : str
        Its name, for the message.

    Raises
    ------
    MachineError : in place of what Python raises where numbers do not fit together
    """
    try:
        yield
    except MALFORMED as error:
        raise MachineError(f"machine '{machine}': its answers cannot be computed with: {in_short(error)}") from error
