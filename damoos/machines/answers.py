"""What an agent answers to each of its calls, checked when it arrives: the machine may be another's.

The agent's own docstrings say what the values are.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, Literal, NotRequired

from pydantic import AfterValidator, ConfigDict, Field, TypeAdapter, with_config
from typing_extensions import TypedDict  # Pydantic takes typing's own only from Python 3.12 on

from damoos.agent.children import OUTPUT_BYTES
from damoos.agent.meter import SAMPLE_COLUMNS
from damoos.agent.metric_files import FILES_BYTES, MOST_FILES
from damoos.common.terminal import plain
from damoos.common.unpack import MALFORMED, in_short
from damoos.errors import MachineError

Text = Annotated[str, Field(max_length=1 << 16), AfterValidator(plain)]
# What a program has printed.
Output = Annotated[str, Field(max_length=OUTPUT_BYTES)]
Int = Annotated[int, Field(strict=True, gt=-(1 << 63), lt=1 << 64)]
Bytes = Annotated[Int, Field(ge=0)]
Flag = Annotated[bool, Field(strict=True)]
Finite = Int | Annotated[float, Field(strict=True, allow_inf_nan=False)]
Positive = Annotated[float, Field(allow_inf_nan=False, gt=0)]
# NaN is what the kernel does not tell.
Number = Int | Annotated[float, Field(strict=True)]
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
    """Refuse what is not nothing and lacks what every kernel with DAMON has."""
    if words and not all(words.get(name) for name in ("interfaces", "operations", "actions")):
        raise ValueError("it names no interfaces, operations or actions")
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
    wall_s: Finite
    boot_s: Finite


_Pieces = Annotated[list[Positive], Field(min_length=2)]


@_closed
class Steadiness(TypedDict):
    """`damoos.agent.timing_noise.steadiness`."""

    a_s: _Pieces
    b_s: _Pieces
    elapsed_s: Positive
    steal_s: Finite
    others_cpu_s: Finite


def _are_pairs(measured: Any) -> Any:
    """Refuse what has not as many pieces of A as of B."""
    if len(measured["a_s"]) != len(measured["b_s"]):
        raise ValueError("it has not as many pieces of A as of B")
    return measured


@_closed
class SeenAccesses(TypedDict):
    """`damoos.agent.access_probe.seen_accesses`."""

    accessed: Finite
    idle: Finite


@_closed
class SwapCost(TypedDict):
    """`damoos.agent.paging_cost.swap_cost`."""

    pageout_us: Finite
    fault_us: Finite
    rounds: list[list[Finite]]


@_open
class Usage(TypedDict):
    """What each role of a run reports, and the run itself."""

    user_s: Finite
    system_s: Finite
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

    cpu_s: Finite


@_open
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
    runtime_s: Annotated[float, Field(strict=True, allow_inf_nan=False, ge=0)]
    kdamond_cpu_s: Number
    sampling_cpu_s: Finite
    oom_kills: Int
    damos: list[DamosDone]
    accepted: dict[Text, Any]
    swapped_to: dict[Text, Bytes]
    huge_pages: dict[Text, Any]
    roles: NotRequired[dict[Text, _Usage]]
    controller: NotRequired[Controller]
    record: NotRequired[Recorded]
    began_s: NotRequired[Finite]
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


@_open
class Applied(TypedDict):
    """What was put into service."""

    pid: Int
    started: Int | None
    accepted: dict[Text, Any]
    swap_bytes: Bytes


@_open
class Reading(TypedDict):
    """What a guard judges by."""

    at_s: Finite
    is_group: Flag
    psi_us: dict[Text, Number]
    counters: dict[Text, Number]
    memory_bytes: Bytes | None
    swap_bytes: Bytes | None
    compressed_bytes: Bytes | None
    metrics: dict[Text, Finite]
    missing: dict[Text, Text]


@_open
class Status(TypedDict):
    """How what is in service is doing."""

    in_service: Flag
    alive: Flag
    in_force: NotRequired[Flag]
    paused: NotRequired[Flag]
    pid: NotRequired[Int]
    nr_processes: NotRequired[Int]
    rss_bytes: NotRequired[Bytes]
    for_s: NotRequired[Finite]
    restarts: NotRequired[Int]
    changed: NotRequired[list[Text]]
    damos: NotRequired[list[DamosDone]]
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
    "observe": Annotated[Observed, AfterValidator(_are_tables)], "apply": Applied, "status": Status,
    "commit": dict[Text, Any], "renew": Flag, "pause": None, "resume": None, "stop": None,
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
