"""Lists of what is stored, what is shown of it, and how it goes."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

import damoos
from damoos.model.space import Param
from damoos.model.trial import Measurement, Run
from damoos.store import tables
from damoos.store.studies import Store, StudyRecord
from damoos.study.config import StudyConfig
from damoos.study.run_config import plain
from damoos.study.study import Setting, Study
from damoos.sweeps import removal
from damoos.testing.fake import FakeMachine
from tests.unit.cli.test_corpus import run

MEASURED = Measurement({"runtime_s": 45_700_000.0, "rss_avg_bytes": 3 << 20})
MIN_AGE = Param("min_age", "us", 0, 60_000_000, 100_000)
FACTS = {"kernel": "6.12", "accel": "none", "clock": "host", "vcpus": 1, "mem_bytes": 1 << 30}
SETTING = Setting("id", "command", "", (MIN_AGE,), 5_000_000, FACTS, None).to_json()


def make(store: Store, label: str = "mine", result: dict[str, Any] | None = None, runs: int = 2) -> StudyRecord:
    config = StudyConfig(command="true", nr_samples=10, machine="guest")
    record = store.create(label, plain(config), "maximize", f"2026-11-26T{len(store.names()):02}:00:00+00:00")
    record.set("setting", SETTING)
    for number in range(runs):
        record.add(Run(number, "baseline", number, measurement=MEASURED))
    record.add(Run(runs, "trial", 0, params={"min_age_us": 200_000}, error="it crashed"), params=(MIN_AGE,))
    if result is not None:
        record.set("result", result)
    return record


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path)


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Any:
    """Exit code and both outputs of a command line, in this process."""

    def ended(*words: str) -> tuple[int, str, str]:
        code = run([*words, "--results", str(tmp_path)], monkeypatch)
        return code, *capsys.readouterr()

    return ended


def test_the_list_tells_what_is_done(store: Store, command: Any) -> None:
    make(store, "first", {"verdict": "tuned"})
    make(store, "second")
    _, out, _ = command("studies")
    assert out.splitlines() == [
        "first-1   guest    1/10 trials  done: tuned",
        "second-1  guest    1/10 trials  unfinished",
    ]
    assert command("studies", "list", "--unfinished")[1].split()[0] == "second-1"
    assert command("studies", "--unfinished")[1].count("\n") == 1


def test_the_list_asks_the_same_of_many_runs(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Studies and not their runs are read: a run that cannot be read does no harm."""
    record = make(store)
    engine = store._storage.engine
    with engine.begin() as connection:
        where = tables.STUDY_USER.c.key == "run:baseline-000"
        connection.execute(sa.update(tables.STUDY_USER).where(where).values(value_json="{"))
    assert [study.name for study in Store(tmp_path).listed()[0]] == [record.name]


def test_a_broken_row_is_named_and_the_others_are_listed(store: Store, command: Any) -> None:
    make(store, "first")
    make(store, "second")
    with store._storage.engine.begin() as connection:
        table = tables.STUDY_USER
        of_first = (
            sa.select(tables.STUDIES.c.study_id).where(tables.STUDIES.c.study_name == "first-1").scalar_subquery()
        )
        where = (table.c.key == "config") & (table.c.study_id == of_first)
        connection.execute(sa.update(table).where(where).values(value_json='{"nr_sam'))
    code, out, err = command("studies")
    assert (code, out.split()[0]) == (0, "second-1")
    assert "study 'first-1' cannot be read" in err
    assert command("studies", "delete", "first-1", "--yes")[:2] == (0, "deleted: first-1\n")
    assert command("studies")[2] == ""


def test_delete_takes_the_raw_data_along(store: Store, tmp_path: Path, command: Any) -> None:
    name = make(store).name
    (tmp_path / name).mkdir(exist_ok=True)
    (tmp_path / name / "trial-000.parquet").write_bytes(b"raw")
    code, _, err = command("studies", "delete", name)
    assert (code, "give --yes" in err, (tmp_path / name).exists()) == (2, True, True)
    assert command("studies", "delete", name, "--yes")[:2] == (0, f"deleted: {name}\n")
    assert not (tmp_path / name).exists()
    assert command("studies")[1] == ""


