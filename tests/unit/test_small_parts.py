"""Errors, spaces, catalogues, the bundle."""

from __future__ import annotations

import importlib.util
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from damoos import errors
from damoos.errors import ConfigError, MeasurementError, UnsupportedError
from damoos.machines import catalog as machines
from damoos.machines.bundle import agent_bundle
from damoos.model.space import Param, parse_param
from damoos.model.trial import Measurement, Run
from damoos.workloads import catalog as workloads
from damoos.workloads.base import Program, ProgramWorkload, Tuning

KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.DamoosError)]


@pytest.mark.parametrize("kind", KINDS)
def test_errors_survive_pickling(kind: type[errors.DamoosError]) -> None:
    back = pickle.loads(pickle.dumps(kind("what happened")))
    assert (type(back), str(back), back.exit_code) == (kind, "what happened", kind.exit_code)


@pytest.mark.parametrize("kind", KINDS)
def test_errors_keep_their_class_over_a_wire(kind: type[errors.DamoosError]) -> None:
    back = errors.from_wire(errors.to_wire(kind("what happened")))
    assert (type(back), str(back)) == (kind, "what happened")
    assert type(errors.from_wire({"type": "nearest", "message": "no error at all"})) is errors.MachineError


@given(st.integers(0, 10**7), st.integers(1, 10**6), st.integers(1, 100), st.floats(-1e8, 1e8))
def test_snapped_values_are_on_the_grid(low: int, span: int, step: int, value: float) -> None:
    param = Param("min_age", "us", low, low + span, step)
    assert param.snap(value) in param.values


def test_a_tunable_from_words() -> None:
    assert parse_param("min_age=0s:60s", 100_000) == Param("min_age", "us", 0, 60_000_000, 100_000)
    assert parse_param("min_size=4K:2M", 100_000) == Param("min_size", "bytes", 4096, 2 << 20, 4096)


def test_a_run_survives_the_store() -> None:
    run = Run(3, "trial", 2, "", {"min_age_us": 5}, Measurement({"runtime_s": 1.0}, (), {"kernel": "6.12"}), "")
    assert Run.from_json(run.to_json()) == run
    assert run.key == "trial-002"


def test_a_metric_that_is_missing_is_never_a_number() -> None:
    with pytest.raises(MeasurementError, match="no finite metric 'runtime_s'"):
        Measurement({"runtime_s": float("nan")}).metric("runtime_s")


def test_every_file_in_the_catalogues_is_good() -> None:
    for name in machines.names():
        assert machines.machine(name).describe()
    for name in workloads.names():
        assert workloads.workload(name, lambda program: "/usr/bin/" + program).tuning.high_us > 0


def every_toml() -> list[Path]:
    here = Path(__file__).parents[2]
    return sorted([*here.glob("machines/*.toml"), *here.glob("workloads/*/*.toml")])


@pytest.mark.parametrize("path", every_toml(), ids=lambda path: path.stem)
def test_an_unknown_key_in_any_good_file_is_refused(path: Path, tmp_path: Path) -> None:
    bad = tmp_path / path.name
    for sibling in path.parent.iterdir():
        if sibling.is_file() and sibling.suffix != ".toml":
            (tmp_path / sibling.name).write_bytes(sibling.read_bytes())
    bad.write_text(f"surprise = 1\n{path.read_text()}")
    load = machines.machine if path.parent.name == "machines" else workloads.find
    with pytest.raises(ConfigError, match="unknown key 'surprise'"):
        load(str(bad))


def test_real_and_model() -> None:
    real = workloads.workload("parsec3/raytrace", lambda program: "/opt/parsec/bin/parsecmgmt")
    assert (real.variant, real.tuning.high_us, real.argv(str)[0]) == ("real", 60_000_000, "parsecmgmt")
    model = workloads.workload("parsec3/raytrace", lambda program: None)
    assert (model.variant, model.tuning.high_us, model.tuning.manual_us) == ("model", 6_000_000, 500_000)
    assert "MODEL" in model.note
    with pytest.raises(UnsupportedError, match="a model was refused"):
        workloads.workload("parsec3/raytrace", lambda program: None, require_real=True)


def test_only_a_relative_file_is_brought_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "prog").write_text("#!/bin/sh\n")

    def copy(path: Path) -> str:
        return f"there/{path.name}"

    assert ProgramWorkload(
        "x",
        Program(
            (
                "./prog",
                "a b",
            )
        ),
        Tuning(),
    ).argv(copy) == ["there/prog", "a b"]
    assert ProgramWorkload("x", Program(("/bin/true",)), Tuning()).argv(copy) == ["/bin/true"]
    assert ProgramWorkload("x", Program(("prog",)), Tuning()).argv(copy) == ["prog"]


def test_the_agents_bundle_is_the_same_for_the_same_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DAMOOS_CACHE", str(tmp_path / "a"))
    first = agent_bundle()
    monkeypatch.setenv("DAMOOS_CACHE", str(tmp_path / "b"))
    second = agent_bundle()
    assert first.name == second.name
    assert first.read_bytes() == second.read_bytes()


def test_a_python_of_another_version_passes_over_the_agents_bytecode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = "import sys; sys.path.insert(0, sys.argv[1]); import damoos.agent.run as one; print(one.__file__)"

    def imported() -> str:
        argv = [sys.executable, "-S", "-c", where, agent_bundle()]
        return Path(subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip()).name

    monkeypatch.setenv("DAMOOS_CACHE", str(tmp_path))
    assert imported() == "run.pyc"
    magic = bytes([importlib.util.MAGIC_NUMBER[0] ^ 1]) + importlib.util.MAGIC_NUMBER[1:]
    monkeypatch.setattr("importlib.util.MAGIC_NUMBER", magic)
    monkeypatch.setattr("importlib._bootstrap_external.MAGIC_NUMBER", magic)
    assert imported() == "run.py"
