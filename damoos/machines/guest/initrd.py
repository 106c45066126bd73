"""The initial RAM disk of a guest whose kernel keeps the disk's or the network's driver out of its image."""

from __future__ import annotations

import gzip
import hashlib
import json
import lzma
import os
import shutil
import subprocess
import tempfile
import zlib
from collections.abc import Mapping
from pathlib import Path

from damoos.errors import ConfigError, MachineError

INIT = Path(__file__).parent / "rootfs/initrd-init"
WANTED = ("virtio_pci", "virtio_blk", "virtio_net", "nfit", "nd_pmem", "ext4", "zram", "null_blk")
# The agent adds the device that a study wants.
_OPTIONS = {"zram": "num_devices=0", "null_blk": "nr_devices=0"}


def identity() -> str:
    """A name for what initial RAM disks are made of now."""
    return hashlib.sha256(json.dumps([WANTED, _OPTIONS]).encode() + INIT.read_bytes()).hexdigest()[:12]


def modules_of(folder: Path, release: str) -> Path:
    """The folder of one release's modules, given it or one above it, as ``make modules_install`` lays them out.

    Raises
    ------
    ConfigError : there is none for this release
    """
    for path in (folder, folder / release, folder / "lib/modules" / release, folder / "usr/lib/modules" / release):
        if path.name == release and path.is_dir():
            return path
    raise ConfigError(f"{folder}: holds no modules of {release}; give the folder that 'make modules_install' filled")


def build(modules: Path, busybox: Path, target: Path) -> None:
    """Write an initial RAM disk with the modules that a guest needs, in load order.

    A module that depmod does not name is built in, or not there; the guest's console tells which.
    """
    depends = _dependencies(modules)
    by_name = {Path(file).name.split(".")[0].replace("-", "_"): file for file in depends}
    loaded: dict[str, bytes] = {}
    for module in WANTED:
        if module not in by_name:
            continue
        # depmod lists what a module needs nearest first, so the load order is the reverse of it.
        for file in [*reversed(depends[by_name[module]].split()), by_name[module]]:
            plain = Path(file).name.split(".ko")[0]
            if plain not in loaded:
                loaded[plain] = unpacked((modules / file).read_bytes())
    order = "".join(f"{stem}.ko {_OPTIONS.get(stem, '')}\n" for stem in loaded)
    files = {f"modules/{stem}.ko": content for stem, content in loaded.items()}
    pack({"init": INIT.read_bytes(), "modules/order": order.encode(), **files}, busybox, target)


def pack(files: Mapping[str, bytes], busybox: Path, target: Path) -> None:
    """Write an initial RAM disk of busybox, the folders that an ``init`` mounts on, and these files.

    Raises
    ------
    MachineError : it cannot be written
    """
    with tempfile.TemporaryDirectory(prefix="damoos-initrd-") as name:
        tree = Path(name)
        for part in ("bin", "dev", "proc", "root", "modules"):
            (tree / part).mkdir()
        shutil.copy(busybox, tree / "bin/busybox")
        for file, content in files.items():
            (tree / file).write_bytes(content)
        (tree / "init").chmod(0o755)
        paths = sorted(tree.rglob("*"))
        for path in paths:
            os.utime(path, (0, 0))  # the same files give the same archive, by which a kernel is named
        with open(target, "wb") as out:
            listed = "\n".join(str(path.relative_to(tree)) for path in paths)
            argv = ["cpio", "--quiet", "--reproducible", "-o", "-H", "newc", "-R", "0:0"]
            done = subprocess.run(
                argv, cwd=tree, input=listed.encode(), stdout=out, stderr=subprocess.PIPE, check=False
            )
        if done.returncode != 0:
            raise MachineError(f"cpio: {done.stderr.decode(errors='replace').strip()}")


def unpacked(content: bytes) -> bytes:
    """Plain bytes of what may be packed by gzip, xz or zstd; anything else comes back as it is.

    Raises
    ------
    MachineError : it is packed so, and broken
    """
    try:
        if content.startswith(b"\x1f\x8b"):
            return gzip.decompress(content)
        if content.startswith(b"\xfd7zXZ\0"):
            return lzma.decompress(content)
    except (EOFError, OSError, lzma.LZMAError, zlib.error) as error:
        raise MachineError(f"cannot be unpacked: {error}") from None
    if content.startswith(b"\x28\xb5\x2f\xfd"):
        done = subprocess.run(["zstd", "-dcq"], input=content, capture_output=True, check=False)
        if done.returncode != 0:
            raise MachineError(f"zstd: {done.stderr.decode(errors='replace').strip()}")
        return done.stdout
    return content


def _dependencies(modules: Path) -> dict[str, str]:
    """What each module needs, by its path: what ``modules.dep`` says if it knows all of them, else depmod."""
    written = modules / "modules.dep"
    if written.exists():
        depends = _parsed(written.read_text())
        if all(str(path.relative_to(modules)) in depends for path in modules.rglob("*.ko*")):
            return depends
    return _parsed(_depmod(modules))


def _parsed(text: str) -> dict[str, str]:
    return dict(line.split(":", 1) for line in text.splitlines())  # type: ignore[arg-type]


def _depmod(modules: Path) -> str:
    """What depmod says of modules. It is not written beside them, because the folder is somebody else's.

    Packages bring none of it, since it is run where they are installed.
    """
    with tempfile.TemporaryDirectory(prefix="damoos-depmod-") as name:
        own = Path(name) / "usr/lib/modules" / modules.name
        own.mkdir(parents=True)
        (Path(name) / "lib").symlink_to("usr/lib")  # whichever of the two this depmod looks at
        for entry in modules.resolve().iterdir():
            if entry.is_dir() or entry.name in ("modules.order", "modules.builtin", "modules.builtin.modinfo"):
                (own / entry.name).symlink_to(entry)
        argv = ["/sbin/depmod", "-b", name, modules.name]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise MachineError(f"depmod {modules}: {done.stderr.strip()}")
        return (own / "modules.dep").read_text()
