"""What a shell is offered: names of the catalogue, and of what lies in the results folder."""

from __future__ import annotations

import os
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from damoos import scorers, searchers
from damoos.cli import complete
from damoos.machines import catalog as machines
from damoos.policies import catalog as policies
from damoos.policies import named
from damoos.workloads import catalog as workloads
from damoos.workloads import install


@pytest.fixture
def context(tmp_path: Path) -> SimpleNamespace:
    """A results folder with one of each."""
    for file in (
        "stairs-guest-1/.lock",
        "stairs-guest-2/.lock",
        "stairs-guest-2/recording.damo",
        "sweep-1/.lock",
        "sweep-1/sweep.json",
        "record-stairs/recording.damo",
        "record-killed/recording.journal",
        "compare-1/table.csv",
    ):
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).touch()
    return SimpleNamespace(params={"results": tmp_path})


def test_names_are_those_of_the_catalogues(context: SimpleNamespace) -> None:
    assert complete.workloads(context, "") == workloads.names()
    assert complete.machines(context, "") == machines.names()
    assert set(complete.SEARCHERS) == set(searchers.SEARCHERS)
    assert set(complete.SCORERS) == set(scorers.SCORERS)
    assert complete.searchers(context, "b") == ["bayes"]
    assert set(complete.POLICIES) == set(policies.RULES)
    assert complete.configurations(context, "") == sorted(named.names())
    assert set(complete.SUITES) == {*install.SUITES, "splash2x"}  # which comes with parsec3
    assert complete.scorers(context, "sl") == ["sla"]
    assert complete.policies(context, "damos") == ["damos", "damos-psi"]


def test_what_lies_in_the_results_folder(context: SimpleNamespace) -> None:
    assert complete.studies(context, "") == ["stairs-guest-1", "stairs-guest-2"]
    assert complete.sweeps(context, "sw") == ["sweep-1"]
    assert complete.studies_and_sweeps(context, "") == ["stairs-guest-1", "stairs-guest-2", "sweep-1"]
    assert complete.recordings(context, "record-") == ["record-killed", "record-stairs"]
    assert complete.recordings(context, "stairs") == ["stairs-guest-2"]


def test_no_results_folder_offers_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert complete.studies(SimpleNamespace(params={}), "") == []
    assert complete.recordings(SimpleNamespace(params={"results": tmp_path / "none"}), "") == []


def test_names_behind_commas(context: SimpleNamespace) -> None:
    several = complete.several(complete.machines)
    assert several(context, "guest-ss") == ["guest-ssd-fast", "guest-ssd-slow"]
    assert several(context, "guest,m5d") == ["guest,m5d", "guest,m5d.metal"]
    assert several(context, "m5d,m5d") == ["m5d,m5d.metal"]


# What zsh runs at the Tab key, what bash runs at the Enter key, and what a command would take for an option.
HOSTILE = (
    r"\$(id)", "$(id)", "`id`", "a;id", "a id", "a&id", "a|id", "a>id", "a\nid", "~root", "*", "a'", 'a"', "-x", "=ls",
    "a{b,c}", "#a", "!1", "\u202ea", "a\x1b[2J",
)  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_no_name_is_offered_that_a_shell_would_run_or_expand(context: SimpleNamespace, name: str) -> None:
    for file in (".lock", "sweep.json", "rollout.json", "recording.damo"):
        folder = context.params["results"] / f"{name}{file}"
        folder.mkdir()
        (folder / file).touch()
    for file in ("service/here/{}.json", "service/here/{}.state"):
        path = context.params["results"] / file.format(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    offered = [*complete.resumable(context, ""), *complete.watchable(context, ""), *complete.recordings(context, "")]
    assert "stairs-guest-1" in offered
    assert [one for one in offered if not re.fullmatch(r"[a-z0-9-]+", one)] == []


def test_names_of_every_kind_that_damoos_has_are_offered() -> None:
    for name in ("unit:", "cgroup:/", "match:exe=", "redis@1.service", "./web1.toml", "r5.24xlarge", "guest,m5d+x"):
        assert complete.is_offered(name)


def test_a_results_folder_that_others_can_fill_is_not_looked_at(context: SimpleNamespace) -> None:
    """It is ``./results`` of a folder such as /tmp."""
    assert complete.studies(context, "")
    context.params["results"].chmod(0o777)
    assert complete.studies(context, "") == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be two users")
def test_a_results_folder_of_another_user_is_not_looked_at(context: SimpleNamespace) -> None:
    os.chown(context.params["results"], 61235, 61235)
    assert complete.studies(context, "") == []
    assert complete.recordings(context, "") == []
