"""No secret is written: neither a database's password nor that of a page that a guard reads."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from damoos.dashboard.storage import Files
from damoos.testing.fleet import plugin
from tests.conftest import DAMOOS
from tests.servers import postgresql

SECRET = "planted-3e1f9c"
MACHINES = "fake:a,fake:b"
TUNE = ["tune", "--workload", "synthetic/idle", "--trials", "2", "--repeats", "2", "--candidates", "1"]
SWEEP = ["sweep", "--workloads", "synthetic/idle", "--machines", MACHINES, *TUNE[3:]]
STUDY = "synthetic-idle-fake-a-1"
# What is made to be shown, and what names no address.
REPORTS = {".png", ".svg", ".html"}
TOLD = {"audit.log", "metrics.prom", "keeper.log", "web.windows", ".changing", ".lock"}
APPLY = ["--on", f"pid:{os.getpid()}", "--machine", "fake:a", "--name", "web"]


@pytest.fixture(scope="module")
def env(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    place = tmp_path_factory.mktemp("secrets")
    return {**plugin(place), "DAMOOS_CACHE": str(place / "cache"), "HOME": str(place), "PGPASSWORD": SECRET}


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    with postgresql(SECRET) as url:
        yield url


def damoos(env: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    argv = [DAMOOS, *words]
    return subprocess.run(argv, env=env, capture_output=True, text=True, timeout=600, check=False)


def written(*folders: Path) -> list[Path]:
    """Files with the secret in them."""
    files = [file for folder in folders for file in folder.rglob("*") if file.is_file()]
    assert files
    return [file for file in files if SECRET.encode() in file.read_bytes()]


def shown() -> list[bytes]:
    """Command lines with the secret in them."""
    lines = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(place.read_bytes())
        except OSError:
            continue
    return [line for line in lines if SECRET.encode() in line]


def readable_by_others(folder: Path) -> list[Path]:
    files = (file for file in folder.rglob("*") if file.is_file())
    return [file for file in files if stat.S_IMODE(file.stat().st_mode) & 0o077]


def test_a_secret_is_written_nowhere(env: dict[str, str], database: str, tmp_path: Path) -> None:
    """By a study, a sweep and a service whose studies lie in a database that wants a password."""
    results = tmp_path / "results"
    place = ("--results", str(results), "--storage", database)
    for words in ([*TUNE, "--machine", "fake:a"], SWEEP):
        done = damoos(env, *words, *place)
        assert done.returncode in (0, 4), done.stderr
        assert SECRET not in done.stdout + done.stderr
    refused = damoos(env, "apply", STUDY, *APPLY, *place, "--metric", f"p99=http://u:{SECRET}@127.0.0.1:9/x")
    assert refused.returncode == 2, refused.stderr
    assert "--metric 'p99=http://***@127.0.0.1:9/x': leave the password out" in refused.stderr
    applied = damoos(env, "apply", STUDY, *APPLY, *place)
    assert applied.returncode == 0, applied.stderr
    try:
        assert shown() == []
        assert "sweep.json" not in {file["filename"] for file in Files(results).of("sweep-1")}
        assert written(results, Path(env["DAMOOS_CACHE"])) == []
        assert {file.name for file in readable_by_others(results) if file.suffix not in REPORTS} <= TOLD
    finally:
        damoos(env, "stop", "web", "--results", str(results))
