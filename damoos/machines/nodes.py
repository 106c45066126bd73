"""Memory nodes of a guest, and what QEMU and the kernel are told of them: with latencies, nodes become tiers.

Linux makes memory tiers of the latencies and bandwidths that the firmware's HMAT tells. Without them all nodes are of
one tier, and the kernel neither demotes nor promotes.

References
----------
Linux, Documentation/admin-guide/mm/numaperf.rst; QEMU, docs/system/qemu-manpage, -numa hmat-lb
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

# As distances of the SLIT have it.
_LOCAL, _REMOTE = 10, 20


@dataclass(frozen=True)
class MemoryNode:
    """One of a guest's memory nodes.

    Parameters
    ----------
    sz_bytes : int
    cpus : int
        How many of the guest's CPUs are on it.
    latency_ns, bandwidth_bytes_per_s : int or None
        What the guest's firmware tells of it; None for nothing. The emulator has neither: all nodes are as fast.
    """

    sz_bytes: int
    cpus: int = 0
    latency_ns: int | None = None
    bandwidth_bytes_per_s: int | None = None


def equal(count: int, mem_bytes: int, vcpus: int) -> tuple[MemoryNode, ...]:
    """Nodes with an equal part of the memory each; all CPUs are on the first one."""
    return tuple(MemoryNode(mem_bytes // count, vcpus if number == 0 else 0) for number in range(count))


def qemu_options(nodes: Sequence[MemoryNode]) -> tuple[str, ...]:
    """Options of QEMU's; none for a guest whose memory is not divided."""
    return tuple(_options(nodes)) if len(nodes) > 1 else ()


def _options(nodes: Sequence[MemoryNode]) -> Iterator[str]:
    has_tiers = all(node.latency_ns is not None for node in nodes)
    if has_tiers:
        yield from ("-machine", "hmat=on")
    first = 0
    for number, node in enumerate(nodes):
        yield from ("-object", f"memory-backend-ram,id=node{number},size={node.sz_bytes}")
        cpus = f",cpus={first}-{first + node.cpus - 1}" if node.cpus else ""
        first += node.cpus
        # Memory without CPUs belongs to those of the first node that has some.
        nearest = next(other for other, with_cpus in enumerate(nodes) if with_cpus.cpus)
        initiator = f",initiator={number if node.cpus else nearest}" if has_tiers else ""
        yield from ("-numa", f"node,nodeid={number},memdev=node{number}{cpus}{initiator}")
    if has_tiers:
        yield from _told(nodes)


def _told(nodes: Sequence[MemoryNode]) -> Iterator[str]:
    """Distances, latencies and bandwidths between each node with CPUs and every node."""
    for one in range(len(nodes)):
        for other in range(len(nodes)):
            distance = _LOCAL if one == other else _REMOTE
            yield from ("-numa", f"dist,src={one},dst={other},val={distance}")
    for initiator, with_cpus in enumerate(nodes):
        if not with_cpus.cpus:
            continue
        for target, node in enumerate(nodes):
            words = f"hmat-lb,initiator={initiator},target={target},hierarchy=memory"
            yield from ("-numa", f"{words},data-type=access-latency,latency={node.latency_ns}")
            if node.bandwidth_bytes_per_s is not None:
                bandwidth = f"{node.bandwidth_bytes_per_s >> 20}M"
                yield from ("-numa", f"{words},data-type=access-bandwidth,bandwidth={bandwidth}")
