"""Fixtures that several folders share."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

pytest_plugins = ["tests.cpu_time"]

# An example that takes long on a busy host is no failure.
settings.register_profile("damoos", deadline=None)
settings.load_profile("damoos")

# Matrices here have tens of rows: more threads only wait for each other, and six times as long.
os.environ["OPENBLAS_NUM_THREADS"] = "1"


def _own_reservations() -> None:
    """Keep reservations apart where there are more test processes than CPUs (make test).

    A guest holds its CPU while its workload waits, which is most of the time here. So each group of as many processes
    as CPUs has a folder of its own for its reservations; the first group has the host's.
    """
    number = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    if beyond := number // len(os.sched_getaffinity(0)):
        from damoos.common import paths
        from damoos.machines.guest.place import OWN

        paths.cache().mkdir(parents=True, exist_ok=True)
        os.environ[OWN] = str(paths.cache() / f"guests-of-tests-{os.getuid()}-{beyond}")


_own_reservations()

from damoos.damon.damo_json import context_to_json
from damoos.damon.scheme import Context, Scheme
from damoos.errors import UnsupportedError
from damoos.machines.base import Session
from damoos.machines.catalog import machine
from damoos.machines.guest import GuestSession, kernels
from damoos.machines.guest.image import check_tools, image
from damoos.workloads import catalog
from damoos.workloads.base import PatternWorkload, Tuning

HERE = Path(__file__).parent
DAMOOS = Path(sys.executable).with_name("damoos")


def damoos(
    *words: str | Path, program: Sequence[str | Path] = (DAMOOS,), **options
) -> subprocess.CompletedProcess[str]:
    """Run the command line as a person would."""
    return subprocess.run([*program, *words], capture_output=True, text=True, check=False, **options)


# A pattern that gives a scheme something to do. It is paced: an emulated guest that waits costs the host little.
PATTERN = """#regions
hot, 2M
cold, 12M

fill
100
hot, 0, 4096, 10
cold, 0, 4096, 90

work
{}
hot, 0, 4096, 100
"""
SHORT_RATE = 128  # accesses per millisecond: all of the hot part every 4 ms


def short_workload(
    folder: Path, manual_min_age: str, work_ms: int = 2500, *, rate: int = SHORT_RATE, paced: bool = True
) -> Path:
    """A workload file of a user's own; its 3 s are short enough for tests, and long enough for DAMON."""
    (folder / "short.pattern").write_text(PATTERN.format(work_ms))
    file = folder / "short.toml"
    file.write_text(
        f'description = "short"\n[tune]\nmin_age = "0s:2s"\nmanual_min_age = "{manual_min_age}"\n'
        f'unit_work = "{work_ms // 1000 + 1}s"\n'
        f'[pattern]\nfile = "short.pattern"\nrate = {rate}\npaced = {str(paced).lower()}\n'
    )
    return file


def small_redis(folder: Path) -> Path:
    """The catalogue's server that is mostly idle, with 4 MiB of values, asked for about 2.5 s every 5 ms."""
    path, _ = catalog.find("redis/idle")
    text = path.read_text().replace('input = "small"', 'input = "tiny"')
    file = folder / "idle.toml"
    tiny = 'tiny = ["-r", "4000", "-h", "400", "-i", "5000", "-n", "500"]'
    file.write_text(text.replace("[real.inputs]", f"[real.inputs]\n{tiny}"))
    return file


MIB = 1 << 20
HOT_COLD = HERE / "hot_cold.pattern"
HOT_BYTES, COLD_BYTES = 16 * MIB, 48 * MIB
# Accesses per millisecond: all of the hot part every 4 ms, so that DAMON meets each of its pages in each sample.
HOT_COLD_RATE = 1250


def hot_cold_workload(*, paced: bool = True, rate: int = HOT_COLD_RATE, repeats: int = 1) -> PatternWorkload:
    """A program of 9 s in a guest, or of as many times 9: some memory is always hot, the rest is touched once."""
    return PatternWorkload("hot-cold", HOT_COLD, rate, repeats, 1, Tuning(), paced=paced)


def hot_cold(session: Session, *, paced: bool = True, rate: int = HOT_COLD_RATE, repeats: int = 1) -> list[str]:
    """The words that start `hot_cold_workload` in a guest."""
    return hot_cold_workload(paced=paced, rate=rate, repeats=repeats).spec(session.copy)["argv"]


def prcl(min_age: str) -> dict:
    return context_to_json(Context((Scheme.parse(f"4K max  min min  {min_age} max  pageout"),)))


@pytest.fixture(scope="session")
def guest_image() -> None:
    """A machine that can run guests, or a skip that says why; with DAMOOS_REQUIRE_GUEST a failure."""
    try:
        check_tools()
        image()
    except UnsupportedError as error:
        if os.environ.get("DAMOOS_REQUIRE_GUEST"):
            raise
        pytest.skip(f"no guests here: {error}")


