"""A scheme in service, as its keeper hears of it; the kdamond is not there."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from damoos.agent import service
from damoos.agent.folders import Folders
from damoos.agent.undo import UndoLog
from damoos.errors import MachineError, UnsupportedError
from tests.conftest import prcl


class Kdamond:
    """One that the kernel refuses questions to once it has ended, which it may do in the middle of a status."""

    def __init__(self) -> None:
        self.left, self.broken = 1000, False

    def is_on(self) -> bool:
        self.left -= 1
        return self.left > 0

    def stats(self) -> list[Any]:
        if not self.is_on() or self.broken:
            raise UnsupportedError("the kernel refused 'update_schemes_stats'")
        return []

    def effective_bytes(self) -> list[int]:
        if not self.is_on():
            raise UnsupportedError("the kernel refused 'update_schemes_effective_quotas'")
        return [7]


class Scheme:
    """Around a kdamond; processes are followed without it."""

    def __init__(self, *_: object) -> None:
        self.kdamond = Kdamond()

    def __enter__(self) -> None: ...

    def start(self, pid: int) -> dict[str, str]:
        return {}

    def follow(self, pids: list[int]) -> None: ...

    def feed(self, measured: object) -> None: ...


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> service.Service:
    monkeypatch.setattr(service, "SchemeOnProcess", Scheme)
    log = UndoLog(tmp_path / "undo.json")
    return service.Service({"pid": os.getpid(), "context": prcl("1s")}, log, Folders(log, lambda: False))


def test_a_scheme_in_force_tells_what_it_does(kept: service.Service) -> None:
    status = kept.status()
    assert status["in_force"]
    assert status["effective_bytes"] == [7]


@pytest.mark.parametrize("asked", [1, 2, 3])
def test_a_kdamond_that_ends_while_it_is_asked_is_one_that_has_ended(kept: service.Service, asked: int) -> None:
    """The keeper then puts the scheme back; an error would end the keeper, as it did."""
    kept._scheme.kdamond.left = asked  # type: ignore[attr-defined]
    status = kept.status()
    assert status["alive"]
    assert not status["in_force"]


def test_what_a_kdamond_that_goes_on_refuses_is_an_error(kept: service.Service) -> None:
    kept._scheme.kdamond.broken = True  # type: ignore[attr-defined]
    with pytest.raises(UnsupportedError, match="refused"):
        kept.status()


def test_a_process_that_has_got_the_id_of_another_is_left_alone(kept: service.Service, tmp_path: Path) -> None:
    log = UndoLog(tmp_path / "undo.json")
    spec = {"pid": os.getpid(), "context": prcl("1s")}
    assert service.Service({**spec, "started": kept.started}, log, Folders(log, lambda: False)).pid == os.getpid()
    with pytest.raises(MachineError, match=f"process {os.getpid()} has ended, and another one has its id now"):
        service.Service({**spec, "started": 1}, log, Folders(log, lambda: False))
