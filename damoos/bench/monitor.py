"""How well DAMON sees, and what that costs: recordings of access patterns whose truth is known."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from damoos.dispatch.lease import Lease
from damoos.errors import ConfigError, UnsupportedError
from damoos.model.trial import Measurement
from damoos.policies.base import NonePolicy, RecordPolicy
from damoos.recordings.journal import Journal
from damoos.recordings.recording import Recording
from damoos.recordings.region_count import region_count
from damoos.scorers.terms import slowdown
from damoos.statistics.intervals import interval
from damoos.study.run_config import RunConfig
from damoos.workloads import catalog
from damoos.workloads.base import PatternWorkload, Tuning

Say = Callable[[str], None]
PATTERNS = ("synthetic/stairs", "synthetic/zigzag", "synthetic/hot-cold", "synthetic/phases")
CONFIGS = {"rec": "vaddr", "prec": "paddr"}
# A region is called hot from this share of the samples on.
HOT = 0.25
# Of a target whose size is chosen: the hot part, and how long it is worked on. Sequential accesses reach each hot page
# of the largest target once per sampling interval, as slow as emulation is.
HOT_SHARE, WORK_MS, RATE = 16, 8000, 10_000
# A guest needs this much more than the target.
ROOM = 1.25
_LIMIT_S = 600.0


@dataclass(frozen=True)
class Accuracy:
    """What DAMON said of one run against the truth; means over time.

    Parameters
    ----------
    precision, recall : float
        Of the bytes that DAMON calls hot, the share that is; of those that are, the share that DAMON calls so.
    wss_error : float
        Mean distance of the working-set size from the truth, as a share of it.
    snapshots : int
        How many lay whole within a phase of the pattern.
    """

    precision: float
    recall: float
    wss_error: float
    snapshots: int


@dataclass(frozen=True)
class Row:
    """A workload under one kind of monitoring; intervals are of 95 %, over the rounds."""

    what: str
    target_bytes: float
    config: str
    rounds: int
    slowdown: float
    slowdown_ci95: tuple[float, float]
    kdamond_cpu: float
    regions: float
    regions_max: int
    bound: int
    accuracy: Accuracy | None


class ToldWorkload(PatternWorkload):
    """A pattern that keeps what ``mempat`` said of its last run: where its regions were, and when its phases."""

    told: Mapping[str, Any]

    def metrics(self, raw: Mapping[str, Any]) -> dict[str, float]:
        """Metrics of the run; its report is kept, too."""
        metrics = super().metrics(raw)
        self.told = json.loads(raw["stdout"])
        return metrics


def truth(told: Mapping[str, Any], pattern: str) -> list[tuple[float, float, list[tuple[int, int]]]]:
    """Phases but for the first, which fills the memory: begin and end (seconds), and what is accessed in it.

    Parameters
    ----------
    told : mapping
        Report of ``mempat``.
    pattern : str
        Text of the pattern file.
    """
    where = {region["name"]: (region["address"], region["address"] + region["bytes"]) for region in told["regions"]}
    blocks = [block.strip().splitlines() for block in pattern.strip().split("\n\n")]
    used = {lines[0]: {line.split(",")[0].strip() for line in lines[2:]} for lines in blocks[1:]}
    return [
        (phase["start"], phase["start"] + phase["seconds"], sorted(where[name] for name in used[phase["name"]]))
        for phase in told["phases"][1:]
    ]


def accuracy(recording: Recording, phases: Sequence[tuple[float, float, list[tuple[int, int]]]]) -> Accuracy:
    """Hot bytes and working set of every snapshot that lies whole within a phase.

    Raises
    ------
    ConfigError : none does
    """
    rows = []
    for nth in range(recording.nr_snapshots):
        begin, end = recording.start_s[nth], recording.end_s[nth]
        hot = next((spans for start, stop, spans in phases if start <= begin and end <= stop), None)
        if hot is None:
            continue
        own = slice(recording.first[nth], recording.first[nth + 1])
        true = sum(stop - start for start, stop in hot)
        size, seen = recording.sz_bytes[own], recording.frequency[own]
        right = sum(_overlap(recording.start[own], recording.end[own], span) for span in hot)
        called = seen >= HOT
        called_bytes, both = float(size[called].sum()), float(right[called].sum())
        wss = float(size[seen > 0].sum())
        rows.append((both / called_bytes if called_bytes else np.nan, both / true, abs(wss - true) / true))
    if not rows:
        raise ConfigError("no snapshot lies completely within one phase of the pattern")
    precision, recall, error = np.nanmean(np.array(rows), axis=0)
    return Accuracy(float(precision), float(recall), float(error), len(rows))


def _overlap(start: Any, end: Any, span: tuple[int, int]) -> Any:
    return np.maximum(0, np.minimum(end, span[1]) - np.maximum(start, span[0]))


def run(machine: str, sizes: Sequence[int], rounds: int, say: Say) -> tuple[dict[str, Any], list[Row]]:
    """Every pattern, and a pattern of each size: without monitoring, recorded, and with the whole machine recorded.

    Parameters
    ----------
    sizes : sequence of int, bytes
    rounds : int
        Of each, in turns.

    Returns
    -------
    (dict, list of Row)
        What the machine is, and the rows.
    """
    config = RunConfig(workload="synthetic/stairs", machine=machine)
    with tempfile.TemporaryDirectory() as folder, Lease(config.machine_for(), say) as lease:
        largest = max(sizes, default=0)
        if largest * ROOM > lease.facts["mem_bytes"]:
            raise UnsupportedError(
                f"machine '{machine}' has {lease.facts['mem_bytes'] >> 20} MiB of memory, and a target of"
                f" {largest >> 20} MiB needs {int(largest * ROOM) >> 20}; --machine large has 4 GiB"
            )
        rows: list[Row] = []
        for name, pattern, rate in [*_shipped(), *_sized(sizes, Path(folder))]:
            workload = ToldWorkload(name, pattern, rate, 1, 0, Tuning())
            rows += _rows(lease, workload, pattern.read_text(), rounds)
            for row in rows[-len(CONFIGS) :]:
                say(text([row])[-1])
        return dict(lease.facts), rows


def _shipped() -> Iterator[tuple[str, Path, int]]:
    for name in PATTERNS:
        path, file = catalog.find(name)
        assert file.pattern
        yield name, path.parent / file.pattern.file, file.pattern.rate


def _sized(sizes: Sequence[int], folder: Path) -> Iterator[tuple[str, Path, int]]:
    for size in sizes:
        hot, cold = size // HOT_SHARE, size - size // HOT_SHARE
        path = folder / f"{size}.pattern"
        fill = f"fill\n100\nhot, 0, 4096, 1\ncold, 0, 4096, {HOT_SHARE - 1}\n"
        path.write_text(f"#regions\nhot, {hot}\ncold, {cold}\n\n{fill}\nwork\n{WORK_MS}\nhot, 0, 4096, 1, ro\n")
        yield f"target of {size >> 20} MiB", path, RATE


def _rows(lease: Lease, workload: ToldWorkload, pattern: str, rounds: int) -> list[Row]:
    runs: dict[str, list[Measurement]] = {"baseline": [], **{name: [] for name in CONFIGS}}
    seen: dict[str, list[Recording]] = {name: [] for name in CONFIGS}
    accuracies: list[Accuracy] = []
    for number in range(rounds):
        names = list(runs)
        turn = number % len(names)
        for name in [*names[turn:], *names[:turn]]:
            if name == "baseline":
                runs[name].append(lease.run(workload, NonePolicy(), _LIMIT_S)[0])
                continue
            policy = RecordPolicy(CONFIGS[name])
            journal = Journal(policy.operations, policy.attrs)
            runs[name].append(lease.run(workload, policy, _LIMIT_S, sink=journal)[0])
            seen[name].append(journal.recording({}))
            if policy.operations == "vaddr":
                accuracies.append(accuracy(seen[name][-1], truth(workload.told, pattern)))
    return [_row(workload.name, name, runs, seen[name], accuracies) for name in CONFIGS]


def _row(
    what: str,
    config: str,
    runs: Mapping[str, Sequence[Measurement]],
    seen: Sequence[Recording],
    accuracies: Sequence[Accuracy],
) -> Row:
    pairs = zip(runs["baseline"], runs[config], strict=True)
    slowdowns = [slowdown(under, base) for base, under in pairs]
    shares = [run.metric("kdamond_cpu_s") / run.metric("runtime_s") for run in runs[config]]
    counts = [region_count(recording).nr_regions for recording in seen]
    means = {
        name: float(np.mean([getattr(accuracy, name) for accuracy in accuracies]))
        for name in ("precision", "recall", "wss_error")
    }
    vaddr = CONFIGS[config] == "vaddr"
    return Row(
        what,
        float(np.mean([run.metric("rss_max_bytes") for run in runs["baseline"]])),
        config,
        len(slowdowns),
        float(np.mean(slowdowns)),
        interval(slowdowns),
        float(np.mean(shares)),
        float(np.mean([count.mean() for count in counts])),
        max(int(count.max()) for count in counts),
        seen[0].attrs.max_nr_regions,
        Accuracy(**means, snapshots=sum(accuracy.snapshots for accuracy in accuracies)) if vaddr else None,
    )


_COLUMNS = (
    "workload", "RSS", "config", "slowdown (95 %)", "kdamond CPU", "regions, most", "bound", "precision", "recall",
    "WSS error",
)  # fmt: skip


def text(rows: Sequence[Row]) -> list[str]:
    """The table, as Markdown."""
    lines = [f"| {' | '.join(_COLUMNS)} |", "| --- " * len(_COLUMNS) + "|"]
    for row in rows:
        low, high = row.slowdown_ci95
        seen = row.accuracy
        shares = ["-"] * 3 if seen is None else [f"{seen.precision:.1%}", f"{seen.recall:.1%}", f"{seen.wss_error:.1%}"]
        kept = "kept" if row.regions_max <= row.bound else "broken"
        cells = [
            row.what,
            f"{row.target_bytes / (1 << 20):.0f} MiB",
            row.config,
            f"{row.slowdown:+.1%} [{low:+.1%}, {high:+.1%}]",
            f"{row.kdamond_cpu:.2%}",
            f"{row.regions:.0f}, {row.regions_max}",
            f"{row.bound}, {kept}",
            *shares,
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def as_json(row: Row) -> dict[str, Any]:
    """A row as plain values."""
    return asdict(row)
