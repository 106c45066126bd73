"""Objects on the nodes of a Ray cluster, for what is to be done beside machines and not on them.

The node that offers a machine has the object that deals with it. An object is a Ray actor, and lives as long as whoever
asks it; one that is lost is made again when it is asked next.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from damoos.dispatch.ray_address import RayCluster
from damoos.dispatch.ray_connection import Connection
from damoos.errors import ConfigError, DamoosError, nearest

# A node that has not answered by then is gone on without; what it was told it does when it can.
ANSWER_S = 30.0


@dataclass(frozen=True)
class Remote:
    """An object on a node.

    Parameters
    ----------
    machines : tuple of str
        Those that it deals with.
    is_new : bool
        Whether nothing has been asked of it yet.
    handle : object
        Ray's.
    """

    machines: tuple[str, ...]
    is_new: bool
    handle: Any


class RayNodes:
    """The nodes that offer some machines.

    Parameters
    ----------
    named : RayCluster
    make : callable
        Makes the object of a node, there, from the names of its machines.
    machines : iterable of str

    Raises
    ------
    UnsupportedError : Ray is not installed
    ConfigError : no cluster at that address, or one that is not to be trusted
    """

    def __init__(self, named: RayCluster, make: Callable[[tuple[str, ...]], Any], machines: Iterable[str]) -> None:
        self._make = make
        self._machines = tuple(machines)
        self._connection = Connection(named)
        self._ray = self._connection.ray
        self._class = self._ray.remote(num_cpus=0, max_restarts=0)(_Actor)
        self._handles: dict[tuple[str, tuple[str, ...]], Any] = {}
        # What has not been answered in time, by the handle; nobody waits for it any more.
        self._owed: dict[Any, Any] = {}

    def check_offered(self) -> None:
        """See that there is a node for each machine.

        Raises
        ------
        ConfigError : there is none
        """
        offers = self._connection.offers()
        for machine in self._machines:
            if machine not in offers:
                raise ConfigError(
                    f"no node of the cluster offers machine '{machine}'{nearest(machine, offers)} (--ray)"
                )

    def objects(self) -> list[Remote]:
        """One on each node that offers some of the machines now; made where there is none yet.

        Raises
        ------
        ConfigError : several nodes offer one machine
        """
        places: dict[str, list[str]] = {}
        offers = self._connection.offers()
        for machine in self._machines:
            nodes = offers.get(machine, {})
            if len(nodes) > 1:
                raise ConfigError(
                    f"{len(nodes)} nodes offer machine '{machine}'; only one can keep it in service (--ray)"
                )
            for node in nodes:
                places.setdefault(node, []).append(machine)
        former, self._handles = self._handles, {}
        found = []
        for node, machines in places.items():
            key = (node, tuple(machines))
            handle = self._handles[key] = former.get(key) or self._made(*key)
            found.append(Remote(key[1], key not in former, handle))
        return found

    def _made(self, node: str, machines: tuple[str, ...]) -> Any:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        where = NodeAffinitySchedulingStrategy(node, soft=False)
        return self._class.options(scheduling_strategy=where).remote(self._make, machines)

    def tell(self, questions: Mapping[Remote, tuple[str, tuple[Any, ...]]]) -> dict[Remote, Any]:
        """Like `ask`, but a node that is still busy with another question is told, too, and does it when it can."""
        for one in questions:
            if one.handle in self._owed:
                one.handle.call.remote(*questions[one])
        return self.ask(questions)

    def ask(self, questions: Mapping[Remote, tuple[str, tuple[Any, ...]]]) -> dict[Remote, Any]:
        """Call a method of each object, all at the same time; those that are lost, or silent, are left out.

        Parameters
        ----------
        questions : mapping of Remote to tuple
            Name of the method, and its arguments.

        Raises
        ------
        DamoosError : a method has raised it
        """
        import ray.exceptions

        self._owed = {handle: ref for handle, ref in self._owed.items() if not self._ray.wait([ref], timeout=0)[0]}
        asked = {
            one.handle.call.remote(*question): one
            for one, question in questions.items()
            if one.handle not in self._owed
        }
        ready, late = self._ray.wait(list(asked), num_returns=len(asked), timeout=ANSWER_S) if asked else ([], [])
        self._owed |= {asked[reference].handle: reference for reference in late}
        found: dict[Remote, Any] = {}
        for reference in ready:
            try:
                found[asked[reference]], error = self._ray.get(reference)
            except ray.exceptions.RayTaskError:
                raise
            except ray.exceptions.RayError:  # the worker or its node is gone
                self._forget(asked[reference])
                continue
            if error:
                raise error
        return found

    def _forget(self, lost: Remote) -> None:
        self._handles = {key: handle for key, handle in self._handles.items() if handle is not lost.handle}

    def close(self) -> None:
        """Leave the cluster; the objects end."""
        with contextlib.suppress(Exception):
            for handle in self._handles.values():
                self._ray.kill(handle)
        self._connection.close()


class _Actor:
    """What Ray has on a node; errors of damoos's are answers, so that they keep their class on the way."""

    def __init__(self, make: Callable[[tuple[str, ...]], Any], machines: tuple[str, ...]) -> None:
        self._make = make
        self._machines = machines
        self._object: Any = None

    def call(self, method: str, args: tuple[Any, ...]) -> tuple[Any, DamoosError | None]:
        """What a method returns, or an error of damoos's."""
        try:
            if self._object is None:
                self._object = self._make(self._machines)
            return getattr(self._object, method)(*args), None
        except DamoosError as error:
            return None, error
        except OSError as error:
            return None, ConfigError(f"the node of {', '.join(self._machines)}: {error}")
