"""Kernels that guests can boot: Debian's own, those built by ``make kernel``, and a user's.

``NAME:ARCHITECTURE`` is Debian's kernel for another architecture than this host's: ``debian:arm64``. Each lies in a
folder of the cache that is named by the hash of what it is; a name is a link to one of them.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field, JsonValue, field_validator

from damoos.common import atomic_file, own_file, paths
from damoos.common.json_file import Damage, JsonForm
from damoos.errors import ConfigError, MachineError, nearest
from damoos.machines.guest import debian, initrd, kernel_tree
from damoos.machines.guest.architecture import ALL, AMD64, ARM64, host, split
from damoos.machines.guest.image import image
from damoos.machines.guest.initrd import Modules
from damoos.machines.guest.kernel_image import KernelImage
from damoos.machines.guest.kernel_tree import KernelTree
from damoos.ownership import close_folder, make_folders

DEBIAN, DEBIAN_NEWEST = "debian", "debian-newest"
SERIES = {DEBIAN: "6.12", DEBIAN_NEWEST: ""}
"""Names of Debian's kernels, and the series that each is the newest of. ``debian-7.2`` is the newest 7.2."""
OURS = {"damoos": "7.3", "damoos-6.12": "6.12", "damoos-6.1": "6.1"}
"""Names that ``make kernel`` gives, and the version that each is built from."""
_OF_DEBIAN = re.compile(r"debian-(\d+(?:\.\d+)*)")
_FILES = ("kernel.json", "bzImage", "vmlinux", "initrd")
# How the parameter of kernel/patches is spelled in a kernel that has it.
_FLUSH_TLB = b"damon.flush_tlb\0"
# Names of drivers, in an image or among the modules of an initial RAM disk.
_PMEM, _VMGENID = (b"nd_pmem\0", b"modules/nd_pmem.ko"), (b"vmgenid\0",)


@dataclass(frozen=True)
class Kernel:
    """A kernel in the cache.

    Parameters
    ----------
    name : str
    path : Path
        Its folder; the folder's name is the kernel's identity in provenance.
    release : str
        ``uname -r``.
    flush_tlb : bool
        Whether DAMON can flush the TLB entries of the pages whose accessed bits it clears (kernel/patches).
    pmem : bool
        Whether its root disk can be memory of the host's (an NVDIMM).
    vmgenid : bool
        Whether it seeds its random numbers anew when it goes on from a snapshot.
    architecture : str
        Name of the architecture that it runs on.
    about : dict
        Where it comes from.
    """

    name: str
    path: Path
    release: str
    flush_tlb: bool
    pmem: bool = False
    vmgenid: bool = False
    architecture: str = AMD64.name
    about: dict[str, Any] = field(default_factory=dict)

    @property
    def bootable(self) -> Path:
        """What QEMU is given: unpacked where that could be done, which saves a guest a second of it at each boot."""
        unpacked = self.path / "vmlinux"
        return unpacked if unpacked.exists() else self.path / "bzImage"

    @property
    def initrd(self) -> Path | None:
        """Initial RAM disk, for a kernel that needs modules to find its disk."""
        path = self.path / "initrd"
        return path if path.exists() else None

    @property
    def identity(self) -> str:
        """Name of this kernel's content."""
        return self.path.name


class _Record(BaseModel):
    """What ``kernel.json`` has of a kernel; a newer damoos may have told more."""

    release: str
    flush_tlb: bool
    pmem: bool = False
    vmgenid: bool = False
    architecture: str = AMD64.name
    about: dict[str, JsonValue] = Field(default_factory=dict)

    @field_validator("architecture")
    @classmethod
    def _is_known(cls, name: str) -> str:
        if name not in ALL:
            raise ValueError(f"'{name}' is none of {', '.join(ALL)}")
        return name


_RECORD = JsonForm(_Record, 1 << 20)


def kernel(name: str, say: Callable[[str], None] = lambda _: None) -> Kernel:
    """A kernel by its name, or by the path of a bzImage that needs no modules.

    Raises
    ------
    ConfigError : no such kernel
    """
    check(name)
    if "/" in name:
        return add(Path(name), None)
    if not _is_ready(name):
        with paths.locked(_place()):  # a second damoos waits for the first one's kernel
            if not _is_ready(name):
                _make_ready(name, say)
    return _load(name, (_names() / name).resolve())


def fetch(name: str, say: Callable[[str], None] = lambda _: None) -> Kernel:
    """Bring the newest of one of Debian's kernels; the one that had the name is kept under its version's.

    Raises
    ------
    ConfigError : no name of Debian's kernels
    MachineError : the archive cannot be reached
    """
    if series_of(name) is None:
        raise ConfigError(
            f"'{name}' is no kernel of Debian's: {', '.join(SERIES)}, or debian-VERSION, and :arm64 behind it"
        )
    with paths.locked(_place()):
        return _fetch_newest(name, say)


