"""Memory nodes as the kernel's files have them."""

from __future__ import annotations

from pathlib import Path

import pytest

from damoos.agent import nodes as agent_nodes
from damoos.agent.nodes import nodes, nodes_of, span
from damoos.errors import UnsupportedError


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def test_nodes_with_their_tiers(tmp_path: Path) -> None:
    for number, (sz_kib, cpus) in {0: (262144, "0-1\n"), 1: (786432, "\n"), 10: (0, "\n")}.items():
        write(
            tmp_path / f"node{number}/meminfo", f"Node {number} MemTotal:  {sz_kib} kB\nNode {number} MemFree: 1 kB\n"
        )
        write(tmp_path / f"node{number}/cpulist", cpus)
    write(tmp_path / "tiers/memory_tier4/nodelist", "0\n")
    write(tmp_path / "tiers/memory_tier56/nodelist", "1-3,10\n")
    assert nodes(tmp_path, tmp_path / "tiers") == [
        {"node": 0, "sz_bytes": 1 << 28, "has_cpus": True, "tier": 4},
        {"node": 1, "sz_bytes": 3 << 28, "has_cpus": False, "tier": 56},
    ]
    assert {node["tier"] for node in nodes(tmp_path, tmp_path / "none")} == {None}


def test_this_machine_has_one_at_least() -> None:
    assert nodes()[0]["sz_bytes"] > 0


def told(*tiers: int | None) -> list[dict[str, object]]:
    return [{"node": number, "sz_bytes": 1, "has_cpus": True, "tier": tier} for number, tier in enumerate(tiers)]


def test_which_nodes_are_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_nodes, "nodes", lambda: told(56, 4, 4, 60))
    assert (nodes_of("fast"), nodes_of("slow"), nodes_of("all")) == ([1, 2], [0, 3], [0, 1, 2, 3])
    for tiers in ((None,), (4, 4), (None, None)):
        monkeypatch.setattr(agent_nodes, "nodes", lambda tiers=tiers: told(*tiers))
        with pytest.raises(UnsupportedError, match="memory is of one tier"):
            nodes_of("fast")


ZONES = """Node 0, zone      DMA
  pages free     3000
        spanned  4095
        present  3998
  start_pfn:           1
Node 0, zone    DMA32
        spanned  61440
  start_pfn:           4096
Node 0, zone   Normal
        spanned  0
  start_pfn:           0
Node 1, zone    DMA32
        spanned  262110
  start_pfn:           65536
"""


def test_where_the_memory_of_a_node_is(tmp_path: Path) -> None:
    zones = tmp_path / "zoneinfo"
    zones.write_text(ZONES)
    assert span(0, zones) == (4096, 65536 * 4096)
    assert span(1, zones) == (65536 * 4096, (65536 + 262110) * 4096)
    with pytest.raises(UnsupportedError, match="no memory node 2"):
        span(2, zones)