def until(holds: Callable[[], Any], why: Callable[[], object] = str) -> Any:
    """What a question is answered by once that is true; what is said if it never is."""
    deadline, pause_s = time.monotonic() + 300, 0.2
    while not (answer := holds()):
        assert time.monotonic() < deadline, why()
        time.sleep(pause_s)  # a command in a guest, which is what many of them ask, costs 0.1 s of a CPU or more
        pause_s = min(2.0, 1.4 * pause_s)
    return answer


@contextlib.contextmanager
def the_only_agent() -> Iterator[None]:
    """No other process of these tests has an agent on this machine meanwhile: it has one at a time."""
    with open(__file__) as file:  # a file that all of them have; their temporary folders differ
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


# Slow ones first, so that with several processes (make test) none is left alone with one at the end. Files of kvm,
# arm64 and rollout are found by make test-kvm, make test-arm64 and make test-rollout only.
FOLDERS = ("kvm", "arm64", "rollout", "guest", "integration", "kernel", "adversary", "contract", "unit")


@pytest.hookimpl(tryfirst=True)  # xdist reads the groups in its own hook of this name
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order the rooms; inside of each all stays as it was. What is in one group is run by one process."""
    items.sort(key=lambda item: FOLDERS.index(item.path.relative_to(HERE).parts[0]))
    for item in items:
        if group := _group(item):
            item.add_marker(pytest.mark.xdist_group(group))


# They start Ray clusters, each of a dozen processes: only one of them runs at a time.
WITH_CLUSTERS = (
    "guest/test_fleet.py", "integration/test_fleet.py", "integration/test_rollout.py", "adversary/test_ray.py",
)  # fmt: skip


def _group(item: pytest.Item) -> str:
    """A file's tests are a group; of tests on guests only those that share one, each kernel's for itself."""
    assert isinstance(item, pytest.Function)
    file = str(item.path.relative_to(HERE))
    if file in WITH_CLUSTERS:
        return "clusters"
    if item.path.parent.name not in ("guest", "kernel"):
        return file
    fixtures = item._fixtureinfo.name2fixturedefs.values()
    if not any(one[-1].scope in ("class", "module") for one in fixtures):
        return ""
    params = item.callspec.params.values() if hasattr(item, "callspec") else ()
    return "-".join([file, *(value for value in params if value in KERNELS)])


KERNELS = ("debian", "debian-newest", "damoos", "damoos-6.1")


def require_kernel(kernel: str | None) -> None:
    """Skip (with DAMOOS_REQUIRE_GUEST: let it fail) where a kernel has not been built."""
    if kernel is not None and kernel not in kernels.names() and not os.environ.get("DAMOOS_REQUIRE_GUEST"):
        pytest.skip(f"kernel '{kernel}' is not built here: make kernels")


def open_guest(kernel: str | None = None) -> GuestSession:
    """A booted guest with swap; a skip (with DAMOOS_REQUIRE_GUEST a failure) where its kernel has not been built.

    Without a name it is the one that `damoos.machines.catalog.KERNEL` says.
    """
    require_kernel(kernel)
    chosen = machine("guest", kernel)
    session = chosen.open()
    assert isinstance(session, GuestSession)
    session.agent.call("prepare", **chosen.conditions.wanted())
    return session


@pytest.fixture(scope="module")
def guest(guest_image: None) -> Iterator[GuestSession]:
    """One booted guest for all tests of a file."""
    session = open_guest()
    yield session
    session.close()


@pytest.fixture
def fresh_guest(guest_image: None) -> Iterator[GuestSession]:
    """A guest for a test that breaks it."""
    session = open_guest()
    yield session
    session.close()


def proven_study(results: Path, **words: Any) -> str:
    """A study whose policy is proven, for what puts one into service: `apply` takes nothing else.

    It ran on a machine that is not there, so it takes no time, and its numbers mean nothing.
    """
    from damoos import api
    from damoos.machines import catalog
    from damoos.testing.fake import FakeMachine

    options: dict[str, Any] = {"trials": 3, "repeats": 2, "prior": "none", "seed": 1, **words}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(catalog, "machine", lambda name, kernel=None: FakeMachine(lambda s: (0.02, 0.4), noise=0.001))
        return api.tune(command="true", machine="fake", results=results, **options).name


def agent_pid(session: GuestSession) -> int:
    """Process id of the agent that has the machine: it has written it into its lock."""
    _, pid, _ = json.loads(shell(session, "cat /run/damoos/lock"))
    return int(pid)


def nr_agents(session: GuestSession) -> int:
    """Agents and their guardians, but for the one that waits."""
    return int(shell(session, "pgrep -f '[d]amoos-agent-.*pyz' | wc -l")) - session.qemu.has_standby


def shell(session: GuestSession, command: str) -> str:
    """What a person who logs in beside the agent would see."""
    return session.connection.run(command, hide=True, in_stream=False).stdout.strip()
