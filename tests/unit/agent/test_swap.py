"""What swapped pages still take, on machines that are given as files."""

from __future__ import annotations

import math
from pathlib import Path

from damoos.agent.swap import Swap, can_account, compressed_bytes, used_bytes

KIB, MIB = 1 << 10, 1 << 20
OWN = Swap("/dev/zram1")


def machine(
    root: Path, swaps: dict[str, int], zram: dict[str, int], zswap: int | None = 0, zswap_on: bool = False
) -> Path:
    """A machine whose swap devices, zram devices and zswap have so many MiB on them; process 7 has 30 MiB swapped."""
    rows = [f"{device} partition 999999 {mib * KIB} {-2 - nth}" for nth, (device, mib) in enumerate(swaps.items())]
    files = {
        "proc/swaps": "\n".join(["Filename Type Size Used Priority", *rows]),
        "proc/meminfo": "MemTotal: 1 kB" + ("" if zswap is None else f"\nZswap: {zswap * KIB} kB"),
        "proc/7/status": f"Name: x\nVmSwap:\t{30 * KIB} kB",
        "sys/module/zswap/parameters/enabled": "Y" if zswap_on else "N",
        **{f"sys/block/{name}/mm_stat": f"9 9 {mib * MIB} 0 0" for name, mib in zram.items()},
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text + "\n")
    return root


def test_a_device_of_damoos_s_own_is_charged_whole(tmp_path: Path) -> None:
    root = machine(tmp_path, {"/dev/zram1": 40}, {"zram1": 10})
    assert compressed_bytes([7], OWN, used_bytes(root), root) == 10 * MIB


def test_on_the_machine_s_own_zram_a_process_is_charged_its_share(tmp_path: Path) -> None:
    """It used to be charged nothing, so that saved memory was what had left RSS."""
    root = machine(tmp_path, {"/dev/zram0": 60}, {"zram0": 20})
    assert compressed_bytes([7], None, used_bytes(root), root) == 10 * MIB
    assert compressed_bytes([8], None, used_bytes(root), root) == 0


def test_all_devices_and_zswap_count(tmp_path: Path) -> None:
    root = machine(tmp_path, {"/dev/zram1": 40, "/dev/zram0": 10, "/dev/vdb": 10}, {"zram1": 8, "zram0": 2}, 6, True)
    assert compressed_bytes([7], OWN, used_bytes(root), root) == 8 * MIB
    assert list(used_bytes(root)) == ["/dev/zram1", "/dev/zram0", "/dev/vdb"]


def test_pages_on_a_disk_take_no_memory(tmp_path: Path) -> None:
    assert compressed_bytes([7], None, {"/dev/vdb": 60}, machine(tmp_path, {"/dev/vdb": 60}, {})) == 0


def test_what_the_kernel_does_not_tell_is_not_a_number(tmp_path: Path) -> None:
    """Before 5.19 nothing says how much zswap holds."""
    root = machine(tmp_path, {"/dev/vdb": 60}, {}, zswap=None, zswap_on=True)
    assert not can_account(root)
    assert math.isnan(compressed_bytes([7], None, used_bytes(root), root))
    assert can_account(machine(tmp_path, {"/dev/vdb": 60}, {}, zswap=None))
