"""The real program or its model, and the files that it needs."""

from __future__ import annotations

from pathlib import Path

import pytest

from damoos.errors import UnsupportedError
from damoos.workloads import catalog as workloads
from damoos.workloads.base import Program, ProgramWorkload, Tuning
from damoos.workloads.catalog import NO_PROGRAMS, Place


def test_real_and_model() -> None:
    real = workloads.workload("parsec3/raytrace", Place(lambda program: "/opt/parsec/bin/parsecmgmt"))
    assert (real.variant, real.tuning.high_us, real.argv(str)[0]) == ("real", 60_000_000, "parsecmgmt")
    model = workloads.workload("parsec3/raytrace", NO_PROGRAMS)
    assert (model.variant, model.tuning) == ("model", real.tuning)
    assert "MODEL" in model.note
    # It sleeps, and a page fault counts as those of 20 pages.
    assert model.argv(str)[1:6] == ["-w", "-b", "8", "-x", "20"]
    with pytest.raises(UnsupportedError, match="a model was refused"):
        workloads.workload("parsec3/raytrace", NO_PROGRAMS, require_real=True)


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
