"""Memory nodes as the kernel's files have them."""

from __future__ import annotations

from pathlib import Path

from damoos.agent.nodes import nodes


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
