"""A process that joins a cluster: it waits for no head for ever, and is told what Ray fails with."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from damoos.dispatch import ray_connection
from damoos.errors import ConfigError


class FakeRay:
    """Ray, whose ``init`` does what a test says."""

    def __init__(self, init: Callable[[], object]) -> None:
        self._init = init

    def init(self, **words: Any) -> None:
        self._init()


@pytest.fixture(autouse=True)
def no_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_connection, "_own_path", lambda: None)


def test_a_silent_head_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_connection, "CONNECT_S", 0.1, raising=False)
    may_end = threading.Event()
    with pytest.raises(ConfigError, match=r"--ray h:1: the cluster has not let damoos in within 0.1 s"):
        ray_connection._connect(FakeRay(lambda: may_end.wait(10)), "h:1")
    may_end.set()


def failing(error: BaseException) -> FakeRay:
    def init() -> None:
        raise error

    return FakeRay(init)


def test_what_ray_fails_with_is_told() -> None:
    with pytest.raises(ConfigError, match=r"--ray h:1: no such cluster; 'damoos cluster up"):
        ray_connection._connect(failing(ConnectionError("no such cluster\nat all")), "h:1")
    with pytest.raises(KeyError):
        ray_connection._connect(failing(KeyError("a defect")), "h:1")


def test_a_head_that_answers_is_joined() -> None:
    joined: list[bool] = []
    ray_connection._connect(FakeRay(lambda: joined.append(True)), "h:1")
    assert joined == [True]
