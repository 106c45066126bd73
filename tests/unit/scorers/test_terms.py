"""Scores on numbers worked out by hand, and the words that people get wrong."""

import math
from pathlib import Path

import pytest

from damoos.errors import ConfigError, MeasurementError
from damoos.model.trial import Measurement, Score
from damoos.scorers import scorer
from damoos.scorers.terms import parse_limit

GIB = 1 << 30
BASELINE = Measurement(
    {
        "runtime_s": 100.0,
        "user_s": 150.0,
        "system_s": 50.0,
        "rss_avg_bytes": 4 * GIB,
        "net_avg_bytes": 4 * GIB,
        "kdamond_cpu_s": 0.0,
        "psi_some_us": 0.0,
        "psi_io_some_us": 0.0,
        "p99_ms": 10.0,
    }
)


def run(**changes: float) -> Measurement:
    return Measurement({**BASELINE.metrics, **changes})


def scored(name: str, measured: Measurement, **options) -> Score:
    return scorer(name, options).score(measured, BASELINE, [])


def test_the_goal_within_the_limits() -> None:
    words = {"maximize": "memory_saving", "limits": ["slowdown<=0.05", "p99_ms<=1.2x"]}
    half = {"rss_avg_bytes": 2 * GIB}
    assert scored("sla", run(**half), **words) == Score(0.5, feasible=True)
    assert scored("sla", run(runtime_s=104.9, p99_ms=12.0, **half), **words).feasible
    assert scored("sla", run(runtime_s=105.1, **half), **words) == Score(None, feasible=False)
    assert scored("sla", run(p99_ms=12.1, **half), **words) == Score(None, feasible=False)


def test_a_goal_to_be_minimised() -> None:
    made = scorer("sla", {"minimize": "p99_ms", "limits": ["net_saving>=10%"]})
    assert made.direction == "minimize"
    assert made.needs == ("p99_ms", "net_avg_bytes")
    assert made.score(run(p99_ms=9.0, net_avg_bytes=3 * GIB), BASELINE, []) == Score(9.0, feasible=True)
    assert not made.score(run(p99_ms=9.0), BASELINE, []).feasible


def test_the_net_saving_charges_the_swap_pool() -> None:
    measured = run(rss_avg_bytes=1 * GIB, net_avg_bytes=3 * GIB)
    assert scored("sla", measured).value == 0.75
    assert scored("sla", measured, maximize="net_saving").value == 0.25


@pytest.mark.parametrize(
    ("limits", "slowdown"),
    [
        ([], math.inf),
        (["slowdown<=0.05"], 0.05),
        (["slowdown<=5%", "slowdown<=0.03"], 0.03),
        (["speedup>=-0.2"], 0.2),
        (["slowdown>=0.05", "p99_ms<=1.2x"], math.inf),
    ],
)
def test_the_slowdown_from_which_on_a_run_is_lost(limits: list[str], slowdown: float) -> None:
    assert scorer("sla", {"limits": limits}).max_slowdown == slowdown
    assert scorer("weighted", {"limits": limits}).max_slowdown == slowdown


def test_weights() -> None:
    words = {"weights": ["memory_saving=0.7", "speedup=0.3"], "limits": ["slowdown<=0.2"]}
    measured = run(runtime_s=110.0, rss_avg_bytes=1 * GIB)
    assert scored("weighted", measured, **words).value == pytest.approx(0.7 * 0.75 - 0.3 * 0.1)
    assert not scored("weighted", run(runtime_s=121.0), **words).feasible


def test_pressure_is_kept_at_what_tmo_keeps() -> None:
    saved = {"net_avg_bytes": 3 * GIB}
    assert scored("psi", run(psi_some_us=1e5, psi_io_some_us=1e5, **saved)) == Score(0.25, feasible=True)
    assert not scored("psi", run(psi_some_us=1.01e5, **saved)).feasible
    assert not scored("psi", run(psi_io_some_us=1.01e5, **saved)).feasible


