"""The public plots, of studies on machines that are not there."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console

import damoos
from damoos.api import EvaluatedStudy, plots
from damoos.errors import ConfigError
from damoos.machines import catalog
from damoos.report.charts import Bars, Cells, Chart, Layer, Level, Line, Points, Span, Upright
from damoos.report.charts.style import BLUE, GREEN
from damoos.report.charts.terminal import show
from damoos.testing.fake import RSS_BYTES, FakeMachine, cliff_and_fall
from damoos.units import MIB
from tests.records import stairs

SHORT = {"repeats": 2, "candidates": 1, "seed": 3}
WORKLOADS = ["synthetic/hot-cold", "synthetic/idle"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimpleNamespace]:
    """A study whose limit breaks under 3 s, one of two parameters, a sweep and an evaluation."""
    results = tmp_path_factory.mktemp("results")
    curves = {"b": lambda age_s: (0.01, 0.4 if age_s < 8 else 0.3)}
    machines: dict[str, FakeMachine] = {}

    def machine(name: str, kernel: str | None = None) -> FakeMachine:
        curve = curves.get(name, cliff_and_fall)
        return machines.setdefault(name, FakeMachine(curve, noise=0.001, seed=len(machines)))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(catalog, "machine", machine)
        patch.setattr("damoos.report.study.tuning.draw", lambda *_: [])
        two = ["min_age=5s:60s", "quota_sz=64M:1G"]
        yield SimpleNamespace(
            results=results,
            study=damoos.tune(command="true", machine="a", trials=8, results=results, **SHORT),
            two=damoos.tune(command="true", machine="a", trials=4, results=results, tune=two, **SHORT),
            sweep=damoos.sweep(WORKLOADS, ["a", "b"], trials=4, results=results, **SHORT),
            evaluation=damoos.evaluate([WORKLOADS[0]], ["b"], ["thp", "prcl"], repeats=3, results=results),
        )


def layers(chart: Chart, panel: int = 0) -> dict[str, Layer]:
    return {layer.name: layer for layer in chart.panels[panel].layers}


@pytest.mark.slow
def test_a_study_is_figure_5(made) -> None:
    chart, frame = damoos.plot_study(made.study), made.study.trials_df
    found = layers(chart)
    measured, kept = found["measured (one run, 95 %)"], frame[frame.feasible]
    assert isinstance(measured, Points)
    np.testing.assert_allclose(measured.x, kept.min_age_us / 1e6)
    np.testing.assert_allclose(measured.y, kept.score)
    np.testing.assert_allclose(measured.low, kept.score_low)
    np.testing.assert_allclose(measured.high, kept.score_high)
    broken = frame[~frame.feasible].min_age_us / 1e6
    assert broken.max() < 3 <= kept.min_age_us.min() / 1e6
    shaded, border = found["breaks the limit"], found["the limit lies in here"]
    assert isinstance(shaded, Span)
    assert isinstance(border, Span)
    assert shaded.spans == [(0.0, broken.max())]
    assert border.spans == [(broken.max(), kept.min_age_us.min() / 1e6)]
    stopped = found["limit broken, stopped"]
    assert isinstance(stopped, Upright)
    assert sorted(stopped.at) == sorted(broken)
    assert isinstance(found["baseline (no scheme)"], Level)
    chosen = next(layer for name, layer in found.items() if name.startswith("chosen: min_age "))
    assert isinstance(chosen, Upright)
    assert chosen.at == [made.study.best["params"]["min_age_us"] / 1e6]
    arm = made.study.result["validation"]["tuned"]
    tuned = found[f"tuned, validated ({arm['repeats']} runs, 95 %)"]
    assert isinstance(tuned, Points)
    assert (tuned.y, tuned.low, tuned.high) == ([arm["score"]], *([one] for one in arm["score_ci95"]))
    assert (tuned.colour, measured.colour) == (GREEN, BLUE)


def test_an_estimate_has_a_band_that_is_narrow_where_it_was_measured(made) -> None:
    line = layers(damoos.plot_study(made.study))["estimated by auto (95 % of what it believes)"]
    assert isinstance(line, Line)
    width = np.array(line.high) - np.array(line.low)
    tried = made.study.trials_df.query("feasible").min_age_us / 1e6
    beside = [int(np.argmin(abs(np.array(line.x) - age_s))) for age_s in tried]
    assert (width > 0).all()
    assert width[beside].max() < width[0]  # 0 s lies far from all that kept the limit


def test_two_parameters_have_a_panel_each_and_nothing_is_shaded(made) -> None:
    chart = damoos.plot_study(made.two)
    assert [panel.x.column for panel in chart.panels] == ["min_age_s", "quota_sz_mib"]
    assert not any(isinstance(layer, Span) for panel in chart.panels for layer in panel.layers)
    assert any(name.startswith("estimated by auto") for name in layers(chart, 1))
    assert any(name.startswith("manual") for name in layers(chart))
    assert not any(name.startswith("manual") for name in layers(chart, 1))
    assert {"min_age_s", "quota_sz_mib"} < set(chart.table.columns)


@pytest.mark.slow
def test_memory_and_pressure_over_time(made, tmp_path: Path) -> None:
    chart = damoos.plot_memory(made.study)
    arms = ("baseline", "manual", "tuned")
    assert [panel.title for panel in chart.panels] == ["RSS", "pressure", *(f"memory by kind: {arm}" for arm in arms)]
    by_kind = chart.table[chart.table.quantity == "memory by kind: baseline"].groupby("series").memory_mib.mean()
    assert set(by_kind.index) == {"anonymous", "file", "shared", "kernel, sockets", "compressed swap"}
    assert by_kind["anonymous"] == pytest.approx(RSS_BYTES / MIB, rel=0.01)
    assert chart.save(tmp_path / "memory.png").stat().st_size > 0
    assert chart._repr_mimebundle_()
    for colours in ("truecolor", None):
        console = Console(file=io.StringIO(), force_terminal=True, color_system=colours, width=120)
        show(chart, console)
        assert "compressed swap" in console.file.getvalue()
    table = chart.table[chart.table.quantity == "RSS"]
    assert table.series.drop_duplicates().tolist() == ["baseline", "manual", "tuned"]
    mean = table.groupby("series").rss_mib.mean()
    assert mean["baseline"] == pytest.approx(RSS_BYTES / MIB, rel=0.01)
    assert mean["tuned"] < mean["manual"] < mean["baseline"]
    pressure = chart.table[chart.table.quantity == "pressure"].set_index("series").psi_some_share
    assert pressure.to_dict() == pytest.approx({"baseline": 0.0, "manual": 0.02, "tuned": 0.02})
    with pytest.raises(ConfigError, match="no samples of round 7"):
        damoos.plot_memory(made.study, 7)


def test_a_sweep_is_a_matrix(made) -> None:
    chart = damoos.plot_sweep(made.sweep)
    cells = chart.panels[0].layers[0]
    assert isinstance(cells, Cells)
    assert cells.is_diverging
    assert chart.table[["machine", "workload"]].to_numpy().tolist() == [
        [machine, workload] for machine in "ab" for workload in ("idle", "hot-cold")
    ]
    on_b = chart.table[chart.table.machine == "b"]
    compared = damoos.compare([made.sweep.name], results=made.results).table
    for row in on_b.itertuples():
        own = compared[(compared.machine == "b") & compared.workload.fillna("").str.endswith(row.workload)]
        by_arm = own.set_index("arm").score
        assert row.value == pytest.approx(by_arm["tuned"] - by_arm["manual"])
        assert row.text.strip("()") == f"{row.value:+.3f}"


def test_curves_of_a_sweep(made) -> None:
    chart = damoos.plot_curves(made.sweep)
    assert [panel.title for panel in chart.panels] == ["hot-cold", "idle"]
    for panel in chart.panels:
        points = {layer.name: layer for layer in panel.layers if isinstance(layer, Points) and ":" not in layer.name}
        assert list(points) == ["a", "b"]
        assert points["a"].colour != points["b"].colour
        assert points["a"].marker != points["b"].marker
    assert set(chart.table.workload) == {"hot-cold", "idle"}
    assert len(damoos.plot_curves(made.sweep.studies[:1]).panels) == 1


def test_compare_is_figure_8(made) -> None:
    chart = damoos.plot_compare(made.sweep)
    assert (len(chart.panels), chart.columns) == (6, 2)
    assert [panel.title for panel in chart.panels[:2]] == ["a", "b"]
    assert all(isinstance(layer, Bars) for panel in chart.panels for layer in panel.layers)
    compared = damoos.compare([made.sweep.name], results=made.results)
    assert damoos.plot_compare(compared).table.equals(compared.table)
    assert chart.table.equals(compared.table)


def test_configurations_are_figure_7(made) -> None:
    chart = damoos.plot_configs(made.evaluation)
    assert [layer.name for layer in chart.panels[0].layers] == ["thp", "prcl"]
    assert chart.table.equals(made.evaluation.table)
    bars = chart.panels[0].layers[1]
    assert isinstance(bars, Bars)
    row = chart.table.set_index("config").loc["prcl"]
    assert bars.cells[0] is not None
    assert bars.cells[0]["mean"] == row.performance
    assert bars.neutral == 1.0


@pytest.mark.parametrize("name", ["heatmap", "wss", "regions", "recency", "idle_time"])
def test_recordings(name: str) -> None:
    assert len(getattr(damoos, f"plot_{name}")(stairs()).table) > 0


def test_what_cannot_be_plotted_is_said(made) -> None:
    with pytest.raises(ConfigError, match=r"no limits of memory; make one with evaluate\("):
        damoos.plot_limits(made.evaluation)
    listed = EvaluatedStudy(made.evaluation._studies[0])
    with pytest.raises(ConfigError, match="compares configurations; plot_configs"):
        damoos.plot_study(listed)
    for plot in (damoos.plot_sweep, damoos.plot_curves, damoos.plot_compare):
        with pytest.raises(ConfigError, match="no study has begun"):
            plot([])
    with pytest.raises(ConfigError, match="lacks the measurement of its run"):
        damoos.plot_prediction(stairs())


def test_all_are_public() -> None:
    assert {name for name in damoos.__all__ if name.startswith("plot_")} == {
        name for name in vars(plots) if name.startswith("plot_")
    }
