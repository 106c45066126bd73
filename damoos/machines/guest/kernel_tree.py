"""A kernel as distributions pack it: its image, modules and configuration, in package files or unpacked.

Debian's packages keep the image in ``boot/vmlinuz-RELEASE``, or since 7.2 in ``usr/lib/modules/RELEASE/vmlinuz``, as
Fedora's and Arch's do.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from damoos import regular_file
from damoos.common import host_programs
from damoos.errors import ConfigError, MachineError
from damoos.machines.guest.initrd import Modules
from damoos.machines.guest.kernel_image import KernelImage

_IMAGES = ("boot/vmlinuz-*", "usr/lib/modules/*/vmlinuz", "lib/modules/*/vmlinuz")
_CONFIGS = ("boot/config-{}", "usr/lib/modules/{}/config", "lib/modules/{}/config")
_CONFIG_BYTES = 4 << 20


@dataclass(frozen=True)
class KernelTree:
    """The parts of one kernel.

    Parameters
    ----------
    image : KernelImage
    modules : Modules or None
        None where all is built in.
    config : bytes or None
        How it was configured.
    """

    image: KernelImage
    modules: Modules | None
    config: bytes | None

    @classmethod
    def of(cls, folder: Path) -> KernelTree:
        """The one kernel in a folder.

        Raises
        ------
        ConfigError : there is none, or there are several, or a link leads out of the folder
        """
        root = folder.resolve()
        images = {
            image.release: image
            for pattern in _IMAGES
            for image in (KernelImage.read(path, root) for path in folder.glob(pattern))
        }
        if len(images) != 1:
            found = ", ".join(sorted(images)) or "none"
            raise ConfigError(f"{folder}: one kernel is wanted ({', '.join(_IMAGES)}), found: {found}")
        ((release, image),) = images.items()
        configs = (folder / pattern.format(release) for pattern in _CONFIGS)
        config = next((path for path in configs if path.is_file()), None)
        return cls(image, Modules.of(folder, release), None if config is None else _config(root, config))


def _config(root: Path, path: Path) -> bytes:
    try:
        return regular_file.whole_below(root, path, _CONFIG_BYTES)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None


@contextmanager
def unpacked(packages: Sequence[Path], place: Path) -> Iterator[KernelTree]:
    """The kernel in package files, which are unpacked for as long as the block lasts, or in the one folder given.

    Parameters
    ----------
    place : Path
        Folder for what is unpacked.

    Raises
    ------
    ConfigError : a file is no package, or there is not just one kernel in them
    """
    if len(packages) == 1 and packages[0].is_dir():
        yield KernelTree.of(packages[0])
        return
    with tempfile.TemporaryDirectory(prefix="packages-", dir=place) as folder:
        for package in packages:
            _unpack(package, folder)
        yield KernelTree.of(Path(folder))


def _unpack(package: Path, folder: str) -> None:
    if not package.is_file():
        raise ConfigError(f"{package}: no such package file, or a folder beside other packages")
    try:
        done = host_programs.run(["dpkg-deb", "-x", str(package.absolute()), folder])
    except FileNotFoundError:
        raise MachineError(
            "dpkg-deb is missing: apt-get install dpkg, or unpack the packages and give the folder"
        ) from None
    if done.returncode != 0:
        raise ConfigError(f"{package}: {done.stderr.strip()}; unpack packages of another kind and give the folder")
