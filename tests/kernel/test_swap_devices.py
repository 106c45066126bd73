"""Swap devices of a machine file, on kernels that have them: Debian's has no zswap."""

from __future__ import annotations

import pytest

from damoos.machines.base import Conditions, Swap
from damoos.machines.guest import GuestMachine
from tests.conftest import COLD_BYTES, hot_cold, prcl, require_kernel, shell


@pytest.mark.parametrize(("kernel", "kind"), [("debian", "file"), ("debian", "null_blk"), ("damoos", "zswap")])
def test_swap_devices(guest_image: None, kernel: str, kind: str) -> None:
    """Paging out goes to the device that the machine file names and is accounted for; what was set is taken back."""
    swap = Swap(kind=kind, size="128M", algorithm="lzo", latency="50us" if kind == "null_blk" else None)
    conditions = Conditions(swap=swap, thp="never", swappiness=1, aslr=False)
    require_kernel(kernel)
    session = GuestMachine("test", "", 1, 1 << 30, conditions, kernel=kernel).open()
    try:
        before = session.agent.call("facts")["swap_bytes"]
        session.agent.call("prepare", **conditions.wanted())
        assert session.agent.call("facts")["swap_bytes"] > before + (120 << 20)
        argv = hot_cold(session)
        spec = {"env": {}, "limit_s": 300, "sample_s": 0.5, "drop_caches": True, "context": prcl("1s")}
        raw = session.agent.call("run", argv=argv, **spec)
        compressed = max(row[raw["sample_columns"].index("zram_bytes")] for row in raw["samples"])
        assert raw["counters"]["pswpout"] * 4096 > 0.7 * COLD_BYTES if kind != "zswap" else compressed > 0
        asked = ["sh", "-c", "cat /proc/sys/vm/swappiness /proc/sys/kernel/randomize_va_space"]
        spec = {**spec, "context": None}
        assert session.agent.call("run", argv=asked, **spec)["stdout"].split() == ["1", "0"]
        assert session.agent.call("bye") == []
        assert len(shell(session, "cat /proc/swaps").splitlines()) == 1  # the heading
    finally:
        session.close()
