"""Broken plugins: each is told in one line that names it and the line that failed."""

from __future__ import annotations

import sys
import threading
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from damoos import scorers, searchers
from damoos.common import plugins
from damoos.errors import DamoosError, MeasurementError, PluginError
from damoos.machines import catalog as machines
from damoos.model.space import Param, Space
from damoos.model.trial import Measurement
from damoos.policies import catalog as policies

SPACE = Space("4K max  min min  MIN_AGE max  pageout", (Param("min_age", "us", 0, 1_000_000, 100_000),))
RUN = Measurement({"runtime_s": 1.0, "rss_avg_bytes": 1e6})
HEAD = """
from damoos.policies.rule import RulePolicy
from damoos.scorers.base import Scorer
from damoos.searchers.base import Searcher


class Mine(Searcher):
    name = "mine"

    def ask(self, history):
        {ask}

    def recommend(self, history):
        return {{"min_age_us": 0}}


class Score(Scorer):
    name, unit, needs = "score", "one", ("runtime_s",)

    def score(self, run, baseline, previous):
        {score}


class Policy(RulePolicy):
    name = "policy"


def machine(which):
    {machine}
"""


class Broken:
    """Plugins in a file, under the name ``broken``."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder, self._monkeypatch = folder, monkeypatch
        monkeypatch.syspath_prepend(str(folder))

    def __call__(self, attribute: str, text: str | None = None, **parts: str) -> None:
        said = dict.fromkeys(("ask", "score", "machine"), "raise ValueError('boom')")
        (self._folder / "broken_plugin.py").write_text(HEAD.format(**{**said, **parts}) if text is None else text)
        sys.modules.pop("broken_plugin", None)
        self._monkeypatch.setattr(
            plugins, "entry_points", lambda group: [EntryPoint("broken", f"broken_plugin:{attribute}", group)]
        )


@pytest.fixture
def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Broken:
    return Broken(tmp_path, monkeypatch)


LOADS = [
    ("x = 1 +\n", r"searcher plugin 'broken' \(broken_plugin\.py:1\) raised SyntaxError"),
    ("\nraise ValueError('boom')\n", r"searcher plugin 'broken' \(broken_plugin\.py:2\) raised ValueError: boom"),
    ("import sys\nsys.exit(7)\n", r"searcher plugin 'broken' \(broken_plugin\.py:2\) raised SystemExit: 7"),
    ("import no_such\n", r"searcher plugin 'broken' \(broken_plugin\.py:1\) raised ModuleNotFoundError"),
    ("x = 1\n", r"searcher plugin 'broken' raised AttributeError: .*Mine"),
    ("Mine = 5\n", r"searcher plugin 'broken': broken_plugin:Mine is 5, which cannot be called"),
    ("Mine = dict\n", r"searcher plugin 'broken' raised TypeError"),
    ("def Mine(*words): return 5\n", r"searcher plugin 'broken': expected .*searchers\.base\.Searcher, got 5"),
]


@pytest.mark.parametrize(("text", "message"), LOADS)
def test_one_that_cannot_be_loaded(broken: Broken, text: str, message: str) -> None:
    broken("Mine", text)
    with pytest.raises(PluginError, match=message):
        searchers.searcher("broken", SPACE, 3, 0)


ASKS = [
    ("raise ValueError('boom')", r"searcher plugin 'broken' \(broken_plugin\.py:11\) raised ValueError: boom"),
    ("return __import__('json').loads('{')", r"\(broken_plugin\.py:11\) raised JSONDecodeError"),
    ("return None", "expected values of min_age_us, got None"),
    ("return {'min_age': 0}", "expected values of min_age_us, got {'min_age': 0}"),
    ("return {'min_age_us': 0.5}", "expected min_age_us between 0 and 1000000 in steps of 100000, got 0.5"),
    ("return {'min_age_us': 50}", "in steps of 100000, got 50"),
    ("return {'min_age_us': -100000}", "got -100000"),
]


@pytest.mark.parametrize(("ask", "message"), ASKS)
def test_a_searcher_that_asks_for_nonsense(broken: Broken, ask: str, message: str) -> None:
    broken("Mine", ask=ask)
    with pytest.raises(PluginError, match=message):
        searchers.searcher("broken", SPACE, 3, 0).ask(())


def test_a_searcher_that_works(broken: Broken) -> None:
    broken("Mine", ask="return {'min_age_us': 300000}")
    assert searchers.searcher("broken", SPACE, 3, 0).ask(()) == {"min_age_us": 300_000}


SCORES = [
    ("raise ValueError('boom')", r"scorer plugin 'broken' \(broken_plugin\.py:21\) raised ValueError: boom"),
    ("raise SystemExit(3)", r"\(broken_plugin\.py:21\) raised SystemExit: 3"),
    ("return 0.5", r"expected a damoos\.model\.trial\.Score, got 0\.5"),
]


@pytest.mark.parametrize(("score", "message"), SCORES)
def test_a_scorer_that_fails_has_not_scored_the_run(broken: Broken, score: str, message: str) -> None:
    broken("Score", score=score)
    with pytest.raises(MeasurementError, match=message):
        scorers.scorer("broken").score(RUN, RUN, ())


def test_a_scorer_that_does_not_say_what_it_is(broken: Broken) -> None:
    broken("Score", "from damoos.scorers.base import Scorer\nclass Score(Scorer):\n    def score(self, *words): pass\n")
    with pytest.raises(PluginError, match=r"scorer plugin 'broken' raised AttributeError: .*unit"):
        scorers.scorer("broken")


def test_a_scorer_that_python_wrote_in_c(broken: Broken) -> None:
    broken("Score", "Score = dict\n")
    with pytest.raises(PluginError, match=r"scorer plugin 'broken': expected .*scorers\.base\.Scorer, got {}"):
        scorers.scorer("broken")


def test_a_scorer_that_never_returns(broken: Broken, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("damoos.scorers.plugin.LIMIT_S", 0.05)
    broken("Score", score="__import__('threading').Event().wait()")
    with pytest.raises(PluginError, match=r"scorer plugin 'broken' did not return within 0\.05 s"):
        scorers.scorer("broken").score(RUN, RUN, ())


def test_a_policy_without_parameters(broken: Broken) -> None:
    broken("Policy")
    with pytest.raises(PluginError, match=r"broken:x=1: policy plugin 'broken' raised AttributeError: .*parameters"):
        policies.parse("broken:x=1")
    broken("Mine")
    with pytest.raises(PluginError, match=r"expected a subclass of damoos\.policies\.rule\.RulePolicy"):
        policies.parse("broken")


@pytest.mark.parametrize(
    ("machine", "message"),
    [("raise ValueError('boom')", r"\(broken_plugin\.py:29\) raised ValueError: boom"), ("return 3", "got 3")],
)
def test_a_machine_that_cannot_be_made(broken: Broken, machine: str, message: str) -> None:
    broken("machine", machine=machine)
    with pytest.raises(DamoosError, match=f"machine plugin 'broken'.*{message}"):
        machines.machine("broken:node7")


def test_standard_output_is_back_when_two_threads_leave_in_the_order_in_which_they_came() -> None:
    before, first_is_in, second_is_in = sys.stdout, threading.Event(), threading.Event()

    def first() -> None:
        with plugins.guarded("a plugin"):
            first_is_in.set()
            assert second_is_in.wait(60)

    thread = threading.Thread(target=first)
    thread.start()
    assert first_is_in.wait(60)
    with plugins.guarded("another one"):
        second_is_in.set()
        thread.join(60)
        assert sys.stdout is sys.stderr
    assert sys.stdout is before
