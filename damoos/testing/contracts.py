"""Contract suites: subclass one in a test file, give it your implementation, and pytest does the rest.

class TestMine(SearcherContract):
    make = MySearcher
"""

from __future__ import annotations

import itertools
import json
import math
import re
import shlex
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from damoos.agent.record import INSTANCE, TRACEFS
from damoos.damon.damo_json import context_to_json
from damoos.damon.pattern import AccessPattern
from damoos.damon.quotas import Quotas
from damoos.damon.scheme import Context, Scheme, Watermarks
from damoos.damon.settings import check
from damoos.errors import ConfigError, MachineError, MeasurementError, UnsupportedError
from damoos.machines.base import Machine, Session
from damoos.model.space import Param, Params, Space
from damoos.model.trial import History, Measurement, Score, Trial
from damoos.policies.base import Policy, RecordPolicy
from damoos.recordings.journal import Journal
from damoos.scorers.base import Scorer
from damoos.searchers.base import Searcher
from damoos.workloads.base import Workload
from damoos.workloads.catalog import NO_PROGRAMS, workload

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

    def test_estimates_for_figures(self) -> None:
        """An estimate for each point, or none at all; a deviation only beside an estimate."""
        searcher = self.make(SPACE, 8, 0)
        history = grown(searcher, hill)
        points = [{"min_age_us": age_s * 1_000_000} for age_s in (0, 7, 60)]
        if not any(trial.score.feasible for trial in history):
            return
        estimate, deviation = searcher.estimate(history, points), searcher.deviation(history, points)
        for values in (estimate, deviation):
            assert values is None or (len(values) == 3 and all(map(math.isfinite, values)))
        assert deviation is None or (estimate is not None and min(deviation) >= 0)

    @pytest.mark.parametrize("seed", range(3))
    def test_same_seed_same_asks(self, seed: int) -> None:
        """A searcher made anew from the same history asks the same: what makes a study resumable."""
        history = grown(self.make(SPACE, 8, seed), hill)
        for number in range(8):
            assert self.make(SPACE, 8, seed).ask(history[:number]) == history[number].params

    def test_asking_changes_nothing(self) -> None:
        """A history gives the same ask, whatever was asked in between."""
        searcher = self.make(SPACE, 8, 1)
        history = grown(self.make(SPACE, 8, 1), hill)
        for number in (3, 7, 0, 5, 5, 6, 7):
            assert searcher.ask(history[:number]) == history[number].params

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
        searches = {tuple(t.params["min_age_us"] for t in grown(self.make(SPACE, 8, seed), hill)) for seed in range(5)}
        assert len(searches) > 1 or self.make(SPACE, 8, 0).deterministic

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
        """An input gives the same score each time."""
        scorer, baseline = self.make(), self._measured()
        assert scorer.score(baseline, baseline, [0.1]) == scorer.score(baseline, baseline, [0.1])

    def test_the_baseline_is_feasible(self) -> None:
        """Leaving it alone keeps every limit."""
        assert self.make().score(self._measured(), self._measured(), []).feasible

    def test_margins_agree_with_the_limits(self) -> None:
        """A run that keeps the limits has no negative margin, and its value is the sum of its parts, if it has any."""
        scorer = self.make()
        for name, factor in itertools.product(scorer.needs, (0.3, 0.97, 1.0, 1.07, 4.0)):
            score = scorer.score(self._measured(**{name: 100.0 * factor}), self._measured(), [])
            assert all(map(math.isfinite, score.margins.values()))
            assert not score.margins or scorer.every <= set(score.margins)
            if score.feasible:
                assert score.margin is None or score.margin >= 0
                assert not score.parts or score.value == pytest.approx(score.objective)

    def test_a_run_that_was_stopped(self) -> None:
        """It broke the limits and has no value; its margins belong to limits that a whole run has, too."""
        scorer = self.make()
        if math.isinf(scorer.max_slowdown):
            return
        score = scorer.stopped(Measurement({"runtime_s": 1000.0}), self._measured())
        assert (score.value, score.feasible) == (None, False)
        assert all(map(math.isfinite, score.margins.values()))
        whole = scorer.score(self._measured(), self._measured(), []).margins
        assert not whole or set(score.margins) <= set(whole)

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


