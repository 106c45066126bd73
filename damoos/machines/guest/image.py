"""The guest's disk image, built once into the cache. No root is needed.

mmdebstrap makes a Debian tree in a user namespace; ``mke2fs -d`` turns the tree into an ext4 image. Where user
namespaces are forbidden, as in many containers and in any chroot, root builds without one. The folder is named by the
hash of everything that goes in. Kernels lie elsewhere (`damoos.machines.guest.kernels`): any of them boots it.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from damoos.common import host_programs, paths
from damoos.common.cache import mark_used
from damoos.errors import ConfigError, MachineError, UnsupportedError
from damoos.machines.guest.architecture import Architecture, host
from damoos.model import package_names
from damoos.ownership import close_folder

ROOTFS = Path(__file__).parent / "rootfs"
SUITE = "bookworm"
PACKAGES = ("openssh-server", "python3-minimal", "libpython3-stdlib", "busybox-static")
TOOLS = {
    "mmdebstrap": "mmdebstrap",
    "mke2fs": "e2fsprogs",
    "depmod": "kmod",
    "cpio": "cpio",
    "zstd": "zstd",
    "apt-get": "apt",
    "dpkg-deb": "dpkg",
    "ssh-keygen": "openssh-client",
    "newuidmap": "uidmap",
}
_FREE_BYTES = 2 << 30
# What QEMU, the guest or SSH takes of an image.
_TRUSTED = ("root.ext4", "busybox", "sources.list", "user_key", "host_key.pub")
_IN_IMAGE = ("rc", "inittab", "sshd_config")
_NAMESPACE = ("unshare", "--map-root-user")
# Lays the tree out and packs it; runs as root, be it of a user namespace, so that all files belong to root.
_PACK = """
set -eu
tree=$1 out=$2 rootfs=$3
tar -x --no-same-owner --exclude='./dev/*' -f "$out/root.tar" -C "$tree"
mkdir "$tree/etc/damoos"
cp "$tree/bin/busybox" "$tree/etc/apt/sources.list" "$out/"
ln -s ../bin/busybox "$tree/sbin/init"
install -m 755 "$rootfs/rc" "$tree/etc/damoos/rc"
install -m 644 "$rootfs/sshd_config" "$tree/etc/damoos/sshd_config"
install -m 644 "$rootfs/inittab" "$tree/etc/inittab"
rm -f "$tree"/etc/ssh/ssh_host_*
install -m 600 "$out/host_key" "$tree/etc/ssh/ssh_host_ed25519_key"
install -d -m 700 "$tree/root/.ssh"
install -m 600 "$out/user_key.pub" "$tree/root/.ssh/authorized_keys"
mkdir "$tree/opt/damoos"
echo "127.0.0.1 localhost damoos-guest" > "$tree/etc/hosts"
# Mostly a hole: what a run writes goes to QEMU's throw-away snapshot.
mke2fs -q -t ext4 -O '^has_journal' -m 0 -d "$tree" "$out/root.ext4" 3G
rm "$out/root.tar"
"""
# Debian compiles only the part of Python's library that python3-minimal has. Each guest would compile the rest anew
# when the agent imports it, which takes 1 s of a host's CPU under emulation.
_COMPILE = 'chroot "$1" sh -c "python3 -m compileall -q /usr/lib/python3.*"'
# Packages of another architecture are unpacked and not configured, because nothing of theirs can run here. This does
# what their scripts would: folders of the root are links into /usr, there are users, and folders that begin empty.
_MERGED = 'for d in bin sbin lib; do mkdir -p "$1/usr/$d"; ln -s "usr/$d" "$1/$d"; done'
_USERS = (
    'for f in passwd group; do cp "$1/usr/share/base-passwd/$f.master" "$1/etc/$f"; done; '
    'echo "sshd:x:100:65534::/run/sshd:/usr/sbin/nologin" >> "$1/etc/passwd"; '
    'cp "$1/usr/share/base-files/nsswitch.conf" "$1/etc/"; ln -sf dash "$1/usr/bin/sh"; '
    'mkdir -p "$1/opt"; mkdir -p -m 700 "$1/root"'
)


@dataclass(frozen=True)
class Image:
    """A built image's folder."""

    path: Path

    @property
    def busybox(self) -> Path:
        """The guest's init and shell, statically linked; initial RAM disks hold it too."""
        return self.path / "busybox"

    @property
    def sources(self) -> str:
        """The archives that mmdebstrap took the image's packages from, as lines of a sources.list."""
        return (self.path / "sources.list").read_text()

    @property
    def disk(self) -> Path:
        """Root disk, never written to."""
        return self.path / "root.ext4"

    @property
    def user_key(self) -> Path:
        """Private key that opens the guest."""
        return self.path / "user_key"

    def known_hosts(self, port: int) -> str:
        """The known_hosts line that pins this image's host key to a port of loopback."""
        kind, key, *_ = (self.path / "host_key.pub").read_text().split()
        return f"[127.0.0.1]:{port} {kind} {key}\n"

    @property
    def identity(self) -> str:
        """Name of this image in provenance."""
        return self.path.name


