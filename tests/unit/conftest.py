"""Fixtures of the tests that need no machine."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(autouse=True)
def no_figures(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Studies draw no figures here, which would take most of their time; the marker ``figures`` has them drawn."""
    if "figures" not in request.keywords:
        monkeypatch.setattr("damoos.report.study.tuning.draw", lambda *_: [])


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite store without a study, as `Store` makes it."""
    from damoos.store.studies import Store

    folder = tmp_path_factory.mktemp("empty-store")
    Store(folder)
    whole = folder / "whole.sqlite"
    with sqlite3.connect(folder / "damoos.sqlite") as store, sqlite3.connect(whole) as copy:
        store.backup(copy)  # what lies in the write-ahead log included
    return whole


@pytest.fixture(autouse=True)
def copied_stores(empty_store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """New stores are copies of one: Optuna reads all of its migrations to make a store, a third of a short study."""
    import optuna

    class CopiedStorage(optuna.storages.RDBStorage):
        def __init__(self, url: str, **words: Any) -> None:
            file = Path(url.removeprefix("sqlite:///"))
            is_new = url.startswith("sqlite:///") and not file.exists() and file.parent.is_dir()
            if is_new:
                shutil.copyfile(empty_store, file)
            super().__init__(url, **{"skip_compatibility_check": is_new, **words})

    monkeypatch.setattr(optuna.storages, "RDBStorage", CopiedStorage)
