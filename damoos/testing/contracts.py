"""Contract suites: subclass one in a test file, give it your implementation, and pytest does the rest.

class TestMine(SearcherContract):
    make = MySearcher
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from damoos.errors import ConfigError, MeasurementError
from damoos.machines.base import Machine, Session
from damoos.model.space import Param, Params, Space
from damoos.model.trial import History, Measurement, Score, Trial
from damoos.policies.base import Policy
from damoos.scorers.base import Scorer
from damoos.searchers.base import Searcher
from damoos.workloads.base import Workload

SPACE = Space("4K max  min min  MIN_AGE max  pageout", (Param("min_age", "us", 0, 60_000_000, 1_000_000),))


def grown(searcher: Searcher, score: Callable[[Params], Score]) -> History:
    """A history in which the searcher asked every point."""
    history: History = ()
    for number in range(searcher.nr_samples):
        point = searcher.ask(history)
        history += (Trial(number, point, "complete", score(point)),)
    return history


def hill(point: Params) -> Score:
    """Infeasible below 3 s, best at 5 s, then falling."""
    age_s = point["min_age_us"] / 1e6
    return Score(None, feasible=False) if age_s < 3 else Score(0.3 - abs(age_s - 5) / 100, feasible=True)


MANY = Space(
    "MIN_SIZE max  min MAX_FREQ  MIN_AGE max  ACTION",
    (
        Param("min_age", "us", 0, 60_000_000, 100_000),
        Param("max_freq", "percent", 0, 20, 1),
        Param("min_size", "bytes", 4096, 2 << 20, 4096),
        Param("action", "choice", 0, 1, 1, ("pageout", "cold")),
    ),
)


def ridge(point: Params) -> Score:
    """Infeasible for small ages, best at 5 s, 5 %, small regions and the first action."""
    score = hill(point).value
    if score is None:
        return Score(None, feasible=False)
    off = abs(point["max_freq_percent"] - 5) / 100 + point["min_size_bytes"] / (1 << 24) + 0.1 * point["action"]
    return Score(score - off, feasible=True)


class SearcherContract:
    """What every searcher must keep."""

    make: type[Searcher]
    one_parameter_only = False
    # A sampler of somebody else's may ask for a point that was tried already.
    asks_again = False

    @pytest.mark.parametrize("seed", range(5))
    def test_points_are_on_the_grid(self, seed: int) -> None:
        """Asks and recommendations are values of the space."""
        searcher = self.make(SPACE, 10, seed)
        history = grown(searcher, hill)
        points = [trial.params for trial in history]
        if any(trial.score.feasible for trial in history):
            points.append(searcher.recommend(history))
        for point in points:
            assert set(point) == {"min_age_us"}
            assert point["min_age_us"] in SPACE.params[0].values

    def test_many_parameters(self) -> None:
        """Sizes, percents and choices beside ages; or a clear refusal."""
        if self.one_parameter_only:
            with pytest.raises(ConfigError, match="one parameter"):
                self.make(MANY, 12, 0)
            return
        searcher = self.make(MANY, 12, 0)
        history = grown(searcher, ridge)
        points = [trial.params for trial in history]
        if any(trial.score.feasible for trial in history):
            points += searcher.shortlist(history, 3)
        for point in points:
            assert list(point) == [param.key for param in MANY.params]
            assert all(point[param.key] in param.values for param in MANY.params)

    @pytest.mark.parametrize("seed", range(3))
    def test_same_seed_same_asks(self, seed: int) -> None:
        """A searcher made anew from the same history asks the same: what makes a study resumable."""
        history = grown(self.make(SPACE, 8, seed), hill)
        for number in range(8):
            assert self.make(SPACE, 8, seed).ask(history[:number]) == history[number].params

    def test_asking_changes_nothing(self) -> None:
        """The same history gives the same ask, whatever was asked in between."""
        searcher = self.make(SPACE, 8, 1)
        history = grown(self.make(SPACE, 8, 1), hill)
        for number in (3, 7, 0, 5, 5, 6, 7):
            assert searcher.ask(history[:number]) == history[number].params

    def test_a_batch_holds_no_point_twice(self) -> None:
        """Several machines are not sent the same question, and what runs already is not asked again."""
        history = grown(self.make(SPACE, 10, 2), hill)[:4]
        searcher = self.make(SPACE, 10, 2)
        batch = searcher.ask_batch(history, 4)
        assert batch == self.make(SPACE, 10, 2).ask_batch(history, 4)
        asked = [point["min_age_us"] for point in batch]
        assert len(set(asked)) == 4
        assert self.asks_again or not set(asked) & {trial.params["min_age_us"] for trial in history}

    def test_somebody_elses_history(self) -> None:
        """Points that it never asked are taken as they are."""
        ages = (1, 4, 9, 16, 25)
        history = tuple(
            Trial(n, {"min_age_us": age * 1_000_000}, "complete", hill({"min_age_us": age * 1_000_000}))
            for n, age in enumerate(ages)
        )
        searcher = self.make(SPACE, 10, 0)
        assert searcher.ask(history)["min_age_us"] in SPACE.params[0].values
        assert searcher.recommend(history)["min_age_us"] in SPACE.params[0].values

    def test_the_shortlist_starts_with_the_recommendation(self) -> None:
        """And holds no point twice."""
        searcher = self.make(SPACE, 10, 3)
        history = grown(searcher, hill)
        if not any(trial.score.feasible for trial in history):
            return
        listed = searcher.shortlist(history, 3)
        assert listed[0] == searcher.recommend(history)
        assert all(point not in listed[:n] for n, point in enumerate(listed))

    def test_seeds_matter_or_are_said_not_to(self) -> None:
        """Two seeds give two searches, unless the searcher is deterministic by nature."""
        asked = {tuple(t.params["min_age_us"] for t in grown(self.make(SPACE, 8, seed), hill)) for seed in range(5)}
        assert len(asked) > 1 or self.make(SPACE, 8, 0).deterministic

    def test_failed_trials_are_survived(self) -> None:
        """Trials without a score are part of life."""
        searcher = self.make(SPACE, 6, 1)
        history: History = ()
        for number in range(6):
            point = searcher.ask(history)
            failed = number % 2 == 0
            score = Score(None, feasible=False) if failed else Score(0.1 * number, feasible=True)
            history += (Trial(number, point, "fail" if failed else "complete", score),)
        assert searcher.recommend(history)["min_age_us"] in SPACE.params[0].values

    def test_nothing_feasible_is_survived(self) -> None:
        """A search that meets broken limits only goes on to its end."""
        grown(self.make(SPACE, 12, 1), lambda _: Score(None, feasible=False))


class ScorerContract:
    """What every scorer must keep."""

    make: type[Scorer]

    def _measured(self, **changes: float) -> Measurement:
        scorer = self.make()
        metrics = dict.fromkeys(scorer.needs, 100.0) | changes
        return Measurement(MappingProxyType(metrics))

    def test_it_says_what_it_is(self) -> None:
        """Direction, unit and needs are declared."""
        scorer = self.make()
        assert scorer.direction in ("maximize", "minimize")
        assert scorer.unit
        assert scorer.needs

    def test_it_is_pure(self) -> None:
        """The same input gives the same score."""
        scorer, baseline = self.make(), self._measured()
        assert scorer.score(baseline, baseline, [0.1]) == scorer.score(baseline, baseline, [0.1])

    def test_the_baseline_is_feasible(self) -> None:
        """Leaving it alone keeps every limit."""
        assert self.make().score(self._measured(), self._measured(), []).feasible

    @pytest.mark.parametrize("value", [float("nan"), float("inf")])
    def test_a_metric_that_is_no_number_is_never_scored(self, value: float) -> None:
        """Not finite is an error, for every metric that is needed."""
        for name in self.make().needs:
            with pytest.raises(MeasurementError):
                self.make().score(self._measured(**{name: value}), self._measured(), [])

    def test_a_missing_metric_is_never_scored(self) -> None:
        """Missing is an error."""
        with pytest.raises(MeasurementError):
            self.make().score(Measurement({}), self._measured(), [])


class MachineContract:
    """What every machine must keep; the runs have no scheme, so nothing of the machine is changed."""

    @pytest.fixture(scope="class")
    @classmethod
    def machine(cls) -> Machine:
        """The machine under test."""
        raise NotImplementedError

    @pytest.fixture(scope="class")
    @classmethod
    def session(cls, machine: Machine) -> Iterator[Session]:
        """One lease for all tests."""
        opened = machine.open()
        yield opened
        opened.close()

    def _run(self, session: Session, *argv: str) -> dict[str, Any]:
        spec = {"env": {}, "limit_s": 30.0, "sample_s": 0.5, "drop_caches": False, "context": None}
        answer: dict[str, Any] = session.agent.call("run", argv=list(argv), **spec)
        return answer

    def test_it_says_what_it_is(self, machine: Machine, session: Session) -> None:
        """A name, a description, and facts for the provenance."""
        assert machine.name
        assert machine.describe()
        assert {"kernel", "accel", "clock", "vcpus", "mem_bytes"} <= set(session.facts)

    def test_a_run_is_reported_whole(self, session: Session) -> None:
        """Everything that the runner reads is there."""
        raw = self._run(session, "true")
        assert raw["exit_status"] == 0
        assert raw["runtime_s"] > 0
        assert raw["damos"] == []
        assert {"pswpin", "pswpout", "pgmajfault"} <= set(raw["counters"])
        assert len(raw["samples"][0]) == len(raw["sample_columns"])

    def test_runs_come_one_after_the_other(self, session: Session) -> None:
        """A session is good for many runs."""
        assert all(self._run(session, "true")["exit_status"] == 0 for _ in range(3))

    def test_a_file_has_a_path_there(self, session: Session, tmp_path: Path) -> None:
        """Copying gives the path on the machine."""
        file = tmp_path / "file"
        file.write_text("content")
        assert session.copy(file)


class WorkloadContract:
    """What every workload must keep."""

    @pytest.fixture
    def workload(self) -> Workload:
        """The workload under test."""
        raise NotImplementedError

    def test_it_says_what_it_is(self, workload: Workload) -> None:
        """A name, a variant, an identity that does not change."""
        assert workload.name
        assert workload.variant in ("real", "model")
        assert workload.identity == workload.identity
        assert workload.tuning.low_us < workload.tuning.high_us

    def test_its_command_is_a_list_of_words(self, workload: Workload) -> None:
        """No shell string, and every file named as it is on the machine."""
        argv = workload.argv(lambda path: f"/there/{path.name}")
        assert argv
        assert all(isinstance(word, str) for word in argv)


class PolicyContract:
    """What every policy must keep."""

    @pytest.fixture
    def policy(self) -> Policy:
        """The policy under test."""
        raise NotImplementedError

    def test_the_agent_can_read_it(self, policy: Policy) -> None:
        """Its part of the agent's call survives JSON."""
        assert policy.name
        assert json.loads(json.dumps(policy.spec())) == policy.spec()
