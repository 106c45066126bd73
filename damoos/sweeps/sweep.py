"""A sweep in its folder: its studies, its result."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from damoos.common import addresses
from damoos.common.json_file import Damage, JsonForm
from damoos.common.terminal import printable
from damoos.errors import ConfigError, StoreError, nearest
from damoos.store.artifacts import Artifacts, next_name, numbered
from damoos.store.connection import check_own, check_url
from damoos.store.studies import SCHEMA, Store, StudyRecord, address, slug
from damoos.study.config import StudyConfig
from damoos.study.evaluation_config import EvaluationConfig
from damoos.study.run_config import plain
from damoos.study.study import EvaluationStudy, Study, open_study
from damoos.sweeps import forms
from damoos.sweeps.config import SweepConfig

PREFIX = "sweep-"
FILE, RESULT, STATUS = "sweep.json", "result.json", "status.json"
_WRITTEN_AGAIN = "move it away, and 'damoos resume' writes it again"
_REMEDIES = {
    FILE: "begin a new one; 'damoos show' knows its studies by their names",
    RESULT: _WRITTEN_AGAIN,
    STATUS: _WRITTEN_AGAIN,
}


class Sweep:
    """A sweep in its folder.

    Parameters
    ----------
    results : Path
    name : str
    url : str or None
        Storage of its studies, as the user of this process names it; None for the results folder's own.
    """

    def __init__(self, results: Path, name: str, url: str | None = None) -> None:
        self.name = name
        self._results = results
        self._url = url
        self._opened: Store | None = None
        self.artifacts = Artifacts(results / name)
        form = self._read(FILE, forms.SWEEP)
        if form is None:
            raise StoreError(f"{self.artifacts.path / FILE}: there is no such file")
        if (schema := form.get("schema")) != SCHEMA:
            raise StoreError(f"sweep '{name}' was written by another version of damoos (schema {schema}, not {SCHEMA})")
        self.config = SweepConfig(**form["config"])
        self.created: str = form["created"]
        self._begun_with: str | None = form.get("storage")

    @classmethod
    def create(cls, results: Path, config: SweepConfig, url: str | None = None) -> Sweep:
        """A new sweep with the next free number."""
        if url is not None:
            check_url(url)
        name = next_name(results, PREFIX, FILE)
        form = {"schema": SCHEMA, "created": datetime.now(UTC).isoformat(), "storage": url, "config": asdict(config)}
        Artifacts(results / name).write_json(FILE, form)
        return cls(results, name, url)

    @classmethod
    def unfinished(cls, results: Path, config: SweepConfig, url: str | None = None) -> Sweep | None:
        """The newest sweep of the same words, if there is something left to do in it, or to try again.

        In a shared folder it may be anybody's, so one that cannot be read is passed over and named on standard error.
        """
        for folder in reversed(folders(results)):
            with suppress(FileNotFoundError):
                content = forms.SWEEP.read(folder / FILE)
                if isinstance(content, Damage) or content["config"] != plain(config):
                    continue
                try:
                    found = cls(results, folder.name, url)
                    is_left = found.result is None or found.result["failures"]
                    _ = found.status  # with which its driver goes on
                except StoreError as error:
                    print(printable(f"damoos: {error}; it is passed over"), file=sys.stderr)
                    continue
                return found if is_left else None
        return None

    @classmethod
    def begun(cls, results: Path, config: SweepConfig, url: str | None = None) -> Sweep:
        """The unfinished sweep of the same words, or a new one."""
        return cls.unfinished(results, config, url) or cls.create(results, config, url)

    def open_store(self) -> Store:
        """Store of its studies, made if there is none yet.

        Raises
        ------
        ConfigError : the sweep was begun with a storage that the user of this process has not named
        StoreError : the store cannot be opened
        """
        self._opened = self._opened or Store(self._results, self._storage())
        return self._opened

    def look(self, study: str) -> StudyRecord | None:
        """One of its studies by name; None if it was never begun. No store is made.

        Raises
        ------
        ConfigError, StoreError : see `open_store`
        """
        self._opened = self._opened or Store.there(self._results, self._storage())
        return self._opened.look(study) if self._opened else None

    def _storage(self) -> str | None:
        """URL of the storage. Anybody can have written the sweep's file, so it leads to no database by itself."""
        begun_with = self._begun_with
        if self._url is None and begun_with not in (None, address(self._results)):
            shown = shlex.quote(addresses.hidden_store(str(begun_with)))
            raise ConfigError(
                f"sweep '{self.name}' was begun with another storage, says {self.artifacts.path / FILE};"
                f" if you know that storage, give --storage {shown}"
            )
        return self._url

    def study_name(self, config: StudyConfig | EvaluationConfig) -> str:
        """Name of one of its studies."""
        return f"{self.name}-{slug(config.label)}"

    def study(self, config: StudyConfig | EvaluationConfig) -> Study | EvaluationStudy:
        """One of its studies, made when it is first asked for."""
        now = datetime.now(UTC).isoformat()
        store = self.open_store()
        if isinstance(config, StudyConfig) and config.scores_by_file:
            check_own(self.artifacts.path.parent, store.url, f"{config.score_file} of sweep '{self.name}'")
        return open_study(store.ensure(self.study_name(config), plain(config), config.direction, now))

    def finished(self, study: str) -> dict[str, Any] | None:
        """Result of one of its studies by name; None if it has none yet, or was never begun."""
        record = self.look(study)
        return record.result if record else None

    @contextmanager
    def driving(self) -> Iterator[None]:
        """Hold the right to drive it.

        Raises
        ------
        StoreError : another process has it
        """
        with self.artifacts.held(f"sweep '{self.name}' is being driven by another damoos process"):
            yield

    def driven(self) -> bool:
        """Whether a process of this computer drives it now."""
        return self.artifacts.in_use()

    @property
    def status(self) -> dict[str, Any]:
        """What its driver last said of it."""
        return self._read(STATUS, forms.STATUS) or {"sweep": self.name, "studies": [], "failures": []}

    @property
    def result(self) -> dict[str, Any] | None:
        """What it has come to; None while there is more to do."""
        return self._read(RESULT, forms.RESULT)

    def _read(self, file: str, form: JsonForm) -> dict[str, Any] | None:
        """Content of one of its files; None where there is none.

        Raises
        ------
        StoreError : it is damaged
        """
        try:
            content = form.read(self.artifacts.path / file)
        except FileNotFoundError:
            return None
        if isinstance(content, Damage):
            raise StoreError(f"{content}, so sweep '{self.name}' cannot be read; {_REMEDIES[file]}")
        return content


def folders(results: Path) -> list[Path]:
    """Folders of the sweeps in a results folder, oldest first."""
    return numbered(results, PREFIX, FILE)


def names(results: Path) -> list[str]:
    """Names of the sweeps in a results folder, oldest first."""
    return [folder.name for folder in folders(results)]


def load(results: Path, name: str, url: str | None = None) -> Sweep:
    """A sweep by its name.

    Raises
    ------
    ConfigError : no such sweep
    """
    known = names(results)
    if name not in known:
        hint = nearest(name, known) if known else "; there are no sweeps yet"
        raise ConfigError(f"unknown sweep '{name}'{hint}")
    return Sweep(results, name, url)


def newest(results: Path) -> str:
    """Name of the newest sweep.

    Raises
    ------
    ConfigError : there are none
    """
    found = folders(results)
    if not found:
        raise ConfigError(f"there is no sweep in {results} yet")
    return found[-1].name
