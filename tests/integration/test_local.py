"""The same agent on this machine, as a child process; no scheme, so nothing of the host's is touched."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from damoos.errors import MeasurementError, UnsupportedError, WorkloadError
from damoos.machines.catalog import machine
from damoos.model.trial import Measurement
from damoos.policies.base import NonePolicy
from damoos.runner import METRICS, run_once
from damoos.workloads.base import Program, ProgramWorkload, Tuning

PLACE = machine("local")


@pytest.fixture
def session():
    opened = PLACE.open()
    yield opened
    opened.close()


def program(*argv: str) -> ProgramWorkload:
    return ProgramWorkload("program", Program(argv), Tuning())


def test_a_run_is_measured(session) -> None:
    measurement, samples = run_once(session, PLACE, program("sleep", "0.7"), NonePolicy(), 10)
    assert 0.7 <= measurement.metric("runtime_s") < 5
    assert measurement.metric("rss_avg_bytes") > 100_000
    assert measurement.damos == ()
    assert len(samples.rows) >= 2
    assert measurement.provenance["kernel"] == os.uname().release


def test_failures_are_told(session) -> None:
    with pytest.raises(WorkloadError, match="exit status 3: why"):
        run_once(session, PLACE, program("sh", "-c", "echo why >&2; exit 3"), NonePolicy(), 10)
    with pytest.raises(WorkloadError, match="past its limit"):
        run_once(session, PLACE, program("sleep", "60"), NonePolicy(), 0.5)
    with pytest.raises(UnsupportedError, match="no THP mode 'sometimes'"):
        session.agent.call("prepare", thp="sometimes")


def test_a_hopeless_run_is_stopped_and_not_given_a_runtime(session) -> None:
    loop = program("sh", "-c", "while :; do :; done")
    measurement, samples = run_once(session, PLACE, loop, NonePolicy(), 30, abort_s=1.0)
    assert measurement.censored
    assert 1.0 <= measurement.metric("elapsed_s") < 5
    assert 0 < measurement.metric("elapsed_user_s") <= measurement.metric("elapsed_s") * 1.2
    with pytest.raises(MeasurementError):
        measurement.metric("runtime_s")
    assert Measurement.from_json(measurement.to_json()) == measurement
    assert len(samples.rows) >= 2
    whole, _ = run_once(session, PLACE, program("sleep", "0.3"), NonePolicy(), 30, abort_s=5.0)
    assert not whole.censored


def test_what_a_machine_says_it_measures_is_measured(session) -> None:
    measurement, _ = run_once(session, PLACE, program("sleep", "0.3"), NonePolicy(), 10)
    assert {*METRICS, *session.facts["metrics"]} <= set(measurement.metrics)


def test_nothing_is_left_running(session, tmp_path: Path) -> None:
    run_once(session, PLACE, program("sh", "-c", "sleep 27.1828 & exit 0"), NonePolicy(), 10)
    time.sleep(0.2)
    left = subprocess.run(["pgrep", "-f", "sleep 27.1828"], capture_output=True, check=False)
    assert left.returncode == 1
