"""A sweep at a Python prompt and in a notebook: objects, frames, HTML."""

from __future__ import annotations

from pathlib import Path

import pytest

import damoos
from damoos.errors import ConfigError, WorkloadError
from damoos.testing.fake import FakeMachine
from tests.unit.conftest import html, swept

from .conftest import assert_tidy


def test_a_sweep(machines, tmp_path: Path) -> None:
    found = swept(tmp_path)
    assert found.result == damoos.load_sweep(found.name, results=tmp_path).result
    frame = found.studies_df
    assert_tidy(frame)
    assert_tidy(found.machines_df)
    assert frame["study"].tolist() == [one.name for one in found.studies]
    for row, study in zip(frame.to_dict("records"), found.studies, strict=True):
        arms = study.result["validation"]
        assert row["score"] == arms["tuned"]["score"]
        assert row["score_gain"] == pytest.approx(arms["tuned"]["score"] - arms["manual"]["score"])
        assert row["saved_bytes"] == pytest.approx(row["saving"] * arms["baseline"]["rss_avg_bytes"])
        assert row["scheme"] == study.best["scheme"]
    assert found.machines_df["fit"].tolist() == [True, True]
    assert (found.machines_df["hours"] > 0).all()
    for name in ("sweep-1-synthetic-idle-b", "synthetic-idle-b"):
        assert found.study(name).study.config.machine == "b"
    with pytest.raises(ConfigError, match=r"has no study 'synthetic-idle-c'; did you mean 'sweep-1-synthetic-idle-"):
        found.study("synthetic-idle-c")
    assert html(found).count("<tr>") == 5
    assert repr(found).startswith("sweep sweep-1\n")


def test_a_sweep_of_which_a_machine_broke(machines, tmp_path: Path) -> None:
    machines["b"] = FakeMachine(failures={0: WorkloadError("<b>no</b>")})
    found = swept(tmp_path)
    frame = found.studies_df.set_index("study")
    assert frame.loc["sweep-1-synthetic-hot-cold-b", "state"] == "failed"
    assert frame["score_gain"].notna().tolist() == [True, False, True, True]
    assert "&lt;b&gt;no" in html(found)
