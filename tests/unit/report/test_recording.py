"""Reports of recordings: files of each form, the terminal's forms, numbers, and wrong words."""

from __future__ import annotations

import json
import math
import re
import signal
import sys
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

import damoos as package
from damoos.cli import main
from damoos.errors import ConfigError, StoreError
from damoos.recordings import files
from damoos.report.charts import Chart, terminal
from damoos.report.recording import charts
from tests.records import ABOUT, HEAP, MIB, assert_same, recording, stairs

CHARTS = {
    "heatmap": charts.heatmap,
    "wss": charts.wss,
    "regions": charts.regions,
    "recency": charts.recency,
    "idle-time": charts.idle_time,
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return files.write(stairs(), tmp_path / "results" / "stairs" / files.FILE_NAME)


@pytest.mark.parametrize("name", CHARTS)
@pytest.mark.slow
def test_files_of_each_form(name: str, tmp_path: Path) -> None:
    chart = CHARTS[name](stairs())
    title = "synthetic/stairs (model) on guest: Linux 6.12.57, tcg emulation"
    assert chart.title == title
    assert chart.save(tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    svg = chart.save(tmp_path / "a.svg").read_text()
    ET.fromstring(svg)
    assert title in svg
    assert chart.panels[0].x.label in svg
    page = chart.save(tmp_path / "a.html").read_text()
    assert f"<title>{title}</title>" in page
    assert f">{title}</h1>" in page
    # Plotly itself is in the page, and nothing is fetched.
    assert len(page) > 1_000_000
    assert not re.search(r"<(script|link|img|iframe)[^>]+(src|href)=", page)
    assert pd.read_csv(chart.save(tmp_path / "a.csv")).shape == chart.table.shape
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.csv", "a.html", "a.png", "a.svg"]


def test_a_picture_shows_the_stairs(tmp_path: Path) -> None:
    from matplotlib.image import imread

    pixels = imread(charts.heatmap(stairs()).save(tmp_path / "a.png"))[..., :3].sum(axis=2)
    dark = pixels[:, : int(pixels.shape[1] * 0.87)] < 0.1  # without the colour bar
    rows, columns = (np.flatnonzero(dark.mean(axis=axis) > 0.5) for axis in (1, 0))
    low, left, high, right = rows.min(), columns.min(), rows.max(), columns.max()
    for step in range(8):
        for part in range(8):
            y = high - round((part + 0.5) / 8 * (high - low))
            x = left + round((step + 0.5) / 8 * (right - left))
            assert (pixels[y, x] > 2) == (part == step), (step, part)


def test_memory_that_nothing_accesses_is_black(tmp_path: Path) -> None:
    chart = charts.heatmap(recording((0, 1, [(0, MIB, 0, 0)])))
    for ending in ("png", "html"):
        assert chart.save(tmp_path / f"a.{ending}").stat().st_size > 0
    assert chart.text[-1] == "accessed in 0.0% of the samples on average, at most in 0.0%"
    assert set("".join(line[13:69] for line in printed(chart).splitlines()[1:5])) == {" "}


def test_foreign_words_are_only_words(tmp_path: Path) -> None:
    about = {**ABOUT, "workload": "</script><b>$x$ \x1b[31m"}
    chart = charts.wss(recording((0, 1, [(0, MIB, 1, 0)]), about=about))
    assert "\x1b" not in chart.title
    chart.save(tmp_path / "a.png")
    page = chart.save(tmp_path / "a.html").read_text()
    assert "</script><b>" not in page
    unknown = charts.wss(recording((0, 1, [(0, MIB, 1, 0)])))
    assert unknown.title == "a recording of unknown origin"


def printed(chart: Chart, **how: object) -> str:
    out = StringIO()
    terminal.show(chart, Console(file=out, width=70, highlight=False, markup=False, **how))
    return out.getvalue()


def test_a_heatmap_without_colour_is_a_ramp() -> None:
    chart = charts.heatmap(stairs(), None, None, 8, 8)
    lines = printed(chart).splitlines()
    ramp = [line[13:69] for line in lines[1:9]]
    # Eight cells of time, seven characters each: the room for them is 56.
    assert ramp == [" " * 7 * (7 - row) + "█" * 7 + " " * 7 * row for row in range(8)]
    assert lines[1].startswith("      64 MiB")
    assert "\x1b" not in printed(chart)


def test_no_color_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    chart = charts.heatmap(stairs(), None, None, 8, 8)
    coloured = printed(chart, force_terminal=True, color_system="truecolor")
    assert "\x1b[38;2;" in coloured
    assert "▀" in coloured
    monkeypatch.setenv("NO_COLOR", "1")
    assert "▀" not in printed(chart, force_terminal=True, color_system="truecolor")


def test_no_memory_is_not_no_access() -> None:
    gap = recording((0.0, 1.0, [(0, 10, 20, 0), (30, 40, 0, 0)]))
    rows = [line[13:69] for line in printed(charts.heatmap(gap, None, (0, 40), 1, 4)).splitlines()[1:5]]
    assert [set(row) for row in rows] == [{" "}, {"x"}, {"x"}, {"█"}]


@pytest.mark.slow
@pytest.mark.parametrize("name", CHARTS)
@pytest.mark.parametrize("colour", [False, True])
def test_no_line_is_too_wide(name: str, colour: bool) -> None:
    how = {"force_terminal": True, "color_system": "truecolor"} if colour else {}
    text = re.sub(r"\x1b\[[0-9;]*m", "", printed(CHARTS[name](stairs()), **how))
    assert all(len(line) <= 70 for line in text.splitlines())


def test_bars_over_time() -> None:
    rows = [[(0, MIB, 20, 0)], [(0, 2 * MIB, 20, 0)], [(0, 4 * MIB, 20, 0)]]
    chart = charts.wss(recording(*((n, n + 1, row) for n, row in enumerate(rows))))
    bars = [line.count("█") for line in printed(chart).splitlines() if "█" in line]
    assert bars == [12, 23, 46]


@dataclass
class Done:
    returncode: object
    stdout: str
    stderr: str


@pytest.fixture
def report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]):
    """The command line in this process, which spares a second each time."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(signal, "signal", lambda *_: None)

    def run(file: Path | str, *words: object) -> Done:
        monkeypatch.setattr(sys, "argv", ["damoos", "report", *map(str, (words[0], file, *words[1:]))])
        with pytest.raises(SystemExit) as end:
            main()
        return Done(end.value.code, *capfd.readouterr())

    return run


@pytest.mark.parametrize("name", CHARTS)
def test_the_command_line(name: str, file: Path, tmp_path: Path, report) -> None:
    shown = report("stairs", name)  # by its name in the results
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.startswith("synthetic/stairs (model)")
    numbers = json.loads(report(file, name, "--format", "json").stdout)
    assert numbers["title"] == CHARTS[name](stairs()).title
    written = report(file.parent, name, "-o", tmp_path / "new" / "a.csv")
    assert written.stdout.splitlines()[-1] == f"written: {tmp_path / 'new' / 'a.csv'}"
    assert len(pd.read_csv(tmp_path / "new" / "a.csv")) == len(CHARTS[name](stairs()).table)


def test_parts_of_a_recording(file: Path, report) -> None:
    part = json.loads(report(file, "heatmap", "--time", "2s:4s", "--format", "json").stdout)
    assert (part["time_s"][0], part["time_s"][-1]) == pytest.approx((2, 4))
    assert part["low_bytes"] == HEAP
    place = f"{HEAP:#x}:{HEAP + 8 * MIB:#x}"
    part = json.loads(report(file, "heatmap", "--address", place, "--format", "json").stdout)
    assert part["frequency_mean"] == pytest.approx(1 / 8)
    sizes = json.loads(report(file, "wss", "--address", place, "--time", "0s:2s", "--format", "json").stdout)
    assert sizes["mean_bytes"] == pytest.approx(4 * MIB)
    assert sizes["p100_bytes"] == 8 * MIB
    assert json.loads(report(file, "wss", "--min-accesses", "4", "--format", "json").stdout)["p50_bytes"] == 8 * MIB


WRONG = [
    (["-o", "a.pdf"], "unknown ending '.pdf'"),
    (["-o", "a"], "unknown ending ''"),
    (["--format", "yaml"], "unknown format 'yaml'"),
    (["--target", "3"], "no target 3 in the recording; it has 0"),
    (["--target", "one"], "--target"),
    (["--time", "5s"], "--time: expected FROM:TO, got '5s'"),
    (["--time", "5s:"], "--time: expected FROM:TO"),
    (["--time", "100s:200s"], "the recording lasts 8 s"),
    (["--time", "5 parsecs:7s"], "unknown time unit"),
    (["--address", "0x0:0x10"], "no region between"),
    (["--address", "0xfar:0x10"], "--address"),
    (["--intervals", "5ms"], "--intervals: expected SAMPLE,AGGREGATION"),
    (["--min-accesses", "0"], "1 to 20"),
    (["--min-accesses", "21"], "1 to 20"),
]


@pytest.mark.parametrize(("words", "said"), WRONG)
def test_wrong_words_are_one_line(words: list[str], said: str, file: Path, report) -> None:
    done = report(file, "wss", *words)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert said in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("content", [b"", b"[]", b"hello", b"x\x9c", None])
def test_wrong_files_are_one_line(content: bytes | None, tmp_path: Path, report) -> None:
    path = tmp_path / "wrong.damo"
    if content is not None:
        path.write_bytes(content)
    done = report(path, "heatmap")
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert str(path) in done.stderr


def test_what_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="file"):
        charts.wss(stairs()).save(tmp_path / "file" / "a.png")
    with pytest.raises(ConfigError, match=r"\.png, \.svg, \.html, \.csv"):
        charts.wss(stairs()).save(tmp_path / "a.gif")


def test_a_recording_in_python(file: Path, tmp_path: Path) -> None:
    assert_same(package.load_recording(file), stairs())
    assert_same(package.load_recording("stairs", results=tmp_path / "results"), stairs())
    with pytest.raises(ConfigError, match="no such file"):
        package.load_recording("nothing", results=tmp_path)


def test_json_has_no_number_that_is_none() -> None:
    gap = recording((0.0, 1.0, [(0, 10, 20, 0), (30, 40, 0, 0)]))
    numbers = charts.heatmap(gap, None, (0, 40), 1, 4).numbers
    assert numbers["frequency"] == [[1.0, None, None, 0.0]]
    assert not any(isinstance(value, float) and math.isnan(value) for value in numbers.values())
