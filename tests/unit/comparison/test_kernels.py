"""Kernels compared on a machine from a curve, whose kernels differ by what the test says."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from damoos.comparison.kernels import QUANTITIES, KernelComparison, comparison_of, scheme_form, slower_by
from damoos.damon.damo_json import context_to_json
from damoos.damon.quotas import Quotas
from damoos.damon.scheme import Context, Scheme
from damoos.errors import MachineError, UnsupportedError, WorkloadError
from damoos.machines import catalog
from damoos.policies import named
from damoos.policies.base import DamosPolicy
from damoos.report.comparison.kernels import text
from damoos.store.studies import Store
from damoos.study.config import StudyConfig
from damoos.study.run_config import RunConfig
from damoos.testing.fake import FakeAgent, FakeMachine

SLOWDOWN = {"a": 0.02, "b": 0.02, "slow": 0.08}


@pytest.fixture(autouse=True)
def fakes(monkeypatch: pytest.MonkeyPatch) -> dict[str, FakeMachine]:
    """One fake guest per kernel: the same but for how much the scheme slows it down."""
    machines = {}
    for seed, (name, slowdown) in enumerate(SLOWDOWN.items()):
        machines[name] = FakeMachine(lambda min_age, slowdown=slowdown: (slowdown, 0.5), noise=0.002, seed=seed)
    monkeypatch.setattr(catalog, "machine", lambda name, kernel=None: machines[kernel])
    return machines


def comparison(
    *kernels: str, scheme: str | None = None, workload: str | None = None, command: str | None = "true", **settings
) -> KernelComparison:
    run = RunConfig(workload=workload, command=command, machine="guest")
    return KernelComparison(run, dict.fromkeys(kernels, scheme_form(run, scheme, "vaddr")), **settings)


def difference(result: dict, quantity: str) -> dict:
    (one,) = (one for one in result["differences"] if one["quantity"] == quantity)
    return one


def test_a_slower_kernel_differs_by_its_slowdown(tmp_path: Path) -> None:
    result = comparison("a", "slow").conduct(tmp_path)
    without = difference(result, "runtime without, s")
    under = difference(result, "runtime under the scheme, s")
    assert not without["differs"]
    assert under["differs"]
    assert under["interval"][0] < 1.08 / 1.02 - 1 < under["interval"][1]
    assert 0.04 < slower_by(result) < 0.06
    assert difference(result, "slowdown")["difference"] == pytest.approx(0.06, abs=0.01)
    shown = text(result)
    assert "slow against a: runtime under the scheme, s" in shown
    assert shown.count("differs") >= 2


def test_equal_kernels_cannot_be_told_apart(tmp_path: Path) -> None:
    result = comparison("a", "b").conduct(tmp_path)
    assert [one["quantity"] for one in result["differences"] if one["differs"]] == []
    assert slower_by(result) < 0.01


def test_every_run_is_kept_and_the_kernels_take_turns(tmp_path: Path, fakes: dict[str, FakeMachine]) -> None:
    order: list[str] = []

    class Noted(FakeMachine):
        def begin_run(self, number: int) -> None:
            order.append(self.kernel)

    for seed, name in enumerate(("a", "b")):
        fakes[name] = Noted(noise=0.002, seed=seed)
        fakes[name].kernel = name
    result = comparison("a", "b", repeats=4).conduct(tmp_path)
    rounds = [order[first : first + 4] for first in range(0, len(order), 4)]
    assert [sorted(one) for one in rounds] == [["a", "a", "b", "b"]] * 4
    assert [one[0] for one in rounds] == ["a", "b", "a", "b"], "each takes its turn at the beginning of a round"
    assert all(one[0] != one[1] for one in rounds), "no kernel has two runs more than another"
    store = Store(tmp_path)
    for kernel in result["kernels"]:
        assert set(kernel["quantities"]) == {quantity.name for quantity in QUANTITIES}
        assert len(store.load(kernel["study"]).runs()) == 8
        assert len(list((tmp_path / kernel["study"]).glob("*.parquet"))) == 8
    assert json.loads((tmp_path / result["comparison"] / "result.json").read_text()) == result
    assert result["differences"][0]["level"] == pytest.approx(1 - 0.05 / len(QUANTITIES))


def test_a_kernel_may_have_a_scheme_of_its_own(tmp_path: Path) -> None:
    run = RunConfig(command="true", machine="guest")
    forms = {"a": scheme_form(run, None, "vaddr"), "b": scheme_form(run, "4K max  min min  9s max  pageout", "vaddr")}
    result = KernelComparison(run, forms).conduct(tmp_path)
    assert [one["scheme"] for one in result["kernels"]] == [
        "4K max  min min  5s max  pageout",
        "4K max  min min  9s max  pageout",
    ]


def test_an_interrupted_comparison_goes_on_where_it_stopped(tmp_path: Path, fakes: dict[str, FakeMachine]) -> None:
    fakes["b"].failures = {2: MachineError("the host went away")}
    with pytest.raises(MachineError, match="went away"):
        comparison("a", "b", repeats=3).conduct(tmp_path)
    before = {name: machine.nr_runs for name, machine in fakes.items()}
    assert before["a"] >= 2
    result = comparison("a", "b", repeats=3).conduct(tmp_path)
    assert fakes["a"].nr_runs == 6, "no run of it was done twice"
    assert result["comparison"] == "kernels-true-guest-1"
    assert comparison("a", "b", repeats=3).conduct(tmp_path)["comparison"] == "kernels-true-guest-2"


def test_a_kernel_on_which_the_scheme_fails_has_no_numbers(tmp_path: Path, fakes: dict[str, FakeMachine]) -> None:
    class OutOfMemory(FakeMachine):
        def dice(self, number: int, document: dict[str, Any] | None) -> np.random.Generator:
            if document:
                raise WorkloadError("out of memory")
            return super().dice(number, document)

    fakes["b"] = OutOfMemory()
    result = comparison("a", "b", repeats=3).conduct(tmp_path)
    assert result["differences"] == []
    assert "  failed: out of memory" in text(result)
    with pytest.raises(WorkloadError, match="kernel 'b' under the scheme: out of memory"):
        slower_by(result)


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
        comparison("a", "b").conduct(tmp_path)
    assert fakes["a"].nr_runs == 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"repeats": 2}, "--repeats 2: give 3 or more"),
        ({"workload": "synthetic/idle"}, "either a workload, a command or a pid"),
        ({"workload": "synthetic/idel", "command": None}, "did you mean 'synthetic/idle'"),
        ({"scheme": "4K max  min min  5s max  pagout"}, "did you mean 'pageout'"),
    ],
)
def test_wrong_input_is_found_before_a_machine_is_started(settings: dict, message: str) -> None:
    with pytest.raises(Exception, match=message):
        comparison("a", "b", **settings)


def test_a_tuned_quota_is_compared_with_the_scheme() -> None:
    scheme = replace(Scheme.parse("4K max  min min  9s max  pageout"), quotas=Quotas(0, 1 << 20, 1000))

    class Record:
        result: ClassVar = {"recommended": {"damo": context_to_json(Context((scheme,)))}}

    class Finished:
        name = "study"
        record = Record()
        config = StudyConfig(command="true", machine="guest", nr_samples=2)

    policy = named.policy(comparison_of({"a": Finished()}).forms["a"])  # type: ignore[dict-item]
    assert isinstance(policy, DamosPolicy)
    assert policy.schemes == (scheme,)


def test_a_study_without_a_recommendation_has_nothing_to_compare() -> None:
    class Record:
        result = None

    class Unfinished:
        name = "study"
        record = Record()

    with pytest.raises(Exception, match="has no recommended scheme"):
        comparison_of({"a": Unfinished()})  # type: ignore[dict-item]
