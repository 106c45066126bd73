"""The initial RAM disk of a guest whose kernel keeps the disk's or the network's driver out of its image."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from damoos import regular_file
from damoos.common import host_programs
from damoos.common.unpack import Unpacker
from damoos.errors import ConfigError, MachineError, UnsupportedError

INIT = Path(__file__).parent / "rootfs/initrd-init"
WANTED = ("virtio_pci", "virtio_blk", "virtio_net", "nfit", "nd_pmem", "ext4", "zram", "null_blk")
# All of a guest's modules together, unpacked: they have 10 MiB, and ten times as much with what debuggers want.
_MODULES_BYTES = 256 << 20
# Debian's largest kernel has 4,500; depmod takes seconds for them.
_MOST_MODULES, _DEPMOD_S = 20_000, 300.0
_LISTS = ("modules.order", "modules.builtin", "modules.builtin.modinfo")
# The agent adds the device that a study wants.
_OPTIONS = {"zram": "num_devices=0", "null_blk": "nr_devices=0"}


def identity() -> str:
    """A name for what initial RAM disks are made of now."""
    return hashlib.sha256(json.dumps([WANTED, _OPTIONS]).encode() + INIT.read_bytes()).hexdigest()[:12]


@dataclass(frozen=True)
class Modules:
    """Modules of one kernel, as ``make modules_install`` lays them out; no link leads out of what was given.

    Parameters
    ----------
    folder : Path
        The one that is named by the release.
    root : Path
        The folder that was given, with all its links followed.
    """

    folder: Path
    root: Path

    @classmethod
    def of(cls, root: Path, release: str) -> Modules | None:
        """The modules of a release, given their folder or one above it; None if there are none."""
        below = ("", release, f"usr/lib/modules/{release}", f"lib/modules/{release}")
        for folder in (root / part for part in below):
            if folder.name == release and any(folder.rglob("*.ko*")):
                return cls(folder, root.resolve())
        return None

    def read(self, file: str) -> bytes:
        """The content of a file in their folder.

        Raises
        ------
        ConfigError : it cannot be read, or a link leads elsewhere
        """
        try:
            return regular_file.whole_below(self.root, self.folder / file, _MODULES_BYTES)
        except OSError as error:
            raise ConfigError(f"{self.folder / file}: {error.strerror}") from None


def build(modules: Modules, busybox: Path, target: Path) -> None:
    """Write an initial RAM disk with the modules that a guest needs, in load order.

    A module that depmod does not name is built in, or not there; the guest's console tells which.

    Raises
    ------
    ConfigError : a module cannot be read or unpacked, or is in another folder
    MachineError : depmod or cpio fails
    """
    depends = _dependencies(modules)
    by_name = {Path(file).name.split(".")[0].replace("-", "_"): file for file in depends}
    loaded: dict[str, bytes] = {}
    unpack = Unpacker(_MODULES_BYTES)
    for module in WANTED:
        if module not in by_name:
            continue
        # depmod lists what a module needs nearest first, so the load order is the reverse of it.
        for file in [*reversed(depends[by_name[module]].split()), by_name[module]]:
            plain = Path(file).name.split(".ko")[0]
            if plain not in loaded:
                loaded[plain] = _plain(modules, file, unpack)
    order = "".join(f"{stem}.ko {_OPTIONS.get(stem, '')}\n" for stem in loaded)
    files = {f"modules/{stem}.ko": content for stem, content in loaded.items()}
    pack({"init": INIT.read_bytes(), "modules/order": order.encode(), **files}, busybox, target)


def _plain(modules: Modules, file: str, unpack: Unpacker) -> bytes:
    """A module as the kernel takes it."""
    try:
        return unpack.packed_or_plain(modules.read(file))
    except ValueError as error:
        raise ConfigError(f"{modules.folder / file}: {error}") from None
    except FileNotFoundError:
        raise UnsupportedError(f"{modules.folder / file}: zstd is missing: apt-get install zstd") from None


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


def _dependencies(modules: Modules) -> dict[str, str]:
    """What each module needs, by its path: what ``modules.dep`` says if it knows all of them, else depmod."""
    folder = modules.folder
    if (folder / "modules.dep").exists():
        depends = _parsed(modules.read("modules.dep").decode(errors="replace"))
        if all(str(path.relative_to(folder)) in depends for path in folder.rglob("*.ko*")):
            return depends
    return _parsed(_depmod(folder))


def _parsed(text: str) -> dict[str, str]:
    lines = (line.partition(":") for line in text.splitlines())
    return {file: needed for file, colon, needed in lines if colon}


def _link_modules(folder: Path, own: Path) -> None:
    """Lay out a folder's modules in one of our own: of folders that are links, depmod would find them without end.

    Raises
    ------
    ConfigError : there are more than a kernel has
    """
    nr_modules = 0
    for place, _, names in os.walk(folder):
        there = own / Path(place).relative_to(folder)
        for name in names:
            is_list = Path(place) == folder and name in _LISTS
            if not (is_list or ".ko" in name) or not (Path(place) / name).is_file():
                continue
            nr_modules += 1
            if nr_modules > _MOST_MODULES:
                raise ConfigError(f"{folder}: it has more than {_MOST_MODULES} modules; name the folder of one kernel")
            there.mkdir(parents=True, exist_ok=True)
            (there / name).symlink_to(Path(place) / name)


def _depmod(modules: Path) -> str:
    """What depmod says of modules. It is not written beside them, because the folder is somebody else's.

    Packages bring none of it, since it is run where they are installed.
    """
    with tempfile.TemporaryDirectory(prefix="damoos-depmod-") as name:
        own = Path(name) / "usr/lib/modules" / modules.name
        own.mkdir(parents=True)
        (Path(name) / "lib").symlink_to("usr/lib")  # whichever of the two this depmod looks at
        _link_modules(modules.resolve(), own)
        argv = ["/sbin/depmod", "-b", name, modules.name]
        done = host_programs.run(argv, limit_s=_DEPMOD_S)
        if done.returncode != 0:
            raise MachineError(f"depmod {modules}: {' '.join(done.stderr.splitlines()[-3:])}")
        return (own / "modules.dep").read_text()