_COLD_BYTES = 60 << 20  # of synthetic/idle


def paged_out(status: dict[str, Any]) -> bool:
    """Whether the process has lost its cold memory, by its resident set.

    Not by bytes applied: on vaddr a region that holds a hole between two mappings counts as applied 0 although its
    pages went, and where the regions fall is the kernel's dice (docs/kernel.md).
    """
    return bool(status["rss_bytes"] < 0.3 * _COLD_BYTES)


def until(
    session: Session,
    fulfilled: Callable[[dict[str, Any]], bool] = lambda _: False,
    within_s: float = 30.0,
    every_s: float = 0.25,
) -> dict[str, Any]:
    """The status of what is in service once it fulfils a condition, or when the machine's time is up.

    Each look costs an emulated guest 0.05 s of a CPU, so it is not taken more often than a test needs it.
    """
    first = session.agent.call("status")
    while True:
        status: dict[str, Any] = session.agent.call("status")
        if fulfilled(status) or status["for_s"] - first["for_s"] > within_s:
            return status
        time.sleep(every_s)


_STAT = "min max  min max  min max  stat"
_QUOTA = f"{_STAT}  quotas.sz=1M  quotas.reset_interval=1s"
# Every feature of DAMON's that a scheme or the monitoring can have, one each.
FEATURES = (
    f"{_STAT}  apply_interval=200ms",
    f"{_STAT}  max_nr_snapshots=100",
    f"{_STAT}  filters[0].type=anon",
    f"{_STAT}  filters[0].type=anon  filters[0].allow=Y",
    f"{_STAT}  filters[0].type=memcg  filters[0].memcg_path=/",
    f"attrs operations=paddr\n{_STAT}  filters[0].type=young  filters[0].matching=N",
    f"{_STAT}  filters[0].type=active",
    f"{_STAT}  filters[0].type=unmapped",
    f"{_STAT}  filters[0].type=hugepage_size  filters[0].min_sz=2M  filters[0].max_sz=2M",
    f"{_STAT}  filters[0].type=addr  filters[0].addr_start=0  filters[0].addr_end=4096  filters[1].type=anon",
    f"{_STAT}  filters[0].type=target  filters[0].target_idx=0",
    f"{_QUOTA}  quotas.goals[0].metric=user_input  quotas.goals[0].target=100",
    f"{_QUOTA}  quotas.goals[0].metric=some_mem_psi_us  quotas.goals[0].target=10ms",
    *(
        f"attrs operations=paddr\n{_QUOTA}  quotas.goals[0].metric={metric}  quotas.goals[0].target=5000"
        for metric in ("node_mem_used_bp", "node_mem_free_bp", "active_mem_bp", "inactive_mem_bp")
    ),
    *(
        f"attrs operations=paddr\n{_QUOTA}  quotas.goals[0].metric={metric}  quotas.goals[0].target=5000"
        "  quotas.goals[0].nid=0  quotas.goals[0].memcg_path=/"
        for metric in ("node_memcg_used_bp", "node_memcg_free_bp")
    ),
    f"attrs operations=paddr\n{_QUOTA}  quotas.goals[0].metric=node_eligible_mem_bp  quotas.goals[0].target=5000",
    f"{_QUOTA}  quotas.goals[0].metric=user_input  quotas.goals[0].target=100  quotas.goal_tuner=temporal",
    f"{_QUOTA}  quotas.fail_charge=1/4096",
    "min max  min max  min max  collapse",
    "min max  min min  min max  migrate_hot  target_nid=0",
    "min max  min min  1h max  migrate_cold  dests[0].id=0  dests[0].weight=1",
    f"attrs intervals_goal.access_bp=400  intervals_goal.aggrs=3\n{_STAT}",
    f"attrs operations=paddr  addr_unit=8\n{_STAT}",
    f"attrs pause=Y\n{_STAT}",
    f"attrs refresh=1s\n{_STAT}",
    f"attrs probes[0].filters[0].type=anon  probes[0].filters[0].allow=Y  probes[0].weight=1\n{_STAT}",
)


