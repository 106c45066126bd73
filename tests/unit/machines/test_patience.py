"""How long calls may take: what they ask for, and more."""

from __future__ import annotations

from typing import Any

import pytest

from damoos.agent.folders import SETUP_S
from damoos.agent.run import READY_S
from damoos.damon.damo_json import context_to_json
from damoos.damon.scheme import Context, parse_schemes
from damoos.machines.patience import CALL_S, MOVING_S, limit_s

CONTEXT = context_to_json(Context(parse_schemes("4K max  min min  30s max  pageout")))


@pytest.mark.parametrize(
    ("name", "args", "seconds"),
    [
        ("facts", {}, CALL_S),
        ("bye", {}, MOVING_S),
        ("steadiness", {"for_s": 5.0, "cpus": []}, CALL_S + 5),
        ("run", {"limit_s": 600.0, "warm_up_s": 60.0, "context": None, "setup": []}, MOVING_S + 600),
        ("run", {"limit_s": 9.0, "setup": [["a"], ["b"]], "abort_s": 5.0}, MOVING_S + 9 + 3 * SETUP_S),
        (
            "run",
            {"limit_s": 9.0, "warm_up_s": 7.0, "load": {"ready": ["a"], "warm_up": [["b"], ["c"]]}},
            MOVING_S + 9 + READY_S + 3 * 7,
        ),
        ("observe", {"settle_s": 5.0, "window_s": 60.0, "context": CONTEXT, "limit_s": None}, MOVING_S + 5 + 60 + 30),
    ],
)
def test_a_call_may_last_as_long_as_it_asks_for(name: str, args: dict[str, Any], seconds: float) -> None:
    assert limit_s(name, args) == pytest.approx(seconds)


def test_an_emulated_guest_has_a_time_of_its_own() -> None:
    assert limit_s("run", {"limit_s": 600.0}, 1000.0) == MOVING_S + 600_000
    assert limit_s("features", {}, 1000.0) == MOVING_S
