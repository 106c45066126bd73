"""Where a kernel has its functions and variables: asked of the kernel itself, once, and kept beside it in the cache."""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from pydantic import RootModel

from damoos.common import atomic_file, host_programs
from damoos.common.json_file import JsonForm
from damoos.errors import UnsupportedError
from damoos.machines.guest import initrd
from damoos.machines.guest.architecture import ALL
from damoos.machines.guest.console import Console
from damoos.machines.guest.kernels import Kernel

# Of the host's time: it takes 10 s where nothing else runs.
_LIMIT_S = 300.0
_ENDED_S, _MOST_LINES = 2.0, 10
_FILE = "symbols.json"
_LINE = re.compile(r"^([0-9a-f]{8,16}) \S (\w+)\s*$", re.MULTILINE)
_KEPT = JsonForm(RootModel[dict[str, int]], 1 << 20)
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
    return _KEPT.read_if_good(kernel.path / _FILE) or {}


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
        said, how = _said(argv, folder)
    found = {name: int(address, 16) for address, name in _LINE.findall(said)}
    if missing := [name for name in names if not found.get(name)]:
        detail = f"; {how}" if how else ""
        raise UnsupportedError(
            f"kernel '{kernel.name}' does not tell where it has {', '.join(missing)}: it must be built with"
            f" CONFIG_KALLSYMS_ALL{detail}"
        )
    return found


def _said(argv: Sequence[str], folder: str) -> tuple[str, str]:
    """The end of what a kernel writes to its console until it ends, and what QEMU says, or that it did not end."""
    pipe = subprocess.PIPE
    with subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, cwd=folder, start_new_session=True,
        preexec_fn=host_programs.dies_with_this_process(),
    ) as qemu:  # fmt: skip
        console, how = Console(), Console()
        for end, stream in ((console, qemu.stdout), (how, qemu.stderr)):
            assert stream is not None
            end.follow(stream)
        try:
            qemu.wait(_LIMIT_S)
        except subprocess.TimeoutExpired:
            return "", f"it did not end in {_LIMIT_S:g} s"
        finally:
            qemu.kill()
        for end in (console, how):
            end.wait(_ENDED_S)
    return console.text(), " ".join(how.last_lines(_MOST_LINES))
