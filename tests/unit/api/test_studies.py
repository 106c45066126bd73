"""What people have at a Python prompt and in a notebook: objects, frames, HTML, a bar."""

from __future__ import annotations

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import damoos
from damoos import api
from damoos.api import comparisons
from damoos.damon.scheme import Quotas, Scheme
from damoos.errors import ConfigError, WorkloadError
from damoos.machines import catalog
from damoos.report import notebook, values
from damoos.testing.fake import FakeMachine
from tests.records import stairs
from tests.unit.study.test_recording import recording_machine

WORKLOADS = ("synthetic/hot-cold", "synthetic/idle")
EVIL = "echo '<script>alert(1)</script>'"


@pytest.fixture
def machines(monkeypatch: pytest.MonkeyPatch) -> dict[str, FakeMachine]:
    made: dict[str, FakeMachine] = {}
    monkeypatch.setattr(
        catalog, "machine", lambda name, kernel=None: made.setdefault(name, FakeMachine(noise=0.001, seed=len(made)))
    )
    monkeypatch.setattr("damoos.report.study.tuning.draw", lambda *_: [])
    return made


def tune(results: Path, **words: Any) -> api.TunedStudy:
    return damoos.tune(command=EVIL, machine="a", results=results, **{"trials": 3, "repeats": 2, "seed": 1, **words})


def swept(results: Path, **words: Any) -> api.TunedSweep:
    short = {"trials": 3, "repeats": 2, "candidates": 1, "seed": 3}
    return damoos.sweep(WORKLOADS, ["a", "b"], results=results, **{**short, **words})


class Wellformed(HTMLParser):
    """Every element that is opened is closed, in order; nothing brings a script or a style of its own page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def html(shown: Any) -> str:
    text = shown._repr_html_() if hasattr(shown, "_repr_html_") else values.to_html(shown)
    assert not {"script", "style", "link", "img"} & set(Wellformed(text).seen)
    return text


# Words that end a column's name: a unit, or what is a share, a count, a name or a word by itself.
UNITS = ("_s", "_us", "_ms", "_bytes", "_percent", "_per_s", "hours", "usd", "usd_hour")
BARE = {
    *("number", "state", "feasible", "score", "score_low", "score_high", "run", "kind", "arm", "censored", "error"),
    *(
        "pswpin",
        "pswpout",
        "pgmajfault",
        "ops",
        "nr_procs",
        "study",
        "workload",
        "machine",
        "trials",
        "runs",
        "verdict",
    ),
    *("slowdown", "saving", "score_manual", "score_gain", "scheme", "fit", "memory_saving", "peak", "slowdown_low"),
    *(
        "slowdown_high",
        "memory_saving_low",
        "memory_saving_high",
        "chance",
        "target",
        "nr_accesses",
        "frequency",
        "block",
        "config",
        "variant",
        "nr_runs",
    ),
}


def assert_tidy(frame: pd.DataFrame) -> None:
    assert len(frame)
    assert frame.columns.is_unique
    assert frame.index.equals(pd.RangeIndex(len(frame)))
    assert [name for name in frame.columns if name not in BARE and not name.endswith(UNITS)] == []


def test_a_study(machines, tmp_path: Path) -> None:
    found = tune(tmp_path)
    assert [trial.number for trial in found.trials] == found.trials_df["number"].tolist() == [0, 1, 2]
    runs = found.runs_df
    for frame in (found.trials_df, runs, found.samples("trial-000")):
        assert_tidy(frame)
    assert runs["run"].tolist() == [run.key for run in found.study.runs()]
    assert set(runs["kind"]) == {"baseline", "trial", "validation"}
    assert runs.loc[runs["kind"] == "trial", "min_age_us"].tolist() == found.trials_df["min_age_us"].tolist()
    with pytest.raises(ConfigError, match=r"has no run 'trial-00'; did you mean 'trial-00"):
        found.samples("trial-00")
    assert repr(damoos.load_study(found.name, results=tmp_path)) == repr(found)


def test_a_run_that_failed_has_no_samples(machines, tmp_path: Path) -> None:
    machines["a"] = FakeMachine(failures={2: WorkloadError("it crashed")})
    found = tune(tmp_path)
    assert found.runs_df.set_index("run").loc["trial-000", "error"] == "it crashed"
    with pytest.raises(ConfigError, match=r"trial-000.parquet is not there: it crashed"):
        found.samples("trial-000")
    assert "fail: it crashed" in html(found.trials[0])


def test_a_study_and_its_trials_show_themselves(machines, tmp_path: Path) -> None:
    found = tune(tmp_path)
    text = html(found)
    assert "&lt;script&gt;" in text
    for arm in found.result["validation"].values():
        assert f"<td>{arm['runtime_s']:.2f} s</td>" in text
    assert found.result["recommended"]["scheme"] in text
    best = max((one for one in found.trials if one.score.feasible), key=lambda one: one.score.value)
    assert f"{best.score.value:+.4g}" in html(best)
    assert f'<th scope="row">min_age_us</th><td>{best.params["min_age_us"]}</td>' in html(best)


def test_an_unfinished_study_shows_itself(machines, tmp_path: Path) -> None:
    machines["a"] = FakeMachine(failures={0: WorkloadError("no")})
    with pytest.raises(WorkloadError):
        tune(tmp_path)
    (name,) = [one.name for one in tmp_path.iterdir() if one.is_dir()]
    assert "unfinished" in html(damoos.load_study(name, results=tmp_path))


def test_a_scheme_shows_itself() -> None:
    scheme = Scheme.parse("4K max  min 5%  5s max  pageout")
    text = html(scheme)
    assert "4K max  min 5%  5s max  pageout" in text
    assert "<td>5s to max</td>" in text
    assert "quotas" not in text
    assert "time_ms=10" in html(Scheme("pageout", quotas=Quotas(time_ms=10, reset_interval_ms=1000)))


def test_a_notebook_finds_the_tables_of_schemes_and_trials() -> None:
    shown = """
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
import damoos
from damoos.model.trial import Score, Trial
scheme, trial = damoos.Scheme.parse("4K max  min 5%  5s max  pageout"), Trial(7, {}, "complete", Score(0.5, True))
for value in scheme, trial:
    print(shell.display_formatter.format(value)[0]["text/html"])
