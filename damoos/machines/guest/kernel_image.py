"""What a kernel's image file tells of itself."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from pathlib import Path

from damoos import regular_file
from damoos.common.terminal import printable
from damoos.common.unpack import TooMuch, Unpacker
from damoos.errors import ConfigError

_BANNER = b"Linux version "
# Of an image, and of the version in it with who has built it where; kernels have 10 to 60 MiB.
_MOST_BYTES, _VERSION_BYTES = 256 << 20, 512
_X86_HEADER_BYTES = 0x250
# Folders and files are named by it.
_RELEASE = re.compile(r"[0-9][A-Za-z0-9.+~_-]{0,63}")


@dataclass(frozen=True)
class KernelImage:
    """An image of a kernel that is not running, as `read` has found it.

    Parameters
    ----------
    path : Path
    content : bytes
    release : str
        ``uname -r``.
    is_arm64 : bool
        Whether it is an Image of arm64, not packed; else it is a bzImage of x86.
    """

    path: Path
    content: bytes
    release: str
    is_arm64: bool

    @classmethod
    def read(cls, path: Path, folder: Path | None = None) -> KernelImage:
        """Read a file.

        Parameters
        ----------
        folder : Path or None
            With all its links followed; no link of somebody else's leads out of it.

        Raises
        ------
        ConfigError : the file is neither a bzImage of x86 nor an Image of arm64, or its version is none of a kernel

        References
        ----------
        Documentation/arch/x86/boot.rst: "HdrS" at 0x202, kernel_version at 0x20e; Documentation/arch/arm64/booting.rst:
        "ARM" and 0x64 at 56
        """
        try:
            if folder is None:
                content = regular_file.whole(path, _MOST_BYTES)
            else:
                content = regular_file.whole_below(folder, path, _MOST_BYTES)
        except OSError as error:
            raise ConfigError(f"{path}: {error.strerror}") from None
        is_arm64 = content[56:60] == b"ARM\x64"
        if content[0x202:0x206] == b"HdrS" and len(content) >= _X86_HEADER_BYTES:
            start = struct.unpack_from("<H", content, 0x20E)[0] + 0x200
        elif is_arm64 and _BANNER in content:
            start = content.index(_BANNER) + len(_BANNER)
        else:
            raise ConfigError(
                f"{path}: neither an x86 bzImage (arch/x86/boot/bzImage of a build) nor an arm64 Image"
                " (arch/arm64/boot/Image)"
            )
        return cls(path, content, _release(path, content[start : start + _VERSION_BYTES]), is_arm64)

    def unpacked(self) -> bytes | None:
        """The ELF image inside a bzImage; None if only the kernel itself unpacks it, or if it is no bzImage.

        Raises
        ------
        ConfigError : it stands for more bytes than a kernel has

        References
        ----------
        Documentation/arch/x86/boot.rst: setup_sects at 0x1f1, payload_offset and payload_length at 0x248
        """
        if self.is_arm64:
            return None
        setup_bytes = ((self.content[0x1F1] or 4) + 1) * 512
        offset, length = struct.unpack_from("<II", self.content, 0x248)
        payload = self.content[setup_bytes + offset : setup_bytes + offset + length]
        # All but gzip are followed by the plain size, one word of four bytes.
        packed = payload if payload.startswith(b"\x1f\x8b") else payload[:-4]
        try:
            plain = Unpacker.of(len(packed)).packed_or_plain(packed)
        except TooMuch as error:
            raise ConfigError(f"{self.path}: {error}") from None
        except (ValueError, FileNotFoundError):
            return None
        return plain if plain.startswith(b"\x7fELF") else None


def _release(path: Path, version: bytes) -> str:
    """The release in a kernel's version, which goes on with who has built it."""
    release = version.split(b"\0", 1)[0].decode(errors="replace").split(" ")[0]
    if not _RELEASE.fullmatch(release):
        raise ConfigError(
            f"{path}: its version is '{printable(release[:64])}', which is none of a Linux kernel, such as 6.12.9-mine;"
            " take the image of a build, or build it anew with another CONFIG_LOCALVERSION"
        )
    return release
