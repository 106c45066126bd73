"""Servers that tests and benches start for themselves."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def free_port() -> int:
    """A port of loopback that nobody uses."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def postgresql(password: str = "") -> Iterator[str]:
    """URL of a database on a server of our own, on loopback, of Debian's package; it wants the password, if any."""
    # Not in a folder of pytest's: another pytest of this user's would take away the right to enter it.
    with tempfile.TemporaryDirectory(prefix="damoos-postgresql-") as folder, _postgresql(Path(folder), password) as url:
        yield url


@contextmanager
def _postgresql(place: Path, password: str) -> Iterator[str]:
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    assert programs, "make setup installs PostgreSQL"
    # PostgreSQL refuses root; the user that Debian's package makes for it is there.
    who = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    if who:
        shutil.chown(place, "postgres")
        for folder in place.parents:
            if not folder.stat().st_mode & 0o001:
                folder.chmod(folder.stat().st_mode | 0o011)
    data, port = place / "data", str(free_port())
    quiet = {"check": True, "stdout": subprocess.DEVNULL, "cwd": place}
    how: list[str | Path] = ["-A", "trust"]
    if password:
        (place / "password").write_text(password)
        shutil.chown(place / "password", place.owner())
        how = ["-A", "scram-sha-256", "--pwfile", place / "password"]
    subprocess.run([*who, programs[-1] / "initdb", "-D", data, *how, "-U", "damoos", "--no-sync"], **quiet)
    words = ["-p", port, "-k", place, "-c", "listen_addresses=127.0.0.1"]
    with open(place / "log", "w") as log:
        server = subprocess.Popen([*who, programs[-1] / "postgres", "-D", data, *words], stderr=log, cwd=place)
    try:
        deadline = time.monotonic() + 300
        ready = [programs[-1] / "pg_isready", "-q", "-h", "127.0.0.1", "-p", port]
        while subprocess.run(ready, check=False).returncode != 0:
            assert server.poll() is None, (place / "log").read_text()
            assert time.monotonic() < deadline, (place / "log").read_text()
            time.sleep(0.1)
        yield f"postgresql+psycopg://damoos@127.0.0.1:{port}/postgres"
    finally:
        subprocess.run([*who, programs[-1] / "pg_ctl", "-D", data, "-m", "immediate", "stop"], **quiet)
        server.wait()