def _fetch_newest(name: str, say: Callable[[str], None]) -> Kernel:
    """Fetch a kernel of Debian's; the one before it keeps the name of its version, if it has another version."""
    former = _former(name)
    _fetch(name, say)
    stored = _load(name, (_names() / name).resolve())
    if former and former.release != stored.release:
        _, colon, architecture = name.partition(":")
        _link(f"debian-{former.release.split('+')[0]}{colon}{architecture}", former.path)
    return stored


def _former(name: str) -> Kernel | None:
    """What has a name so far; None where nothing has, or what has is broken."""
    try:
        return _load(name, (_names() / name).resolve()) if (_names() / name).exists() else None
    except ConfigError:
        return None


def _is_ready(name: str) -> bool:
    """Whether a kernel is in the cache, and has the initial RAM disk that guests are given now.

    Debian's newest kernel of a series is fetched anew if it was fetched by a damoos that made another one. A kernel
    with a version in its name, and one of the user's, stays as it is.
    """
    if not (_names() / name).exists():
        return False
    if split(name)[0] not in SERIES:
        return True
    try:
        about = _load(name, (_names() / name).resolve()).about
    except ConfigError:  # it is broken, and can be fetched anew
        return False
    return about.get("initrd") == initrd.identity()


def _make_ready(name: str, say: Callable[[str], None]) -> None:
    """Fetch a kernel that is not in the cache, or has an old initial RAM disk; the latter can do, if need be."""
    is_here = (_names() / name).exists()
    try:
        _fetch_newest(name, say)
    except MachineError as error:
        if not is_here:
            raise
        say(f"kernel '{name}' in the cache has an old initial RAM disk, and cannot be fetched anew: {error}")


def series_of(name: str) -> str | None:
    """The series that a name of Debian's kernels stands for; None for other names."""
    stem, _ = split(name)
    match = _OF_DEBIAN.fullmatch(stem)
    return SERIES.get(stem, match[1] if match else None)


def check(name: str) -> None:
    """Find out whether a kernel can be had, without fetching or booting anything.

    Raises
    ------
    ConfigError : no such kernel
    """
    if "/" in name:
        KernelImage.read(Path(name))
        return
    if series_of(name) is not None or (own_file.is_file_name(name) and (_names() / name).exists()):
        return
    if name in OURS:
        target = "make kernel" + ("" if name == "damoos" else f" VERSION={OURS[name]}")
        raise ConfigError(
            f"kernel '{name}' is not built yet; build it with '{target}', which takes about 10 minutes on 2 cores"
        )
    raise ConfigError(f"unknown kernel '{name}'{nearest(name, names())}; add one of your own with 'damoos kernel add'")


def names() -> list[str]:
    """Kernels that can be named, Debian's first, whether fetched already or not."""
    stored = [path.name for path in _names().iterdir() if path.exists()] if _names().exists() else []
    return [*SERIES, *sorted(name for name in stored if name not in SERIES)]


def add(bzimage: Path, modules: Path | None, name: str | None = None) -> Kernel:
    """Take a kernel of the user's own into the cache; without a name it is known by its path only.

    Raises
    ------
    ConfigError : the name is taken by damoos, or a file is not what it should be
    """
    _check_own(name)
    return store(bzimage, modules, {"origin": "added", "bzimage": str(bzimage.resolve())}, name)


def add_packages(packages: Sequence[Path], name: str) -> Kernel:
    """Take a kernel as a distribution packs it: package files of Debian's kind, or the folder of unpacked ones.

    Raises
    ------
    ConfigError : the name is taken by damoos, or there is not just one kernel in the packages
    """
    _check_own(name)
    about = {"origin": "added", "packages": [str(package.resolve()) for package in packages]}
    with kernel_tree.unpacked(packages, _made(_place())) as tree:
        return _store_tree(tree, about, name)


def _check_own(name: str | None) -> None:
    """Refuse what is no name for a kernel of the user's."""
    if name is None:
        return
    if name in OURS or series_of(name) is not None or not name.replace("-", "").replace(".", "").isalnum():
        raise ConfigError(
            f"'{name}' is not a valid kernel name: use letters, digits, '-' and '.', and no name of"
            " damoos's own kernels"
        )


def remove(name: str) -> str:
    """Forget a name, and the kernel itself if no other name leads to it; returns what was done, in a sentence.

    Raises
    ------
    ConfigError : no such kernel
    """
    link = _names() / name
    if not own_file.is_file_name(name) or not link.is_symlink():
        raise ConfigError(f"unknown kernel '{name}'{nearest(name, names())}")
    target = link.resolve()
    link.unlink()
    others = [other.name for other in _names().iterdir() if other.resolve() == target]
    if others:
        return f"'{name}' is forgotten; the kernel stays, as '{others[0]}'"
    shutil.rmtree(target, ignore_errors=True)
    again = "; it is fetched again when a guest wants it" if name in SERIES else ""
    return f"kernel '{name}' ({target.name}) is removed{again}"


