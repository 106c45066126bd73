"""Faults, pressure and net memory over the time of a run, one configuration on several machines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from damoos.report.charts import Axis, Chart, Line, Panel, Steps
from damoos.report.charts.chart import save
from damoos.report.charts.style import nth
from damoos.report.study.memory import per_s, pressure_steps
from damoos.store.artifacts import Artifacts
from damoos.store.studies import slug
from damoos.study.study import EvaluationStudy
from damoos.units import MIB

if TYPE_CHECKING:
    import pandas as pd

_TIME = Axis("time since the run began [s]", "t_s")


def write(studies: Sequence[EvaluationStudy], artifacts: Artifacts) -> list[Path]:
    """Write a figure for each workload and configuration that ran on several machines; returns their paths."""
    return [save(drawn, artifacts.path / f"over-time-{name}.svg") for name, drawn in charts(studies)]


def charts(studies: Sequence[EvaluationStudy]) -> Iterator[tuple[str, Chart]]:
    """A chart for each workload and configuration with runs on two machines or more, and a name for its file."""
    for workload in dict.fromkeys(study.config.target for study in studies):
        here = [study for study in studies if study.config.target == workload]
        for config in dict.fromkeys(name for study in here for name in study.config.configs):
            series = {
                study.config.machine: samples for study in here if (samples := first_run(study, config)) is not None
            }
            if len(series) > 1:
                yield slug(f"{workload}-{config}"), chart(f"{workload} under {config}", series)


def first_run(study: EvaluationStudy, config: str) -> pd.DataFrame | None:
    """Samples of the first run of a configuration that has two or more of them; None where there is none."""
    for run in study.runs():
        if run.arm == config and run.measurement:
            samples = study.record.artifacts.read_samples(run.key)
            if samples is not None and len(samples) > 1:
                return samples
    return None


def chart(title: str, series: dict[str, pd.DataFrame]) -> Chart:
    """The samples of some runs, by the names of their machines.

    What a run does not have (faults and pressure where it has no group and the kernel does not say) has no line.
    """
    faults: list[Steps] = []
    pressure: list[Steps] = []
    memory: list[Line] = []
    for number, (machine, samples) in enumerate(series.items()):
        colour, _, dash = nth(number)
        times = samples["t_s"].to_numpy()
        if "major_faults" in samples and samples["major_faults"].notna().all():
            faults.append(Steps(machine, times, per_s(samples, "major_faults"), colour, dash))
        if samples["psi_some_us"].notna().all():
            pressure.append(pressure_steps(machine, samples, colour, dash))
        memory.append(Line(machine, times, samples["net_bytes"].to_numpy() / MIB, (), (), colour, dash))
    panels = [
        Panel(_TIME, Axis("major faults per second", "major_faults_per_s", from_zero=True), faults, "faults"),
        Panel(
            _TIME,
            Axis("time with 'some' memory pressure", "psi_some_share", is_share=True, from_zero=True),
            pressure,
            "pressure",
        ),
        Panel(_TIME, Axis("net memory [MiB]", "net_mib", from_zero=True), memory, "net memory"),
    ]
    return Chart(title, [panel for panel in panels if panel.layers], shares_x=True, panel_name="quantity")
