"""Figures of the TMO, the DAOS and the KLOCs paper, measured again in guests. `make bench-published` runs this.

    tests/bench/published.py STUDIES [NAME ...]

What has been measured is kept in results/curated/published, a file for each figure, and is not measured again; so a run
that was interrupted goes on where it stopped. In the end the tables of docs/published.md are made from all that is
kept. The raw data of the studies lies in STUDIES.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from generate.results import CURATED, TOP, between

from damoos.api.comparisons import Evaluated, evaluate
from damoos.errors import DamoosError
from damoos.machines.catalog import KERNEL
from damoos.report.charts import Axis, Chart, Panel, Points
from damoos.report.charts.style import nth
from damoos.report.comparison import over_time
from damoos.statistics.summary import told
from damoos.study.study import EvaluationStudy
from damoos.sweeps import sweep as sweeps
from damoos.units import MIB

HERE = Path(__file__).with_suffix("")
KEPT = CURATED / "published"
PAGE = TOP / "docs/published.md"
REPEATS = 3
# As `make` has them, from the top of the project: names of workloads are kept with the figures.
WEB, ADS, SERVERLESS = os.path.relpath(HERE / "web.toml"), os.path.relpath(HERE / "ads.toml"), "serverless/idle"
ZRAM, FAST, SLOW, FILE = "guest-zram", "guest-ssd-fast", "guest-ssd-slow", "guest-file"


def senpai(pressure: str, ratio: str = "5%", more: str = "") -> str:
    """Senpai, made faster for runs of half a minute: two periods a second, and more in each."""
    return f"senpai:interval=500ms:ratio={ratio}:most={ratio}:pressure={pressure}:io_pressure={pressure}{more}"


@dataclass(frozen=True)
class Figure:
    """What is measured for a figure: an evaluation, and the columns of its table."""

    workloads: Sequence[str]
    machines: Sequence[str]
    configs: Mapping[str, str]
    """What a configuration is, by the name that the table has for it; that of the baseline is empty."""
    columns: Sequence[str]
    memory: str = ""
    write_limit: str = ""
    """Under which each configuration runs a second time, as ``NAME@LIMIT/s``."""


WEB_COLUMNS = ("swap-ins a second", "requests a second", "p99", "memory pressure", "IO pressure", "net memory")
FIGURES: dict[str, Figure] = {
    "tmo-12": Figure([WEB], [FAST, SLOW], {"no reclaim": "", "Senpai": senpai("5%")}, WEB_COLUMNS),
    "tmo-14": Figure(
        [ADS],
        [FAST],
        {
            "no reclaim": "",
            "Senpai": senpai("50%"),
            "Senpai, `swap_writes=1M`": senpai("50%", more=":swap_writes=1M"),
            "Senpai, `--write-limit 1M`": f"{senpai('50%')}@1M/s",
            "prcl": "prcl",
            "prcl, `--write-limit 1M`": "prcl@1M/s",
        },
        ("written a second", "memory pressure", "IO pressure", "net memory"),
        write_limit="1M",
    ),
    "daos-9": Figure(
        [SERVERLESS], [ZRAM, FILE], {"no scheme": "", "prcl": "prcl"},
        ("RSS", "net memory", "DAMON CPU", "requests a second", "p99"),
    ),
    "tmo-11": Figure([WEB], [ZRAM, FAST, SLOW], {"no limit": "", "half": "baseline@50%"}, WEB_COLUMNS, "50%"),
    "tmo-13": Figure(
        [WEB], [ZRAM], {"no reclaim": "", "mild": senpai("0.5%", "2%"), "strong": senpai("20%", "10%")}, WEB_COLUMNS
    ),
    "tmo-9": Figure(
        [WEB, ADS], [ZRAM, FAST], {"no reclaim": "", "Senpai": senpai("2%")},
        ("net memory", "memory pressure", "IO pressure", "runtime"),
    ),
}  # fmt: skip

TIERS = "autonuma", "tpp", "damon-tiers", "kloc-files", "all-fast", "all-slow"
TIER_COLUMNS = ("fast hits", "promoted", "demoted", "moved in all", "modelled time", "modelled speedup", "at most")
# The machine moves nothing by itself, so its baseline is the paper's Naive. A figure for each workload, since each
# takes an hour.
FIGURES |= {
    f"klocs-4-{workload.partition('/')[0]}": Figure(
        [workload], ["tiers-1-4"], {"naive": "", **{name: name for name in TIERS}}, TIER_COLUMNS
    )
    for workload in ("redis/snapshots", "rocksdb/mixed", "fio/filebench:tiers")
}

# Capacity: fio's file is 320 MiB, and the machines have from 512 to 192 MiB of fast memory.
FIGURES["klocs-6"] = Figure(
    ["fio/filebench:tiers"],
    [f"tiers-1-{ratio}" for ratio in (1, 2, 4, 8)],
    {"naive": "", "tpp": "tpp", "kloc-files": "kloc-files"},
    TIER_COLUMNS,
)

Metrics = Mapping[str, float]
# Of a run, and of the baseline of its block.
Cell = tuple[Callable[[Metrics, Metrics], float], str]
PAGE_MIB = 4096 / MIB
CELLS: dict[str, Cell] = {
    "swap-ins a second": (lambda run, _: run["promotions_per_s"], "{:.0f}"),
    "written a second": (lambda run, _: run["swap_written_bytes_per_s"] / MIB, "{:.2f} MiB"),
    "requests a second": (lambda run, _: run["ops_per_s"], "{:.1f}"),
    "p99": (lambda run, _: run["p99_ms"], "{:.1f} ms"),
    "memory pressure": (lambda run, _: run["psi_some_us"] / run["runtime_s"] / 1e6, "{:.1%}"),
    "IO pressure": (lambda run, _: run["psi_io_some_us"] / run["runtime_s"] / 1e6, "{:.1%}"),
    "net memory": (lambda run, _: run["late_net_bytes"] / MIB, "{:.1f} MiB"),
    "RSS": (lambda run, _: run["late_rss_bytes"] / MIB, "{:.1f} MiB"),
    "DAMON CPU": (lambda run, _: run["kdamond_cpu_s"] / run["runtime_s"], "{:.1%}"),
    "runtime": (lambda run, _: run["runtime_s"], "{:.2f} s"),
    "fast hits": (lambda run, _: run["fast_hits"], "{:.1%}"),
    "promoted": (lambda run, _: run["pgpromote_success"] * PAGE_MIB, "{:.0f} MiB"),
    "demoted": (lambda run, _: sum(run[name] for name in run if name.startswith("pgdemote")) * PAGE_MIB, "{:.0f} MiB"),
    "moved in all": (lambda run, _: run["pgmigrate_success"] * PAGE_MIB, "{:.0f} MiB"),
    "modelled time": (lambda run, _: run["modelled_s"], "{:.1f} s"),
    "modelled speedup": (lambda run, base: base["modelled_s"] / run["modelled_s"], "{:.3f}"),
    "at most": (lambda run, base: base["modelled_s"] / base["modelled_all_fast_s"], "{:.3f}"),
}


def say(text: str) -> None:
    """News, away from the tables."""
    print(text, file=sys.stderr, flush=True)


def measure(figure: Figure, studies: Path) -> list[EvaluationStudy]:
    """The studies of a figure, one machine after the other; those that have been made are only read."""
    configs = [words for words in figure.configs.values() if words and "@" not in words]
    limits: dict[str, Any] = {"memory": [figure.memory]} if figure.memory else {}
    limits |= {"write_limit": figure.write_limit} if figure.write_limit else {}
    found: list[EvaluationStudy] = []
    for machine in figure.machines:
        say(f"  on {machine}")
        folder = studies / machine
        done = [sweep for sweep in sweeps.folders(folder) if (sweep / "result.json").exists()]
        if done:
            evaluated = Evaluated(sweeps.load(folder, done[-1].name))
        else:
            settings = {"repeats": REPEATS, "results": folder, **limits}
            evaluated = evaluate(figure.workloads, [machine], ["baseline", *configs], event=_news, **settings)
        found += evaluated._studies
    return found


def _news(kind: str, event: dict[str, Any]) -> None:
    if kind == "say":
        say(f"  {event['text']}")


def kept_of(figure: Figure, studies: Sequence[EvaluationStudy]) -> dict[str, Any]:
    """All runs with all metrics, and where they were made; of those that failed, why.

    Raises
    ------
    DamoosError : a baseline has failed
    """
    runs = []
    failed: dict[str, str] = {}
    for study in studies:
        for run in study.runs():
            if run.measurement is None:
                if run.arm == "baseline":
                    raise DamoosError(f"{study.name}: {run.key} has failed: {run.error}")
                failed[run.arm] = str(run.error)
                continue
            samples = study.record.artifacts.read_samples(run.key)
            late = samples[samples["t_s"] >= samples["t_s"].iloc[-1] / 2]
            runs.append(
                {
                    "workload": Path(study.config.target).stem,
                    "machine": study.config.machine,
                    "config": run.arm,
                    "block": run.number,
                    "metrics": {
                        **run.measurement.metrics,
                        **{f"late_{name}_bytes": float(np.mean(late[f"{name}_bytes"])) for name in ("rss", "net")},
                    },
                    "provenance": run.measurement.provenance
                    | {"controller": None},  # each decision of a rule is in the studies' own data
                }
            )
    return {"workloads": list(figure.workloads), "configs": dict(figure.configs), "runs": runs, "failed": failed}


def table(figure: Figure, kept: Mapping[str, Any]) -> str:
    """Means of the runs and their 95 % intervals, a line for each machine and configuration."""
    several = len({run["workload"] for run in kept["runs"]}) > 1
    head = [*(["workload"] if several else []), "machine", "configuration", *figure.columns]
    lines = [head, ["---"] * len(head)]
    for workload in dict.fromkeys(run["workload"] for run in kept["runs"]):
        for machine in figure.machines:
            for name, words in figure.configs.items():
                own = [run for run in kept["runs"] if (run["workload"], run["machine"]) == (workload, machine)]
                base = {run["block"]: run["metrics"] for run in own if run["config"] == "baseline"}
                runs = [(run["metrics"], base[run["block"]]) for run in own if run["config"] == (words or "baseline")]
                cells = [_cell(column, runs) if runs else "does not run" for column in figure.columns]
                lines.append([*([f"`{workload}`"] if several else []), f"`{machine}`", name, *cells])
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def capacity(figure: Figure, kept: Mapping[str, Any]) -> Chart:
    """Fast hits and modelled time, by how much slow memory a machine has for its fast memory."""
    panels = []
    ratios = [machine.removeprefix("tiers-").replace("-", ":") for machine in figure.machines]
    for column, metric in (("fast hits", "fast_hits"), ("modelled time [s]", "modelled_s")):
        layers = []
        for number, (name, words) in enumerate(figure.configs.items()):
            quantities = [
                told(
                    [
                        one["metrics"][metric]
                        for one in kept["runs"]
                        if (one["machine"], one["config"]) == (machine, words or "baseline")
                    ]
                )
                for machine in figure.machines
            ]
            low, high = zip(*(one["ci95"] or [one["mean"]] * 2 for one in quantities), strict=True)
            colour, marker, _ = nth(number)
            means = [one["mean"] for one in quantities]
            # Beside each other, so that intervals are told apart.
            places = [place + (number - 1) * 0.12 for place in range(len(ratios))]
            layers.append(Points(name, places, means, low, high, colour, marker))
        ratio = Axis("fast to slow memory", "ratio", words=ratios)
        panels.append(
            Panel(ratio, Axis(column, metric, is_share=metric == "fast_hits"), layers, column.partition(" [")[0])
        )
    return Chart(f"{figure.workloads[0]} with less and less fast memory", panels, columns=2)


def _cell(column: str, runs: Sequence[tuple[Metrics, Metrics]]) -> str:
    """A mean and its interval; empty for what a workload does not report."""
    of, form = CELLS[column]
    try:
        quantity = told([of(*run) for run in runs])
    except KeyError:
        return ""
    ends = quantity["ci95"]
    unit = form.partition("}")[2]
    plain = form.removesuffix(unit) if unit else form
    between_ends = f" [{', '.join(plain.format(end) for end in ends)}]" if ends else ""
    return f"{form.format(quantity['mean'])}{between_ends}"


def main() -> None:
    """Measure what is left, then make the tables from all that is kept."""
    folder, *names = sys.argv[1:]
    # The guests of all figures have the same kernel, the one with zswap; emulated, it costs half of Debian's.
    os.environ[KERNEL] = "damoos"
    KEPT.mkdir(parents=True, exist_ok=True)
    for name in names or FIGURES:
        file = KEPT / f"{name}.json"
        if file.exists():
            continue
        say(f"{name}: measured")
        try:
            found = measure(FIGURES[name], Path(folder) / name)
            kept = kept_of(FIGURES[name], found)
        except DamoosError as error:
            say(f"{name}: {error}")
            continue
        if name == "tmo-12":
            _, chart = list(over_time.charts(found))[-1]
            chart.save(PAGE.parent / "published-tmo-12.svg")
        draft = file.with_suffix(".new")
        draft.write_text(json.dumps(kept, indent=1) + "\n")
        draft.rename(file)
    text = PAGE.read_text()
    for name, figure in FIGURES.items():
        file = KEPT / f"{name}.json"
        content = "*Not measured yet.*"
        if file.exists():
            kept = json.loads(file.read_text())
            content = table(figure, kept)
            if name == "klocs-6":
                capacity(figure, kept).save(PAGE.parent / "published-klocs-6.svg")
        text = between(text, name, f"\n{content}\n")
    PAGE.write_text(text)


if __name__ == "__main__":
    main()
