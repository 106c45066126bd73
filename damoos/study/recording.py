"""Recording one run of a workload, and what can be said from it without another: what reclaim would bring."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from damoos.dispatch.lease import Lease
from damoos.errors import UnsupportedError
from damoos.policies.base import RecordPolicy
from damoos.recordings import files, kernel_objects
from damoos.recordings.journal import Journal
from damoos.recordings.recording import Recording
from damoos.store.artifacts import Artifacts
from damoos.study import jobs
from damoos.study.run_config import RunConfig
from damoos.units import show_count

Say = Callable[[str], None]


def record(config: RunConfig, policy: RecordPolicy, results: Path, say: Say) -> Recording:
    """Run a workload once, or watch a process for its unit work time, and keep what DAMON saw.

    Returns
    -------
    Recording
        Its ``path`` is in a folder that holds ``run.json`` and the run's samples, too, and the kernel's objects where
        the policy asks for them. Until the run has ended there is a journal in it instead, from which nothing is lost
        that had come.

    Raises
    ------
    UnsupportedError : the machine cannot record, or is unfit for measuring
    DamoosError : as the machine or the workload has it
    """
    now = datetime.now(UTC)
    folder = results / f"record-{config.label.replace('/', '-')}-{now:%Y%m%d-%H%M%S}"
    with Lease(config.machine_for(), say) as lease:
        jobs.check_fit(lease)
        if not lease.facts.get("records"):
            raise UnsupportedError(f"machine '{config.machine}': its kernel has no DAMON that can record")
        workload = config.workload_on(lease.place)
        about: dict[str, Any] = {"workload": workload.name, "variant": workload.variant, "machine": config.machine}
        about |= {"low_us": workload.tuning.low_us, "high_us": workload.tuning.high_us}
        journal = Journal(policy.operations, policy.attrs, about, folder / files.JOURNAL)
        measurement, samples, recording, _ = jobs.record(lease, workload, policy, workload.tuning.limit_s, journal)
    artifacts = Artifacts(folder)
    artifacts.write_json("run.json", measurement.to_json())
    artifacts.write_samples("run", samples)
    if objects := kernel_objects.of_journal(journal.sent, recording.about):
        kernel_objects.write(objects, folder)
        if objects.lost:
            say(f"the kernel had no room for {show_count(objects.lost, 'object')}, whose lives are left out")
    path = files.write(recording, folder / files.FILE_NAME)
    (folder / files.JOURNAL).unlink()
    if measurement.provenance["record"]["full"]:
        say(f"the recording reached its largest size, {policy.sz_bytes >> 20} MiB (--size), before the run ended")
    if lost := measurement.provenance["record"]["lost_events"]:
        say(f"the kernel overwrote {show_count(lost, 'event')} before they were read; their snapshots are left out")
    return replace(recording, path=path)