"""
    ran = subprocess.run([sys.executable, "-c", shown], capture_output=True, text=True, check=True)
    assert "<td>5s to max</td>" in ran.stdout
    assert "<h4>trial 7</h4>" in ran.stdout


def test_a_sweep(machines, tmp_path: Path) -> None:
    found = swept(tmp_path)
    assert found.result == damoos.load_sweep(found.name, results=tmp_path).result
    frame = found.studies_df
    assert_tidy(frame)
    assert_tidy(found.machines_df)
    assert frame["study"].tolist() == [one.name for one in found.studies]
    for row, study in zip(frame.to_dict("records"), found.studies, strict=True):
        arms = study.result["validation"]
        assert row["score"] == arms["tuned"]["score"]
        assert row["score_gain"] == pytest.approx(arms["tuned"]["score"] - arms["manual"]["score"])
        assert row["saved_bytes"] == pytest.approx(row["saving"] * arms["baseline"]["rss_avg_bytes"])
        assert row["scheme"] == study.best["scheme"]
    assert found.machines_df["fit"].tolist() == [True, True]
    assert (found.machines_df["hours"] > 0).all()
    for name in ("sweep-1-synthetic-idle-b", "synthetic-idle-b"):
        assert found.study(name).study.config.machine == "b"
    with pytest.raises(ConfigError, match=r"has no study 'synthetic-idle-c'; did you mean 'sweep-1-synthetic-idle-"):
        found.study("synthetic-idle-c")
    assert html(found).count("<tr>") == 5
    assert repr(found).startswith("sweep sweep-1\n")


def test_a_sweep_of_which_a_machine_broke(machines, tmp_path: Path) -> None:
    machines["b"] = FakeMachine(failures={0: WorkloadError("<b>no</b>")})
    found = swept(tmp_path)
    frame = found.studies_df.set_index("study")
    assert frame.loc["sweep-1-synthetic-hot-cold-b", "state"] == "failed"
    assert frame["score_gain"].notna().tolist() == [True, False, True, True]
    assert "&lt;b&gt;no" in html(found)


def test_configurations_and_schemes_side_by_side(machines, tmp_path: Path) -> None:
    evaluated = damoos.evaluate(WORKLOADS[:1], ["a"], ["baseline", "prcl"], repeats=3, results=tmp_path)
    assert isinstance(evaluated, comparisons.Evaluated)
    prcl = evaluated.table.set_index("config").loc["prcl"]
    assert f"<td>{prcl['runtime_s']:.2f} s</td>" in html(evaluated)
    assert_tidy(evaluated.runs)
    compared = damoos.compare([swept(tmp_path).name], results=tmp_path)
    assert html(compared).count("<td>tuned</td>") == 2 * 3  # two workloads and their average on two machines


def test_a_recording_and_what_it_predicts(machines, tmp_path: Path) -> None:
    machines["a"] = recording_machine()
    found = damoos.record(command="true", machine="a", results=tmp_path)
    assert found.path is not None
    stored = damoos.load_recording(found.path.parent.name, results=tmp_path)
    assert stored.path == found.path
    regions = stored.regions_df
    assert_tidy(regions)
    assert len(regions) == stored.nr_regions.sum()
    assert regions["start_s"].min() == 0
    assert (regions["end_bytes"] > regions["start_bytes"]).all()
    assert repr(stored).startswith("Recording(workload=true, ")
    assert "\n" not in repr(stored)
    assert str(found.path) in html(stored)
    predicted = damoos.predict(found)
    assert_tidy(predicted.table)
    assert predicted.table.equals(damoos.predict(found.path.parent.name, results=tmp_path).table)
    assert predicted.table["score"].notna().any()
    assert html(predicted).count("<tr>") == 1 + len(predicted.table)
    assert predicted.size(0.05).now_bytes >= predicted.size(0.05).memory_bytes
    with pytest.raises(ConfigError, match="unknown config 'rek'; did you mean 'rec'"):
        damoos.record(command="true", machine="a", config="rek", results=tmp_path)
    with pytest.raises(ConfigError, match="make one with 'damoos record'"):
        damoos.predict(stairs())


def test_a_recording_of_somebody_else_steers_no_terminal() -> None:
    from dataclasses import replace

    shown = replace(stairs(), about={"workload": "\x1b[2J<b>"})
    assert "\x1b" not in repr(shown)
    assert "&lt;b&gt;" in html(shown)


class Page:
    """Takes what a bar would draw."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def __call__(self, text: str, done: int | None = None, total: int = 1, news: str = "") -> None:
        Wellformed(notebook.bar(text, done, total, news))
        self.texts.append(text)


