"""Scheme text with all that a scheme can have."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given

from damoos.damon.attrs import Attrs, IntervalsGoal
from damoos.damon.damo_json import context_from_json, context_to_json
from damoos.damon.filters import Filter
from damoos.damon.interface import kdamond
from damoos.damon.module_kdamond import ModuleKdamond
from damoos.damon.modules import Module
from damoos.damon.pattern import AccessPattern
from damoos.damon.quotas import Goal, Quotas
from damoos.damon.scheme import Context, Scheme, Watermarks, word_at
from damoos.damon.settings import EVERY_FILE, check, settings
from damoos.errors import MachineBusy, MachineError, SchemeError, UnsupportedError

from .contexts import contexts

PRCL = "4K max  min min  5s max  pageout"


@pytest.mark.slow
@given(contexts())
def test_a_whole_context_survives_a_round_trip_through_text(context: Context) -> None:
    assert Context.parse(str(context)) == context


@pytest.mark.slow
@given(contexts())
def test_a_whole_context_survives_a_round_trip_through_json(context: Context) -> None:
    assert context_from_json(context_to_json(context)) == context


@pytest.mark.slow
@given(contexts())
def test_each_file_of_a_context_is_one_that_is_known(context: Context) -> None:
    everywhere = AccessPattern()  # a narrow range may hold no count of samples
    context = replace(context, schemes=tuple(replace(scheme, pattern=everywhere) for scheme in context.schemes))
    assert {setting.file for setting in settings(context)} <= EVERY_FILE
    assert {setting.file for setting in settings(context, layered=True)} <= EVERY_FILE


def test_what_is_written_means_what_it_says() -> None:
    context = Context.parse(
        "attrs  operations=paddr  aggr=200ms  intervals_goal.aggrs=4  # of all memory\n"
        f"{PRCL}  quotas.sz=128M  quotas.reset_interval=1s  quotas.weights.age=1000"
        "  quotas.goals[0].metric=some_mem_psi_us  quotas.goals[0].target=10ms"
        "  watermarks.metric=free_mem_rate  watermarks.mid=400  filters[0].type=anon  filters[0].allow=Y"
    )
    (scheme,) = context.schemes
    assert (context.operations, context.attrs) == ("paddr", Attrs(aggr_us=200_000, goal=IntervalsGoal(aggrs=4)))
    goal = Goal("some_mem_psi_us", 10_000)
    assert scheme.quotas == Quotas(0, 128 << 20, 1000, weight_age_permil=1000, goals=(goal,))
    assert scheme.watermarks == Watermarks("free_mem_rate", mid_permil=400)
    assert scheme.filters == (Filter("anon", allow=True),)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"{PRCL} quotas.siz=1M", r"line 1, column 34: quotas\.siz: unknown word; did you mean 'sz'\?"),
        (f"{PRCL} quotas.sz=1X", "column 34: quotas.sz: '1X': unknown size unit 'X'"),
        (f"{PRCL} quotas.sz=1M", "column 34: quotas.sz: a quota needs reset_interval"),
        (f"{PRCL} filters[1].type=anon", r"filters\[1\]\.type: there is no filters\[0\]"),
        (f"{PRCL} filters[0].type=anno", "unknown filter type 'anno'; did you mean 'anon'"),
        (f"{PRCL} filters[0].type=memcg", "a memcg filter needs memcg_path"),
        (f"{PRCL} filters[0].type=anon filters[0].allow=yes", "'yes' is neither Y nor N"),
        (f"{PRCL} quotas.goals[0].metric=user_input quotas.reset_interval=1s", "needs target"),
        (f"{PRCL} quotas.sz=", "'quotas.sz=' is not of the form key=value"),
        (f"{PRCL} target_nid=1 target_nid=2", "'target_nid' is given twice"),
        ("attrs sample=1s\n" + PRCL, r"line 1, column 7: sample: .* does not hold"),
        ("attrs 5ms", "'5ms' is not of the form key=value"),
        (f"attrs aggr=1s\n{PRCL}\nattrs aggr=2s", "line 3, column 1: there is a line 'attrs' already"),
        ("aggr=1s", "a line begins with a scheme's 7 fields, 'attrs' or 'module'"),
        ("module damon_reclam", "unknown module 'damon_reclam'; did you mean 'damon_reclaim'"),
        ("module damon_reclaim min_ag=1s", "column 22: min_ag: unknown word; did you mean 'min_age'"),
        (f"module damon_reclaim\n{PRCL}", "a line 'module' stands alone"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(text: str, message: str) -> None:
    with pytest.raises(SchemeError, match=message):
        Context.parse(text)


def test_values_take_the_place_of_those_in_the_text() -> None:
    two = f"{PRCL}\n2M max  min min  7s max  nohugepage  quotas.goals[0].metric=user_input"
    text = f"{two}  quotas.goals[0].target=5  quotas.reset_interval=1s"
    words = {"attrs.aggr": "1s", "apply_interval": "2s", "quotas.goals[0].target": "7", "schemes[0].target_nid": "1"}
    context = Context.parse(text, words=words)
    first, second = context.schemes
    assert context.attrs.aggr_us == 1_000_000
    assert (first.apply_interval_us, first.target_nid, first.quotas) == (2_000_000, 1, Quotas())
    assert (second.apply_interval_us, second.quotas.goals[0].target_value) == (2_000_000, 7)
    with pytest.raises(SchemeError, match=r"filters\[0\]\.type: no scheme has filters\[0\]"):
        Context.parse(text, words={"filters[0].type": "anon"})
    with pytest.raises(SchemeError, match=r"schemes\[2\]\.target_nid: there are 2 schemes"):
        Context.parse(text, words={"schemes[2].target_nid": "1"})


def test_a_path_has_a_unit() -> None:
    paths = ("attrs.aggr", "schemes[1].quotas.sz", "quotas.goals[0].target", "watermarks.mid", "module.quota_ms")
    assert [word_at(path).kind.unit for path in paths] == ["us", "bytes", "count", "permil", "ms"]
    with pytest.raises(SchemeError, match="agr: unknown word; did you mean 'aggr'"):
        word_at("attrs.agr")


OFFERED = {
    "operations": ["vaddr"], "actions": ["pageout"], "filters": ["anon"], "goals": [], "tuners": [],
    "probe_filters": [], "modules": [], "files": sorted(EVERY_FILE - {"schemes/0/dests/nr_dests", "addr_unit"}),
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"{PRCL} dests[0].id=0", r"DAMON has no schemes/0/dests/nr_dests \(since Linux 6\.17\)"),
        (f"attrs addr_unit=8\n{PRCL}", r"DAMON has no addr_unit \(since Linux 6\.18\)"),
        (f"{PRCL} filters[0].type=active", r"takes no 'active' as schemes/0/filters/0/type \(since Linux 6\.15\)"),
        ("4K max min min 5s max collapse", r"takes no 'collapse' as schemes/0/action \(since Linux 7\.3\)"),
        ("module damon_reclaim", "this kernel has no module damon_reclaim"),
    ],
)
def test_what_a_kernel_lacks_is_told_with_the_kernel_that_has_it(text: str, message: str) -> None:
    check(Context.parse(f"{PRCL} filters[0].type=anon"), OFFERED)
    with pytest.raises(UnsupportedError, match=message):
        check(Context.parse(text), OFFERED)


# The kernel's modules


@pytest.fixture
def reclaim(tmp_path: Path) -> Path:
    folder = tmp_path / "sys/module/damon_reclaim/parameters"
    folder.mkdir(parents=True)
    (folder / "enabled").write_text("N\n")
    for name, value in {"min_age": 120_000_000, "quota_sz": 134_217_728, "kdamond_pid": -1, "skip_anon": "N"}.items():
        (folder / name).write_text(f"{value}\n")
    return folder


def test_a_module_gets_its_parameters_and_is_put_back(tmp_path: Path, reclaim: Path) -> None:
    one = kdamond(tmp_path, "damon_reclaim")
    former: dict[str, object] = {}
    one.create(about_to=former.update)
    context = Context.parse("module damon_reclaim  min_age=5s  quota_sz=1M  skip_anon=Y")
    one.configure(context, [1])
    (reclaim / "kdamond_pid").write_text("77\n")
    one.start()
    assert one.is_on()
    assert one.accepted()["module/damon_reclaim/min_age"] == "5000000"
    assert [(reclaim / name).read_text() for name in ("quota_sz", "skip_anon")] == ["1048576\n", "Y\n"]
    one.configure(Context.parse("module damon_reclaim  min_age=6s"), [1])
    one.commit()
    assert (reclaim / "commit_inputs").read_text() == "Y\n"
    kdamond(tmp_path, "damon_reclaim").remove(former)
    held = [(reclaim / name).read_text().strip() for name in ("enabled", "min_age", "quota_sz", "skip_anon")]
    assert held == ["N", "120000000", "134217728", "N"]


def test_a_module_that_somebody_else_runs_is_left_alone(tmp_path: Path, reclaim: Path) -> None:
    (reclaim / "enabled").write_text("Y\n")
    with pytest.raises(MachineBusy, match="damon_reclaim is enabled"):
        ModuleKdamond(tmp_path).create()
    with pytest.raises(UnsupportedError, match="no module damon_lru_sort"):
        ModuleKdamond(tmp_path, "damon_lru_sort").create()


def test_what_a_module_does_not_take_is_told(tmp_path: Path, reclaim: Path) -> None:
    one = ModuleKdamond(tmp_path)
    with pytest.raises(UnsupportedError, match="no module/damon_reclaim/quota_mem_pressure_us"):
        one.configure(Context.parse("module damon_reclaim quota_mem_pressure_us=10ms"), [])
    one.configure(Context.parse("module damon_reclaim min_age=5s"), [])
    (reclaim / "min_age").write_text("6000000\n")
    with pytest.raises(MachineError, match="holds min_age=6000000 where 5000000 was written"):
        one.accepted()


def test_a_module_says_all_it_is_told_in_text_and_json() -> None:
    module = Module("damon_lru_sort", {"cold_min_age": 5_000_000, "filter_young_pages": True, "quota_ms": 20})
    context = Context((), "paddr", module=module)
    assert str(context) == "module  damon_lru_sort  cold_min_age=5s  filter_young_pages=Y  quota_ms=20ms"
    assert Context.parse(str(context)) == context_from_json(context_to_json(context)) == context
    with pytest.raises(SchemeError, match="has a scheme and a monitoring of its own"):
        Context((Scheme("stat"),), "paddr", module=module)
