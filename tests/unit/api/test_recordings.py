"""Recordings and predictions at a Python prompt and in a notebook."""

from __future__ import annotations

from pathlib import Path

import pytest

import damoos
from damoos.errors import ConfigError
from tests.records import stairs
from tests.unit.conftest import html
from tests.unit.study.test_recording import recording_machine

from .conftest import assert_tidy


def test_a_recording_and_what_it_predicts(machines, tmp_path: Path) -> None:
    machines["a"] = recording_machine()
    found = damoos.record(command="true", machine="a", results=tmp_path)
    assert found.path is not None
    stored = damoos.load_recording(found.path.parent.name, results=tmp_path)
    assert stored.path == found.path
    regions = stored.regions_df
    assert_tidy(regions)
    assert len(regions) == stored.nr_regions.sum()
    assert regions["start_s"].min() == 0
    assert (regions["end_bytes"] > regions["start_bytes"]).all()
    assert repr(stored).startswith("Recording(workload=true, ")
    assert "\n" not in repr(stored)
    assert str(found.path) in html(stored)
    predicted = damoos.predict(found)
    assert_tidy(predicted.table)
    assert predicted.table.equals(damoos.predict(found.path.parent.name, results=tmp_path).table)
    assert predicted.table["score"].notna().any()
    assert html(predicted).count("<tr>") == 1 + len(predicted.table)
    assert predicted.size(0.05).now_bytes >= predicted.size(0.05).memory_bytes
    with pytest.raises(ConfigError, match="unknown config 'rek'; did you mean 'rec'"):
        damoos.record(command="true", machine="a", config="rek", results=tmp_path)
    with pytest.raises(ConfigError, match="make one with 'damoos record'"):
        damoos.predict(stairs())
