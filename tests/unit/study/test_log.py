"""The log of a study: in its folder, and for scripts."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from damoos import api
from damoos.errors import WorkloadError
from damoos.study.log import FILE
from damoos.testing.fake import FakeMachine


def test_every_run_and_the_end_are_in_it(fake, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:  # type: ignore[no-untyped-def]
    fake(FakeMachine(failures={3: WorkloadError("it crashed")}))
    with caplog.at_level(logging.INFO, "damoos.study"):
        found = api.tune(command="true", trials=4, results=tmp_path)
    lines = (tmp_path / found.name / FILE).read_text().splitlines()
    said = [line.split(maxsplit=2)[2] for line in lines]
    assert [record.getMessage() for record in caplog.records if record.name == f"damoos.study.{found.name}"] == said
    assert said[0].startswith("true (real) on guest, Linux ")
    for run in found.runs_df.itertuples():
        assert sum(line.startswith(f"{run.run} ended: ") for line in said) == (run.error == "")
    assert sum(line.endswith("failed: it crashed") for line in said) == 1
    assert said[-1] == "done"
    assert {line.split()[1] for line in lines} == {"INFO", "WARNING"}


def test_an_end_and_a_resume_are_told(fake, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    machine = fake(FakeMachine(failures={4: KeyboardInterrupt()}))  # type: ignore[dict-item]
    with pytest.raises(KeyboardInterrupt):
        api.tune(command="true", trials=4, results=tmp_path)
    machine.failures = {}
    found = api.tune(command="true", trials=4, results=tmp_path)
    said = (tmp_path / found.name / FILE).read_text()
    assert said.count("interrupted\n") == 1
    assert " 4 of about " in said
    assert said.endswith("done\n")
