"""A policy in service, as its keeper hears of it; the kdamond is not there."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from damoos.agent import policy_on_processes, service
from damoos.agent.undo import UndoLog
from damoos.errors import MachineError, UnsupportedError
from tests.conftest import prcl

ME = {"kind": "pid", "pid": os.getpid()}


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

    changed = ""

    def __init__(self, *_: object) -> None:
        self.kdamond = Kdamond()
        self.operations = "vaddr"
        self.left = False

    def __enter__(self) -> None: ...

    def __exit__(self) -> None: ...

    def start(self, *pids: int, group_path: str) -> dict[str, str]:
        return {}

    def follow(self, pids: list[int]) -> None: ...

    def feed(self, measured: object) -> None: ...

    def cpu_s(self) -> float:
        return 0.5

    def changed_by_others(self) -> str:
        return self.changed

    def leave(self) -> None:
        self.left = True


def made(tmp_path: Path, **spec: Any) -> service.Service:
    given = {"on": ME, "context": prcl("1s"), **spec}
    return service.Service(given, UndoLog(tmp_path / "undo.json"), "redis", lambda: False)


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> service.Service:
    monkeypatch.setattr(policy_on_processes, "SchemeOnProcess", Scheme)
    return made(tmp_path)


def scheme_of(kept: service.Service) -> Any:
    assert kept._policy
    return kept._policy._scheme


def test_a_scheme_in_force_tells_what_it_does(kept: service.Service) -> None:
    status = kept.status()
    assert status["in_force"]
    assert status["effective_bytes"] == [7]
    assert status["kdamond_cpu_s"] == 0.5
    assert status["reading"]["counters"]["pgmajfault"] > 0


@pytest.mark.parametrize("asked", [1, 2, 3])
def test_a_kdamond_that_ends_while_it_is_asked_is_one_that_has_ended(kept: service.Service, asked: int) -> None:
    """The keeper then puts the scheme back; an error would end what is kept, as it did."""
    scheme_of(kept).kdamond.left = asked
    status = kept.status()
    assert status["alive"]
    assert not status["in_force"]
    kept.renew()
    assert kept.status()["in_force"]


def test_a_rule_that_goes_on_is_no_reason_for_a_kdamond_that_has_ended(kept: service.Service) -> None:
    assert kept._policy
    kept._policy._rule = SimpleNamespace(failure=None, end=lambda: None)  # type: ignore[assignment]
    scheme_of(kept).kdamond.left = 1
    status = kept.status()
    assert not status["in_force"]
    assert "why" not in status


def test_what_a_kdamond_that_goes_on_refuses_is_an_error(kept: service.Service) -> None:
    scheme_of(kept).kdamond.broken = True
    with pytest.raises(UnsupportedError, match="refused"):
        kept.status()


def test_a_kdamond_that_somebody_else_has_changed_is_theirs(kept: service.Service) -> None:
    scheme = scheme_of(kept)
    scheme.changed = "schemes/0/action: the kernel holds 'stat' where 'pageout' was written"
    for _ in range(2):
        status = kept.status()
        assert status["changed"] == [scheme.changed]
        assert not status["in_force"]
        assert status["alive"]
    assert scheme.left


def test_a_process_that_has_got_the_id_of_another_is_left_alone(kept: service.Service, tmp_path: Path) -> None:
    assert made(tmp_path / "..", on={**ME, "started": kept.started}).pid == os.getpid()
    with pytest.raises(MachineError, match=f"process {os.getpid()} has ended, and another one has its id now"):
        made(tmp_path, on={**ME, "started": 1})


def test_a_metric_that_cannot_be_read_is_missing(kept: service.Service, tmp_path: Path) -> None:
    file = tmp_path / "p99"
    file.write_text("7.5\n")
    metrics = [["p99_ms", "file", [str(file)], ""], ["qps", "file", [str(tmp_path / "none")], ""]]
    reading = made(tmp_path, metrics=metrics).status()["reading"]
    assert reading["metrics"] == {"p99_ms": 7.5}
    assert reading["ages_s"] == {"p99_ms": pytest.approx(0.0, abs=60.0)}
    assert "No such file" in reading["missing"]["qps"]


def test_a_set_without_processes_waits(kept: service.Service, tmp_path: Path) -> None:
    file = tmp_path / "pid"
    file.write_text("4194304")
    waiting = made(tmp_path, on={"kind": "pid_file", "path": str(file)})
    status = waiting.status()
    assert (status["alive"], status["in_force"], status["nr_processes"]) == (True, False, 0)
    file.write_text(str(os.getpid()))
    assert waiting.status()["in_force"]
    file.unlink()
    status = waiting.status()
    assert (status["alive"], status["in_force"], status["restarts"]) == (True, False, 1)