def store(bzimage: Path, modules: Path | None, about: dict[str, Any], name: str | None) -> Kernel:
    """Lay a kernel into the cache, unpacked, with an initial RAM disk if it has modules.

    Raises
    ------
    ConfigError : a file is not what it should be
    """
    read = KernelImage.read(bzimage)
    return _store(read, None if modules is None else _modules_of(modules, read.release), about, name)


def _modules_of(folder: Path, release: str) -> Modules:
    if (modules := Modules.of(folder, release)) is None:
        raise ConfigError(
            f"{folder}: holds no modules of {release}; give the folder that 'make modules_install' filled"
        )
    return modules


def _store(bzimage: KernelImage, modules: Modules | None, about: dict[str, Any], name: str | None) -> Kernel:
    architecture = ARM64 if bzimage.is_arm64 else AMD64
    digest = hashlib.sha256(bzimage.content)
    plain, ramdisk = bzimage.unpacked() or b"", b""
    with tempfile.TemporaryDirectory(prefix="kernel-", dir=_made(_place())) as folder:
        draft = Path(folder) / "draft"
        draft.mkdir()
        (draft / "bzImage").write_bytes(bzimage.content)
        if plain:
            (draft / "vmlinux").write_bytes(plain)
        if modules:
            initrd.build(modules, image(architecture=architecture).busybox, draft / "initrd")
            ramdisk = (draft / "initrd").read_bytes()
            digest.update(ramdisk)
        target = _place() / f"{bzimage.release}-{digest.hexdigest()[:12]}"
        shown = {
            "release": bzimage.release,
            "flush_tlb": _FLUSH_TLB in plain,
            "pmem": any(name in part for name in _PMEM for part in (plain, ramdisk)),
            "vmgenid": any(name in part for name in _VMGENID for part in (plain, ramdisk)),
            "architecture": architecture.name,
            "about": about,
        }
        (draft / "kernel.json").write_text(json.dumps(shown, indent=2) + "\n")
        close_folder(draft, _place())
        if not target.exists():
            draft.replace(target)
        elif about["origin"] != "added":  # one that was built or fetched keeps the record of it under any name
            (draft / "kernel.json").replace(target / "kernel.json")
    if name is not None:
        _link(name, target)
    return _load(name or str(bzimage.path), target.resolve())


def _fetch(name: str, say: Callable[[str], None]) -> None:
    """Fetch the newest kernel of a name of Debian's."""
    stem, architecture = split(name)
    foreign = "" if architecture == host() else f" for {architecture.name}"
    say(f"fetching Debian's {series_of(name) or 'newest'} cloud kernel{foreign}, once")
    sources = image(say, architecture=architecture).sources
    with debian.archive(sources if stem == DEBIAN else debian.with_backports(sources), architecture) as archive:
        names = archive.kernel_packages(series_of(name) or "")
        packages = [archive.fetch(one, _made(_place() / "source")) for one in names]
    about = {
        "origin": "debian",
        "packages": {package.path.name: package.sha256 for package in packages},
        "version": packages[0].version,
        "initrd": initrd.identity(),
    }
    with kernel_tree.unpacked([package.path for package in packages], _made(_place())) as tree:
        _store_tree(tree, about, name)
    for package in packages:
        package.path.unlink()


def _store_tree(tree: KernelTree, about: dict[str, Any], name: str) -> Kernel:
    stored = _store(tree.image, tree.modules, about, name)
    if tree.config:
        atomic_file.fill(stored.path / "config", [tree.config], mode=0o644)
    return stored


def _check_files(name: str, path: Path) -> None:
    """Refuse a kernel that lies elsewhere, or whose files others can have made or changed: QEMU gets them."""
    if path.parent != _place().resolve():
        raise ConfigError(
            f"kernel '{name}' leads out of the cache, to {path}; remove it with 'damoos kernel remove {name}', and add"
            " it again"
        )
    for part in _FILES:
        paths.file("kernels", path.name, part)


def _load(name: str, path: Path) -> Kernel:
    _check_files(name, path)
    told: dict[str, Any] | Damage | str
    try:
        told = _RECORD.read(path / "kernel.json")
    except OSError as error:
        told = f"{path / 'kernel.json'}: {error.strerror}"
    if not isinstance(told, dict):
        raise ConfigError(
            f"kernel '{name}' is broken in the cache ({told}); remove it with 'damoos kernel remove {name}'"
        )
    return Kernel(name, path, **{key: value for key, value in told.items() if key in _Record.model_fields})


def _link(name: str, target: Path) -> None:
    draft = _made(_names()) / f".{name}"
    draft.unlink(missing_ok=True)
    draft.symlink_to(Path("..") / target.name)
    draft.replace(_names() / name)


def _place() -> Path:
    return paths.program("kernels")


def _names() -> Path:
    return paths.program("kernels", "names")


def _made(folder: Path) -> Path:
    make_folders(folder)
    return folder