def refusal(context: Context, offered: dict[str, list[str]]) -> str:
    """Why a kernel cannot do what a context asks; empty if it can."""
    try:
        check(context, offered)
    except UnsupportedError as error:
        return str(error)
    return ""


class KernelInterfaceContract:
    """What DAMON must do on a kernel, whichever of its interfaces the agent drives it through.

    The machine must be one of our own, such as a guest: its memory is paged out.
    """

    @pytest.fixture(scope="class")
    @classmethod
    def session(cls) -> Iterator[Session]:
        """A prepared machine with swap, for all tests."""
        raise NotImplementedError

    @pytest.fixture(scope="class")
    @classmethod
    def offered(cls, session: Session) -> dict[str, list[str]]:
        """What the kernel's DAMON has, as probed."""
        features: dict[str, list[str]] = session.agent.call("probe")
        return features

    @contextmanager
    def _served(self, session: Session, context: Context, argv: Sequence[str] = ()) -> Iterator[Callable[..., Any]]:
        """A process under schemes; yields a call that waits until its status fulfils a condition."""
        words = list(argv) or workload("synthetic/idle", NO_PROGRAMS).argv(session.copy, arch=session.facts["arch"])
        session.agent.call("apply", argv=words, env={}, context=context_to_json(context))
        try:
            yield partial(until, session)
        finally:
            session.agent.call("stop")
            assert session.agent.call("facts")["damon_in_use"] == ""

    def test_it_offers_what_damoos_needs(self, offered: dict[str, list[str]]) -> None:
        """Virtual addresses and the actions of the paper, through at least one interface."""
        assert offered["interfaces"]
        assert {"vaddr", "paddr"} <= set(offered["operations"])
        assert {"pageout", "hugepage", "nohugepage", "stat"} <= set(offered["actions"])

    def test_what_damon_sees_is_recorded(self, session: Session) -> None:
        """By the kernel's trace event, whole snapshots, one an aggregation interval, and nothing stays behind.

        An interval of 100 ms takes longer where the guest's CPU is late: on a busy host, twice as long.
        """
        assert session.facts["records"] == "trace"
        policy = RecordPolicy()
        journal = Journal(policy.operations, policy.attrs)
        spec = {"argv": ["sleep", "4"], "env": {}, "limit_s": 30.0, "sample_s": 0.5, "drop_caches": False}
        raw = session.agent.stream(journal, "run", **spec, **policy.spec())
        recording = journal.recording({})
        assert raw["record"]["lost_events"] == 0
        assert recording.nr_snapshots >= 5
        gaps_s = [b - a for a, b in itertools.pairwise(recording.end_s)]
        assert statistics.median(gaps_s) >= 0.09
        assert (recording.sz_bytes > 0).all()
        assert session.agent.call("which", program=f"{TRACEFS[0] / INSTANCE}/trace") is None
        assert session.agent.call("facts")["damon_in_use"] == ""

    def test_the_kernel_is_asked_what_it_took(self, session: Session) -> None:
        """All intervals are written, the one that is 60 s by default too, and read back."""
        scheme = Scheme.parse("4K max  min min  5s max  pageout")
        spec = {"context": context_to_json(Context((scheme,)))}
        accepted = session.agent.call("apply", argv=["sleep", "9"], env={}, **spec)["accepted"]
        session.agent.call("stop")
        assert accepted["operations"] == "vaddr"
        assert accepted["monitoring_attrs/intervals/update_us"] == "1000000"
        assert accepted["monitoring_attrs/nr_regions/max"] == "1000"
        assert accepted["schemes/0/action"] == "pageout"
        assert accepted["schemes/0/access_pattern/age/min"] == "50"
        assert accepted["schemes/0/access_pattern/nr_accesses/max"] == "0"

    def test_hot_memory_is_told_from_cold(self, session: Session) -> None:
        """Bytes accessed in at least half of the samples are within 10 % of the truth, in the median aggregation.

        Not on the mean: DAMON splits regions by chance, and now and then takes seconds to find the border. Nor by time:
        an aggregation is a little longer than 100 ms. Between two looks there are a few of them, or none.
        """
        hot_bytes = 60 << 20  # of synthetic/hot-cold
        hot = Scheme("stat", AccessPattern(min_freq=Fraction(50)))
        *words, pattern = workload("synthetic/hot-cold", NO_PROGRAMS).argv(session.copy, arch=session.facts["arch"])
        argv = [*words, "-n", "100", "-o", "1", pattern]  # its work again and again, until it has been looked at
        with self._served(session, Context((hot,)), argv) as until:
            looks = [until(within_s=2.0), *(until(within_s=0.1, every_s=0.05) for _ in range(12))]
        tried = [look["damos"][0]["sz_tried_bytes"] for look in looks]
        grown = [after - before for before, after in itertools.pairwise(tried) if after > before]
        seen = [increment / max(1, round(increment / hot_bytes)) for increment in grown]
        assert abs(statistics.median(seen) - hot_bytes) < 0.1 * hot_bytes, seen

    def test_cold_memory_is_paged_out(self, session: Session) -> None:
        """A process that leaves its memory alone loses it, and the statistics say so."""
        with self._served(session, Context((Scheme.parse("4K max  min min  500ms max  pageout"),))) as until:
            filled = until(lambda status: status["rss_bytes"] > 0.8 * _COLD_BYTES)
            status = until(paged_out)
        assert filled["rss_bytes"] > 0.5 * _COLD_BYTES
        assert paged_out(status), status
        assert status["damos"][0]["sz_tried_bytes"] > 0.5 * _COLD_BYTES

    def test_all_memory_can_be_watched(self, session: Session) -> None:
        """Paddr sees what the machine has, which the kernel does not find by itself."""
        with self._served(session, Context((Scheme("stat"),), operations="paddr")) as until:
            status = until(lambda status: status["damos"][0]["sz_tried_bytes"] > session.facts["mem_bytes"] / 2)
        assert status["damos"][0]["sz_tried_bytes"] > session.facts["mem_bytes"] / 2

    def test_a_scheme_is_changed_while_it_runs(self, session: Session) -> None:
        """An online commit takes effect, keeps the kdamond alive and what was counted."""
        never, soon = (Context((Scheme.parse(f"4K max  min min  {age} max  pageout"),)) for age in ("1h", "500ms"))
        with self._served(session, never) as until:
            before = until(within_s=3.0)
            accepted = session.agent.call("commit", context=context_to_json(soon))
            # What it tried is told once the kdamond has looked at all schemes, which may be after the memory has gone.
            after = until(lambda status: paged_out(status) and status["damos"][0]["sz_tried_bytes"] > _COLD_BYTES / 2)
            session.agent.call("commit", context=context_to_json(never))
            kept = session.agent.call("status")
        assert before["damos"][0]["sz_tried_bytes"] == 0
        assert accepted["schemes/0/access_pattern/age/min"] == "5"
        assert paged_out(after), after
        assert kept["damos"][0]["sz_tried_bytes"] >= after["damos"][0]["sz_tried_bytes"] > 0.5 * _COLD_BYTES

    def test_children_come_under_the_scheme(self, session: Session) -> None:
        """What a shell starts is watched too, as soon as it is looked at."""
        inner = shlex.join(workload("synthetic/idle", NO_PROGRAMS).argv(session.copy, arch=session.facts["arch"]))
        context = Context((Scheme.parse("4K max  min min  500ms max  pageout"),))
        with self._served(session, context, ["sh", "-c", f"{inner}; exit 0"]) as until:
            status = until(lambda status: paged_out(status) and status["damos"][0]["sz_tried_bytes"] > _COLD_BYTES / 2)
        assert paged_out(status), status
        assert status["damos"][0]["sz_tried_bytes"] > 0.5 * _COLD_BYTES

    def test_a_quota_holds(self, session: Session) -> None:
        """Bytes applied per reset interval are within 5 % of the quota while there is more to do.

        In its first reset interval 6.12 does not keep a quota, so nothing is old enough before the second. A quota is
        also spent on holes between mappings, so the process has none (its heap is not moved away at random). On a busy
        host several intervals may pass between two looks: then as many quotas are spent.
        """
        quota = Quotas(sz_bytes=4 << 20, reset_interval_ms=1000)
        scheme = replace(Scheme.parse("4K max  min min  2s max  pageout"), quotas=quota)
        windows: list[tuple[float, int]] = []  # when one was first seen to be spent, and what all came to by then
        since_s, seen = 0.0, -1

        def look(status: dict[str, Any]) -> bool:
            nonlocal since_s, seen
            applied, now_s = status["damos"][0]["sz_applied_bytes"], status["for_s"]
            if applied != seen:
                since_s, seen = now_s, applied
            elif now_s - since_s >= 0.2:  # the kdamond rests: a look while it works would see part of a quota
                if windows and since_s - windows[-1][0] < 0.6:
                    windows[-1] = (windows[-1][0], applied)
                elif applied > (windows[-1][1] if windows else 0):
                    windows.append((since_s, applied))
            return len(windows) == 9 or applied > 0.8 * _COLD_BYTES

        argv = [
            "setarch",
            "-R",
            *workload("synthetic/idle", NO_PROGRAMS).argv(session.copy, arch=session.facts["arch"]),
        ]
        with self._served(session, Context((scheme,)), argv) as until:
            status = until(look, every_s=0.05)
        full_windows = windows[2:]  # in those before them little may have been old enough
        spent = [(after - before) / quota.sz_bytes for (_, before), (_, after) in itertools.pairwise(full_windows)]
        assert len(spent) >= 2, windows
        assert all(abs(ratio / max(1, round(ratio)) - 1) <= 0.05 for ratio in spent), spent
        assert sum(spent) <= full_windows[-1][0] - full_windows[0][0] + 1.5, windows  # at most a quota a second
        assert status["damos"][0]["qt_exceeds"] > 0

    def test_watermarks_decide_when_a_scheme_is_active(self, session: Session) -> None:
        """A machine with enough free memory is left alone; one in the range is not."""
        plenty = Watermarks("free_mem_rate", 100_000, high_permil=3, mid_permil=2, low_permil=1)
        scarce = Watermarks("free_mem_rate", 100_000, high_permil=1000, mid_permil=999, low_permil=1)
        scheme = Scheme.parse("4K max  min min  200ms max  pageout")
        with self._served(session, Context((replace(scheme, watermarks=plenty),))) as until:
            asleep = until(within_s=3.0)
            session.agent.call("commit", context=context_to_json(Context((replace(scheme, watermarks=scarce),))))
            awake = until(paged_out)
        assert asleep["damos"][0]["sz_tried_bytes"] == 0
        assert paged_out(awake), awake

    def test_actions_do_something_or_are_known_to_do_nothing(self, session: Session) -> None:
        """Pageout does on both operations sets; huge pages are made of virtual addresses only.

        `damoos.machines.guest.features` tries all the others.
        """
        for operations in ("vaddr", "paddr"):
            applied = session.agent.call("tryout", operations=operations, actions=["pageout", "hugepage"])
            assert applied["pageout"] > 0, applied
            assert (applied["hugepage"] > 0) == (operations == "vaddr"), applied
            assert session.agent.call("facts")["damon_in_use"] == ""

    @pytest.mark.parametrize("text", FEATURES)
    def test_a_feature_is_taken_as_it_is_or_refused_with_the_kernel_that_has_it(
        self, session: Session, offered: dict[str, list[str]], text: str
    ) -> None:
        """Never in part: what was written has been read back."""
        context = Context.parse(text)
        lacks = refusal(context, offered)
        if lacks:
            assert re.search(r"since Linux \d\.\d+", lacks), lacks
            with (
                pytest.raises((UnsupportedError, MachineError), match=r"this kernel|the kernel refused"),
                self._served(session, context, ["sleep", "9"]),
            ):
                pass
        else:
            with self._served(session, context, ["sleep", "9"]):
                pass
        assert session.agent.call("facts")["damon_in_use"] == ""

    def test_a_run_says_what_the_scheme_did_and_cost(self, session: Session) -> None:
        """Statistics and the kdamond's CPU time belong to a run."""
        context = context_to_json(Context((Scheme("stat"),)))
        spec = {"env": {}, "limit_s": 30.0, "sample_s": 0.5, "drop_caches": False, "context": context}
        raw = session.agent.call("run", argv=["sleep", "2"], **spec)
        assert raw["damos"][0]["sz_tried_bytes"] > 0
        assert raw["kdamond_cpu_s"] > 0


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
