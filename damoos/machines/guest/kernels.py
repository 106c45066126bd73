"""Kernels that guests can boot: Debian's own, those built by ``make kernel``, and a user's.

Each lies in a folder of the cache that is named by the hash of what it is; a name is a link to one of them.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from damoos.common import paths
from damoos.errors import ConfigError, MachineError, nearest
from damoos.machines.guest import debian, initrd
from damoos.machines.guest.image import image

DEBIAN = "debian"
DEBIAN_PACKAGE = "linux-image-6.12-cloud-amd64"
OURS = {"damoos": "6.12", "damoos-6.1": "6.1"}
"""Names that ``make kernel`` gives, and the version that each is built from."""
# How the parameter of kernel/patches is spelled in a kernel that has it.
_FLUSH_TLB = b"damon.flush_tlb\0"


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
    about : dict
        Where it comes from.
    """

    name: str
    path: Path
    release: str
    flush_tlb: bool
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


def kernel(name: str, say: Callable[[str], None] = lambda _: None) -> Kernel:
    """A kernel by its name, or by the path of a bzImage that needs no modules.

    Raises
    ------
    ConfigError : no such kernel
    """
    check(name)
    if name == DEBIAN:
        return _debian(say)
    return add(Path(name), None) if "/" in name else _load(name, (_names() / name).resolve())


def check(name: str) -> None:
    """Find out whether a kernel can be had, without fetching or booting anything.

    Raises
    ------
    ConfigError : no such kernel
    """
    if "/" in name:
        release_of(Path(name))
        return
    if name == DEBIAN or (_names() / name).exists():
        return
    if name in OURS:
        target = "make kernel" + ("" if name == "damoos" else f" VERSION={OURS[name]}")
        raise ConfigError(
            f"kernel '{name}' is not built yet; build it with '{target}', which takes about 10 minutes on 2 cores"
        )
    raise ConfigError(f"unknown kernel '{name}'{nearest(name, names())}; add one of your own with 'damoos kernel add'")


def names() -> list[str]:
    """Kernels that can be named, Debian's first, whether fetched already or not."""
    stored = [path.name for path in _names().iterdir()] if _names().exists() else []
    return [DEBIAN, *sorted(name for name in stored if name != DEBIAN)]


def add(bzimage: Path, modules: Path | None, name: str | None = None) -> Kernel:
    """Take a kernel of the user's own into the cache; without a name it is known by its path only.

    Raises
    ------
    ConfigError : the name is taken by damoos, or a file is not what it should be
    """
    if name is not None and (name in (DEBIAN, *OURS) or not name.replace("-", "").replace(".", "").isalnum()):
        raise ConfigError(
            f"'{name}' is not a valid kernel name: use letters, digits, '-' and '.', and no name of"
            " damoos's own kernels"
        )
    about = {"origin": "added", "bzimage": str(bzimage.resolve())}
    return store(bzimage, modules, about, name)


def remove(name: str) -> None:
    """Forget a name, and the kernel itself if no other name leads to it.

    Raises
    ------
    ConfigError : no such kernel
    """
    link = _names() / name
    if not link.is_symlink():
        raise ConfigError(f"unknown kernel '{name}'{nearest(name, names())}")
    target = link.resolve()
    link.unlink()
    if not any(other.resolve() == target for other in _names().iterdir()):
        shutil.rmtree(target, ignore_errors=True)


