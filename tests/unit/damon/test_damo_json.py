"""damo's JSON, checked with the real damo as the judge."""

import json
import subprocess
import sys
import tempfile
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from damoos.damon.attrs import Attrs, IntervalsGoal
from damoos.damon.damo_json import context_from_json, context_to_json, scheme_from_json, scheme_to_json
from damoos.damon.filters import Filter
from damoos.damon.pattern import AccessPattern
from damoos.damon.quotas import Goal, Quotas
from damoos.damon.scheme import Context, Scheme, Watermarks
from damoos.errors import SchemeError
from damoos.policies.documents import as_text

from .contexts import contexts
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
    assert scheme_from_json(json.loads(json.dumps(scheme_to_json(scheme)))) == scheme


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


def of_damo(*words: object) -> str:
    """What damo prints; it wants to be root for this as well, which needs no rights: a user is told that he is."""
    damo = "import os; os.geteuid = lambda: 0; from damo.damo import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", damo, "args", "damon", *map(str, words)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@settings(max_examples=20, deadline=None)
@given(st.lists(contexts(), min_size=5, max_size=5))
@pytest.mark.slow
def test_damo_reads_what_we_write_and_we_read_what_damo_writes(written: list[Context]) -> None:
    """Several contexts at once, as kdamonds of one document, because damo takes half a second to start."""
    with tempfile.TemporaryDirectory() as folder:
        ours = Path(folder) / "schemes.json"
        ours.write_text(json.dumps({"kdamonds": [context_to_json(one)["kdamonds"][0] for one in written]}))
        printed = of_damo(ours, "--format", "json")
    theirs = json.loads(printed[printed.index("{") :])["kdamonds"]
    assert [context_from_json({"kdamonds": [one]}) for one in theirs] == [_as_damo_has_it(one) for one in written]


def _as_damo_has_it(context: Context) -> Context:
    """Without what damo has no place for, or only where an action needs it."""
    schemes = tuple(replace(one, max_nr_snapshots=0) for one in context.schemes)
    return replace(context, schemes=schemes)


def test_yaml_is_read_like_json(tmp_path: Path) -> None:
    ours = tmp_path / "schemes.json"
    ours.write_text(json.dumps(context_to_json(Context((FULL,), attrs=Attrs(goal=IntervalsGoal(350, 1_234, 5_000))))))
    printed = of_damo(ours, "--format", "yaml")
    assert as_text(printed) == as_text(ours.read_text())
    assert Context.parse(as_text(printed)).schemes == (FULL,)


def test_units_of_damos_are_read() -> None:
    form = {
        "ops": "vaddr",
        "intervals": {"sample_us": "5 ms", "aggr_us": "100 ms", "ops_update_us": "1 s"},
        "schemes": [
            {
                "action": "pageout",
                "access_pattern": {
                    "sz_bytes": {"min": "4.000 KiB", "max": "max"},
                    "nr_accesses": {"min": "0 samples", "max": "2 samples"},
                    "age": {"min": "1 m 30 s", "max": "1,200 aggr_intervals"},
                },
                "quotas": {
                    "time_ms": "0 ns", "sz_bytes": "128.000 MiB", "reset_interval_ms": "1 s",
                    "goals": [{"metric": "node_mem_free_bp", "target_value": "0.5 %", "nid": "1"}],
                    "weights": {"sz_permil": "0 %", "nr_accesses_permil": "0 %", "age_permil": "100 %"},
                },
                "filters": [{"filter_type": "anon", "matching": True, "allow": True}],
            }
        ],
    }  # fmt: skip
    (scheme,) = context_from_json({"kdamonds": [{"contexts": [form]}]}).schemes
    assert scheme.pattern == AccessPattern(4096, None, Fraction(0), Fraction(10), 90_000_000, 120_000_000)
    assert scheme.quotas == Quotas(
        0, 128 << 20, 1000, weight_age_permil=1000, goals=(Goal("node_mem_free_bp", 50, nid=1),)
    )
    assert scheme.filters == (Filter("anon", allow=True),)


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
