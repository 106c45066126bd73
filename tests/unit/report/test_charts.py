"""Charts as data, and what each rendering makes of them."""

from __future__ import annotations

import base64
import json
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from io import StringIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from damoos.errors import ConfigError
from damoos.model.space import Param
from damoos.model.trial import Score, Trial
from damoos.report.charts import (
    Axis,
    Bars,
    Cells,
    Chart,
    Layer,
    Level,
    Line,
    Panel,
    Points,
    Span,
    Stack,
    Steps,
    Upright,
    page,
    picture,
    terminal,
    traces,
)
from damoos.report.charts.content import wrapped
from damoos.report.charts.layers import Floats
from damoos.report.charts.style import DASHES, HOT_TO_COLD, MARKERS, PALETTE, nth
from damoos.report.study import tuning

AGE, SCORE = Axis("min_age [s]", "min_age_s"), Axis("score: as a share", "score", is_share=True)
LAYERS: tuple[Layer, ...] = (
    Span("breaks the limit", [(0, 1), (5, 6)]),
    Span("the limit lies in here", [(1, 2)], is_faint=True),
    Level("baseline", 0.0),
    Line("estimated", [0, 3, 6], [0.3, 0.2, 0.1], [0.2, 0.1, 0.0], [0.4, 0.3, 0.2], dash="dash"),
    Points("measured", [2, 4], [0.31, 0.12], [0.3, 0.1], [0.32, 0.14], marker="x", notes=["trial 0", "trial 1"]),
    Upright("stopped", [0.5, 5.5], dash="dot"),
)
BARS = (
    Bars("manual", [{"mean": 0.4, "ci95": [0.3, 0.5], "broken": True}, {"mean": 0.2, "ci95": None}], 0.0),
    Bars("tuned", [{"mean": 0.1, "ci95": [0.05, 0.15]}, None], 0.0, nth(1)[0]),
)
WORDS = Axis("", "workload", ["P/raytrace", "S/fft"])
MATRIX = Cells(
    "gain", np.array([-0.5, 0.5, 1.5]), np.array([-0.5, 0.5]), np.array([[0.1], [np.nan]]), [["+0.1"], ["no result"]],
    is_diverging=True,
)  # fmt: skip
TIMES = np.array([0.0, 1.0, 3.0])
RECENCY = Stack("last access", TIMES, [f"< {n} s" for n in range(6)], np.arange(12.0).reshape(2, 6))
CHARTS = {
    "curve": Chart("a $x$ <b>title</b>", [Panel(AGE, SCORE, LAYERS)], text=["said"]),
    "bars": Chart("bars", [Panel(WORDS, SCORE, BARS, name) for name in ("a", "b")], columns=2, panel_name="machine"),
    "matrix": Chart("matrix", [Panel(replace(WORDS, column="machine"), Axis("", "row", ["S/fft"]), [MATRIX])]),
    "time": Chart(
        "time",
        [
            Panel(Axis("t [s]", "t_s"), Axis("RSS", "rss_mib", from_zero=True), [Steps("RSS", TIMES, TIMES[1:])]),
            Panel(Axis("t [s]", "t_s"), Axis("size", "size_mib"), [RECENCY]),
        ],
        shares_x=True,
    ),
}  # fmt: skip


def test_what_steers_a_terminal_is_no_part_of_a_picture(tmp_path: Path) -> None:
    """XML has no such characters, and UTF-8 no halves of surrogates."""
    title = "a\x1b[31mb\ud800"
    svg = replace(CHARTS["time"], title=title).save(tmp_path / "a.svg").read_bytes()
    ET.fromstring(svg)
    assert b"\x1b" not in svg


