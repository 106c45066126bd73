"""On which memory nodes a run's pages are: those of a group, and how a program's new pages go to several of them.

References
----------
Documentation/admin-guide/cgroup-v2.rst, "Cpuset"; Documentation/admin-guide/mm/numa_memory_policy.rst
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from damoos.agent import memory_policy
from damoos.agent.cgroup import CGROUPS
from damoos.agent.nodes import nodes_of
from damoos.agent.undo import UndoLog
from damoos.damon.files import kernel_text, write
from damoos.errors import MachineError, UnsupportedError

_WEIGHTS = Path("/sys/kernel/mm/mempolicy/weighted_interleave")


def bind(group: Path, which: str, log: UndoLog) -> None:
    """Let a group have memory of some nodes only; what it has elsewhere moves there.

    Parameters
    ----------
    which : {"fast", "slow"}
        As `damoos.agent.nodes.nodes_of`.

    Raises
    ------
    UnsupportedError : there is one tier, or groups here have no cpuset controller
    """
    nodes = ",".join(map(str, nodes_of(which)))
    above = [parent for parent in group.parents if parent.is_relative_to(CGROUPS)]
    try:
        for parent in reversed(above):
            control = parent / "cgroup.subtree_control"
            if "cpuset" not in kernel_text(control).split():
                log.record("controller", path=str(control), name="cpuset")
                write(control, "+cpuset")
        log.set_file(group / "cpuset.mems", nodes)
    except (OSError, MachineError) as error:
        raise UnsupportedError(f"memory cannot be bound to nodes here: cgroup {group}: {error}") from None


@dataclass(frozen=True)
class Interleaving:
    """New pages of a program on several nodes in turn, a number on each; ``enter`` is for its process to call."""

    mode: int
    nodes: tuple[int, ...]

    def enter(self) -> None:
        """From now on, for this process and those that it starts.

        Raises
        ------
        OSError : the kernel refuses
        """
        memory_policy.set_mempolicy(self.mode, self.nodes)


def interleaving(fast_pages: int, log: UndoLog) -> Interleaving:
    """So many pages on each fast node for each page on a slow one; weights are the kernel's, for all programs.

    Raises
    ------
    UnsupportedError : there is one tier, or the kernel has no weights and some are asked for
    """
    fast, nodes = nodes_of("fast"), tuple(nodes_of("all"))
    if fast_pages == 1:
        return Interleaving(memory_policy.INTERLEAVE, nodes)
    if not _WEIGHTS.is_dir():
        raise UnsupportedError(f"this kernel has no {_WEIGHTS}: interleaving by weights came with Linux 6.9")
    chosen_by_kernel = _WEIGHTS / "auto"  # since Linux 6.16; a weight that is written turns it off
    if chosen_by_kernel.exists() and kernel_text(chosen_by_kernel).strip() == "true":
        log.record("file", path=str(chosen_by_kernel), value="true")
        write(chosen_by_kernel, "false")
    for node in nodes:
        log.set_file(_WEIGHTS / f"node{node}", fast_pages if node in fast else 1)
    return Interleaving(memory_policy.WEIGHTED_INTERLEAVE, nodes)
