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
APPLY = ["--on", f"pid:{os.getpid()}", "--machine", "fake:a", "--name", "web"]


@pytest.fixture(scope="module")
def env(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    place = tmp_path_factory.mktemp("secrets")
    return {**plugin(place), "DAMOOS_CACHE": str(place / "cache"), "HOME": str(place)}


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


def test_the_password_of_a_database_is_written_nowhere(env: dict[str, str], database: str, tmp_path: Path) -> None:
    """A study, a sweep and a service, with what other users could read of it."""
    secret = {**env, "PGPASSWORD": SECRET}
    results = tmp_path / "results"
    place = ("--results", str(results), "--storage", database)
    refused = damoos(env, *TUNE, "--machine", "fake:a", *place)
    assert refused.returncode == 3
    assert "check the user, and the password in ~/.pgpass, PGPASSFILE or PGPASSWORD" in refused.stderr
    for words in ([*TUNE, "--machine", "fake:a"], SWEEP):
        done = damoos(secret, *words, *place)
        assert done.returncode in (0, 4), done.stderr
        assert SECRET not in done.stdout + done.stderr
    study = damoos(secret, "studies", *place).stdout.split()[0]
    applied = damoos(secret, "apply", study, *APPLY, *place)
    assert applied.returncode == 0, applied.stderr
    try:
        assert shown() == []
        assert "sweep.json" not in {file["filename"] for file in Files(results).of("sweep-1")}
        assert written(results, Path(env["DAMOOS_CACHE"])) == []
        allowed = {"audit.log", "metrics.prom", "keeper.log", ".changing", ".lock"}
        assert {file.name for file in readable_by_others(results) if file.suffix not in (".png", ".svg", ".html")} <= (
            allowed | {"web.windows"}
        )
    finally:
        damoos(secret, "stop", "web", "--results", str(results))


def test_a_password_in_a_storage_url_is_refused_and_not_shown(env: dict[str, str], tmp_path: Path) -> None:
    url = f"postgresql+psycopg://u:{SECRET}@127.0.0.1:9/db"
    for words in ([*TUNE, "--machine", "fake:a"], SWEEP, ["studies"], ["dashboard", "--port", "0"]):
        done = damoos(env, *words, "--results", str(tmp_path), "--storage", url)
        assert done.returncode == 2, done.stderr
        assert done.stderr.count("\n") == 1
        assert "u:***@127.0.0.1:9/db: leave the password out of the URL" in done.stderr
        assert SECRET not in done.stderr
    assert [file for file in tmp_path.rglob("*") if file.is_file() and SECRET in file.read_text()] == []


def test_a_password_of_a_guard_s_page_is_refused_and_not_shown(env: dict[str, str], tmp_path: Path) -> None:
    place = ("--results", str(tmp_path))
    done = damoos(env, *TUNE, "--machine", "fake:a", *place)
    assert done.returncode in (0, 4), done.stderr
    study = damoos(env, "studies", *place).stdout.split()[0]
    page = f"p99=http://u:{SECRET}@127.0.0.1:9/x"
    refused = damoos(env, "apply", study, *APPLY, *place, "--metric", page, "--guard", "p99<=1")
    assert refused.returncode == 2, refused.stderr
    assert "--metric 'p99=http://***@127.0.0.1:9/x': leave the password out" in refused.stderr
    assert written(tmp_path) == []
    assert stat.S_IMODE((tmp_path / "damoos.sqlite").stat().st_mode) == 0o600
