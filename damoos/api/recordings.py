"""Recordings for people at a Python prompt: what DAMON sees of a run, and what can be said from it without another."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from damoos.api import words
from damoos.api.studies import RESULTS
from damoos.damon.attrs import Attrs
from damoos.errors import ConfigError, nearest
from damoos.policies.base import RecordPolicy
from damoos.recordings.recording import Recording
from damoos.report import notebook
from damoos.report.recording import prediction
from damoos.study.recording import Say
from damoos.study.run_config import RunConfig

if TYPE_CHECKING:
    import pandas as pd

    from damoos.prediction.forecast import Forecast, Size

_OPERATIONS = {"rec": "vaddr", "prec": "paddr"}


class Predicted:
    """What proactive reclaim would bring, said from one recording; nothing of it was tried.

    Parameters
    ----------
    recording : Recording
    scorer : str
    **options
        Keyword arguments of the scorer.

    Raises
    ------
    ConfigError : the recording is not one of damoos's, or the score is of something that cannot be predicted
    """

    def __init__(self, recording: Recording, scorer: str = "daos", **options: Any) -> None:
        from damoos.prediction.forecast import forecast

        self.recording = recording
        self.forecasts: list[Forecast] = forecast(recording, scorer, options)

    @property
    def table(self) -> pd.DataFrame:
        """One row per ``min_age_s``.

        ``memory_saving`` and ``peak`` are shares of the memory that is resident without a scheme (saved on average;
        enough for 95 % of the time), ``slowdown`` is as likely exceeded as not, 80 % of what is believed of both lie
        between their ``_low`` and ``_high``, ``chance`` is that of keeping the limits of the score, and ``score`` is
        missing where that is under one half.
        """
        import pandas as pd

        return pd.DataFrame([asdict(forecast) for forecast in self.forecasts])

    def size(self, slowdown: float = 0.05) -> Size:
        """The smallest memory whose slowdown stays under a bound with 90 %; all of it where no scheme does."""
        from damoos.prediction.forecast import rightsize

        return rightsize(self.recording, slowdown)

    def __repr__(self) -> str:
        """A table of text."""
        return prediction.text(self.recording, self.forecasts)

    def _repr_html_(self) -> str:
        """HTML for a notebook."""
        return prediction.to_html(self.recording, self.forecasts)


@words.checked
def record(
    workload: str | None = None,
    *,
    command: str | None = None,
    pid: int | None = None,
    machine: str = "guest",
    kernel: str | None = None,
    config: str = "rec",
    attrs: Attrs | None = None,
    duration_s: float = 30.0,
    sz_bytes: int = RecordPolicy.sz_bytes,
    kernel_objects: bool = False,
    results: Path = RESULTS,
    say: Say | None = None,
) -> Recording:
    """Record what DAMON sees while a workload runs.

    Parameters
    ----------
    workload, command : str
        A catalogue name or file, or a command line.
    pid : int
        A process that runs on the machine already and is watched for ``duration_s``.
    machine : str
    kernel : str or None
        Of a guest; None for the one that its machine file says.
    config : {"rec", "prec"}
        The workload's process tree (vaddr), or all memory of the machine (paddr).
    attrs : Attrs or None
        Intervals and number of regions; None for DAMON's defaults.
    sz_bytes : int
        Largest size of the recording; the run continues after it is reached.
    kernel_objects : bool
        Whether the kernel's own objects are watched as well: ``kernel_objects`` of what is returned.
    results : Path
        Folder of recordings.
    say : callable or None
        Told the news; None for a progress bar in a notebook.

    Returns
    -------
    Recording
        ``path`` is its file.

    Raises
    ------
    DamoosError : see `damoos.errors`
    """
    from damoos.study import recording

    if config not in _OPERATIONS:
        raise ConfigError(f"unknown config '{config}'{nearest(config, _OPERATIONS)}")
    live: dict[str, Any] = {} if pid is None else {"unit_work_s": duration_s, "settle_s": 0.0}
    run_config = RunConfig(workload=workload, command=command, machine=machine, kernel=kernel, pid=pid, **live)
    run_config.check()
    policy = RecordPolicy(_OPERATIONS[config], attrs or Attrs(), sz_bytes, objects=kernel_objects)
    with notebook.busy(f"recording {run_config.target} on {machine}") as news:
        return recording.record(run_config, policy, results, say or news)


@words.checked
def predict(
    recording: Recording | str | Path, *, score: str = "daos", results: Path = RESULTS, **options: Any
) -> Predicted:
    """Say from one recording what proactive reclaim would bring, for every ``min_age``.

    Parameters
    ----------
    recording : Recording, str or Path
        One of `record`'s, or what `load_recording` finds one by.
    score : str
        ``daos``, ``weighted`` or ``sla``, of runtime and RSS.
    results : Path
        Folder of recordings.
    **options
        Keyword arguments of the scorer.

    Raises
    ------
    ConfigError : the recording is not one of damoos's, or the score is of something that cannot be predicted
    """
    recorded = recording if isinstance(recording, Recording) else load_recording(recording, results=results)
    return Predicted(recorded, score, **options)


@words.checked
def load_recording(name: str | Path, *, results: Path = RESULTS) -> Recording:
    """A recording of memory accesses, for the functions of `damoos.recordings`.

    Parameters
    ----------
    name : str or Path
        A file of damoos's or of damo's, a recording's folder, or the name of one in the results folder.
    results : Path

    Raises
    ------
    ConfigError : no such recording, or not one
    """
    from damoos.recordings import files

    return files.read(files.find(name, results))
