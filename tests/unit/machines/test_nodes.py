"""Memory nodes of guests: what a machine file says of them, and what QEMU is told."""

from __future__ import annotations

import os
import tomllib
from contextlib import nullcontext
from fnmatch import fnmatch
from pathlib import Path

import pytest

from damoos.errors import ConfigError, UnsupportedError
from damoos.machines import catalog
from damoos.machines.guest.access_counter import SOURCE, AccessCounter
from damoos.machines.guest.architecture import AMD64, ARM64
from damoos.machines.nodes import MemoryNode, equal, qemu_options

GIB = 1 << 30
TOP = Path(__file__).resolve().parents[3]


def guest(tmp_path: Path, text: str, head: str = "vcpus = 2") -> catalog.Guest:
    file = tmp_path / "mine.toml"
    file.write_text(f'description = "mine"\n[guest]\n{head}\n{text}')
    return catalog.find(str(file))[1].as_guest()


TIERS = """
[[guest.nodes]]
memory = "256M"
latency = "80ns"
bandwidth = "100G"
[[guest.nodes]]
memory = "768M"
latency = "250ns"
bandwidth = "25G"
"""


def test_nodes_with_latencies_are_told_to_the_firmware(tmp_path: Path) -> None:
    found = guest(tmp_path, TIERS)
    assert found.memory == "1G"
    fast, slow = found.memory_nodes()
    assert fast == MemoryNode(GIB // 4, 2, 80, 100 << 30)
    assert slow == MemoryNode(3 * GIB // 4, 0, 250, 25 << 30)
    assert " ".join(qemu_options((fast, slow))) == (
        "-machine hmat=on"
        " -object memory-backend-ram,id=node0,size=268435456 -numa node,nodeid=0,memdev=node0,cpus=0-1,initiator=0"
        " -object memory-backend-ram,id=node1,size=805306368 -numa node,nodeid=1,memdev=node1,initiator=0"
        " -numa dist,src=0,dst=0,val=10 -numa dist,src=0,dst=1,val=20"
        " -numa dist,src=1,dst=0,val=20 -numa dist,src=1,dst=1,val=10"
        " -numa hmat-lb,initiator=0,target=0,hierarchy=memory,data-type=access-latency,latency=80"
        " -numa hmat-lb,initiator=0,target=0,hierarchy=memory,data-type=access-bandwidth,bandwidth=102400M"
        " -numa hmat-lb,initiator=0,target=1,hierarchy=memory,data-type=access-latency,latency=250"
        " -numa hmat-lb,initiator=0,target=1,hierarchy=memory,data-type=access-bandwidth,bandwidth=25600M"
    )


def test_a_number_divides_the_memory(tmp_path: Path) -> None:
    found = guest(tmp_path, "", 'vcpus = 2\nmemory = "1G"\nnodes = 2')
    assert found.memory_nodes() == equal(2, GIB, 2)
    assert "hmat" not in " ".join(qemu_options(found.memory_nodes()))
    assert guest(tmp_path, "", 'memory = "1G"\nnodes = 1').memory_nodes() == ()
    assert qemu_options(()) == ()


def test_cpus_may_be_on_several_nodes(tmp_path: Path) -> None:
    nodes = '[[guest.nodes]]\nmemory = "1G"\ncpus = 1\n' * 2
    options = qemu_options(guest(tmp_path, nodes).memory_nodes())
    assert [word for word in options if "nodeid" in word] == [
        "node,nodeid=0,memdev=node0,cpus=0-0",
        "node,nodeid=1,memdev=node1,cpus=1-1",
    ]


WRONG = [
    ("nodes = 0", "", "'nodes' is from 1 to 64, or a list of tables, and is 0"),
    ('memory = "1G"', TIERS, "'memory' is the sum of that of its nodes; leave it out"),
    ("vcpus = 1", TIERS.replace('"80ns"', '"80"'), "key 'guest.nodes.0.latency': '80': expected one of the units ns"),
    ("vcpus = 1", TIERS.replace('"80ns"', '"0ns"'), "'0ns' is not above 0"),
    ("vcpus = 1", TIERS.replace('latency = "80ns"\n', ""), "a 'latency' is needed for every node, or for none"),
    ("vcpus = 1", TIERS.replace("latency", "latenci"), "unknown key 'guest.nodes.0.latenci'; did you mean 'latency'"),
    (
        "vcpus = 4",
        '[[guest.nodes]]\nmemory = "1G"\ncpus = 1\n' * 2,
        "the nodes have 2 CPUs together, and the",
    ),
    ("vcpus = 1", '[[guest.nodes]]\nmemory = "1Q"\n', "unknown size unit 'Q'"),
    ("vcpus = 1", '[[guest.nodes]]\nlatency = "80ns"\n', "key 'guest.memory' is missing"),
]


@pytest.mark.parametrize(("head", "text", "message"), WRONG)
def test_wrong_nodes(tmp_path: Path, head: str, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        guest(tmp_path, text, head)
    assert message in str(refusal.value)


@pytest.mark.parametrize("ratio", [1, 2, 4, 8])
def test_the_machines_of_the_capacity_study(ratio: int) -> None:
    fast, slow = catalog.find(f"tiers-1-{ratio}")[1].as_guest().memory_nodes()
    assert slow.sz_bytes == ratio * fast.sz_bytes
    assert (fast.cpus, slow.cpus) == (1, 0)
    assert (fast.latency_ns, slow.latency_ns) == (80, 250)


def test_accesses_are_counted_where_the_file_says_so(tmp_path: Path) -> None:
    found = guest(tmp_path, TIERS, 'count_accesses = true\ncache = "0"')
    counter = AccessCounter(found.memory_nodes(), 0)
    object_, memory, device, id_, plugin, words = counter.options(tmp_path)
    assert (object_, device, plugin) == ("-object", "-device", "-plugin")
    file = tmp_path / "access-counts"
    assert memory == f"memory-backend-file,id=counts,size={2 << 20},share=on,mem-path={file}"
    assert id_ == "ivshmem-plain,memdev=counts"
    assert file.stat().st_size == 2 << 20
    # The offset of a node's memory is told twice.
    assert words.split(",")[1:] == [
        f"shm={file}", f"bytes={2 << 20}", "cache=0", "range=0x0:0x10000000:0:0", "range=0x20000000:0x50000000:1:65536",
    ]  # fmt: skip
    assert counter.metrics[:4] == ["accesses_n0", "accesses_n1", "misses_n0", "misses_n1"]
    assert "modelled_s" in counter.metrics
    assert "modelled_s" not in AccessCounter(equal(2, GIB, 1), 0).metrics


def test_memory_is_made_before_the_counts_of_its_pages(tmp_path: Path) -> None:
    """The plugin is told offsets in all that the emulator has made, in that order."""
    options = AccessCounter((MemoryNode(GIB, 1),), 0).options(tmp_path)
    assert options[:4] == ("-object", "memory-backend-ram,id=memory,size=1024M", "-machine", "memory-backend=memory")
    assert options[4:6] == ("-object", next(word for word in options if "id=counts" in word))


def test_memory_of_a_large_guest_is_in_two_parts(tmp_path: Path) -> None:
    words = AccessCounter((MemoryNode(3 * GIB, 1), MemoryNode(GIB)), 0).options(tmp_path)[-1].split(",")
    low, high = 0x80000, 0x100000
    assert words[4:] == [
        f"range=0x0:{low << 12:#x}:0:0", f"range={low << 12:#x}:{3 * GIB:#x}:0:{high}",
        f"range={6 * GIB:#x}:{7 * GIB:#x}:1:{high + 0x40000}",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("head", "reason"),
    [
        ('memory = "1G"\naccel = "kvm"\ncount_accesses = true', "needs emulation, and accel is 'kvm'"),
        ('memory = "2G"\nnodes = 16\ncount_accesses = true', "at most 8 memory nodes"),
    ],
)
def test_what_cannot_be_counted_is_refused(tmp_path: Path, head: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        guest(tmp_path, "", head)


@pytest.mark.parametrize(
    ("told", "reason"),
    [
        ("QEMU emulator version 7.2.19 (Debian 1:7.2+dfsg-7)", None),
        (
            "QEMU emulator version 10.0.2 (Debian 1:10.0.2)",
            "with QEMU 7 only, and this is 'QEMU emulator version 10",
        ),
        ("", "with QEMU 7 only, and this is ''"),
    ],
)
def test_only_the_emulator_that_was_tried_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: str, reason: str | None
) -> None:
    program = tmp_path / AMD64.qemu
    program.write_text(f"#!/bin/sh\necho '{told}'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(UnsupportedError, match=reason) if reason else nullcontext():
        AccessCounter.check(AMD64)


def test_guests_of_other_architectures_are_not_counted() -> None:
    with pytest.raises(UnsupportedError, match="in guests of amd64 only, and this is arm64"):
        AccessCounter.check(ARM64)


def test_the_source_is_in_the_package() -> None:
    shipped = tomllib.loads((TOP / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    patterns = shipped["damoos.machines.guest"]
    assert any(fnmatch(str(SOURCE.relative_to(SOURCE.parents[1])), pattern) for pattern in patterns)