def test_a_bar_tells_how_a_study_goes(machines, tmp_path: Path) -> None:
    page = Page()
    told = notebook.BarWatcher(page)
    found = tune(tmp_path, watcher=told)
    total = len(found.study.runs())
    counts = [int(re.search(r": (\d+) of \d+ runs", text)[1]) for text in page.texts]  # type: ignore[index]
    assert counts[0] == 0
    assert counts[-1] == total
    assert counts == sorted(counts)
    best = max(one.score.value for one in found.trials if one.score.value is not None and one.score.feasible)
    told.ended()
    assert page.texts[-1] == f"{found.name}: {total} of {total} runs, best score {best:+.3f}"


def test_a_bar_tells_how_a_sweep_goes(machines, tmp_path: Path) -> None:
    page = Page()
    machines["b"] = FakeMachine(failures={0: WorkloadError("no")})
    swept(tmp_path, event=notebook.BarEvents(page))
    assert page.texts[-1] == "sweep-1: 3 of 4 studies, 12 of 12 trials"


def test_no_bar_where_there_is_no_notebook(machines, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert notebook.event() is None
    tune(tmp_path)
    assert capfd.readouterr() == ("", "")


def test_every_public_name_is_there_and_known_to_type_checkers() -> None:
    stub = Path(damoos.__file__).with_suffix(".pyi").read_text()
    for name in damoos.__all__:
        assert getattr(damoos, name)
        assert f" as {name}\n" in stub or f"{name}:" in stub