def test_delete_of_the_unfinished(store: Store, command: Any) -> None:
    make(store, "done", {"verdict": "tuned"})
    make(store, "half")
    assert command("studies", "delete", "--unfinished", "--yes")[:2] == (0, "deleted: half-1\n")
    assert command("studies", "delete", "--unfinished", "--yes")[:2] == (0, "nothing to delete\n")
    assert store.names() == ["done-1"]


def test_what_is_not_deleted(store: Store, tmp_path: Path, command: Any) -> None:
    name = make(store).name
    make(store, "sweep-1-inner")
    (tmp_path / "sweep-1").mkdir()
    (tmp_path / "sweep-1" / "sweep.json").write_text("{}")
    with store.load(name).writing():
        code, _, err = command("studies", "delete", name, "--yes")
    assert (code, "being run by another damoos process" in err) == (3, True)
    for words, message in (
        (["nosuch"], "unknown study 'nosuch'"),
        ([], "give the names of the studies"),
        ([name, "--unfinished"], "give the names of the studies"),
        (["sweep-1-inner-1"], "belongs to 'sweep-1'"),
    ):
        code, _, err = command("studies", "delete", *words, "--yes")
        assert (code, message in err) == (2, True), err
    assert removal.named(store, tmp_path, ["sweep-1"]) == ["sweep-1-inner-1", "sweep-1"]
    assert command("studies", "delete", "sweep-1", "--yes")[1] == "deleted: sweep-1-inner-1\ndeleted: sweep-1\n"
    assert store.names() == [name]


def test_half_a_study_is_shown_for_people(store: Store, command: Any) -> None:
    name = make(store).name
    code, out, _ = command("show", name)
    assert code == 0
    lines = out.splitlines()
    assert lines[0].split() == ["run", "parameter", "runtime", "RSS", "score"]
    assert lines[1].split() == ["baseline-000", "no", "scheme", "45700000.00", "s", "3", "MiB"]
    assert lines[3].endswith("failed: it crashed")
    assert lines[-1] == f"continue it with: damoos resume {name}"
    assert "nan" not in out.lower()
    assert "e+" not in out


def test_a_row_for_each_run_as_csv(store: Store, command: Any) -> None:
    lines = command("show", make(store).name, "--format", "csv")[1].splitlines()
    assert lines[0].startswith("run,kind,number,arm,")
    assert [line.split(",")[0] for line in lines[1:]] == ["baseline-000", "baseline-001", "trial-000"]


def test_show_of_several_compares(store: Store, command: Any) -> None:
    first, second = make(store).name, make(store).name
    code, out, _ = command("show", first, second)
    assert (code, f"left out: {second}: it is not finished" in out) == (0, True)
    code, _, err = command("show", first, second, "--format", "csv")
    assert (code, "are for one study" in err) == (2, True)


def test_json_stays_one_object(store: Store, command: Any) -> None:
    assert json.loads(command("show", make(store).name, "--format", "json")[1])["study"] == "mine-1"
    assert json.loads(command("studies", "--format", "json")[1])[0]["state"] == "unfinished"


@pytest.mark.parametrize("kind", ["baseline", "trial", "validation"])
@pytest.mark.parametrize("metric", ["runtime_s", "rss_avg_bytes"])
def test_a_run_that_lacks_a_metric_is_shown(
    tmp_path: Path, fake: Any, command: Any, monkeypatch: pytest.MonkeyPatch, kind: str, metric: str
) -> None:
    """What may be in a store that a colleague sent."""
    fake(FakeMachine(noise=0.001))
    name = damoos.tune(command="true", machine="lab", results=tmp_path, trials=2, repeats=2, seed=1).name
    runs = Study.runs

    def without(study: Study) -> list[Run]:
        whole = runs(study)
        nth = next(nth for nth, run in enumerate(whole) if run.kind == kind)
        measured = whole[nth].measurement
        assert measured
        metrics = {key: value for key, value in measured.metrics.items() if key != metric}
        whole[nth] = dataclasses.replace(whole[nth], measurement=dataclasses.replace(measured, metrics=metrics))
        return whole

    monkeypatch.setattr(Study, "runs", without)
    code, out, err = command("show", name)
    (row,) = (line for line in out.splitlines() if f"no score: the run has no finite {metric}" in line)
    assert (code, err, row.split("-")[0]) == (0, "", kind)
    assert "\nverdict: " in out
    assert command("show", name, "--format", "json")[0] == 0
