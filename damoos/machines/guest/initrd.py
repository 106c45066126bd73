"""The initial RAM disk of a guest whose kernel keeps the disk's or the network's driver out of its image."""

from __future__ import annotations

import gzip
import lzma
import os
import shutil
import subprocess
import tempfile
import zlib
from pathlib import Path

from damoos.errors import ConfigError, MachineError

INIT = Path(__file__).parent / "rootfs/initrd-init"
WANTED = ("virtio_pci", "virtio_blk", "virtio_net", "ext4", "zram")
_OPTIONS = {"zram": "num_devices=0"}  # the agent adds the device that a study wants


def modules_of(folder: Path, release: str) -> Path:
    """The folder of one release's modules, given it or one above it, as ``make modules_install`` lays them out.

    Raises
    ------
    ConfigError : there is none for this release
    """
    for path in (folder, folder / release, folder / "lib/modules" / release, folder / "usr/lib/modules" / release):
        if path.name == release and path.is_dir():
            if not (path / "modules.dep").exists():
                _depmod(path)
            return path
    raise ConfigError(f"{folder}: holds no modules of {release}; give the folder that 'make modules_install' filled")


def build(modules: Path, busybox: Path, target: Path) -> None:
    """Write an initial RAM disk with the modules that a guest needs, in load order.

    A module that ``modules.dep`` does not name is built in, or not there; the guest's console tells which.
    """
    depends = dict(line.split(":", 1) for line in (modules / "modules.dep").read_text().splitlines())
    by_name = {Path(file).name.split(".")[0].replace("-", "_"): file for file in depends}
    with tempfile.TemporaryDirectory(prefix="damoos-initrd-") as name:
        tree = Path(name)
        for part in ("bin", "dev", "proc", "root", "modules"):
            (tree / part).mkdir()
        shutil.copy(busybox, tree / "bin/busybox")
        shutil.copy(INIT, tree / "init")
        (tree / "init").chmod(0o755)
        order: list[str] = []
        for module in WANTED:
            if module not in by_name:
                continue
            # modules.dep lists what a module needs nearest first, so the load order is the reverse of it.
            for file in [*reversed(depends[by_name[module]].split()), by_name[module]]:
                plain = Path(file).name.split(".ko")[0]
                if plain not in order:
                    order.append(plain)
                    (tree / f"modules/{plain}.ko").write_bytes(unpacked((modules / file).read_bytes()))
        (tree / "modules/order").write_text("".join(f"{stem}.ko {_OPTIONS.get(stem, '')}\n" for stem in order))
        paths = sorted(tree.rglob("*"))
        for path in paths:
            os.utime(path, (0, 0))  # the same files give the same archive, by which a kernel is named
        with open(target, "wb") as out:
            files = "\n".join(str(path.relative_to(tree)) for path in paths)
            argv = ["cpio", "--quiet", "--reproducible", "-o", "-H", "newc", "-R", "0:0"]
            done = subprocess.run(argv, cwd=tree, input=files.encode(), stdout=out, stderr=subprocess.PIPE, check=False)
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


def _depmod(modules: Path) -> None:
    if modules.parent.name != "modules" or modules.parent.parent.name != "lib":
        raise ConfigError(f"{modules}: has no modules.dep; run depmod")
    argv = ["/sbin/depmod", "-b", str(modules.parents[2]), modules.name]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise MachineError(f"depmod: {done.stderr.strip()}")
