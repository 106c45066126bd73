"""The files of a study's runs."""

from __future__ import annotations

from pathlib import Path

from damoos.model.trial import RawSamples
from damoos.store.artifacts import Artifacts


def test_runs_under_a_limit_of_writes_have_files_of_their_own(tmp_path: Path) -> None:
    artifacts = Artifacts(tmp_path / "study")
    keys = ["config-000-baseline@1M/s", "config-000-prcl@1M/s", "config-000-prcl@2M/s"]
    for number, key in enumerate(keys):
        artifacts.write_samples(key, RawSamples(("t_s",), ((float(number),),)))
    for number, key in enumerate(keys):
        samples = artifacts.read_samples(key)
        assert samples is not None
        assert samples["t_s"].tolist() == [number]
    assert len(list((tmp_path / "study").iterdir())) == len(keys)
