from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from damoos.agent.meter import SAMPLE_COLUMNS
from damoos.damon.scheme import Context, Scheme
from damoos.dispatch.run import check_schemes, run_once
from damoos.errors import MachineError, MeasurementError, UnsupportedError, WorkloadError
from damoos.machines.base import Conditions
from damoos.model.trial import Measurement
from damoos.policies.base import DamosPolicy, LimitedPolicy, NonePolicy
from damoos.testing.fake import RSS_BYTES, RUNTIME_S, FakeMachine
from damoos.workloads.base import Container, Program, ProgramWorkload, Tuning

PROGRAM = ProgramWorkload("redis", Program(("redis-server",)), Tuning())


def run(monkeypatch: pytest.MonkeyPatch, **changes: Any) -> Measurement:
    """A run whose agent answers with some things changed."""
    session = FakeMachine().open()
    answer = session.agent.call
    monkeypatch.setattr(session.agent, "call", lambda name, **args: answer(name, **args) | changes)
    return run_once(session, FakeMachine(), PROGRAM, NonePolicy(), 10)[0]


def test_a_program_that_the_kernel_killed_for_memory_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(WorkloadError) as told:
        run(monkeypatch, exit_status=-9, oom_kills=1, stderr="")
    assert str(told.value).startswith("redis ended because memory ran out, and the kernel killed it: it had ")
    assert str(told.value).endswith(
        "on a machine of 1 GiB; give the machine more memory, or the workload a smaller input"
    )


def test_a_program_that_was_killed_otherwise_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(WorkloadError, match=r"^redis ended with signal 9: why$"):
        run(monkeypatch, exit_status=-9, stderr="why\n")


def samples(**changes: Any) -> list[list[Any]]:
    """One sample, with some of its columns changed."""
    return [list({**dict.fromkeys(SAMPLE_COLUMNS, 1.0), **changes}.values())]


def test_what_a_machine_answers_and_nobody_can_compute_with_names_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MachineError, match=r"^machine 'fake': its answers cannot be computed with: could not convert"):
        run(monkeypatch, samples=samples(rss_bytes="x"))


def test_a_metric_that_no_study_takes_back_fails_its_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ProgramWorkload, "metrics", lambda self, raw: {"p99_ms": 1e305})
    with pytest.raises(MeasurementError, match=r"^redis: metric 'p99_ms' is 1e\+305, which cannot be computed with$"):
        run(monkeypatch)


@pytest.mark.parametrize("rss_bytes", [0, -1.0, 1e-320])
def test_a_run_that_ended_before_a_sample_has_no_rss(monkeypatch: pytest.MonkeyPatch, rss_bytes: float) -> None:
    """No score divides by it."""
    with pytest.raises(MeasurementError, match="the run has no finite metric 'rss_avg_bytes'"):
        run(monkeypatch, samples=samples(rss_bytes=rss_bytes)).metric("rss_avg_bytes")


def test_no_counter_takes_the_place_of_what_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    session = FakeMachine().open()
    answer = session.agent.call
    counters = {"counters": {"runtime_s": 0, "rss_avg_bytes": 0, "pswpin": 3}}
    monkeypatch.setattr(session.agent, "call", lambda name, **args: answer(name, **args) | counters)
    measurement, _ = run_once(session, FakeMachine(), PROGRAM, NonePolicy(), 10)
    assert measurement.metric("runtime_s") == RUNTIME_S
    assert measurement.metric("rss_avg_bytes") == RSS_BYTES
    assert measurement.metric("pswpin") == 3


def test_a_run_has_the_limit_of_its_policy_else_that_of_its_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = FakeMachine()
    machine.conditions = Conditions(memory_max="64M", memory_high="48M", swap_max="0")
    session, limits = machine.open(), []
    answer = session.agent.call

    def call(name: str, **args: Any) -> Any:
        limits.append(args["memory_limits"])
        return answer(name, **args)

    monkeypatch.setattr(session.agent, "call", call)
    for policy in (NonePolicy(), LimitedPolicy(NonePolicy(), {"memory.max": 1 << 20})):
        run_once(session, machine, PROGRAM, policy, 10)
    run_once(session, FakeMachine(), PROGRAM, NonePolicy(), 10)
    own = {"memory.max": 64 << 20, "memory.high": 48 << 20, "memory.swap.max": 0}
    assert limits == [own, own | {"memory.max": 1 << 20}, {}]
    with pytest.raises(ValidationError, match="unknown size unit 'parsecs'"):
        Conditions(memory_max="12 parsecs")


def test_a_program_that_needs_more_than_its_limit_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    session = FakeMachine().open()
    answer = session.agent.call
    killed = {"exit_status": -9, "oom_kills": 1, "stderr": "", "counters": {"limit_oom_kill": 1}}
    monkeypatch.setattr(session.agent, "call", lambda name, **args: answer(name, **args) | killed)
    with pytest.raises(WorkloadError, match="redis ended because it needs more than the 1 MiB that it was limited to"):
        run_once(session, FakeMachine(), PROGRAM, LimitedPolicy(NonePolicy(), {"memory.max": 1 << 20}), 10)
    own = Container("redis", "application", None, memory_limits={"memory.max": 2 << 20})
    beside = Container("agent", "tax", ("agent",), memory_limits={"memory.max": 1 << 19})
    limited = ProgramWorkload("redis", Program(("redis-server",), containers=(own, beside)), Tuning())
    with pytest.raises(WorkloadError, match="redis ended because it needs more than the 2 MiB that it was limited to"):
        run_once(session, FakeMachine(), limited, NonePolicy(), 10)


def test_where_pages_went_is_part_of_the_provenance() -> None:
    policy = DamosPolicy(Context.parse("4K max  min min  5s max  pageout"))
    measurement, _ = run_once(FakeMachine().open(), FakeMachine(), PROGRAM, policy, 10)
    assert list(measurement.provenance["swapped_to"]) == ["/dev/zram0"]
    assert measurement.metric("sampling_cpu_s") > 0


@pytest.mark.parametrize(
    ("context", "message"),
    [
        (Context((Scheme("migrate_cold"),), "paddr"), "moves nothing without a target: add target_nid=NODE"),
        (Context((Scheme("pageout"),), "fvaddr"), "watch ranges of addresses that cannot be given"),
    ],
)
def test_a_scheme_that_would_do_nothing_is_refused(context: Context, message: str) -> None:
    session = FakeMachine().open()
    probe = {"operations": ["vaddr", "fvaddr", "paddr"], "actions": ["pageout", "migrate_cold"], "files": []}

    def call(name: str, **args: Any) -> Any:
        return probe if name == "probe" else session.agent.call(name, **args)

    with pytest.raises(UnsupportedError, match=message):
        check_schemes(call, "fake", [context])
