"""A process as a part of a Ray cluster; Ray is imported when somebody asks for one."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from damoos.dispatch.ray_address import HINT, Access, RayCluster, access
from damoos.errors import ConfigError, MachineLost, UnsupportedError

if TYPE_CHECKING:
    from ray.job_config import JobConfig


CONNECT_S = 120.0
"""Many times what a good head takes on a busy computer."""


class Connection:
    """To a cluster; a process has one at a time.

    Parameters
    ----------
    named : RayCluster

    Attributes
    ----------
    ray : module

    Raises
    ------
    UnsupportedError : Ray is not installed
    ConfigError : no cluster at that address, or one that is not to be trusted
    """

    def __init__(self, named: RayCluster) -> None:
        found = access(named)
        self.ray = _ray(found)
        self._stdout, sys.stdout = sys.stdout, _Quiet(sys.stdout)
        try:
            _connect(self.ray, found.address)
        except BaseException:
            sys.stdout = self._stdout
            raise

    def offers(self) -> dict[str, dict[str, float]]:
        """Machines that the cluster has now: how many of each there are on which node, by the node's id."""
        found: dict[str, dict[str, float]] = {}
        for node in self.ray.nodes():
            for name, count in node["Resources"].items() if node["Alive"] else ():
                if name not in ("CPU", "GPU", "memory", "object_store_memory") and not name.startswith("node:"):
                    found.setdefault(name, {})[node["NodeID"]] = count
        return found

    def close(self) -> None:
        """Leave the cluster as it is."""
        self.ray.shutdown()
        sys.stdout = self._stdout


def _ray(found: Access) -> Any:
    # Repeated lines are else held back and printed at the end, by a thread that does not look like Ray's.
    os.environ.update(found.environment, RAY_DEDUP_LOGS="0")  # before Ray is imported: it looks only then
    try:
        import ray
    except ImportError:
        raise UnsupportedError("Ray is not installed; pip install 'damoos[ray]'") from None
    core: Any = ray._raylet
    core.Config.initialize("")  # where a notebook has imported it before
    core.AuthenticationTokenLoader.instance().reset_cache()
    return ray


def _connect(ray: Any, address: str) -> None:
    import logging

    def init() -> None:
        ray.init(
            address=address, job_config=_own_path(), logging_level=logging.ERROR, log_to_driver=False,
            configure_logging=True,
        )  # fmt: skip

    try:
        _within(CONNECT_S, init)
    except TimeoutError:
        raise ConfigError(
            f"--ray {address}: the cluster has not let damoos in within {CONNECT_S:g} s: its head hangs or is too busy;"
            f" {HINT}"
        ) from None
    except (ConnectionError, ValueError, RuntimeError) as error:
        reason = str(error).strip().splitlines()[0]
        raise ConfigError(f"--ray {address}: {reason}; {HINT}") from None


def _within(seconds: float, work: Callable[[], None]) -> None:
    """Do something in a thread that is left alone if it does not end: Ray heeds no signal while it waits for a head.

    Raises
    ------
    TimeoutError : it has not ended
    BaseException : what it fails with
    """
    failures: list[BaseException] = []

    def do() -> None:
        try:
            work()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(
        target=do, daemon=True, name="damoos-connects"
    )  # the end of a process waits for no daemon
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        raise TimeoutError
    if failures:
        raise failures[0]


def _own_path() -> JobConfig:
    """A job whose workers do not look for modules in this process's current folder, where others may put some.

    Ray has no public option for it. It adds that folder to the path of each job, except for a job of its client. There
    is no other difference between the two for a job without a runtime environment.
    """
    from ray.job_config import JobConfig

    return JobConfig(_client_job=True)


def as_ours(error: BaseException) -> Exception:
    """What Ray says of a task that did not come back: its worker, its node or its cluster is gone."""
    import ray.exceptions

    if isinstance(error, ray.exceptions.RayTaskError):
        return error  # a defect of ours: every other error of a job is an answer
    return MachineLost(f"its Ray worker is gone: {type(error).__name__}: {str(error).strip().splitlines()[0]}")


class _Quiet:
    """Standard output without what Ray's own threads would write into it; no option of Ray's stops them."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write what is ours."""
        if threading.current_thread().name.startswith("ray_"):
            return len(text)
        count: int = self._stream.write(text)
        return count

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
