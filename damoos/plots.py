"""The public plots: each takes what damoos returns and gives a chart.

A chart shows itself in a notebook. ``.save(path)`` writes it (.png, .svg, .html, .csv), ``.plotly()`` is a Plotly
figure, ``.table`` has all that is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from damoos import arms
from damoos.errors import ConfigError
from damoos.recorder import forecast
from damoos.report import arms as pairs
from damoos.report import configs, forecasts, memory, recordings, sweeps, tuning
from damoos.report.charts import Chart
from damoos.study import Study

if TYPE_CHECKING:
    from damoos.api import TunedStudy
    from damoos.records.recording import Recording
    from damoos.sidebyside import Evaluated


def plot_study(study: TunedStudy) -> Chart:
    """The paper's Figure 5: measured points, what broke the limits, the estimate and the chosen point."""
    return tuning.chart(_study(study))


def plot_memory(study: TunedStudy, validation_round: int = 0) -> Chart:
    """RSS and memory pressure over time, without a scheme and under the hand-made and the tuned one.

    Parameters
    ----------
    validation_round : int
        Whose runs are drawn; of a study without a validation it is the first baseline.
    """
    return memory.chart(_study(study), validation_round)


def plot_sweep(sweep: Any) -> Chart:
    """Workloads by machines, coloured by what tuning has won over the hand-made scheme.

    Parameters
    ----------
    sweep : TunedSweep, or sequence of TunedStudy
    """
    studies = _studies(sweep)
    direction = studies[0].scorer.direction if studies else "maximize"
    return sweeps.matrix(getattr(sweep, "name", "studies"), arms.compare(studies), direction)


def plot_curves(studies: Any) -> Chart:
    """The paper's Figure 4: score against the tuned parameter, a panel for each workload, all machines in it.

    Parameters
    ----------
    studies : TunedSweep, or sequence of TunedStudy
    """
    found = _studies(studies)
    if not found:
        raise ConfigError("there is nothing to plot: no study has begun")
    return sweeps.curves(getattr(studies, "name", "score by the tuned parameter"), found)


def plot_compare(studies: Any) -> Chart:
    """The paper's Figure 8: slowdown, RSS saving and score under the hand-made and the tuned scheme.

    Parameters
    ----------
    studies : TunedSweep, sequence of TunedStudy, or what `damoos.compare` returns

    Raises
    ------
    ConfigError : no study has both schemes validated
    """
    made = pairs.chart(
        studies.result if isinstance(getattr(studies, "result", None), list) else arms.compare(_studies(studies))
    )
    if made is None:
        raise ConfigError("there is nothing to compare: no study has both schemes validated")
    return made


def plot_configs(evaluation: Evaluated) -> Chart:
    """The paper's Figure 7: performance and memory efficiency of every configuration, the baseline being 1."""
    return configs.chart(evaluation.result, evaluation.studies)


def plot_heatmap(recording: Recording, target: int | None = None, address: tuple[int, int] | None = None) -> Chart:
    """When which addresses were accessed how often; see `damoos.records.heat.heatmap`."""
    return recordings.heatmap(recording, target, address)


def plot_wss(recording: Recording, min_accesses: int = 1) -> Chart:
    """The working set over time: regions with so many accesses or more."""
    return recordings.wss(recording, min_accesses)


def plot_regions(recording: Recording) -> Chart:
    """The number of DAMON's regions over time, and its bound."""
    return recordings.regions(recording)


def plot_recency(recording: Recording) -> Chart:
    """Memory by the time since its last access, over time."""
    return recordings.recency(recording)


def plot_idle_time(recording: Recording) -> Chart:
    """Memory by how long it has been idle."""
    return recordings.idle_time(recording)


def plot_prediction(recording: Recording, study: TunedStudy | None = None, score: str = "daos") -> Chart:
    """Saving and slowdown that a recording predicts for every ``min_age``, with the 80 % band.

    Parameters
    ----------
    recording : Recording
        One of damoos's, which says what its run measured.
    study : TunedStudy or None
        Whose measured trials stand beside it.

    Raises
    ------
    ConfigError : the recording does not allow a prediction
    """
    rows = forecast(recording, score)
    return forecasts.chart(recordings.title(recording), rows, None if study is None else _study(study))


def _study(study: Any) -> Study:
    found: Study = getattr(study, "study", study)
    return found


def _studies(some: Any) -> list[Study]:
    """Studies of a sweep that have begun, or of a list."""
    if hasattr(some, "sweep"):
        return arms.studies_of(some.sweep)
    return list(map(_study, some if isinstance(some, Sequence) else [some]))
