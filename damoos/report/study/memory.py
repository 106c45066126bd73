"""Memory, also by kind, and memory pressure over the time of a run, without a scheme and under one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from damoos.model.trial import Run
from damoos.report.charts import Axis, Chart, Layer, Line, Panel, Stack, Steps
from damoos.report.charts.style import BLUE, GREEN, GREY, ORANGE, SKY
from damoos.report.study.tuning import title
from damoos.statistics.arms import BASELINE, MANUAL, TUNED
from damoos.study.damage import names_damage
from damoos.study.study import Study
from damoos.units import MIB

if TYPE_CHECKING:
    import pandas as pd

_TIME = Axis("time since the run began [s]", "t_s")
_STYLES = {BASELINE: (GREY, "solid"), MANUAL: (ORANGE, "dash"), TUNED: (BLUE, "solid")}


@names_damage
def chart(study: Study, number: int | None = None) -> Chart:
    """RSS, pressure and memory by kind of a round of the validation; of the first baseline where there was none.

    Parameters
    ----------
    number : int or None
        The round; None for the first one that the recommended candidate had.
    """
    rss: list[Layer] = []
    pressure: list[Layer] = []
    kinds: list[Panel] = []
    for arm, run in _round(study, number).items():
        samples = study.record.artifacts.read_samples(run.key)
        if samples is None:
            continue
        colour, dash = _STYLES[arm]
        rss.append(Line(arm, samples["t_s"].to_numpy(), samples["rss_bytes"].to_numpy() / MIB, (), (), colour, dash))
        if "psi_some_us" in samples and samples["psi_some_us"].notna().any():
            pressure.append(pressure_steps(arm, samples, colour, dash))
        kinds += _by_kind(arm, samples)
    panels = [Panel(_TIME, Axis("RSS [MiB]", "rss_mib", from_zero=True), rss, "RSS")]
    if pressure:
        words = "time with 'some' memory pressure"
        panels.append(Panel(_TIME, Axis(words, "psi_some_share", is_share=True, from_zero=True), pressure, "pressure"))
    return Chart(title(study), [*panels, *kinds], shares_x=True, panel_name="quantity")


def _round(study: Study, number: int | None) -> dict[str, Run]:
    """Runs of a round by their arm; the recommended candidate is ``tuned``."""
    runs = study.runs()
    _, names = study.arms()
    validation = [(names.get(run.arm, run.arm), run) for run in runs if run.kind == "validation"]
    if number is None:
        number = min((run.number for arm, run in validation if arm == TUNED), default=0)
    arms = {arm: run for arm, run in validation if run.number == number}
    if validation:
        return {arm: arms[arm] for arm in _STYLES if arm in arms}
    first = [run for run in runs if run.kind == "baseline"][:1]
    return {BASELINE: first[0]} if first else {}


def _by_kind(arm: str, samples: pd.DataFrame) -> list[Panel]:
    """What a run's memory consists of, stacked; nothing where its group does not say, or there is one sample only."""
    if len(samples) < 2 or "anon_bytes" not in samples or samples["anon_bytes"].isna().any():
        return []
    columns = samples.fillna(0.0)
    parts = {
        "anonymous": columns["anon_bytes"],
        "file": columns["file_bytes"] - columns["shmem_bytes"],
        "shared": columns["shmem_bytes"],
        "kernel, sockets": columns["kernel_bytes"] + columns["sock_bytes"],
        "compressed swap": columns["zram_bytes"],
    }
    values = np.column_stack([part.to_numpy()[:-1] for part in parts.values()]) / MIB
    stack = Stack("", samples["t_s"].to_numpy(), list(parts), values, (BLUE, ORANGE, GREEN, GREY, SKY))
    return [Panel(_TIME, Axis("memory [MiB]", "memory_mib", from_zero=True), [stack], f"memory by kind: {arm}")]


def pressure_steps(name: str, samples: pd.DataFrame, colour: str, dash: str) -> Steps:
    """Share of the time between every two samples in which something waited for memory."""
    return Steps(name, samples["t_s"].to_numpy(), per_s(samples, "psi_some_us") / 1e6, colour, dash)


def per_s(samples: pd.DataFrame, column: str) -> NDArray[np.float64]:
    """How fast a column grows between every two samples."""
    rates: NDArray[np.float64] = np.diff(samples[column].to_numpy()) / np.diff(samples["t_s"].to_numpy())
    return rates
