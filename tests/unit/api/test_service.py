"""Rollouts and policies in service at a Python prompt."""

from __future__ import annotations

from pathlib import Path

import pytest

import damoos
from damoos.api.service import InService
from damoos.errors import ConfigError
from damoos.rollouts.driver import Driver
from damoos.rollouts.rollout import Rollout
from damoos.service.journal import Journal
from damoos.testing.rollout_fleet import FakeFleet, Nature, fake_plan

from .conftest import assert_tidy


def test_a_rollout_and_what_it_has_shown(tmp_path: Path) -> None:
    begun = Rollout.create(tmp_path, fake_plan(8, [1, 8]))
    fleet = FakeFleet(begun.plan, Nature(pressure=0.05))
    driver = Driver(begun, fleet, lambda line: None, lambda: fleet.now_s)
    found = damoos.load_rollout("rollout-1", results=tmp_path)
    assert (found.state, found.why) == ("running", "")
    while driver.advance():
        fleet.now_s += 60.0
    assert found.state == "undone"
    assert "memory_pressure" in found.why
    frame = found.findings_df
    assert_tidy(frame)
    assert set(frame["metric"]) == {"saving", "memory_pressure"}
    assert frame.set_index("metric").loc["memory_pressure", "standing"] == "broken"
    hosts = found.hosts_df
    assert hosts["host"].tolist() == begun.plan.order
    assert set(hosts["state"]) == {"has nothing"}
    assert repr(found).startswith("rollout-1: ")
    assert "undone" in repr(found)
    with pytest.raises(ConfigError, match="unknown rollout 'rollout-2'; did you mean 'rollout-1'"):
        damoos.load_rollout("rollout-2", results=tmp_path)


def test_what_its_guard_has_measured(tmp_path: Path) -> None:
    journal = Journal.of(tmp_path, "web1")
    for nth in range(3):
        window = {"at_s": 1e9 + nth, "paused": False, "net_bytes": 1 << 20, "rss_bytes": 2 << 20}
        journal.add_window("redis", {**window, "watched": {"memory_pressure": 0.01 * nth}})
    kept = InService("redis", "web1", tmp_path)
    assert_tidy(kept.windows_df)
    assert kept.windows_df["memory_pressure"].tolist() == [0.0, 0.01, 0.02]
    assert (kept.state, repr(kept)) == ({}, "redis: not in service")


def test_wrong_words_are_told_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="unknown study 'x'"):
        damoos.apply("x", on="machine", results=tmp_path)
    with pytest.raises(ConfigError, match=r"apply\(\) has no parameter 'guard'; did you mean 'guards'"):
        damoos.apply("x", guard=["memory_pressure<=1%"], results=tmp_path)
    with pytest.raises(ConfigError, match="name the machines of the rollout"):
        damoos.rollout("x", [], "machine", results=tmp_path)
    with pytest.raises(ConfigError, match="--tolerance"):
        damoos.rollout("x", ["local"], "machine", tolerance="much", results=tmp_path)
