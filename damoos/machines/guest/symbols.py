"""Where a kernel has its functions and variables: asked of the kernel itself, once, and kept beside it in the cache."""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from damoos.common import atomic_file
from damoos.errors import UnsupportedError
from damoos.machines.guest import initrd
from damoos.machines.guest.architecture import ALL
from damoos.machines.guest.kernels import Kernel

# Of the host's time: it takes 10 s where nothing else runs.
_LIMIT_S = 300.0
_FILE = "symbols.json"
_LINE = re.compile(r"^([0-9a-f]{8,16}) \S (\w+)\s*$", re.MULTILINE)
INIT = """#!/bin/busybox sh
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t devtmpfs dev /dev
/bin/busybox grep -E ' ({names})$' /proc/kallsyms > /dev/console
/bin/busybox poweroff -f
"""


def addresses(
    kernel: Kernel, names: Sequence[str], busybox: Path, say: Callable[[str], None] = lambda _: None
) -> dict[str, int]:
    """Addresses of symbols in a kernel that is booted with ``nokaslr``.

    Raises
    ------
    UnsupportedError : the kernel does not tell one of them
    """
    known = _kept(kernel)
    if not set(names) <= set(known):
        say(f"asking kernel '{kernel.name}' for its symbols, once")
        known = {**known, **_asked(kernel, names, busybox)}
        atomic_file.fill(kernel.path / _FILE, [json.dumps(known, indent=2).encode()], mode=0o644)
    return {name: known[name] for name in names}


def _kept(kernel: Kernel) -> dict[str, int]:
    try:
        return {str(name): int(address) for name, address in json.loads((kernel.path / _FILE).read_text()).items()}
    except (OSError, ValueError, AttributeError, TypeError):
        return {}


def _asked(kernel: Kernel, names: Sequence[str], busybox: Path) -> dict[str, int]:
    architecture = ALL[kernel.architecture]
    with tempfile.TemporaryDirectory(prefix="damoos-symbols-") as folder:
        disk = Path(folder) / "initrd"
        initrd.pack({"init": INIT.format(names="|".join(names)).encode()}, busybox, disk)
        argv = [
            architecture.qemu, "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", *architecture.board,
            "-accel", "tcg", "-cpu", architecture.tcg_cpu, "-m", "256M",
            "-kernel", str(kernel.bootable), "-initrd", str(disk), "-serial", "stdio",
            "-append", f"console={architecture.console} quiet panic=-1 nokaslr {' '.join(architecture.cmdline)}",
        ]  # fmt: skip
        try:
            done = subprocess.run(
                argv, capture_output=True, text=True, errors="replace", check=False, timeout=_LIMIT_S,
                stdin=subprocess.DEVNULL,
            )  # fmt: skip
            said, how = done.stdout, done.stderr.strip()
        except subprocess.TimeoutExpired:
            said, how = "", f"it did not end in {_LIMIT_S:g} s"
    found = {name: int(address, 16) for address, name in _LINE.findall(said)}
    if missing := [name for name in names if not found.get(name)]:
        detail = f"; {how}" if how else ""
        raise UnsupportedError(
            f"kernel '{kernel.name}' does not tell where it has {', '.join(missing)}: it must be built with"
            f" CONFIG_KALLSYMS_ALL{detail}"
        )
    return found
