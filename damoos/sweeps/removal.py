"""Deleting studies and sweeps with all that belongs to them."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from damoos.errors import ConfigError, nearest
from damoos.store.artifacts import Artifacts, is_study_name
from damoos.store.studies import Store
from damoos.sweeps import sweep as sweeps


def named(store: Store | None, results: Path, names: Sequence[str]) -> list[str]:
    """The studies and sweeps of these names, and the studies of those sweeps, studies first.

    Raises
    ------
    ConfigError : there is no such study or sweep, or a study belongs to a sweep that stays
    """
    known, folders = _studies(store), sweeps.names(results)
    chosen = list(dict.fromkeys(names))
    for name in chosen:
        if name not in known and name not in folders:
            raise ConfigError(f"unknown study '{name}'{nearest(name, [*known, *folders])}")
        owner = _sweep_of(name, folders)
        if owner and owner not in chosen:
            raise ConfigError(f"study '{name}' belongs to '{owner}'; give that to delete the whole sweep")
    inside = [name for name in known if _sweep_of(name, folders) in chosen]
    studies = [name for name in chosen if name in known and name not in inside]
    return [*studies, *inside, *(name for name in chosen if name in folders)]


def unfinished(store: Store | None, results: Path) -> list[str]:
    """The studies without a result that belong to no sweep, oldest first."""
    folders = sweeps.names(results)
    found, broken = store.listed() if store else ([], [])
    return [study.name for study in found if study.result is None and not _sweep_of(study.name, folders)] + broken


def delete(store: Store | None, results: Path, name: str) -> None:
    """Delete a study, or what is left of a sweep whose studies are gone.

    Raises
    ------
    StoreError : another process runs it
    """
    is_sweep = name in sweeps.names(results)
    if store and not is_sweep and not is_study_name(name):  # of another person's making; no folder belongs to it
        store.discard(name)
        return
    with Artifacts(results / name).held(f"'{name}' is being run by another damoos process; nothing of it is deleted"):
        if is_sweep:
            shutil.rmtree(results / name)
        elif store:
            store.discard(name)


def _studies(store: Store | None) -> list[str]:
    """Names of all studies, the broken ones too: those most of all are to be deleted."""
    return [*store.names(), *store.listed()[1]] if store else []


def _sweep_of(study: str, folders: Sequence[str]) -> str | None:
    """The sweep that a study belongs to; None if it is on its own."""
    return next((name for name in folders if study.startswith(f"{name}-")), None)