def check_tools(architecture: Architecture | None = None) -> None:
    """Make sure that everything a guest needs of this host is there; of this host's architecture if none is given.

    Raises
    ------
    UnsupportedError : names all that is missing and how to install it
    """
    chosen, search = architecture or host(), host_programs.search_path()
    tools = {**TOOLS, chosen.qemu: chosen.qemu_package}
    missing = sorted({package for tool, package in tools.items() if not shutil.which(tool, path=search)})
    if missing:
        raise UnsupportedError(f"the guest machine needs packages: apt-get install {' '.join(missing)}")


def image(
    say: Callable[[str], None] = lambda _: None,
    packages: Collection[str] = (),
    architecture: Architecture | None = None,
) -> Image:
    """The image with some more of Debian's packages, built if the cache has none that fits.

    Parameters
    ----------
    architecture : Architecture or None
        This host's where it is None.

    Raises
    ------
    ConfigError : a word is not the name of a package, or another user can have changed the image
    MachineError, UnsupportedError : it cannot be built
    """
    base = paths.program("guest")
    more, chosen = _checked(packages), architecture or host()
    foreign = "" if chosen == host() else f"-{chosen.name}"
    target = base / f"{SUITE}{foreign}-{_recipe_hash(more, chosen)}"
    if not (target / "done").exists():
        with paths.locked(base):  # a second damoos waits for the first one's image
            if not (target / "done").exists():
                having = f" with {', '.join(more)}" if more else ""
                having += f" for {chosen.name}" if foreign else ""
                say(f"building the guest image, a small Debian{having}: once, about a minute")
                _build(target, more, chosen)
    for part in _TRUSTED:
        paths.file("guest", target.name, part)
    mark_used(target)
    return Image(target)


def _checked(packages: Collection[str]) -> tuple[str, ...]:
    """Names of packages, sorted. Files check theirs; a package of Python's can provide others."""
    try:
        return tuple(sorted(map(package_names.check, packages)))
    except ValueError as error:
        raise ConfigError(f"the guest image: {error}") from None


def _recipe_hash(more: tuple[str, ...], architecture: Architecture) -> str:
    how = [_COMPILE] if architecture == host() else [architecture.name, _MERGED, _USERS]
    recipe = hashlib.sha256(json.dumps([SUITE, PACKAGES + more, _PACK, *how]).encode())
    for source in sorted(path for path in ROOTFS.iterdir() if path.name in _IN_IMAGE):
        recipe.update(source.name.encode() + b"\0" + source.read_bytes())
    return recipe.hexdigest()[:16]


def _build(target: Path, more: tuple[str, ...], architecture: Architecture) -> None:
    check_tools(architecture)
    if shutil.disk_usage(target.parent).free < _FREE_BYTES:
        raise MachineError(f"{target.parent}: less than 2 GiB free for the guest image; set DAMOOS_CACHE elsewhere")
    with tempfile.TemporaryDirectory(prefix="build-", dir=target.parent) as name:
        work = Path(name)
        draft = work / "image"
        draft.mkdir()
        for key in ("host_key", "user_key"):
            _do("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "damoos", "-f", str(draft / key))
        as_root = _as_root()
        _debootstrap(draft / "root.tar", more, "unshare" if as_root else "root", architecture)
        tree = work / "tree"
        tree.mkdir()
        _do(*as_root, "sh", "-c", _PACK, "pack", str(tree), str(draft), str(ROOTFS))
        (draft / "done").touch()
        _do(*as_root, "rm", "-rf", str(tree))
        close_folder(draft, target.parent)
        draft.replace(target)


def _as_root() -> tuple[str, ...]:
    """Words before a command that is to run as root: those that make a user namespace, or none.

    Raises
    ------
    UnsupportedError : this host forbids user namespaces, and this user is not root
    """
    tried = host_programs.run([*_NAMESPACE, "true"])
    if tried.returncode == 0:
        return _NAMESPACE
    if os.geteuid() != 0:
        raise UnsupportedError(
            f"building the guest image needs user namespaces, which this host forbids ({tried.stderr.strip()}); allow"
            " them (sysctl user.max_user_namespaces), or run 'damoos setup' once as root with DAMOOS_CACHE set to a new"
            " folder, give that to your user (chown -R), and set DAMOOS_CACHE to it, too"
        )
    return ()


def _debootstrap(tar: Path, more: tuple[str, ...], mode: str, architecture: Architecture) -> None:
    leave_out = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*", "/usr/share/info/*")
    if architecture == host():
        # Packages with alternatives (Java's) fail where the folder of their manual pages is missing.
        pages = '--essential-hook=mkdir -p "$1/usr/share/man/man1"'
        how = ["--variant=minbase", pages, f"--customize-hook={_COMPILE}"]
    else:
        how = [
            "--variant=extract",
            "--include=?essential",
            "--include=?priority(required)",
            f"--architectures={architecture.name}",
            f"--setup-hook={_MERGED}",
            f"--extract-hook={_USERS}",
        ]
    _do(
        "mmdebstrap",
        "--quiet",
        f"--mode={mode}",
        f"--include={','.join(PACKAGES + more)}",
        '--aptopt=Apt::Install-Recommends "false"',
        *(f"--dpkgopt=path-exclude={pattern}" for pattern in leave_out),
        *how,
        SUITE,
        str(tar),
    )


def _do(*argv: str) -> None:
    done = host_programs.run(argv)
    if done.returncode != 0:
        last = " | ".join(done.stderr.strip().splitlines()[-3:])
        raise MachineError(f"building the guest image: {argv[0]} ended with {done.returncode}: {last}")
