"""The serverless host of the catalogue, run on this machine."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from damoos.workloads import catalog

PROGRAM = Path(__file__).parents[3] / "workloads/serverless/functions.py"


def test_requests_are_answered_by_workers_that_make_way_for_others() -> None:
    """Two requests for each, of which some have had one already; the program ends only when all of its processes do."""
    done = subprocess.run([sys.executable, PROGRAM, "20", "2"], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["workers"] == 10 + 5 + 5
    assert done.stderr == ""
    (real,) = catalog.find("serverless/idle")[1].real
    metrics = {name: metric.read(name, done.stdout, "", {}) for name, metric in real.metrics.items()}
    assert 0 < metrics["ops_per_s"] < 35
    assert 0 < metrics["p50_ms"] <= metrics["p99_ms"]