def store(bzimage: Path, modules: Path | None, about: dict[str, Any], name: str | None) -> Kernel:
    """Lay a kernel into the cache, unpacked, with an initial RAM disk if it has modules."""
    release = release_of(bzimage)
    content = bzimage.read_bytes()
    digest = hashlib.sha256(content)
    with tempfile.TemporaryDirectory(prefix="kernel-", dir=_made(_place())) as folder:
        draft = Path(folder) / "draft"
        draft.mkdir()
        (draft / "bzImage").write_bytes(content)
        plain = unpack(content)
        if plain:
            (draft / "vmlinux").write_bytes(plain)
        if modules:
            initrd.build(initrd.modules_of(modules, release), image().busybox, draft / "initrd")
            digest.update((draft / "initrd").read_bytes())
        target = _place() / f"{release}-{digest.hexdigest()[:12]}"
        shown = {"release": release, "flush_tlb": _FLUSH_TLB in (plain or b""), "about": about}
        (draft / "kernel.json").write_text(json.dumps(shown, indent=2) + "\n")
        if not target.exists():
            draft.replace(target)
        elif about["origin"] != "added":  # one that was built or fetched keeps the record of it under any name
            (draft / "kernel.json").replace(target / "kernel.json")
    if name is not None:
        _link(name, target)
    return _load(name or str(bzimage), target)


def release_of(bzimage: Path) -> str:
    """``uname -r`` of a kernel that is not running.

    Raises
    ------
    ConfigError : the file is not a bzImage

    References
    ----------
    Documentation/arch/x86/boot.rst: "HdrS" at 0x202, kernel_version at 0x20e
    """
    try:
        content = bzimage.read_bytes()
    except OSError as error:
        raise ConfigError(f"{bzimage}: {error.strerror}") from None
    if content[0x202:0x206] != b"HdrS":
        raise ConfigError(f"{bzimage}: not an x86 bzImage (arch/x86/boot/bzImage of a build)")
    (offset,) = struct.unpack_from("<H", content, 0x20E)
    return content[offset + 0x200 :].split(b"\0", 1)[0].decode(errors="replace").split(" ")[0]


def unpack(bzimage: bytes) -> bytes | None:
    """The ELF image inside a bzImage; None if it is packed in a way that only the kernel itself unpacks.

    References
    ----------
    Documentation/arch/x86/boot.rst: setup_sects at 0x1f1, payload_offset and payload_length at 0x248
    """
    setup_bytes = ((bzimage[0x1F1] or 4) + 1) * 512
    offset, length = struct.unpack_from("<II", bzimage, 0x248)
    payload = bzimage[setup_bytes + offset : setup_bytes + offset + length]
    try:
        # All but gzip are followed by the plain size, one word of four bytes.
        plain = initrd.unpacked(payload if payload.startswith(b"\x1f\x8b") else payload[:-4])
    except MachineError:
        return None
    return plain if plain.startswith(b"\x7fELF") else None


def _debian(say: Callable[[str], None]) -> Kernel:
    link = _names() / DEBIAN
    if not link.exists():
        with paths.locked(_place()):  # a second damoos waits for the first one's kernel
            if not link.exists():
                say("fetching Debian's 6.12 cloud kernel, once")
                _fetch_debian()
    return _load(DEBIAN, link.resolve())


def _fetch_debian() -> None:
    debian.refresh(image().sources)
    package = debian.fetch(debian.newest_of(DEBIAN_PACKAGE), _made(_place() / "source"))
    with tempfile.TemporaryDirectory(prefix="deb-", dir=_made(_place())) as folder:
        done = subprocess.run(["dpkg-deb", "-x", package.path, folder], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise MachineError(f"dpkg-deb: {done.stderr.strip()}")
        (bzimage,) = Path(folder).glob("boot/vmlinuz-*")
        tree = Path(folder)
        if (tree / "usr/lib/modules").exists():
            tree = tree / "usr"
        about = {"origin": "debian", "package": package.path.name, "version": package.version, "sha256": package.sha256}
        stored = store(bzimage, tree, about, DEBIAN)
        (config,) = Path(folder).glob("boot/config-*")
        shutil.copy(config, stored.path / "config")
    package.path.unlink()


def _load(name: str, path: Path) -> Kernel:
    return Kernel(name, path, **json.loads((path / "kernel.json").read_text()))


def _link(name: str, target: Path) -> None:
    draft = _made(_names()) / f".{name}"
    draft.unlink(missing_ok=True)
    draft.symlink_to(Path("..") / target.name)
    draft.replace(_names() / name)


def _place() -> Path:
    return paths.cache() / "kernels"


def _names() -> Path:
    return _place() / "names"


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder
