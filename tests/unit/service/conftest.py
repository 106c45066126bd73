"""A keeper in a thread of the test, and a host that is not there."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from damoos import api
from damoos.dispatch import lease
from damoos.errors import DamoosError, MachineLost
from damoos.service import keeper
from damoos.service.journal import Journal
from damoos.service.patient import PatientJournal
from damoos.service.specification import specification
from damoos.testing.fake import FakeMachine
from tests.unit.service.test_kept import ON


class Session:
    """A machine's agent that has everything in force that it is asked for."""

    facts: dict[str, Any] = {}  # noqa: RUF012

    def __init__(self, host: Host) -> None:
        self.agent, self._host = self, host

    def call(self, name: str, service: str = "", **args: Any) -> Any:
        self._host.calls.append((name, service))
        if error := self._host.fails.get(name):
            raise error
        if name == "facts":
            return {"left_behind": self._host.left_behind}
        if name == "apply":
            self._host.applied[service] = args
            return {"pid": 7, "started": 4711, "accepted": {}}
        if name == "stop":
            self._host.applied.pop(service, None)
        status = {**ON, "in_service": service in self._host.applied, "restarts": self._host.restarts}
        return status if name == "status" else None

    def close(self) -> None:
        self._host.applied.clear()


class Host(FakeMachine):
    """A host that does not answer at first, and again whenever it is told so."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[str, str]] = []
        self.applied: dict[str, Any] = {}
        self.lost_for = 0
        self.restarts = 0
        self.refuses: DamoosError | None = None
        self.fails: dict[str, DamoosError] = {}
        self.left_behind: list[str] = []

    def open(self, say: Any = None) -> Any:
        if self.refuses:
            raise self.refuses
        if self.lost_for:
            self.lost_for = max(self.lost_for - 1, 0)
            raise MachineLost("there: no route to host")
        return Session(self)


@pytest.fixture
def kept_by(tmp_path: Path, fake: Any, monkeypatch: pytest.MonkeyPatch) -> tuple[Journal, Host, dict[str, Any]]:
    """A keeper in a thread of its own, of a study's policy on a host."""
    fake(FakeMachine(noise=0.001))
    study = api.tune(command="true", machine="fake", results=tmp_path, trials=2, seed=1)
    host = Host()
    fake(host)
    for name in ("POLL_S", "RETRY_S"):
        monkeypatch.setattr(keeper, name, 0.01)
    monkeypatch.setattr(lease, "BACKOFF_S", 0.0)
    spec = specification(study.name, tmp_path, arm="manual", machine="fake", on="pid:7", label="redis")
    return Journal.of(tmp_path, "fake"), host, spec


def run(journal: Journal) -> threading.Thread:
    own = PatientJournal(journal.folder)
    thread = threading.Thread(target=keeper.Keeper(own, threading.Event()).run, args=(False,), daemon=True)
    assert own.take()
    thread.start()
    return thread