@pytest.mark.parametrize("name", CHARTS)
def test_every_rendering_has_it(name: str, tmp_path: Path) -> None:
    chart = CHARTS[name]
    svg = chart.save(tmp_path / "a.svg").read_text()
    ET.fromstring(svg)
    figure = chart.plotly()
    shown = figure.to_json()
    texts = {text for panel in chart.panels for layer in panel.layers for text in _words(panel, layer)}
    for text in texts:
        assert text in svg or text.replace("<", "&lt;") in svg, text
        assert json.dumps(traces.plain(text))[1:-1].replace("/", "\\u002f") in shown.replace("/", "\\u002f"), text
    again = pd.read_csv(chart.save(str(tmp_path / "a.csv")))
    assert again.shape == chart.table.shape
    console = Console(file=StringIO(), width=70)
    terminal.show(chart, console)
    assert chart.title in console.file.getvalue()


def _words(panel: Panel, layer: Layer) -> list[str]:
    if isinstance(layer, Cells):
        return [*panel.x.words, *panel.y.words, *(text for column in layer.texts for text in column)]
    return [*layer.names] if isinstance(layer, Stack) else [layer.name, *panel.x.words]


def test_a_table_holds_what_is_drawn() -> None:
    table = CHARTS["curve"].table
    assert list(table.columns) == ["series", "min_age_s", "min_age_s_to", "score", "score_low", "score_high"]
    measured = table[table.series == "measured"]
    assert measured[["min_age_s", "score", "score_low", "score_high"]].to_numpy().tolist() == [
        [2, 0.31, 0.3, 0.32],
        [4, 0.12, 0.1, 0.14],
    ]
    broken = table[table.series == "breaks the limit"]
    assert broken[["min_age_s", "min_age_s_to"]].to_numpy().tolist() == [[0, 1], [5, 6]]
    assert table[table.series == "stopped"].min_age_s.tolist() == [0.5, 5.5]
    bars = CHARTS["bars"].table
    assert list(bars.machine) == ["a"] * 4 + ["b"] * 4
    assert bars.score.tolist()[:3] == [0.4, 0.2, 0.1]
    assert np.isnan(bars.score[3])
    assert bars.limit_broken.tolist()[:4] == [True, False, False, False]
    matrix = CHARTS["matrix"].table
    assert matrix[["machine", "row", "text"]].to_numpy().tolist() == [
        ["P/raytrace", "S/fft", "+0.1"],
        ["S/fft", "S/fft", "no result"],
    ]
    time = CHARTS["time"].table
    assert time[time.series == "< 5 s"][["t_s", "t_s_to", "size_mib"]].to_numpy().tolist() == [[0, 1, 5], [1, 3, 11]]


numbers = st.floats(-1e6, 1e6, width=32)


