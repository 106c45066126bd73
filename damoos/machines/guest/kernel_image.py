"""What a kernel's image file tells of itself."""

from __future__ import annotations

import struct
from pathlib import Path

from damoos.errors import ConfigError, MachineError
from damoos.machines.guest import initrd


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
