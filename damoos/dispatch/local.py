"""Jobs done in this process: a thread for each machine, which holds it open."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

from damoos.dispatch.base import Dispatcher, Order, Outcome, Slot
from damoos.dispatch.lease import KeptOpen

# What a thread of ours needs is little; a thousand of them should not take gigabytes of address space.
STACK_BYTES = 1 << 20
CLOSE_S = 30.0


class LocalDispatcher(Dispatcher):
    """Machines that this process reaches itself: guests, SSH hosts, this machine; one of each name.

    Parameters
    ----------
    say : callable
        Told what takes time.
    """

    def __init__(self, say: Callable[[str], None] = lambda _: None) -> None:
        self._say = say
        self._arrived: queue.SimpleQueue[Outcome] = queue.SimpleQueue()
        self._holders: dict[Slot, _Holder] = {}
        # Those that were told to end and may still be closing their machines.
        self._leaving: list[threading.Thread] = []

    def capacity(self, machine: str) -> int:
        """One: a second guest of a name would be a second machine."""
        return 1

    def submit(self, order: Order) -> None:
        """Hand the job to the thread of its slot."""
        if order.slot not in self._holders:
            self._holders[order.slot] = _Holder(self._arrived, self._say)
        self._holders[order.slot].orders.put(order)

    def release(self, slot: Slot) -> None:
        """End the slot's thread, which closes its machine on its way out."""
        if holder := self._holders.pop(slot, None):
            self._leaving = [thread for thread in self._leaving if thread.is_alive()] + [holder.thread]
            holder.orders.put(None)

    def wait(self, timeout_s: float | None = None) -> Outcome | None:
        """The next outcome."""
        try:
            return self._arrived.get(timeout=timeout_s)
        except queue.Empty:
            return None

    def close(self) -> None:
        """End all runs that are under way and close all machines."""
        for slot in list(self._holders):
            self._holders[slot].cancel()
            self.release(slot)
        for thread in self._leaving:
            thread.join(CLOSE_S)


class _Holder:
    """A thread that holds a machine: a guest dies with the thread that opened it."""

    def __init__(self, arrived: queue.SimpleQueue[Outcome], say: Callable[[str], None]) -> None:
        self.orders: queue.SimpleQueue[Order | None] = queue.SimpleQueue()
        self._arrived = arrived
        self._held = KeptOpen(say)
        before = threading.stack_size(STACK_BYTES)
        self.thread = threading.Thread(target=self._work, daemon=True)
        self.thread.start()
        threading.stack_size(before)

    def cancel(self) -> None:
        """End the run that is under way, if any."""
        if lease := self._held.lease:
            lease.cancel()

    def _work(self) -> None:
        while (order := self.orders.get()) is not None:
            try:
                outcome = Outcome(order, order.job(self._held.leased(order.tenant, order.make)))
            except Exception as error:
                outcome = Outcome(order, error=error)
            self._arrived.put(outcome)
        self._held.close()