def test_money(tmp_path: Path) -> None:
    file = tmp_path / "prices.toml"
    file.write_text('currency = "EUR"\ngib_hour = 0.005\ncore_hour = 0.03\n')
    made = scorer("cost", {"prices": str(file), "limits": ["slowdown<=0.5"]})
    assert made.unit == "EUR per hour of the workload"
    # 2 GiB less; 2 busy cores 10 % slower, and kdamond on a twentieth of one.
    measured = run(runtime_s=110.0, net_avg_bytes=2 * GIB, kdamond_cpu_s=5.5)
    assert made.score(measured, BASELINE, []).value == pytest.approx(2 * 0.005 - (0.2 + 0.05) * 0.03)
    file.write_text("gib_hours = 0.005\ncore_hour = 0.03\n")
    with pytest.raises(ConfigError, match="unknown key 'gib_hours'; did you mean 'gib_hour'"):
        scorer("cost", {"prices": str(file)})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("slowdown", "write NAME<=NUMBER"),
        ("slowdown=0.1", "write NAME<=NUMBER"),
        ("slowdown<=fast", "'fast' is not a number"),
        ("p99_ms<=5s", "'5s' is not a number; in the unit of the name, 5 s"),
        ("slowdown<=1.2x", "is already relative to the baseline"),
        ("Slowdown<=1", "'Slowdown' is not a metric; did you mean 'slowdown'"),
    ],
)
def test_limits_that_are_none(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_limit(text)


def file_scorer(tmp_path: Path, text: str, function: str = "score"):
    file = tmp_path / "mine.py"
    file.write_text(text)
    return scorer(f"{file}:{function}")


def test_a_function_of_a_file(tmp_path: Path) -> None:
    made = file_scorer(
        tmp_path,
        'direction = "minimize"\nunit = "seconds"\nneeds = ("runtime_s", "p99_ms")\nmax_slowdown = 0.2\n'
        "def score(run, baseline):\n    return run['runtime_s'] if run['p99_ms'] < 20 else None\n",
    )
    assert (made.direction, made.unit, made.max_slowdown) == ("minimize", "seconds", 0.2)
    assert made.score(run(), BASELINE, []) == Score(100.0, feasible=True)
    assert made.score(run(p99_ms=30.0), BASELINE, []) == Score(None, feasible=False)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def scare(run, baseline): return 1\n", "no function 'score'; did you mean 'scare'"),
        ("def score(run, baseline)\n", "SyntaxError"),
        ('direction = "maximise"\ndef score(run, baseline): return 1\n', "did you mean 'maximize'"),
        ('max_slowdown = "little"\ndef score(run, baseline): return 1\n', "max_slowdown 'little' is not a number"),
    ],
)
def test_a_file_that_holds_no_score(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        file_scorer(tmp_path, text)


@pytest.mark.parametrize("body", ["return run['p99']", "return float('nan')", "return 'much'"])
def test_a_function_that_gives_no_number_is_never_scored(tmp_path: Path, body: str) -> None:
    made = file_scorer(tmp_path, f"def score(run, baseline):\n    {body}\n")
    with pytest.raises(MeasurementError, match=r"mine\.py:score"):
        made.score(run(), BASELINE, [])


def program(tmp_path: Path, text: str):
    file = tmp_path / "sf"
    file.write_text(text)
    file.chmod(0o755)
    return scorer(str(file))


def test_a_program(tmp_path: Path) -> None:
    made = program(
        tmp_path,
        "#!/usr/bin/env python3\n# damoos: needs=runtime_s,p99_ms max_slowdown=0.3\nimport json, sys\n"
        "given = json.load(sys.stdin)\n"
        "slow = given['run']['runtime_s'] / given['baseline']['runtime_s'] - 1\n"
        "print('infeasible' if slow > 0.3 else 1 - slow)\n",
    )
    assert made.needs == ("runtime_s", "p99_ms")
    assert made.max_slowdown == 0.3
    assert made.score(run(runtime_s=125.0), BASELINE, []) == Score(0.75, feasible=True)
    assert made.score(run(runtime_s=140.0), BASELINE, []) == Score(None, feasible=False)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("#!/bin/sh\necho no memory >&2; exit 3\n", "exit status 3: no memory"),
        ("#!/bin/sh\necho 1.2.3\n", "it printed '1.2.3', which is not a number"),
        ("#!/bin/sh\necho inf\n", "returned inf, which is not a score"),
    ],
)
def test_a_program_that_prints_no_number_is_never_scored(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(MeasurementError, match=message):
        program(tmp_path, text).score(run(), BASELINE, [])


def test_a_program_that_cannot_be_run(tmp_path: Path) -> None:
    file = tmp_path / "sf.sh"
    file.write_text("echo 1\n")
    with pytest.raises(ConfigError, match="not executable; chmod"):
        scorer(str(file))
    file.write_text("#!/bin/sh\n# damoos: need=runtime_s\necho 1\n")
    file.chmod(0o755)
    with pytest.raises(ConfigError, match="unknown declaration 'need'; did you mean 'needs'"):
        scorer(str(file))
    file.write_text("#!/bin/sh\n# damoos: max_slowdown=10%\necho 1\n")
    with pytest.raises(ConfigError, match="max_slowdown '10%' is not a number"):
        scorer(str(file))
