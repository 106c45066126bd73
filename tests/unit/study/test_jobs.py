"""What a study has done on a machine."""

from __future__ import annotations

from typing import Any

import pytest

from damoos.dispatch.lease import Lease
from damoos.errors import MeasurementError
from damoos.policies.base import NonePolicy
from damoos.study import jobs
from damoos.testing.fake import FakeMachine
from damoos.workloads.base import Program, ProgramWorkload, Tuning


def test_a_run_with_few_samples_is_told_and_not_scored(monkeypatch: pytest.MonkeyPatch) -> None:
    session = FakeMachine().open()
    answer, changes = session.agent.call, {"nr": 9, "aborted": False}

    def short(name: str, **args: Any) -> Any:
        found = answer(name, **args)
        if name != "run":
            return found
        return {**found, "samples": found["samples"][: changes["nr"]], "aborted": changes["aborted"], "runtime_s": 0.3}

    monkeypatch.setattr(session.agent, "call", short)
    monkeypatch.setattr(FakeMachine, "open", lambda self, say=None: session)
    redis = ProgramWorkload("redis", Program(("redis-server",)), Tuning())
    with Lease(FakeMachine()) as lease:
        with pytest.raises(
            MeasurementError, match=r"^redis: its memory was looked at 9 times in 0\.3 s, and 10 are the"
        ):
            jobs.execute(lease, redis, NonePolicy(), 10, None)
        changes["aborted"] = True
        assert jobs.execute(lease, redis, NonePolicy(), 10, 1.0)[0].censored
        changes |= {"nr": 10, "aborted": False}
        assert jobs.execute(lease, redis, NonePolicy(), 10, None)[0].metric("runtime_s") == 0.3
