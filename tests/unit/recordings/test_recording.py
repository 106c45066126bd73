"""How a recording shows itself."""

from __future__ import annotations

from tests.records import stairs
from tests.unit.conftest import html


def test_a_recording_of_somebody_else_steers_no_terminal() -> None:
    from dataclasses import replace

    shown = replace(stairs(), about={"workload": "\x1b[2J<b>"})
    assert "\x1b" not in repr(shown)
    assert "&lt;b&gt;" in html(shown)
