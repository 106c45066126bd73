"""Reports as HTML: one file that holds all it needs, asks no network, and opens from disk.

`document` writes any page; `study`, `sweep`, `evaluation` and `rollout` say what is on theirs; `shown` is how values
look.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from damoos.errors import ConfigError, nearest
from damoos.rollouts import rollout as rollouts
from damoos.store.studies import Store
from damoos.study.study import tuning_study
from damoos.sweeps import sweep as sweeps

if TYPE_CHECKING:
    from damoos.scorers.cost import Prices


def write(
    name: str, results: Path, storage: str | None = None, path: Path | None = None, prices: Prices | None = None
) -> list[Path]:
    """Write the report of a study, or of the sweep or rollout of that name.

    Parameters
    ----------
    name : str
    results : Path
    storage : str or None
        As `damoos.store.studies.Store` takes it.
    path : Path or None
        The page; None for ``report.html`` in its folder.
    prices : Prices or None
        What memory is worth, for a sweep or a rollout.

    Returns
    -------
    list of Path
        The page, then its figures as SVG and CSV in the folder ``report-figures`` beside it.

    Raises
    ------
    ConfigError : nothing has this name, or there is nothing to show of it yet
    """
    from damoos.report.html import rollout, study, sweep

    path = path.parent.resolve() / path.name if path else results / name / "report.html"
    store = Store.there(results, storage)
    if store and (record := store.look(name)):
        return study.write(tuning_study(record), path)
    known = sweeps.names(results)
    if name in known:
        return sweep.write(sweeps.load(results, name, storage), path, prices)
    if name in rollouts.names(results):
        return rollout.write(rollouts.load(results, name), path, prices)
    names = [*(store.names() if store else ()), *known, *rollouts.names(results)]
    hint = nearest(name, names) if names else f"; there are none in {results} yet"
    raise ConfigError(f"unknown study, sweep or rollout '{name}'{hint}")
