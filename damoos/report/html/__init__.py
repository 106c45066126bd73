"""Reports as HTML: one file that holds all it needs, asks no network, and opens from disk.

`document` writes any page; `study`, `sweep` and `evaluation` say what is on theirs; `shown` is how values look.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from damoos.errors import ConfigError, nearest
from damoos.store.studies import Store
from damoos.study.study import tuning_study
from damoos.sweeps import sweep as sweeps

if TYPE_CHECKING:
    from damoos.scorers.cost import Prices


def write(
    name: str, results: Path, storage: str | None = None, path: Path | None = None, prices: Prices | None = None
) -> list[Path]:
    """Write the report of a study, or of the sweep of that name.

    Parameters
    ----------
    name : str
    results : Path
    storage : str or None
        As `damoos.store.studies.Store` takes it.
    path : Path or None
        The page; None for ``report.html`` in the folder of the study or sweep.
    prices : Prices or None
        What memory is worth, for a sweep.

    Returns
    -------
    list of Path
        The page, then its figures as SVG and CSV in the folder ``report-figures`` beside it.

    Raises
    ------
    ConfigError : neither a study nor a sweep has this name, or there is nothing to show of it yet
    """
    from damoos.report.html import study, sweep

    path = path or results / name / "report.html"
    store = Store(results, storage)
    if record := store.look(name):
        return study.write(tuning_study(record), path)
    known = sweeps.names(results)
    if name in known:
        return sweep.write(sweeps.load(results, name, storage), path, prices)
    names = [*store.names(), *known]
    hint = nearest(name, names) if names else f"; there are none in {results} yet"
    raise ConfigError(f"unknown study or sweep '{name}'{hint}")
