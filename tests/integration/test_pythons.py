"""The agent on the oldest Python that it runs on, Debian 11's 3.9, and what an older one is told."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from damoos.machines.bundle import agent_bundle
from damoos.machines.guest import debian
from damoos.machines.guest.image import image
from tests.adversary.conftest import AgentProcess

PACKAGES = ("python3.9-minimal", "libpython3.9-minimal", "libpython3.9-stdlib", "libffi7")


@pytest.fixture(scope="module")
def place(guest_image: None) -> Iterator[Path]:
    """A folder with the agent and Debian 11's Python, unpacked beside everything; every user may read it."""
    (mirror, *_) = re.findall(r"^deb (\S+)", image().sources, re.MULTILINE)
    with tempfile.TemporaryDirectory(dir="/tmp") as name, pytest.MonkeyPatch.context() as patch:
        folder = Path(name)
        shutil.copy(agent_bundle(), folder / "agent.pyz")
        patch.setenv("DAMOOS_CACHE", str(folder / "cache"))
        with debian.archive(f"deb {mirror} bullseye main\n") as archive:
            archives = [archive.fetch(package, folder / "packages").path for package in PACKAGES]
        for archive in archives:
            subprocess.run(["dpkg-deb", "-x", archive, folder / "root"], check=True)
        for path in (folder, folder / "root", folder / "agent.pyz"):
            path.chmod(0o755)
        yield folder


def called(place: Path) -> tuple[list[str | Path], dict[str, str]]:
    """How Debian 11's Python is called: its words, and its environment."""
    env = {"PATH": os.environ["PATH"], "PYTHONHOME": str(place / "root/usr")}
    env["LD_LIBRARY_PATH"] = str(place / "root/usr/lib/x86_64-linux-gnu")
    return [place / "root/usr/bin/python3.9", "-S"], env


def test_the_agent_does_its_work_on_python_3_9(place: Path) -> None:
    """As a user of its own, so that it need not wait for this host's agents."""
    argv, env = called(place)
    user = 61236 if os.geteuid() == 0 else os.geteuid()
    home = place / "home"
    home.mkdir(0o700)
    os.chown(home, user, -1)
    agent = AgentProcess([*argv, place / "agent.pyz", "60", "token"], {**env, "HOME": str(home)}, user)
    spec = {"argv": ["echo", "done"], "env": {}, "limit_s": 9, "sample_s": 0.5, "drop_caches": False, "context": None}
    try:
        assert agent.answer()["pid"] == agent.process.pid
        assert agent.call("facts")["kernel"] == os.uname().release
        assert agent.call("state", 2)["boot_s"] > 0
        assert agent.call("run", 3, **spec)["stdout"] == "done\n"
        assert agent.call("steadiness", 4, for_s=0.5, cpus=[])["elapsed_s"] > 0
        assert agent.call("bye", 5) == []
    finally:
        agent.process.kill()
        agent.process.communicate()


def test_every_module_of_the_agent_is_imported_by_python_3_9(place: Path) -> None:
    with zipfile.ZipFile(place / "agent.pyz") as bundle:
        files = [name for name in bundle.namelist() if re.fullmatch(r"damoos/(\w+/)?\w+\.py", name)]
    modules = [name.removesuffix(".py").replace("/", ".") for name in files if "__" not in name]
    code = "import sys, importlib; sys.path.insert(0, sys.argv[1]); [importlib.import_module(n) for n in sys.argv[2:]]"
    argv, env = called(place)
    words = [*argv, "-c", code, place / "agent.pyz", *modules]
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=env, cwd="/")
    assert done.returncode == 0, done.stderr
    assert len(modules) > 30


def test_an_older_python_is_told_in_one_line(tmp_path: Path) -> None:
    """By this Python, which says that it is 3.8."""
    code = "import sys, runpy; sys.version_info = (3, 8, 0); sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0])"
    done = subprocess.run([sys.executable, "-c", code, agent_bundle()], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "damoos's agent needs Python 3.9 or newer; this is 3.8\n"
