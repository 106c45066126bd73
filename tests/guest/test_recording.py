"""Recordings of a real kernel: hot areas against the truth, what becomes of a killed one, predictions beside runs."""

from __future__ import annotations

import itertools
import json
import os
import signal
import stat
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from damoos.agent.record import INSTANCE, TRACEFS
from damoos.bench import truth as accesses
from damoos.bench.monitor import ToldWorkload, accuracy, truth
from damoos.damon.attrs import Attrs
from damoos.dispatch.lease import Lease
from damoos.machines import catalog as machines
from damoos.policies.base import NonePolicy, RecordPolicy
from damoos.recordings import files, kernel_objects
from damoos.recordings.heatmap import heatmap
from damoos.recordings.journal import Journal
from damoos.workloads import catalog
from damoos.workloads.base import Tuning
from tests.conftest import DAMOOS, HOT_COLD, HOT_COLD_RATE, damoos, short_workload


@pytest.fixture(scope="module")
def lease(guest_image: None) -> Iterator[Lease]:
    with Lease(machines.machine("guest")) as opened:
        yield opened


def pattern_of(name: str) -> tuple[Path, int]:
    path, file = catalog.find(name)
    assert file.pattern
    return path.parent / file.pattern.file, file.pattern.rate


# Of "phases" some memory is touched too seldom for a lower rate.
@pytest.mark.parametrize(("name", "paced_rate"), [("synthetic/stairs", 2000), ("synthetic/phases", None)])
def test_hot_areas_are_where_they_are(lease: Lease, name: str, paced_rate: int | None) -> None:
    pattern, rate = pattern_of(name)
    workload = ToldWorkload(name, pattern, paced_rate or rate, 1, 0, Tuning(), paced=paced_rate is not None)
    policy = RecordPolicy()
    journal = Journal(policy.operations, policy.attrs)
    measured, _ = lease.run(workload, policy, 200.0, sink=journal)
    recording = journal.recording({})
    phases = truth(workload.told, pattern.read_text())
    found = accuracy(recording, phases)
    assert found.precision > 0.8, found
    assert found.recall > 0.85, found
    assert recording.nr_regions.max() <= policy.attrs.max_nr_regions
    assert measured.provenance["record"]["lost_events"] == 0
    # The picture: in the middle of every phase its hot memory is brighter than all the rest.
    seen = heatmap(recording, nr_times=200, nr_addresses=200)
    addresses = (seen.address[1:] + seen.address[:-1]) / 2
    times = recording.span_s[0] + (seen.time_s[1:] + seen.time_s[:-1]) / 2
    for begin, end, spans in phases:
        column = seen.frequency[abs(times - (begin + end) / 2).argmin()]
        hot = sum((addresses >= low) & (addresses < high) for low, high in spans).astype(bool)
        assert column[hot].mean() > 3 * column[~hot].mean() or hot.mean() > 0.9


def test_without_tracing_regions_are_looked_at(lease: Lease) -> None:
    class Looking(RecordPolicy):
        def spec(self) -> dict:
            form = super().spec()
            return {**form, "record": {**form["record"], "source": "tried_regions"}}

    workload = ToldWorkload("hot-cold", HOT_COLD, HOT_COLD_RATE, 1, 0, Tuning(), paced=True)
    policy = Looking()
    journal = Journal(policy.operations, policy.attrs)
    lease.run(workload, policy, 200.0, sink=journal)
    recording = journal.recording({})
    assert recording.about["source"] == "tried_regions"
    assert recording.nr_snapshots >= 3
    assert accuracy(recording, truth(workload.told, HOT_COLD.read_text())).recall > 0.8


def test_the_whole_machine_is_recorded_and_bounded(lease: Lease, tmp_path: Path) -> None:
    workload = catalog.workload(str(short_workload(tmp_path, manual_min_age="1s")), lease.place)
    policy = RecordPolicy("paddr", sz_bytes=20_000)
    journal = Journal(policy.operations, policy.attrs)
    measured, _ = lease.run(workload, policy, 60.0, sink=journal)
    recording = journal.recording({})
    assert measured.provenance["record"]["full"]
    assert measured.provenance["record"]["sent_bytes"] <= 20_000
    assert recording.operations == "paddr"
    assert recording.end.max() <= lease.facts["mem_bytes"] * 1.5
    assert lease.which(f"{TRACEFS[0] / INSTANCE}/trace") is None
    after, _ = lease.run(workload, NonePolicy(), 60.0)
    assert "record" not in after.provenance


def own_model(folder: Path) -> Path:
    """A model of a program that is nowhere."""
    file = short_workload(folder, manual_min_age="1s", work_ms=9000)
    nowhere = '[real]\ncommand = ["no-such-program"]\nneeds = "no-such-program"\n'
    model = file.read_text().replace("[pattern]", f"{nowhere}[model]\nmemory_scale = 20")
    file.write_text(model.replace("paced = true", "sleeps = true"))
    return file


