"""Kernels compared on a machine from a curve, whose kernels differ by what the test says."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest

from damoos.comparison.kernels import QUANTITIES, Evaluation, evaluation_of, slower_by, text
from damoos.damon.damo_json import context_to_json
from damoos.damon.scheme import Context, Quotas, Scheme, parse_schemes
from damoos.errors import ConfigError, UnsupportedError
from damoos.machines import catalog
from damoos.policies.base import DamosPolicy
from damoos.study.config import StudyConfig
from damoos.testing.fake import FakeAgent, FakeMachine

RESULT = {"a": 0.02, "b": 0.02, "slow": 0.08}


@pytest.fixture(autouse=True)
def fakes(monkeypatch: pytest.MonkeyPatch) -> dict[str, FakeMachine]:
    """One fake guest per kernel: the same but for how much the scheme slows it down."""
    made = {}
    for seed, (name, slowdown) in enumerate(RESULT.items()):
        made[name] = FakeMachine(lambda min_age, slowdown=slowdown: (slowdown, 0.5), noise=0.002, seed=seed)
    monkeypatch.setattr(catalog, "machine", lambda name, kernel=None: made[kernel])
    return made


def evaluation(*kernels: str, **settings) -> Evaluation:
    what = {
        "workload": None,
        "command": "true",
        **{k: settings.pop(k) for k in ("workload", "command") if k in settings},
    }
    return Evaluation(StudyConfig(machine="guest", nr_samples=2, **what), kernels, **settings)


def difference(found: dict, quantity: str) -> dict:
    (one,) = (one for one in found["differences"] if one["quantity"] == quantity)
    return one


def test_a_slower_kernel_is_told_and_by_how_much(tmp_path: Path) -> None:
    found = evaluation("a", "slow").run(tmp_path, print)
    without = difference(found, "runtime without, s")
    under = difference(found, "runtime under the scheme, s")
    assert not without["differs"]
    assert under["differs"]
    assert under["interval"][0] < 1.08 / 1.02 - 1 < under["interval"][1]
    assert 0.04 < slower_by(found) < 0.06
    assert difference(found, "slowdown")["difference"] == pytest.approx(0.06, abs=0.01)
    said = text(found)
    assert "slow against a: runtime under the scheme, s" in said
    assert said.count("differs") >= 2


def test_equal_kernels_cannot_be_told_apart(tmp_path: Path) -> None:
    found = evaluation("a", "b").run(tmp_path, print)
    assert [one["quantity"] for one in found["differences"] if one["differs"]] == []
    assert slower_by(found) < 0.01


def test_every_run_is_kept_and_the_order_turns(tmp_path: Path) -> None:
    found = evaluation("a", "b", repeats=4).run(tmp_path, print)
    folder = tmp_path / found["evaluation"]
    rows = [json.loads(line) for line in (folder / "runs.jsonl").read_text().splitlines()]
    assert len(rows) == 4 * 2 * 2
    first = [(row["kernel"], row["arm"]) for row in rows[::4]]
    assert len(set(first)) == 4, "each takes its turn at the beginning of a round"
    assert len(list(folder.glob("*.parquet"))) == 16
    assert json.loads((folder / "result.json").read_text()) == found
    for one in found["kernels"]:
        assert set(one["quantities"]) == {quantity.name for quantity in QUANTITIES}
    assert found["differences"][0]["level"] == pytest.approx(1 - 0.05 / len(QUANTITIES))


def test_a_kernel_may_have_a_scheme_of_its_own(tmp_path: Path) -> None:
    own = DamosPolicy(parse_schemes("4K max  min min  9s max  pageout"), "vaddr")
    found = evaluation("a", "b", policies={"b": own}).run(tmp_path, print)
    assert [one["scheme"] for one in found["kernels"]] == [
        "4K max  min min  5s max  pageout",
        "4K max  min min  9s max  pageout",
    ]


def test_what_had_finished_stays(tmp_path: Path, fakes: dict[str, FakeMachine]) -> None:
    fakes["b"].failures = {2: ConfigError("broken")}
    with pytest.raises(ConfigError, match="broken"):
        evaluation("a", "b").run(tmp_path, print)
    (kept,) = tmp_path.glob("evaluate-*/runs.jsonl")
    assert len(kept.read_text().splitlines()) >= 4


def test_an_action_that_does_nothing_is_found_before_the_first_run(
    tmp_path: Path, fakes: dict[str, FakeMachine], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = FakeAgent.call

    def call(self: FakeAgent, name: str, **args) -> object:
        if name == "tryout":
            return {"pageout": 0}
        return {**real(self, name, **args), "swap_bytes": 0} if name == "facts" else real(self, name, **args)

    monkeypatch.setattr(FakeAgent, "call", call)
    with pytest.raises(UnsupportedError, match="applies it to nothing; it has no swap"):
        evaluation("a", "b").run(tmp_path, print)
    assert fakes["a"].nr_runs == 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"repeats": 2}, "--repeats 2 give no interval"),
        ({"workload": "synthetic/idle"}, "either a workload, a command or a pid"),
        ({"workload": "synthetic/idel", "command": None}, "did you mean 'synthetic/idle'"),
        ({"scheme": "4K max  min min  5s max  pagout"}, "did you mean 'pageout'"),
    ],
)
def test_wrong_words_are_found_before_a_machine_is_started(settings: dict, message: str) -> None:
    with pytest.raises(Exception, match=message):
        evaluation("a", "b", **settings)


def test_a_tuned_quota_is_compared_with_the_scheme() -> None:
    scheme = replace(Scheme.parse("4K max  min min  9s max  pageout"), quotas=Quotas(0, 1 << 20, 1000))

    class Record:
        result: ClassVar = {"recommended": {"damo": context_to_json(Context((scheme,)))}}

    class Finished:
        name = "study"
        record = Record()
        config = StudyConfig(None, "true", machine="guest", nr_samples=2)

    made = evaluation_of({"a": Finished()})  # type: ignore[dict-item]
    assert made.policies["a"].schemes == (scheme,)


def test_a_study_without_a_recommendation_has_nothing_to_compare() -> None:
    class Record:
        result = None

    class Unfinished:
        name = "study"
        record = Record()

    with pytest.raises(ConfigError, match="has no recommended scheme"):
        evaluation_of({"a": Unfinished()})  # type: ignore[dict-item]