@settings(max_examples=10)
@given(st.lists(st.tuples(numbers, numbers, st.floats(0, 1e3, width=32)), min_size=1, max_size=20))
def test_page_and_table_have_the_same_numbers(rows: list[tuple[float, float, float]]) -> None:
    x, y, reach = (np.array(column) for column in zip(*rows, strict=True))
    chart = Chart("t", [Panel(AGE, SCORE, [Points("measured", x, y, y - reach, y + reach)])])
    trace, table = chart.plotly().data[0], chart.table
    np.testing.assert_allclose(trace.x, table.min_age_s)
    np.testing.assert_allclose(trace.y, table.score)
    np.testing.assert_allclose(np.add(trace.y, trace.error_y.array), table.score_high, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(np.subtract(trace.y, trace.error_y.arrayminus), table.score_low, rtol=1e-6, atol=1e-6)


def test_a_picture_shades_draws_bands_and_intervals() -> None:
    axes = picture.figure(CHARTS["curve"]).axes[0]
    shaded = sorted((patch.get_x(), patch.get_x() + patch.get_width()) for patch in axes.patches)
    assert shaded == [(0, 1), (1, 2), (5, 6)]
    band = axes.collections[0].get_paths()[0].vertices
    assert (band[:, 1].min(), band[:, 1].max()) == (0.0, 0.4)
    assert axes.get_xlabel() == "min_age [s]"
    assert [container.has_yerr for container in axes.containers] == [True]


def test_a_page_shades_too_and_names_things_once() -> None:
    figure = CHARTS["curve"].plotly()
    spans = [(one.x0, one.x1) for one in figure.layout.shapes if one.type == "rect"]
    assert spans == [(0, 1), (5, 6), (1, 2)]
    shown = [one.name for one in [*figure.data, *figure.layout.shapes] if one.showlegend]
    assert sorted(shown) == sorted(layer.name for layer in LAYERS)
    bars = CHARTS["bars"].plotly()
    assert [one.name for one in bars.data if one.showlegend] == ["manual", "tuned"]


def test_a_bar_without_an_interval_has_none() -> None:
    alone = Chart("t", [Panel(WORDS, SCORE, [Bars("a", [{"mean": 1.0}, {"mean": 2.0}])])])
    assert alone.plotly().data[0].error_y.array is None
    first = CHARTS["bars"].plotly().data[0]
    assert first.error_y.array[0] == pytest.approx(0.1)
    assert first.error_y.array[1] is None


def test_a_cross_says_that_a_limit_was_broken() -> None:
    crosses = [one for one in CHARTS["bars"].plotly().data if one.type == "scatter"]
    assert [list(one.y) for one in crosses] == [[0.4], [0.4]]
    assert sum(line.get_marker() == "X" for line in picture.figure(CHARTS["bars"]).axes[0].lines) == 1


def test_what_is_missing_is_not_zero() -> None:
    texts = [text.get_text() for text in picture.figure(CHARTS["bars"]).axes[0].texts]
    assert texts == ["no value"]
    assert len(CHARTS["bars"].plotly().data[2].x) == 1
    assert MATRIX.most == 0.1
    assert replace(MATRIX, values=np.full((2, 1), np.nan)).most == 1.0


def test_better_and_worse_have_the_same_room() -> None:
    heat = CHARTS["matrix"].plotly().data[0]
    assert heat.zmin == -heat.zmax == -0.1


@pytest.mark.parametrize("theme", page.INKS)
def test_a_background_is_the_pages_own(theme: str) -> None:
    layout = CHARTS["curve"].plotly(theme).layout.template.layout
    assert layout.paper_bgcolor == layout.plot_bgcolor == "rgba(0, 0, 0, 0)"
    for paper in {"light": [1.0], "dark": [0.0], "either": [0.0, 1.0]}[theme]:
        assert _contrast(_luminance(layout.font.color), paper) >= 4.5


def test_colours_are_seen_on_white_and_on_black() -> None:
    # 3:1 is what WCAG asks of graphics; the light ones are also told by mark and dash, and filled areas touch.
    for colour in PALETTE:
        assert _contrast(_luminance(colour), 0.0) >= 3, colour
        assert _contrast(_luminance(colour), 1.0) >= 2, colour


def _luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (one / 12.92 if one <= 0.03928 else ((one + 0.055) / 1.055) ** 2.4 for one in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _contrast(one: float, two: float) -> float:
    return (max(one, two) + 0.05) / (min(one, two) + 0.05)


def test_no_two_series_differ_by_colour_alone() -> None:
    seen = [nth(number) for number in range(20)]
    assert len(set(seen)) == len(seen)
    for first, second in pairwise(seen):
        assert all(one != two for one, two in zip(first, second, strict=True))
    assert set(MARKERS) <= set(picture._MARKERS)
    assert set(DASHES) <= set(picture._DASHES)
    assert len(picture.HATCHES) == len(traces.PATTERNS) == len(PALETTE)
    assert len(HOT_TO_COLD) == len(RECENCY.names)


def test_a_notebook_has_plotly_and_a_picture() -> None:
    bundle = CHARTS["curve"]._repr_mimebundle_()
    assert set(bundle) == {"application/vnd.plotly.v1+json", "image/png"}
    assert base64.b64decode(bundle["image/png"]).startswith(b"\x89PNG")
    assert len(json.loads(json.dumps(bundle))["application/vnd.plotly.v1+json"]["data"]) == 3
    assert repr(CHARTS["curve"]) == "a $x$ <b>title</b>\nsaid"


def test_a_page_is_whole_and_foreign_words_are_only_words(tmp_path: Path) -> None:
    text = CHARTS["curve"].save(tmp_path / "a.html").read_text()
    assert "<title>a $x$ &lt;b&gt;title&lt;/b&gt;</title>" in text
    assert "<b>title" not in text
    assert not re.search(r"<(script|link|img|iframe)[^>]+(src|href)=", text)


def test_equal_charts_are_equal_files(tmp_path: Path) -> None:
    first, second = (CHARTS["time"].save(tmp_path / f"{n}.svg").read_bytes() for n in "ab")
    assert first == second


def test_wrong_endings(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"unknown ending '.pdf'; known: .png, .svg, .html, .csv"):
        CHARTS["curve"].save(tmp_path / "a.pdf")
    assert list(tmp_path.iterdir()) == []


@given(st.text("ab \n", max_size=60), st.integers(1, 20))
def test_wrapping_loses_no_word(text: str, length: int) -> None:
    lines = wrapped(text, length)
    assert "".join(lines).replace(" ", "") == "".join(text.split())
    assert all(len(line) <= length for line in lines)


PARAM = Param("min_age", "us", 0, 10_000_000, 1_000_000)
tries = st.lists(st.tuples(st.integers(0, 10), st.sampled_from(["kept", "broken", "censored", "fail"])), max_size=12)


def trial(number: int, age_s: int, state: str) -> Trial:
    value = {"kept": 0.1, "broken": -0.1}.get(state)
    known = {"censored": "censored", "fail": "fail"}.get(state, "complete")
    return Trial(number, {"min_age_us": age_s * 1_000_000}, known, Score(value, feasible=state == "kept"))


@given(tries)
def test_what_is_shaded_broke_the_limit_or_lies_beside_it(found: list[tuple[int, str]]) -> None:
    trials = tuple(trial(number, *one) for number, one in enumerate(found))
    layers = tuning.border(trials, PARAM)
    spans = {one.name: one.spans for one in layers if isinstance(one, Span)}
    surely, maybe = spans.get("breaks the limit", []), spans.get("the limit lies in here", [])
    kept = [age_s for age_s, state in found if state == "kept"]
    broken = [age_s for age_s, state in found if state in ("broken", "censored")]
    everything = sorted([*surely, *maybe])
    assert all(low < high for low, high in everything)
    assert all(first[1] <= second[0] for first, second in pairwise(everything))
    for low, high in everything:
        assert not any(low < age_s < high for age_s in kept)
    for low, high in surely:
        assert any(low <= age_s <= high for age_s in broken)
    for age_s in broken:
        assert age_s in kept or any(low <= age_s <= high for low, high in everything)
    if not broken:
        assert layers == []
    elif not kept:
        assert surely == [(0, 10)]


def test_measured_points_have_their_kind() -> None:
    trials = tuple(trial(n, n, state) for n, state in enumerate(["fail", "censored", "broken", "kept"]))
    layers = {layer.name: layer for layer in tuning.measured(trials, PARAM)}
    assert _places(layers["measured (one run)"]) == [3.0]
    assert _places(layers["limit broken (worst score so far)"]) == [2.0]
    assert [list(layers[name].at) for name in ("limit broken, stopped", "failed")] == [[1.0], [0.0]]  # type: ignore[attr-defined]


def _places(layer: Any) -> list[float]:
    return list(np.asarray(layer.x, dtype=float))


def test_edges_move_with_a_part_of_a_recording() -> None:
    later = CHARTS["time"].later(2.0)
    moved = [layer.x for panel in later.panels for layer in panel.layers]  # type: ignore[attr-defined]
    expected: Floats = TIMES + 2
    assert all(np.array_equal(one, expected) for one in moved)
