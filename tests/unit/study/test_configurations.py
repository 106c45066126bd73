"""Listed studies on machines that are not there: the plan, resuming, failures, and what the numbers come to."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from damoos.api import comparisons
from damoos.api.comparisons import Evaluated
from damoos.api.plots import plot_limits
from damoos.comparison.configurations import evaluation, role_rows, thp_shares
from damoos.dispatch.local import LocalDispatcher
from damoos.errors import ConfigError, MeasurementError, UnsupportedError, WorkloadError
from damoos.machines import catalog
from damoos.model.trial import Measurement, Run
from damoos.policies import named
from damoos.prediction.forecast import Size
from damoos.report.comparison.configurations import memory_chart, text
from damoos.report.html import evaluation as evaluation_page
from damoos.statistics.intervals import interval, interval_of_average
from damoos.statistics.summary import told
from damoos.study.configurations import config_json, plan
from damoos.study.evaluation_config import EvaluationConfig
from damoos.sweeps.driver import drive
from damoos.sweeps.estimate import estimate
from damoos.sweeps.sweep import Sweep
from damoos.testing.fake import MADVISED, RSS_BYTES, THP_BLOAT, THP_GAIN, FakeAgent, FakeMachine, FakeSession
from damoos.words.studies import EvaluateWords

WORKLOADS = ("synthetic/hot-cold", "synthetic/idle")


@pytest.fixture
def fleet(monkeypatch: pytest.MonkeyPatch) -> dict[str, FakeMachine]:
    """Machines by name, which a test may put others into."""
    machines: dict[str, FakeMachine] = {}

    def machine(name: str, kernel: str | None = None) -> FakeMachine:
        return machines.setdefault(name, FakeMachine(noise=0.001, seed=len(machines)))

    monkeypatch.setattr(catalog, "machine", machine)
    monkeypatch.setattr("damoos.dispatch.retries.BACKOFF_S", 0.0)
    return machines


def make(results: Path, configs=named.PAPER, workloads=WORKLOADS[:1], machines=("a",), **settings) -> Sweep:
    config = comparisons.evaluation_config(EvaluateWords(workloads, machines, configs, **{"repeats": 3, **settings}))
    config.check()
    return Sweep.create(results, config)


def go(one: Sweep, event=lambda kind, said: None) -> dict:
    dispatcher = LocalDispatcher()
    try:
        return drive(one, dispatcher, event, steady_s=0)
    finally:
        dispatcher.close()


def only(one: Sweep) -> dict:
    (config,) = one.config.configs()
    result = one.finished(one.study_name(config))
    assert result
    return result


def listed(seed: int = 0, repeats: int = 5) -> EvaluationConfig:
    return EvaluationConfig(
        workload=WORKLOADS[0], machine="a", seed=seed, repeats=repeats, configs=named.resolve(named.PAPER)
    )


def test_every_block_holds_every_configuration_once_in_an_order_of_its_own() -> None:
    runs = plan(listed())
    blocks = [[run.arm for run in runs if run.number == number] for number in range(5)]
    assert all(sorted(block) == sorted(named.PAPER) for block in blocks)
    assert len({tuple(block) for block in blocks}) > 1
    assert [run.index for run in runs] == list(range(30))
    assert len({run.key for run in runs}) == 30


def test_the_order_depends_on_the_seed_and_the_block_only() -> None:
    assert plan(listed(repeats=3)) == plan(listed())[:18]
    assert plan(listed(seed=1)) != plan(listed())


def test_the_six_configurations_do_what_they_are_for(fleet, tmp_path: Path) -> None:
    one = make(tmp_path, repeats=4)
    found = go(one)
    assert found["failures"] == []
    assert found["studies"][0]["trials"] == found["studies"][0]["nr_samples"] == found["studies"][0]["runs"] == 24
    configs = only(one)["configs"]
    mean = {name: {key: q["mean"] for key, q in config["quantities"].items()} for name, config in configs.items()}
    assert mean["thp"]["performance"] == pytest.approx(1 / (1 - THP_GAIN), rel=0.01)
    assert mean["thp"]["memory_efficiency"] == pytest.approx(1 / (1 + THP_BLOAT), rel=0.01)
    assert mean["thp"]["anon_huge_avg_bytes"] == pytest.approx(mean["thp"]["rss_avg_bytes"])
    assert mean["baseline"]["anon_huge_avg_bytes"] == mean["prcl"]["anon_huge_avg_bytes"] == 0
    assert mean["ethp"]["bloat"] == pytest.approx(THP_BLOAT * MADVISED, rel=0.02)
    assert mean["prcl"]["bloat"] == pytest.approx(-0.55, rel=0.01)  # of the fake's curve at 5 s
    assert mean["rec"]["kdamond_cpu"] == pytest.approx(0.01)
    assert mean["baseline"]["kdamond_cpu"] == mean["thp"]["kdamond_cpu"] == 0
    low, high = configs["baseline"]["quantities"]["performance"]["ci95"]
    assert low < 1 < high
    assert high - low < 0.02
    assert configs["ethp"]["thp"] == "madvise"
    assert configs["prcl"]["scheme"] == "4K max  min min  5s max  pageout"


def test_a_scheme_that_applied_nothing_is_told(fleet, tmp_path: Path) -> None:
    one = make(tmp_path, configs=("rec", "prcl"))
    go(one)
    result = only(one)
    for name in ("rec", "prcl"):
        result["configs"][name]["damos"]["sz_applied_bytes"] = 0
    shown = text({"machines": evaluation([result]), "failures": []}, [result])
    told = [line.split() for line in shown.splitlines() if "it applied nothing, so this is what watching costs" in line]
    assert [words[0] for words in told] == ["prcl"]


def test_a_run_is_set_against_the_baseline_of_its_own_block() -> None:
    def run(arm: str, block: int, runtime_s: float, host: str = "h") -> Run:
        metrics = {"runtime_s": runtime_s, "rss_avg_bytes": 1.0, "kdamond_cpu_s": 0.0, "anon_huge_avg_bytes": 0.0}
        return Run(0, "config", block, arm, None, Measurement(metrics, provenance={"host": host}))

    # The machine is twice as slow in the second block, and changed in the middle of the third.
    blocks = [
        {"baseline": run("baseline", 0, 10.0), "prcl": run("prcl", 0, 11.0)},
        {"baseline": run("baseline", 1, 20.0), "prcl": run("prcl", 1, 22.0)},
        {"baseline": run("baseline", 2, 10.0), "prcl": run("prcl", 2, 90.0, host="other")},
    ]
    form = named.resolve(["prcl"])["prcl"]
    told_of = config_json("prcl", form, blocks)["quantities"]
    assert told_of["slowdown"]["values"] == pytest.approx([0.1, 0.1])
    assert told_of["slowdown"]["ci95"] == pytest.approx([0.1, 0.1])
    assert config_json("baseline", {}, blocks)["quantities"]["performance"]["values"] == [1.5, 0.5, 1.5]
    broken = [blocks[2]]
    assert config_json("prcl", form, broken)["error"] == "none of its runs was on the machine of its block's baseline"


def test_what_a_server_reports_is_told_and_drawn_by_the_limit() -> None:
    """Its requests are given to it, so that its runtime stays; what a machine does not have is absent."""

    def run(arm: str, block: int, p99_ms: float) -> Run:
        metrics = {"runtime_s": 1.0, "rss_avg_bytes": 1.0, "kdamond_cpu_s": 0.0, "anon_huge_avg_bytes": 0.0}
        more = {"system_used_avg_bytes": 4.0 if arm == "baseline" else 2.0, "p99_ms": p99_ms}
        return Run(0, "config", block, arm, None, Measurement(metrics | more, provenance={"host": "h"}))

    blocks = [{"baseline": run("baseline", n, 1.0), "small": run("small", n, 5.0 + n)} for n in range(3)]
    configs = {
        name: config_json(name, {}, blocks, ["p99_ms"]) | {"memory_limits": limits}
        for name, limits in (("baseline", {}), ("small", {"memory.max": 2 << 20}))
    }
    assert configs["small"]["reports"]["p99_ms"]["values"] == [5.0, 6.0, 7.0]
    assert configs["small"]["quantities"]["system_efficiency"]["mean"] == 2.0
    assert configs["small"]["quantities"]["memory_efficiency"]["mean"] == 1.0
    watching = config_json("small", named.resolve(["prec"])["prec"], blocks)["quantities"]
    assert watching["memory_efficiency"] == watching["system_efficiency"]
    assert not {"memory_avg_bytes", "refaults_per_s"} & set(configs["small"]["quantities"])
    about = {"workload": "nginx", "variant": "real", "machine": {"name": "a", "kernel": "6.12", "accel": "tcg"}}
    slowdown, p99 = memory_chart("a", [{**about, "configs": configs}]).panels
    assert (list(slowdown.layers[0].x), list(slowdown.layers[0].y)) == ([2.0], [0.0])
    assert (p99.y.column, list(p99.layers[0].x), list(p99.layers[0].y)) == ("p99_ms", [2.0], [6.0])


class Kill(BaseException):
    """As abrupt as a kill, but catchable here."""


@pytest.mark.parametrize("at", [0, 4, 11])
def test_a_listed_study_that_is_killed_ends_as_an_unbroken_one(fleet, tmp_path: Path, at: int) -> None:
    orders: dict[str, list[str]] = {"whole": [], "broken": []}

    def event(name: str, left: int):
        def tell(kind: str, said: dict) -> None:
            if kind == "run":
                orders[name].append(said["run"])
                if len(orders[name]) > left:
                    raise Kill

        return tell

    go(make(tmp_path / "whole"), event("whole", 99))
    broken = make(tmp_path / "broken")
    with pytest.raises(Kill):
        go(broken, event("broken", at))
    again = Sweep.unfinished(tmp_path / "broken", broken.config)
    assert again is not None
    go(again, event("broken", 99))
    assert orders["broken"] == orders["whole"]  # nothing twice, nothing left out, in the same order
    assert only(again)["configs"]["prcl"]["nr_runs"] == 3


@pytest.mark.slow
def test_a_configuration_that_fails_has_a_reason_and_no_number(fleet, tmp_path: Path) -> None:
    one = make(tmp_path)
    (config,) = one.config.configs()
    order = [run.arm for run in plan(config)]
    fleet["a"] = FakeMachine(noise=0.001, failures={order.index("prcl"): WorkloadError("it crashed")})
    assert go(one)["failures"] == []
    prcl = only(one)["configs"]["prcl"]
    assert (prcl["error"], prcl["quantities"], prcl["nr_runs"]) == ("it crashed", {}, 1)
    assert fleet["a"].nr_runs == 18 - 2  # it was not tried again
    assert all(not one["error"] for name, one in only(one)["configs"].items() if name != "prcl")
    shown = repr(comparisons.Evaluated(one))
    assert "prcl      failed: it crashed" in shown
    (row,) = [row for row in comparisons.Evaluated(one).table.to_dict("records") if row["config"] == "prcl"]
    assert row["error"] == "it crashed"
    assert row["performance"] != row["performance"]  # not a number
    comparisons.Evaluated(one).write()  # the figure, too, can do without


def test_a_baseline_that_fails_ends_the_study_which_then_goes_on_with_it(fleet, tmp_path: Path) -> None:
    one = make(tmp_path, configs=["prcl"])
    (config,) = one.config.configs()
    at = [run.arm for run in plan(config)].index("baseline", 2)
    fleet["a"] = FakeMachine(failures={at: WorkloadError("it crashed")})
    (failure,) = go(one)["failures"]
    assert failure["error"] == "without any scheme: it crashed"
    with pytest.raises(MeasurementError, match="nothing to show"):
        comparisons.Evaluated(one)
    assert go(one)["failures"] == []
    assert fleet["a"].nr_runs == 6 + 1
    assert only(one)["configs"]["baseline"]["nr_runs"] == 3


def test_a_model_is_named_as_one_and_runs_under_the_schemes_as_they_are(fleet, tmp_path: Path) -> None:
    one = make(tmp_path, ["ethp", "prcl"], ["parsec3/raytrace"])
    go(one)
    configs = only(one)["configs"]
    assert configs["prcl"]["scheme"] == "4K max  min min  5s max  pageout"
    assert "7s max  nohugepage" in configs["ethp"]["scheme"]
    said = repr(comparisons.Evaluated(one))
    assert "parsec3/raytrace (model)" in said
    assert "a model has the accesses of a program that is not installed" in said


def test_thp_that_is_not_there_is_found_before_the_first_run(fleet, tmp_path: Path, monkeypatch) -> None:
    made = FakeSession.__init__

    def without(self: FakeSession, machine: FakeMachine) -> None:
        made(self, machine)
        self.facts["has_thp"] = False

    monkeypatch.setattr(FakeSession, "__init__", without)
    (failure,) = go(make(tmp_path, ["thp", "ethp"]))["failures"]
    assert "no transparent huge pages, which thp and ethp need" in failure["error"]
    assert fleet["a"].nr_runs == 0
    assert go(make(tmp_path / "prcl", ["prcl"]))["failures"] == []
    assert UnsupportedError.exit_code == 3


@pytest.mark.slow
def test_averages_best_and_worst_over_workloads(fleet, tmp_path: Path) -> None:
    one = make(tmp_path, ["prcl"], WORKLOADS, ("a", "b"))
    fleet["a"] = FakeMachine(lambda age: (0.1, 0.5), noise=0.001)
    fleet["b"] = FakeMachine(lambda age: (0.2, 0.5), noise=0.001)
    go(one)
    evaluated = comparisons.Evaluated(one)
    a, b = evaluated.result["machines"]
    assert (a["machine"], a["workloads"]) == ("a", list(WORKLOADS))
    assert a["configs"]["prcl"]["slowdown"]["mean"] == pytest.approx(0.1, abs=0.005)
    assert b["configs"]["prcl"]["slowdown"]["mean"] == pytest.approx(0.2, abs=0.005)
    prcl = a["configs"]["prcl"]["performance"]
    assert prcl["best"]["mean"] > prcl["mean"] > prcl["worst"]["mean"]
    assert prcl["ci95"][0] < prcl["mean"] < prcl["ci95"][1]
    assert {prcl["best"]["workload"], prcl["worst"]["workload"]} == set(WORKLOADS)
    assert len(evaluated.table) == 2 * 2 * 2
    assert len(evaluated.runs) == 2 * 2 * 2 * 3
    assert {"machine", "workload", "block", "config", "runtime_s", "error"} <= set(evaluated.runs.columns)
    json.loads(evaluated.to_json())
    said = repr(evaluated)
    assert "averages of 2 workloads" in said
    names = sorted(path.name for path in evaluated.write())
    assert names == sorted(
        ["evaluation.json", "evaluation.csv"]
        + [f"evaluation-{m}.{e}" for m in "ab" for e in ("png", "svg")]
        + [f"over-time-{w.replace('/', '-')}-{c}.svg" for w in WORKLOADS for c in ("baseline", "prcl")]
    )
    lines = (one.artifacts.path / "evaluation.csv").read_text().splitlines()
    assert len(lines) == 1 + 8
    assert lines[0].startswith("machine,workload,variant,config,nr_runs,performance,performance_low")


def quantity(mean: float, half: float = 0.001) -> dict:
    return {"mean": mean, "ci95": [mean - half, mean + half], "values": [mean]}


def shares(thp: tuple, ethp: tuple) -> dict:
    found = {name: {"slowdown": one[0], "bloat": one[1]} for name, one in (("thp", thp), ("ethp", ethp))}
    forms = {"thp": {"scheme": None, "thp": "always"}, "ethp": {"scheme": "s", "thp": "madvise"}}
    (share,) = thp_shares(found, forms)
    return share


@pytest.mark.parametrize(
    ("thp", "ethp", "removed", "kept"),
    [
        # DAOS (HPDC'22) section 4.2: ocean_ncp; the averages are rounded in the paper, which says 64.28 % and 39 %.
        ((-0.2754, 0.8218), (-0.1267, 0.163), 0.8016, 0.46),
        # v8 patch set, Appendix E, total: removes 68.22 % of the memory waste, preserves 51.88 % of the speedup.
        ((-0.0451, 0.0708), (-0.0234, 0.0225), 0.6822, 0.5188),
    ],
)
def test_shares_are_counted_as_they_were_published(thp: tuple, ethp: tuple, removed: float, kept: float) -> None:
    share = shares(tuple(map(quantity, thp)), tuple(map(quantity, ethp)))
    assert share["bloat_removed"] == pytest.approx(removed, abs=0.0005)
    assert share["speedup_kept"] == pytest.approx(kept, abs=0.0005)


def test_nothing_is_a_share_of_noise() -> None:
    share = shares((quantity(-0.01, 0.02), quantity(0.01, 0.02)), (quantity(-0.01), quantity(0.0)))
    assert (share["bloat_removed"], share["speedup_kept"]) == (None, None)
    slower = shares((quantity(0.05), quantity(0.5)), (quantity(0.01), quantity(0.1)))
    assert slower["speedup_kept"] is None
    assert slower["bloat_removed"] == pytest.approx(0.8)
    unknown = shares(({**quantity(-0.1), "ci95": None}, {**quantity(0.1), "ci95": None}), (quantity(-0.1), quantity(0)))
    assert (unknown["bloat_removed"], unknown["speedup_kept"]) == (None, None)


def test_shares_are_said_in_words(fleet, tmp_path: Path) -> None:
    one = make(tmp_path, ["thp", "ethp"])
    go(one)
    assert "removes 60." in repr(comparisons.Evaluated(one)) or "removes 59." in repr(comparisons.Evaluated(one))
    machine = comparisons.Evaluated(one).result["machines"][0]
    machine["thp"][0] |= {"bloat_removed": None, "speedup_kept": None}
    said = text({"machines": [machine], "failures": []}, [only(one)])
    assert "THP has no memory bloat" in said
    assert "THP has no speedup" in said


def test_nothing_finished_is_nothing_to_tell() -> None:
    with pytest.raises(MeasurementError, match="nothing to show"):
        evaluation([])


def test_the_interval_of_an_average() -> None:
    assert interval_of_average([[1.0, 2.0, 3.0]]) == interval([1.0, 2.0, 3.0])
    low, high = interval_of_average([[1.0, 2.0, 3.0], [11.0, 12.0, 13.0]])
    # Two of the same noise: variance of the mean halves, degrees of freedom double (4: 2.776).
    assert (low, high) == pytest.approx((7 - 2.7764 / 3**0.5 / 2**0.5, 7 + 2.7764 / 3**0.5 / 2**0.5), abs=1e-3)
    assert interval_of_average([[1.0, 1.0], [2.0, 2.0]]) == (1.5, 1.5)
    assert told([1.0], interval_of_average([[1.0], [2.0]]))["ci95"] is None


def test_what_it_would_take(fleet, tmp_path: Path) -> None:
    config = comparisons.evaluation_config(EvaluateWords(WORKLOADS, ["a"], ["prcl", "thp"], repeats=4))
    (row,) = estimate(config)
    assert (row["runs"], row["trials"]) == (24, 24)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"repeats": 2}, "--repeats 2: give 3 or more"),
        ({"configs": ["prcll"]}, "unknown configuration 'prcll'; did you mean 'prcl'"),
        ({"workloads": ["synthetic/hot-clod"]}, "did you mean 'synthetic/hot-cold'"),
        ({"workloads": ["nothing/*"]}, "--workloads: nothing matches"),
    ],
)
def test_wrong_words_are_found_before_a_machine_is_started(fleet, tmp_path: Path, settings: dict, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make(tmp_path, **settings)
    assert not any(machine.nr_opened for machine in fleet.values())


def test_a_running_process_has_no_runtime_to_compare() -> None:
    with pytest.raises(ConfigError, match="says nothing about a configuration"):
        replace(listed(), workload=None, pid=1)


@pytest.mark.slow
def test_each_configuration_runs_under_each_limit_of_memory(fleet, tmp_path: Path) -> None:
    """Shares are of the first baseline's peak, which therefore comes first; a curve for each policy is drawn."""
    fleet["a"] = machine = FakeMachine(noise=0.0)
    made = make(tmp_path, ("baseline", "prcl"), memory=("100%", "high:60%", f"{RSS_BYTES // 4}"))
    go(made)
    configs = only(made)["configs"]
    limits = {name: config["memory_limits"] for name, config in configs.items()}
    quarter = RSS_BYTES // 4
    assert limits == {
        "baseline": {},
        **{f"{policy}@100%": {"memory.max": int(RSS_BYTES)} for policy in ("baseline", "prcl")},
        **{f"{policy}@high:60%": {"memory.high": int(0.6 * RSS_BYTES)} for policy in ("baseline", "prcl")},
        **{f"{policy}@{quarter}": {"memory.max": quarter} for policy in ("baseline", "prcl")},
    }
    slower = {name: config["quantities"]["slowdown"]["mean"] for name, config in configs.items()}
    assert slower["baseline@100%"] == pytest.approx(0, abs=1e-6)
    assert slower["baseline@high:60%"] == pytest.approx(0.4, abs=1e-6)
    assert machine.nr_runs == 7 * 3
    figure = memory_chart("a", [only(made)])
    (panel,) = figure.panels
    both = ["baseline", "prcl"]
    assert sorted(layer.name for layer in panel.layers) == sorted([*both, *(f"{name} (memory.high)" for name in both)])
    in_mib = [limit / (1 << 20) for limit in (quarter, int(RSS_BYTES))]
    assert list(next(layer.x for layer in panel.layers if layer.name == "baseline")) == pytest.approx(in_mib)
    assert plot_limits(Evaluated(made)).table.equals(figure.table)
    evaluation_page.write(made, tmp_path / "page.html")
    assert "Limits of memory on a" in (tmp_path / "page.html").read_text()
    (sweep_config,) = made.config.configs()
    assert plan(sweep_config)[0].arm == "baseline"


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        (("60%", "60%"), "--memory: 60% is given twice"),
        (("sixty%",), "'sixty%' is neither a size such as 512M nor a share such as 60%"),
        (("0%",), "'0%' is neither"),
        (("12 parsecs",), "12 parsecs"),
    ],
)
def test_a_limit_that_is_none_is_refused(tmp_path: Path, limits: tuple[str, ...], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make(tmp_path, ("baseline",), memory=limits)


def test_a_suggested_size_is_proved_by_runs_under_it(fleet, tmp_path: Path) -> None:
    fleet["a"] = FakeMachine(noise=0.001)
    half = Size(int(RSS_BYTES // 2), int(RSS_BYTES), 2.0, 0.05, 0.1, charged_bytes=1 << 20)
    (tmp_path / "recording").mkdir()
    proof = comparisons.prove_size(half, tmp_path / "recording", WORKLOADS[0], "a", results=tmp_path)
    assert proof["memory_limits"] == {"memory.max": half.memory_bytes + (1 << 20)}
    low, high = proof["slowdown"]["ci95"]
    assert low < proof["slowdown"]["mean"] < high
    assert (tmp_path / "recording/suggested.damos").read_text() == "4K max  min min  2s max  pageout\n"
    none = Size(int(RSS_BYTES), int(RSS_BYTES), float("inf"), 0.0, 0.0)
    with pytest.raises(ConfigError, match="there is nothing to prove"):
        comparisons.prove_size(none, tmp_path, WORKLOADS[0], "a", results=tmp_path)


CONTAINERS = """
description = "two programs"
[real]
command = ["server"]
needs = "server"
[real.metrics]
ops_per_s = { better = "higher", json = "ops_per_s" }
[[container]]
name = "agent"
role = "tax"
command = ["agent"]
"""


@pytest.fixture
def two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workload of two containers, and machines that have its programs."""
    call = FakeAgent.call

    def answer(agent: FakeAgent, name: str, **args: object) -> object:
        return args["program"] if name == "which" else call(agent, name, **args)

    monkeypatch.setattr(FakeAgent, "call", answer)
    file = tmp_path / "two.toml"
    file.write_text(CONTAINERS + 'policy = "senpai:ratio=1%"\n')
    return file


def test_containers_are_told_by_role(fleet: dict[str, FakeMachine], tmp_path: Path, two: Path) -> None:
    one = make(tmp_path, ["containers", "senpai"], [str(two)])
    go(one)
    result = only(one)
    for name, steered in (("baseline", 0), ("containers", 1), ("senpai", 2)):
        roles = result["configs"][name]["roles"]
        assert list(roles) == ["all", "application", "tax"]
        means = {role: quantities["net_avg_bytes"]["mean"] for role, quantities in roles.items()}
        assert means["all"] == pytest.approx(means["application"] + means["tax"])
        assert roles["tax"]["net_saving"]["mean"] == pytest.approx(0.1 * steered, abs=0.01)
    shown = {"machines": evaluation([result]), "failures": []}
    table = [line.split() for line in text(shown, [result]).splitlines()]
    assert [words[1:3] for words in table[-9:]][3:6] == [["containers", r] for r in ("all", "application", "tax")]
    evaluation_page.write(one, tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text().count(">application</td>") == 3
    rows = role_rows([result])
    assert len(rows) == 9
    assert rows[-1]["role"] == "tax"
    assert rows[-1]["net_saving_low"] < rows[-1]["net_saving"] < rows[-1]["net_saving_high"]


def test_policies_of_containers_are_checked_before_anything_runs(
    fleet: dict[str, FakeMachine], tmp_path: Path, two: Path
) -> None:
    two.write_text(CONTAINERS)
    told = []
    go(make(tmp_path, ["containers"], [str(two)]), lambda kind, said: told.append(str(said)))
    assert any("no [[container]] of workload 'two' has a 'policy'" in said for said in told)
    assert sum(machine.nr_runs for machine in fleet.values()) == 0
    two.write_text(CONTAINERS + 'policy = "prcl"\n')
    with pytest.raises(ConfigError, match="container 'agent': policy 'prcl' is none of none, senpai"):
        make(tmp_path, ["senpai"], [str(two)])