@pytest.mark.parametrize("name", ["redis/idle:test", "short"])
def test_a_server_and_a_model_are_recorded_and_predicted(guest_image: None, tmp_path: Path, name: str) -> None:
    workload = str(own_model(tmp_path)) if name == "short" else name
    done = damoos("record", "--workload", workload, "--format", "json", cwd=tmp_path, timeout=600)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    file = tmp_path / found["file"]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert not (file.parent / files.JOURNAL).exists()
    for report in ("heatmap", "wss", "regions", "recency", "idle-time"):
        shown = damoos("report", report, found["recording"], cwd=tmp_path, env={**os.environ, "NO_COLOR": "1"})
        assert shown.returncode == 0, shown.stderr
        assert name.split(":")[0] in shown.stdout
    theirs = subprocess.run(
        [DAMOOS.parent / "damo", "report", "wss", "--input", file], capture_output=True, text=True, check=False
    )
    assert theirs.returncode == 0, theirs.stderr
    predicted = damoos("predict", found["recording"], "--format", "json", cwd=tmp_path)
    rows = json.loads(predicted.stdout)["forecast"]
    replayed = damoos(
        "predict", found["recording"], "--policy", "gswap:interval=500ms:grace=0s:window=2s:min_age=500ms", cwd=tmp_path
    )
    assert replayed.returncode == 0, replayed.stderr
    assert "100%" in replayed.stdout
    assert rows[0]["memory_saving"] > 0.3  # most of both is cold
    assert all(a["memory_saving"] >= b["memory_saving"] - 1e-9 for a, b in itertools.pairwise(rows))
    sized = json.loads(
        damoos("rightsize", found["recording"], "--slowdown", "40%", "--format", "json", cwd=tmp_path).stdout
    )
    # What counts is the peak. The model touches all of its memory at once, and whether some of it is cold by then is
    # DAMON's chance; redis is filled for long enough.
    share = 0.8 if name.startswith("redis") else 1.0
    assert sized["suggested"]["memory_bytes"] <= share * sized["suggested"]["now_bytes"]


def test_a_recording_that_is_killed_is_there_as_far_as_it_came(guest_image: None, tmp_path: Path) -> None:
    argv = [DAMOOS, "record", "--workload", short_workload(tmp_path, manual_min_age="1s", work_ms=60_000)]
    with subprocess.Popen(argv, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        give_up = time.monotonic() + 240
        while (
            not (journals := list(tmp_path.glob("results/record-*/*.journal"))) or journals[0].stat().st_size < 20_000
        ):
            assert time.monotonic() < give_up
            assert process.poll() is None
            time.sleep(0.2)
        process.send_signal(signal.SIGKILL)
    folder = journals[0].parent
    assert stat.S_IMODE(journals[0].stat().st_mode) == 0o600
    shown = damoos("report", "wss", folder.name, "--format", "json", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert files.read(files.find(folder.name, tmp_path / "results")).nr_snapshots > 10


def test_a_recording_of_a_process_is_set_against_a_count_of_every_access(guest_image: None, tmp_path: Path) -> None:
    """Of a program whose hot part DAMON finds, the counts are of the same pages: they are not of others."""
    workload = short_workload(tmp_path, manual_min_age="1s", work_ms=8000)
    _, (found,) = accesses.run("guest-counted", [str(workload)], "rec", Attrs(), print)
    assert found.windows >= 6
    assert found.recall > 0.8, found
    assert found.precision > 0.5, found
    assert found.expected[0].true_faults < 300, found  # of 3500 pages


# Page cache that lives for longer than a second, twice.
FILES = "for i in 1 2; do dd if=/dev/zero of=/var/tmp/file bs=1M count=20; sleep 1.7; rm /var/tmp/file; sleep 1; done"


def test_the_kernels_objects_live_as_long_as_a_program_lets_them(guest_image: None, tmp_path: Path) -> None:
    told = damoos(
        "record", "--command", f"sh -c '{FILES}'", "--machine", "guest-counted", "--kernel", "debian",
        "--config", "prec", "--kernel-objects", "--format", "json",
        cwd=tmp_path, timeout=600,
    )  # fmt: skip
    assert told.returncode == 0, told.stderr
    name = json.loads(told.stdout)["recording"]
    found = kernel_objects.read(tmp_path / "results" / name)
    lives = {one.kind: one for one in found.lives}
    pages = lives["page cache"]
    assert pages.count == pytest.approx(2 * 20 * 256, rel=0.1)
    assert pages.percentile_s(5) > 1.0  # of a class that begins at 1.05 s
    assert pages.mean_s > 1.7
    assert lives["slab buffer_head"].count == pytest.approx(2 * 20 * 256, rel=0.3)
    assert max(found.memory_bytes["page cache"]) - min(found.memory_bytes["page cache"]) > 15 << 20
    assert found.lost == 0
    # What dd writes is page cache, and it is written by the kernel.
    accesses = found.accesses
    assert accesses["page cache"] > 2 * 20 * 256 * 512
    assert accesses["slab"] > 0
    shown = damoos("report", "objects", name, cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert "slab buffer_head" in shown.stdout


def test_a_recording_tells_the_search_what_to_expect(guest_image: None, tmp_path: Path) -> None:
    """Predicted beside measured, on real runs: the first trial is where the recording says, and is no surprise."""
    # DAMON's regions take up to 2 s to find their place, which is too large a part of a shorter run for predictions.
    workload = short_workload(tmp_path, manual_min_age="1s", work_ms=20_000)
    words = ["--trials", "3", "--repeats", "2", "--candidates", "1", "--prior", "record", "--format", "json"]
    words += ["--score", "sla", "--minimize", "rss_avg_bytes", "--limit", "slowdown<=0.5"]
    done = damoos("tune", "--workload", workload, *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert len(result["trials"]) == 2  # the recording was the first of three
    assert result["prediction"]["kept"]
    first = result["prediction"]["trials"][0]
    assert abs(first["predicted"]["memory_saving"] - first["measured"]["memory_saving"]) < 0.15
    assert abs(first["predicted"]["slowdown"] - first["measured"]["slowdown"]) < 0.15
    assert first["measured"]["memory_saving"] > 0.15
    assert (tmp_path / "results" / result["study"] / files.FILE_NAME).is_file()
