"""The public plots: each takes what damoos returns and gives a chart.

A chart shows itself in a notebook. ``.save(path)`` writes it (.png, .svg, .html, .csv), ``.plotly()`` is a Plotly
figure, ``.table`` has all that is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from damoos.api import EvaluatedStudy, TunedStudy, TunedSweep
from damoos.api.comparisons import Compared, Evaluated
from damoos.api.recordings import Predicted
from damoos.comparison import manual_tuned
from damoos.errors import ConfigError
from damoos.recordings.recording import Recording
from damoos.report.charts import Chart
from damoos.report.comparison import configurations
from damoos.report.comparison import manual_tuned as bars
from damoos.report.recording import charts, forecasts
from damoos.report.study import memory, tuning
from damoos.report.sweep import overview
from damoos.study.study import Study
from damoos.units import show_count

Studies: TypeAlias = TunedSweep | Sequence[TunedStudy]


def plot_study(study: TunedStudy) -> Chart:
    """The paper's Figure 5: measured points, what broke the limits, the estimate and the chosen point.

    Raises
    ------
    ConfigError : the study compares configurations, or has not reached its machine
    """
    return tuning.chart(_tuning(study))


def plot_memory(study: TunedStudy, validation_round: int | None = None) -> Chart:
    """RSS and memory pressure over time, without a scheme and under the manual and the tuned one.

    Parameters
    ----------
    validation_round : int or None
        Whose runs are drawn; None for the first round of the tuned scheme. Of a study without a validation it is the
        first baseline.

    Raises
    ------
    ConfigError : there is no such round, or nothing of it was sampled
    """
    chart = memory.chart(_tuning(study), validation_round)
    if not chart.panels[0].layers:
        which = "its validation" if validation_round is None else f"round {validation_round} of its validation"
        raise ConfigError(f"study '{study.name}' has no samples of {which}")
    return chart


def plot_sweep(sweep: Studies) -> Chart:
    """Workloads by machines, coloured by what tuning has won over the manual scheme.

    Parameters
    ----------
    sweep : TunedSweep, or sequence of TunedStudy

    Raises
    ------
    ConfigError : no study has begun
    """
    studies = _studies(sweep)
    return overview.matrix(_name(sweep), manual_tuned.compare(studies), studies[0].scorer.direction)


def plot_curves(studies: Studies) -> Chart:
    """The paper's Figure 4: score against the tuned parameter, a panel for each workload, all machines in it.

    Parameters
    ----------
    studies : TunedSweep, or sequence of TunedStudy

    Raises
    ------
    ConfigError : no study has begun
    """
    return overview.curves(_name(studies), _studies(studies))


def plot_compare(studies: Studies | Compared) -> Chart:
    """The paper's Figure 8: slowdown, RSS saving and score under the manual and the tuned scheme.

    Parameters
    ----------
    studies : TunedSweep, sequence of TunedStudy, or what `damoos.compare` returns

    Raises
    ------
    ConfigError : no study has validated both schemes
    """
    chart = bars.chart(studies.result if isinstance(studies, Compared) else manual_tuned.compare(_studies(studies)))
    if chart is None:
        raise ConfigError("there is nothing to compare: no study has validated both schemes")
    return chart


def plot_configs(evaluation: Evaluated) -> Chart:
    """The paper's Figure 7: performance and memory efficiency of every configuration, the baseline being 1."""
    return configurations.chart(evaluation.result, evaluation.studies)


def plot_limits(evaluation: Evaluated, machine: str | None = None) -> Chart:
    """Memory against slowdown: how much slower each workload gets under a limit, a curve for each configuration.

    Parameters
    ----------
    machine : str or None
        None for the evaluation's first one.

    Raises
    ------
    ConfigError : it ran under no limit of memory
    """
    if not configurations.has_limits(evaluation.studies):
        raise ConfigError("this evaluation has no limits of memory; make one with evaluate(..., memory=['60%', '40%'])")
    return configurations.memory_chart(machine or evaluation.result["machines"][0]["machine"], evaluation.studies)


def plot_heatmap(recording: Recording, target: int | None = None, address: tuple[int, int] | None = None) -> Chart:
    """When which addresses were accessed how often; see `damoos.recordings.heatmap.heatmap`."""
    return charts.heatmap(recording, target, address)


def plot_wss(recording: Recording, min_accesses: int = 1) -> Chart:
    """The working set over time: regions with so many accesses or more."""
    return charts.wss(recording, min_accesses)


def plot_regions(recording: Recording) -> Chart:
    """The number of DAMON's regions over time, and its bound."""
    return charts.regions(recording)


def plot_recency(recording: Recording) -> Chart:
    """Memory by the time since its last access, over time."""
    return charts.recency(recording)


def plot_idle_time(recording: Recording) -> Chart:
    """Memory by how long it has been idle."""
    return charts.idle_time(recording)


def plot_prediction(recording: Recording | Predicted, study: TunedStudy | None = None) -> Chart:
    """Saving and slowdown that a recording predicts for every ``min_age``, with the 80 % band.

    Parameters
    ----------
    recording : Recording or Predicted
        One of damoos's, which says what its run measured; or what `damoos.predict` made of it.
    study : TunedStudy or None
        Whose measured trials stand beside it.

    Raises
    ------
    ConfigError : the recording does not allow a prediction
    """
    predicted = recording if isinstance(recording, Predicted) else Predicted(recording)
    title = charts.title(predicted.recording)
    return forecasts.chart(title, predicted.forecasts, None if study is None else _tuning(study))


def _tuning(study: TunedStudy | EvaluatedStudy) -> Study:
    """A study that tunes."""
    if isinstance(study, EvaluatedStudy):
        raise ConfigError(f"study '{study.name}' compares configurations; plot_configs shows its evaluation")
    return study.study


def _studies(some: Studies) -> list[Study]:
    """Studies that have begun, of a sweep or of a list."""
    studies = some.studies if isinstance(some, TunedSweep) else some
    if not studies:
        raise ConfigError("there is nothing to plot: no study has begun")
    return list(map(_tuning, studies))


def _name(some: Studies) -> str:
    return some.name if isinstance(some, TunedSweep) else show_count(len(some), "study")
