"""Jobs done on a Ray cluster; imported when a sweep asks for one.

Each machine is a custom resource of 1 under its own name, offered by the node that can reach it. A job is a stateless
task that takes the resource, so a machine does one at a time, whoever drives. A worker that has opened a machine keeps
it for a moment, since the next job of the same study mostly comes at once and a boot costs seconds.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from damoos.dispatch.base import Dispatcher, Order, Outcome, Slot
from damoos.dispatch.lease import KeptOpen, Lease
from damoos.dispatch.ray_address import RayCluster
from damoos.dispatch.ray_connection import Connection, as_ours
from damoos.errors import DamoosError, UnsupportedError, nearest

# A worker closes a machine that nobody has asked for in this time, so that another worker of its node can have it.
IDLE_S = 15.0
# A cluster that grows by itself has this long to bring a machine up.
APPEAR_S = 1800.0
_POLL_S = 5.0


@dataclass
class _Pending:
    """A task that has been submitted, and when it was last asked whether its machine is there."""

    order: Order
    reference: Any
    looked: float = field(default_factory=time.monotonic)


class RayDispatcher(Dispatcher):
    """Machines of a Ray cluster.

    Parameters
    ----------
    named : RayCluster
    say : callable
        Told what takes time.

    Raises
    ------
    UnsupportedError : Ray is not installed
    ConfigError : no cluster at that address, or one that is not to be trusted
    """

    def __init__(self, named: RayCluster, say: Callable[[str], None] = lambda _: None) -> None:
        self._connection = Connection(named)
        self._ray = self._connection.ray
        self._say = say
        # Filled by Ray's threads; everything else belongs to the one that submits and waits.
        self._ended: queue.SimpleQueue[tuple[_Pending, Any]] = queue.SimpleQueue()
        self._nodes: dict[Slot, str] = {}
        self._pending: dict[Slot, _Pending] = {}
        # Retries are damoos's own, by error class: Ray would repeat what must not be repeated.
        self._task = self._ray.remote(num_cpus=0, max_retries=0)(_work)

    def capacity(self, machine: str) -> int:
        """How many nodes offer it; 1 while none does, as the cluster may grow."""
        offers = self._connection.offers()
        if machine not in offers:
            known = ", ".join(sorted(offers)) or "none"
            self._say(f"no node of the cluster offers machine '{machine}' yet (there are: {known}); waiting for one")
        return int(sum(offers[machine].values())) if machine in offers else 1

    def submit(self, order: Order) -> None:
        """Start a task; on the node where the slot's last one ran, if that is still there."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        options: dict[str, Any] = {"resources": {order.slot.machine: 1}}
        if node := self._nodes.get(order.slot):
            options["scheduling_strategy"] = NodeAffinitySchedulingStrategy(node, soft=True)
        reference = self._task.options(**options).remote(order.tenant, order.make, order.job)
        pending = self._pending[order.slot] = _Pending(order, reference)
        reference.future().add_done_callback(lambda future: self._ended.put((pending, future)))

    def release(self, slot: Slot) -> None:
        """Nothing to do: the worker closes the machine by itself."""
        self._nodes.pop(slot, None)

    def wait(self, timeout_s: float | None = None) -> Outcome | None:
        """The next outcome."""
        if given_up := self._given_up():
            return given_up
        try:
            pending, future = self._ended.get(timeout=timeout_s)
        except queue.Empty:
            return None
        if self._pending.get(pending.order.slot) is not pending:
            return None  # given up already
        return self._outcome(self._pending.pop(pending.order.slot).order, future)

    def close(self) -> None:
        """End what is under way and leave the cluster as it is; its workers close their machines."""
        for pending in self._pending.values():
            with contextlib.suppress(Exception):
                self._ray.cancel(pending.reference, force=True)
        self._connection.close()

    def _outcome(self, order: Order, future: Any) -> Outcome:
        if error := future.exception():
            self._nodes.pop(order.slot, None)
            return Outcome(order, error=as_ours(error))
        self._nodes[order.slot], value, failed = future.result()
        return Outcome(order, value, failed)

    def _given_up(self) -> Outcome | None:
        """A task whose machine does not appear would wait for ever."""
        now = time.monotonic()
        for slot, pending in self._pending.items():
            if now - pending.looked <= APPEAR_S:
                continue
            pending.looked, offers = now, self._connection.offers()
            if slot.machine not in offers:
                del self._pending[slot]
                self._ray.cancel(pending.reference, force=True)
                problem = f"no node offers machine '{slot.machine}'{nearest(slot.machine, offers)}"
                return Outcome(pending.order, error=UnsupportedError(problem))
        return None


class _Held(KeptOpen):
    """The machine that this worker holds, until nobody has asked for it for a while."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()
        self.used = 0.0
        threading.Thread(target=self._close_idle, daemon=True).start()

    def _close_idle(self) -> None:
        while True:
            time.sleep(_POLL_S)
            with self.lock:
                if self.lease and time.monotonic() - self.used > IDLE_S:
                    self.close()


_held: _Held | None = None


def _work(tenant: str, make: Callable[[], Any], job: Callable[[Lease], Any]) -> tuple[str, Any, Exception | None]:
    """A task: the node it ran on, and a value or an error of damoos's."""
    global _held
    import ray

    node: str = ray.get_runtime_context().get_node_id()
    _held = _held or _Held()
    with _held.lock:
        try:
            return node, job(_held.leased(tenant, make)), None
        except DamoosError as error:
            return node, None, error
        finally:
            _held.used = time.monotonic()
