"""Recordings and the real damo: it reads what we write, we read what it writes, and the numbers are the same."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from damoos.damon.attrs import Attrs
from damoos.recordings import files
from damoos.recordings.crop import by_address, of_target
from damoos.recordings.heatmap import heatmap
from damoos.recordings.recording import Recording
from damoos.recordings.region_count import region_count
from damoos.recordings.subspace import subspaces
from damoos.recordings.working_set import working_set
from tests.records import HEAP, MIB, STACK, assert_same, recording, stairs

DAMO = Path(sys.executable).with_name("damo")
FORMS = ("json", "json_compressed", "perf_script")


def run(*words: object) -> str:
    """What damo prints; it tells of errors on stdout, at times with exit status 0."""
    assert shutil.which("file"), "damo asks the command 'file' what it is given: apt-get install file"
    done = subprocess.run([DAMO, *map(str, words)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "fail" not in done.stdout, done.stdout
    return done.stdout


def two_targets(nr_aggregations: int = 12) -> Recording:
    """Snapshots of unequal regions, accesses and ages, of two targets, from a seed."""
    random = np.random.default_rng(7)
    snapshots = []
    for number in range(nr_aggregations):
        for target, low in enumerate((HEAP, STACK)):
            edges = low + 4096 * np.unique(random.integers(0, 5000, random.integers(4, 12)))
            rows = [
                (int(start), int(end), int(random.integers(0, 21)), int(random.integers(0, 2000)))
                for start, end in pairwise(edges)
            ]
            snapshots.append((50 + number / 10, 50.1 + number / 10, rows, target))
    return recording(*snapshots)


@pytest.fixture(params=[stairs, two_targets])
def ours(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Recording, Path]:
    made = request.param()
    return made, files.write(made, tmp_path / "ours.damo")


@pytest.mark.parametrize("form", FORMS)
def test_we_read_what_damo_writes(ours: tuple[Recording, Path], form: str, tmp_path: Path) -> None:
    made, path = ours
    theirs = tmp_path / f"theirs.{form}"
    run("convert_record_format", "--record_file", path, "--format", form, "--output_file", theirs)
    found = files.read(theirs, Attrs() if form == "perf_script" else None)
    assert_same(found, made)
    assert "nr_regions" in found.about["assumed"]  # damo passed over what is ours alone


def test_a_lone_snapshot_comes_back(tmp_path: Path) -> None:
    made = recording((5.0, 5.1, [(HEAP, HEAP + MIB, 7, 3)]))
    path, theirs = files.write(made, tmp_path / "ours.damo"), tmp_path / "theirs"
    run("convert_record_format", "--record_file", path, "--format", "perf_script", "--output_file", theirs)
    assert len(theirs.read_text().splitlines()) == 2  # damo adds a snapshot that is none
    assert_same(files.read(theirs, Attrs()), made)


def test_we_read_numbers_for_people(ours: tuple[Recording, Path], tmp_path: Path) -> None:
    made, path = ours
    theirs = tmp_path / "theirs.json"
    theirs.write_text(run("report", "access", "--input_file", path, "--json", "--dont_merge_regions"))
    assert '"5 ms"' in theirs.read_text()
    assert re.search(r'"start": "\d+,\d+', theirs.read_text())
    assert_same(files.read(theirs), made)


def test_the_same_working_sets_and_regions(ours: tuple[Recording, Path]) -> None:
    made, path = ours
    words = ("--exclude_samples", 0, "--work_time", 1, "--all_wss", "--raw_number", "--sortby", "time")
    lines = run("report", "wss", "--input", path, *words, "--collapse_targets").splitlines()
    theirs = [int(line.split()[1]) for line in lines if not line.startswith("#") and line.split()]
    assert theirs == working_set(made).size_bytes.tolist()
    hot = run("report", "wss", "--input", path, *words, "--collapse_targets", "--acc_thres", 4).splitlines()
    theirs = [int(line.split()[1]) for line in hot if not line.startswith("#") and line.split()]
    assert theirs == working_set(made, 4).size_bytes.tolist()


def test_the_same_numbers_of_regions(tmp_path: Path) -> None:
    """damo counts the regions of each target alone, and leaves out the first 20 snapshots."""
    made = of_target(two_targets(40), 0)
    path = files.write(made, tmp_path / "ours.damo")
    # Every fifth percentile of the time that the other 20 take: one number each.
    words = ("--sortby", "time", "--range", 0, 100, 5)
    lines = run("report", "nr_regions", "--input", path, *words).splitlines()
    theirs = [int(line.split()[1]) for line in lines if line and not line.startswith("#")]
    found = region_count(made).nr_regions.tolist()
    assert len(set(found[20:])) > 1
    assert theirs == found[20:]


def test_the_same_heatmap(tmp_path: Path) -> None:
    """At the resolution of the aggregations, where damo's carrying back of ages changes nothing."""
    made = two_targets()
    path = files.write(made, tmp_path / "ours.damo")
    for target, low in enumerate((HEAP, STACK)):
        high = low + 4096 * 5000
        span = ("--time_range", 50 * 10**9, round(51.2e9), "--address_range", low, high)
        out = run("report", "heatmap", "--input", path, "--output", "raw", "--tid", target, *span, "--resol", 12, 50)
        rows = [line.split() for line in out.splitlines() if line.strip()]
        # Hz, over the whole cell: as many accesses a second as there are in its share of memory.
        theirs = np.array([0.0 if row[2] == "NaN" else float(row[2]) for row in rows]).reshape(12, 50)
        found = heatmap(made, target=target, address=(low, high), nr_times=12, nr_addresses=50)
        cell = np.diff(found.time_s)[:, None] * np.diff(found.address)[None, :]
        mine = found.accessed_byte_s / cell * made.attrs.max_nr_accesses / (made.attrs.aggr_us / 1e6)
        np.testing.assert_allclose(mine, theirs, rtol=1e-3, atol=0.01)


def test_the_same_parts_of_the_address_space(tmp_path: Path) -> None:
    made = stairs()
    out = run("report", "heatmap", "--input", files.write(made, tmp_path / "ours.damo"), "--guide")
    theirs = [(int(low), int(high)) for low, high in re.findall(r"region\s+\d+: \[(\d+), (\d+)\)", out)]
    assert theirs == [(one.low, one.high) for one in subspaces(made, 0)]
    assert by_address(made, *theirs[0]).nr_snapshots == made.nr_snapshots


def test_plain_json_is_for_a_damo_whose_file_knows_it(tmp_path: Path) -> None:
    """damo 3.4 wants the words "JSON data", and some versions of the command 'file' say "JSON text data"."""
    path = files.write(stairs(), tmp_path / "ours.json")
    said = subprocess.run(["file", "-b", path], capture_output=True, text=True, check=True).stdout.strip()
    done = subprocess.run([DAMO, "report", "wss", "--input", path], capture_output=True, text=True, check=False)
    assert (done.returncode == 0) == (said == "JSON data"), (said, done.stdout)


def test_damo_without_the_file_command_says_so(tmp_path: Path) -> None:
    """Why `file` is among the packages of the tests."""
    path = files.write(stairs(), tmp_path / "ours.damo")
    words = [sys.executable, DAMO, "report", "wss", "--input", path]
    done = subprocess.run(
        words, capture_output=True, text=True, check=False, env={"PATH": str(tmp_path), "HOME": str(tmp_path)}
    )
    assert done.returncode != 0
    assert "'file'" in done.stdout + done.stderr
