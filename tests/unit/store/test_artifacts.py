"""The files of a study's runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from damoos.errors import StoreError
from damoos.model.trial import RawSamples
from damoos.store import artifacts as of_store
from damoos.store.artifacts import Artifacts, HeldError


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


def test_whole_and_other_numbers_of_a_column_are_of_one_type(tmp_path: Path) -> None:
    artifacts = Artifacts(tmp_path)
    artifacts.write_samples("run", RawSamples(("t_s", "rss_bytes"), ((0, 2**63 - 1), (1, 0.5), (2, float("nan")))))
    samples = artifacts.read_samples("run")
    assert samples is not None
    assert samples["rss_bytes"].tolist()[:2] == [2.0**63, 0.5]


def test_a_run_that_was_stopped_before_its_first_sample_has_columns(tmp_path: Path) -> None:
    artifacts = Artifacts(tmp_path)
    artifacts.write_samples("run", RawSamples(("t_s", "rss_bytes"), ()))
    samples = artifacts.read_samples("run")
    assert samples is not None
    assert (list(samples), len(samples)) == (["t_s", "rss_bytes"], 0)


def _rows(file: Path) -> None:
    """A few KiB that stand for many rows."""
    pq.write_table(pa.table({"t_s": pa.array([0.0]).take(pa.array([0] * 200_000))}), file)


def _texts(file: Path) -> None:
    """One long text, a thousand times."""
    pq.write_table(pa.table({"t_s": ["x" * 10_000] * 1000}), file)


def _lists(file: Path) -> None:
    pq.write_table(pa.table({"t_s": [[0.0] * 1000]}), file)


def _zstd(file: Path) -> None:
    pq.write_table(pa.table({"t_s": [0.0]}), file, compression="zstd")


def _damaged(file: Path) -> None:
    file.write_bytes(b"PAR1" + bytes(100) + b"PAR1")


def _folder(file: Path) -> None:
    file.mkdir()


HOSTILE = {
    _rows: "its table takes 1 MiB, and samples of a run 1 at most", _texts: "not a table of numbers",
    _lists: "not a table of numbers", _zstd: "compressed in another way", _damaged: "", _folder: "not a regular file",
}  # fmt: skip


@pytest.mark.parametrize(("fill", "why"), HOSTILE.items())
def test_samples_of_a_colleague_s_are_bounded_before_they_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fill: Callable[[Path], None], why: str
) -> None:
    monkeypatch.setattr(of_store, "_SAMPLES_BYTES", 1 << 20)
    artifacts = Artifacts(tmp_path)
    fill(artifacts.samples_path("trial-000"))
    with pytest.raises(StoreError) as refused:
        artifacts.read_samples("trial-000")
    assert str(refused.value).startswith(f"{tmp_path}/trial-000.parquet: {why}")
    assert "\n" not in str(refused.value)


def test_nobody_else_can_open_the_lock_of_a_folder(tmp_path: Path) -> None:
    """Whoever may read a file may lock it, and 'damoos stop' of a rollout would wait for that."""
    lock = tmp_path / ".lock"
    lock.touch(0o644)  # an earlier version's
    with Artifacts(tmp_path).held("held"):
        assert lock.stat().st_mode & 0o777 == 0o600
        with pytest.raises(HeldError, match="held by another"), Artifacts(tmp_path).held("held by another"):
            pass
