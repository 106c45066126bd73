"""Files of host keys: those of one host are taken, and the file may be another person's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from damoos import regular_file
from damoos.common.unpack import MALFORMED

if TYPE_CHECKING:
    from paramiko import PKey

# 40 000 hosts; each key of a host is one line.
_MOST_BYTES = 4 << 20
# A name that is kept as a hash.
_HASHED = "|1|"


def keys_of(file: Path, host: str) -> Iterator[PKey]:
    """The keys of a host, in the file's order.

    Lines of other hosts are not parsed: Paramiko compares each line with all others before it, which takes hours for
    a file of some megabytes.

    Parameters
    ----------
    file : Path
        In OpenSSH's format.
    host : str
        As `listed` writes it.

    Raises
    ------
    OSError : it cannot be read, is no regular file, or has more bytes than such files have
    ValueError : it is not a text file
    """
    content = regular_file.whole(file, _MOST_BYTES)
    if b"\0" in content:
        raise ValueError("not a text file")
    for line in content.decode(errors="replace").splitlines():
        names, *rest = line.strip().split(maxsplit=1)[:2] or [""]
        if rest and any(_is(name, host) for name in names.split(",")) and (key := _key(line.strip())):
            yield key


def listed(host: str, port: int) -> str:
    """How such a file writes a host with its port."""
    return host if port == 22 else f"[{host}]:{port}"


def _is(name: str, host: str) -> bool:
    from paramiko.hostkeys import HostKeys

    if not name.startswith(_HASHED):
        return name == host
    try:
        return bool(HostKeys.hash_host(host, name) == name)
    except (AssertionError, *MALFORMED):  # no hash
        return False


def _key(line: str) -> PKey | None:
    from paramiko import SSHException
    from paramiko.hostkeys import HostKeyEntry

    try:
        entry = HostKeyEntry.from_line(line)
    except (SSHException, *MALFORMED):
        return None
    return entry.key if entry else None
