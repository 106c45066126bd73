"""Fixtures of the tests that need no machine."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import damoos
from damoos.cli.common import Loudness, loudness
from damoos.machines import catalog
from damoos.report import values
from damoos.testing.fake import FakeMachine

if TYPE_CHECKING:
    from damoos import api


@pytest.fixture(autouse=True)
def as_loud_as_usual() -> None:
    """What a test's command line said with --quiet was for its own process, were it one."""
    loudness.set(Loudness.NORMAL)


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
        def __init__(self, url: str, engine_kwargs: dict[str, Any] | None = None, **words: Any) -> None:
            file = Path(url.removeprefix("sqlite:///"))
            # Made empty, so that nobody else may read it.
            if url.startswith("sqlite:///") and file.is_file() and not file.stat().st_size:
                shutil.copyfile(empty_store, file)
            super().__init__(url, engine_kwargs, **words)

    monkeypatch.setattr(optuna.storages, "RDBStorage", CopiedStorage)


@pytest.fixture
def machines(monkeypatch: pytest.MonkeyPatch) -> dict[str, FakeMachine]:
    """Machines that are not there, made as they are named."""
    made: dict[str, FakeMachine] = {}
    monkeypatch.setattr(
        catalog, "machine", lambda name, kernel=None: made.setdefault(name, FakeMachine(noise=0.001, seed=len(made)))
    )
    monkeypatch.setattr("damoos.report.study.tuning.draw", lambda *_: [])
    return made


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Callable[[FakeMachine], FakeMachine]:
    """Every name is that of the machine that is given."""

    def use(machine: FakeMachine) -> FakeMachine:
        monkeypatch.setattr(catalog, "machine", lambda name, kernel=None: machine)
        return machine

    return use


WORKLOADS = ("synthetic/hot-cold", "synthetic/idle")
EVIL = "echo '<script>alert(1)</script>'"


def tune(results: Path, **words: Any) -> api.TunedStudy:
    return damoos.tune(command=EVIL, machine="a", results=results, **{"trials": 3, "repeats": 2, "seed": 1, **words})


def swept(results: Path, **words: Any) -> api.TunedSweep:
    short = {"trials": 3, "repeats": 2, "candidates": 1, "seed": 3}
    return damoos.sweep(WORKLOADS, ["a", "b"], results=results, **{**short, **words})


class Wellformed(HTMLParser):
    """Every element that is opened is closed, in order; nothing brings a script or a style of its own page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def html(shown: Any) -> str:
    text = shown._repr_html_() if hasattr(shown, "_repr_html_") else values.to_html(shown)
    assert not {"script", "style", "link", "img"} & set(Wellformed(text).seen)
    return text
