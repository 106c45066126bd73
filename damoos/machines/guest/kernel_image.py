"""What a kernel's image file tells of itself."""

from __future__ import annotations

import struct
from pathlib import Path

from damoos.common import user_file
from damoos.errors import ConfigError, MachineError
from damoos.machines.guest import initrd

_BANNER = b"Linux version "


def release_of(image: Path) -> str:
    """``uname -r`` of a kernel that is not running.

    Raises
    ------
    ConfigError : the file is neither a bzImage of x86 nor an Image of arm64

    References
    ----------
    Documentation/arch/x86/boot.rst: "HdrS" at 0x202, kernel_version at 0x20e; Documentation/arch/arm64/booting.rst:
    "ARM" and 0x64 at 56
    """
    try:
        content = user_file.read_bytes(image)
    except OSError as error:
        raise ConfigError(f"{image}: {error.strerror}") from None
    if content[0x202:0x206] == b"HdrS":
        (offset,) = struct.unpack_from("<H", content, 0x20E)
        version = content[offset + 0x200 :]
    elif is_arm64(content) and _BANNER in content:
        version = content[content.index(_BANNER) + len(_BANNER) :]
    else:
        raise ConfigError(
            f"{image}: neither an x86 bzImage (arch/x86/boot/bzImage of a build) nor an arm64 Image"
            " (arch/arm64/boot/Image)"
        )
    return version.split(b"\0", 1)[0].decode(errors="replace").split(" ")[0]


def is_arm64(image: bytes) -> bool:
    """Whether a kernel's image is one of arm64, not packed."""
    return image[56:60] == b"ARM\x64"


def unpack(bzimage: bytes) -> bytes | None:
    """The ELF image inside a bzImage; None if only the kernel itself unpacks it, or if it is no bzImage.

    References
    ----------
    Documentation/arch/x86/boot.rst: setup_sects at 0x1f1, payload_offset and payload_length at 0x248
    """
    if is_arm64(bzimage):
        return None
    setup_bytes = ((bzimage[0x1F1] or 4) + 1) * 512
    offset, length = struct.unpack_from("<II", bzimage, 0x248)
    payload = bzimage[setup_bytes + offset : setup_bytes + offset + length]
    try:
        # All but gzip are followed by the plain size, one word of four bytes.
        plain = initrd.unpacked(payload if payload.startswith(b"\x1f\x8b") else payload[:-4])
    except MachineError:
        return None
    return plain if plain.startswith(b"\x7fELF") else None
