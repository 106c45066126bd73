"""damo's JSON, checked with the real damo as the judge."""

import json
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from damoos.damon.attrs import Attrs, IntervalsGoal
from damoos.damon.damo_json import context_from_json, context_to_json, scheme_from_json, scheme_to_json
from damoos.damon.filters import Filter
from damoos.damon.pattern import AccessPattern
from damoos.damon.quotas import Quotas
from damoos.damon.scheme import Context, Scheme, Watermarks
from damoos.errors import SchemeError

from .test_text import schemes

FULL = Scheme(
    "pageout",
    AccessPattern(4096, None, Fraction(0), Fraction(5), 5_000_000, None),
    quotas=Quotas(time_ms=10, sz_bytes=1 << 20, reset_interval_ms=1000, weight_age_permil=10),
    watermarks=Watermarks("free_mem_rate", 5_000_000, 500, 400, 200),
    filters=(Filter("anon", matching=False), Filter("memcg", memcg_path="/workload")),
)


@given(schemes())
def test_a_scheme_survives_a_round_trip(scheme: Scheme) -> None:
    back = scheme_from_json(json.loads(json.dumps(scheme_to_json(scheme))))
    bounded = scheme.pattern.max_freq == 100  # "at most 100 %" and "max" are the same bound
    assert back.pattern == (
        scheme.pattern if not bounded else scheme.pattern.__class__(**{**vars(scheme.pattern), "max_freq": None})
    )
    assert back.action == scheme.action


def test_a_whole_context_survives_a_round_trip() -> None:
    context = Context((FULL, Scheme("stat")), "paddr", Attrs(10_000, 200_000, 2_000_000, 20, 500))
    assert context_from_json(json.loads(json.dumps(context_to_json(context)))) == context


@given(
    st.builds(
        IntervalsGoal,
        st.integers(0, 10_000),
        st.integers(1, 5_000),
        st.integers(1, 10**6),
        st.integers(10**6, 10**9),
    )
)
def test_a_goal_of_the_intervals_survives_a_round_trip(goal: IntervalsGoal) -> None:
    context = Context((), attrs=Attrs(goal=goal))
    assert context_from_json(json.loads(json.dumps(context_to_json(context)))) == context


def test_a_goal_that_asks_for_nothing_is_none() -> None:
    document = context_to_json(Context((), attrs=Attrs(goal=IntervalsGoal())))
    intervals = document["kdamonds"][0]["contexts"][0]["intervals"]
    # As damo writes the kernel's default.
    intervals["intervals_goal"] = {"access_bp": "0 %", "aggrs": "0", "min_sample_us": "0 ns", "max_sample_us": "0 ns"}
    assert context_from_json(document).attrs.goal is None
    del intervals["intervals_goal"]
    assert context_from_json(document).attrs == Attrs()


@pytest.mark.parametrize("goal", [None, IntervalsGoal(350, 1_234, 5_000, 12_345_000)])
def test_damo_reads_what_we_write_and_we_read_what_damo_writes(tmp_path: Path, goal: IntervalsGoal | None) -> None:
    context = Context((FULL,), attrs=Attrs(goal=goal))
    ours = tmp_path / "scheme.json"
    ours.write_text(json.dumps(context_to_json(context)))
    # damo wants to be root for this as well, which needs no rights: an ordinary user is told that he is.
    damo = "import os; os.geteuid = lambda: 0; from damo.damo import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", damo, "args", "damon", ours, "--format", "json"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    theirs = json.loads(done.stdout[done.stdout.index("{") :])
    assert context_from_json(theirs) == context


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({}, "not a DAMON context in damo's form: KeyError"),
        ({"kdamonds": []}, "the document has 0 kdamonds and 0 contexts"),
        ({"kdamonds": [{"contexts": [{}, {}]}]}, "the document has 1 kdamonds and 2 contexts"),
        ({"kdamonds": [{"contexts": [{"schemes": []}]}]}, "KeyError"),
        ({"kdamonds": [{"contexts": [{"ops": "vaddr", "schemes": [{"action": "pageou"}]}]}]}, "did you mean 'pageout'"),
        ({"kdamonds": [{"contexts": [{"ops": "vaddr", "intervals": {"aggr_us": "1 y"}}]}]}, "unknown time unit 'y'"),
    ],
)
def test_anything_else_is_refused(document: dict[str, object], message: str) -> None:
    with pytest.raises(SchemeError, match=message):
        context_from_json(document)
