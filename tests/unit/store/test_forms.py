"""Studies whose stored values have another form, by damage or by people who mean harm: each is told in one line."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import damoos
from damoos.api import plots
from damoos.errors import StoreError
from damoos.machines import catalog
from damoos.model.trial import Measurement, Run, Score
from damoos.store import forms
from damoos.store.studies import Store
from damoos.testing.fake import FakeMachine
from tests.unit.cli.test_corpus import run
from tests.unit.conftest import tune

Change = Callable[[dict[str, Any]], object]
BASELINE, SETTING, RESULT = "run:baseline-000", "setting", "result"
COMMANDS = (
    ("show",), ("show", "--format", "json"), ("show", "--format", "csv"), ("show", "--format", "damo", "--pid", "1"),
    ("compare",), ("report", "html"), ("watch",),
)  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str, str]]:
    """A results folder with two finished studies, and their names."""
    results = tmp_path_factory.mktemp("made") / "results"
    with pytest.MonkeyPatch.context() as patch:
        machine = FakeMachine(noise=0.001)
        patch.setattr(catalog, "machine", lambda name, kernel=None: machine)
        patch.setattr("damoos.report.study.tuning.draw", lambda *_: [])
        yield results, tune(results).name, tune(results, seed=2).name


@pytest.fixture
def evil(made: tuple[Path, str, str], tmp_path: Path) -> tuple[Path, str, str]:
    results = tmp_path / "results"
    shutil.copytree(made[0], results)
    return results, *made[1:]


def change(results: Path, name: str, word: str, by: Change) -> None:
    record = Store(results).load(name)
    value = record._attrs[word]
    by(value)
    record.set(word, value)


def number(value: Any) -> Change:
    return lambda form: form["measurement"]["metrics"].update(runtime_s=value)


def without(*path: str) -> Change:
    def changed(form: dict[str, Any]) -> None:
        for key in path[:-1]:
            form = form[key]
        del form[path[-1]]

    return changed


# Each with the word of the study that is changed.
HOSTILE: dict[str, tuple[str, Change]] = {
    "a number of 401 digits": (BASELINE, number(10**400)),
    "an endless number": (BASELINE, number(float("inf"))),
    "a number as text": (BASELINE, number("3")),
    "a run of another number": (BASELINE, lambda form: form.update(number=10**9, kind="validation")),
    "a parameter that is a list": (BASELINE, lambda form: form.update(params={"min_age_us": [1]})),
    "a machine without CPUs": (SETTING, without("facts", "vcpus")),
    "a machine without a kernel": (SETTING, without("facts", "kernel")),
    "a unit that is none": (SETTING, lambda form: form["params"][0].update(unit="ells")),
    "an empty result": (RESULT, lambda form: form.clear()),
    "a result without an arm's score": (RESULT, without("validation", "tuned", "score")),
    "a result without a machine": (RESULT, without("machine", "name")),
    "a result without its origin": (RESULT, without("provenance")),
    "a result without its commit": (RESULT, without("provenance", "commit")),
    "a scheme that is a number": (RESULT, lambda form: form.update(recommended=3)),
    "a drift that is text": (RESULT, lambda form: form["drift"].update(runtime_s="x")),
}


@pytest.mark.parametrize("what", HOSTILE)
@pytest.mark.slow
def test_each_command_ends_in_one_line(
    evil: tuple[Path, str, str], what: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    results, name, other = evil
    change(results, name, *HOSTILE[what])
    refused = 0
    for command in COMMANDS:
        names = [name, other] if command == ("compare",) else [name]
        code = run([*command, *names, "--results", str(results)], monkeypatch)
        _, err = capsys.readouterr()
        assert (code, err) == (0, "") or (code, err.count("\n")) == (3, 1), (command, err)
        assert not err or err.startswith(f"damoos: study '{name}' cannot be read: "), command
        refused += code == 3
    assert refused >= 2
    code = run(["studies", "--results", str(results)], monkeypatch)
    out, err = capsys.readouterr()
    assert (code, err, [line.split()[0] for line in out.splitlines()]) == (0, "", [name, other])


@pytest.mark.parametrize(
    "show",
    [repr, lambda study: study._repr_html_(), lambda study: study.trials_df,
     plots.plot_study, lambda study: plots.plot_compare([study])],
)  # fmt: skip
def test_python_is_told_so(evil: tuple[Path, str, str], show: Callable[[Any], object]) -> None:
    results, name, _ = evil
    change(results, name, BASELINE, number(10**400))
    with pytest.raises(StoreError, match=rf"study '{name}' cannot be read: one of its runs is none \(.*runtime_s"):
        show(damoos.load_study(name, results=results))


def test_values_that_do_not_fit_together_are_told(evil: tuple[Path, str, str]) -> None:
    """Each has its form, and there is nothing to divide by."""
    results, name, _ = evil
    for word in (word for word in Store(results).load(name)._attrs if word.startswith("run:")):
        change(results, name, word, number(0.0))
    with pytest.raises(StoreError, match=f"study '{name}' cannot be read: its values do not fit together .*zero"):
        repr(damoos.load_study(name, results=results))


@pytest.mark.parametrize("kind", ["baseline", "trial"])
def test_what_would_keep_a_study_from_being_read_is_not_written(evil: tuple[Path, str, str], kind: str) -> None:
    results, name, _ = evil
    record = Store(results).load(name)
    before = record.runs()
    good = Measurement({"runtime_s": 1.0, "rss_avg_bytes": 4096.0})
    hostile: list[tuple[Measurement, Score | None]] = [
        (replace(good, metrics={**good.metrics, "x": 1e305}), None),
        (replace(good, provenance={"controller": "x" * (16 << 20)}), None),
        (good, Score(1e305, True)), (good, Score(1.0, True, {"slowdown": math.inf})),
    ]  # fmt: skip
    for measurement, score in hostile:
        with pytest.raises(StoreError, match=f"study '{name}' cannot be written: .*run '{kind}-099'"):
            record.add(Run(99, kind, 99, measurement=measurement), score)
    assert record.runs() == before


def test_what_nobody_knows_is_no_damage(evil: tuple[Path, str, str]) -> None:
    results, name, _ = evil
    change(results, name, BASELINE, lambda form: form["measurement"]["metrics"].update(p99_ms=float("nan")))
    assert damoos.load_study(name, results=results).runs_df.p99_ms.isna().all()


@pytest.mark.parametrize("word", ["experiences", "prediction", "peak_bytes", "elapsed_s", "created"])
def test_other_words_are_checked_too(evil: tuple[Path, str, str], word: str) -> None:
    results, name, _ = evil
    record = Store(results).load(name)
    record.set(word, [{"study": 3}])
    with pytest.raises(StoreError, match=f"study '{name}' cannot be read: {forms.WORDS[word][0]}"):
        record.get(word)


def test_a_study_of_this_version_is_as_it_was(made: tuple[Path, str, str]) -> None:
    results, name, _ = made
    result = damoos.load_study(name, results=results).result
    assert result == json.loads((results / name / "result.json").read_text())
