"""Guests that stand for hosts: reached by their machine files as any other host is, to try what is meant for hosts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from damoos.machines import catalog
from damoos.machines.guest import GuestSession

SWAP = 'kind = "zram"\nsize = "128M"\nalgorithm = "lz4"'


def host_file(folder: Path, name: str, guest: GuestSession, swap: str = SWAP) -> Path:
    """Write the machine file of a guest as a host, with a swap device of its own.

    Parameters
    ----------
    folder : Path
    name : str
        Of the file, without its ending.
    guest : GuestSession
    swap : str
        Lines of the table ``[swap]``.
    """
    file, endpoint = folder / f"{name}.toml", guest.expose()
    file.write_text(
        f'description = "a host"\n[ssh]\nhost = "127.0.0.1"\nport = {endpoint.port}\nuser = "root"\n'
        f'key = "{endpoint.key}"\nknown_hosts = "{endpoint.known_hosts}"\n'
        f"[swap]\n{swap}\n"
    )
    return file


@contextmanager
def guest_hosts(
    names: Sequence[str], folder: Path, packages: Sequence[str] = (), kernel: str | None = None
) -> Iterator[dict[str, GuestSession]]:
    """Boot a guest for each name; all of them end with the context.

    Parameters
    ----------
    names : sequence of str
        Of the hosts.
    folder : Path
        Where their machine files are written.
    packages : sequence of str
        What their image is to have beside Debian's base.
    kernel : str or None
        See `damoos.machines.catalog.machine`.

    Yields
    ------
    dict of str to GuestSession
        By the path of the machine file, which is the name of the machine for every command.
    """
    opened: dict[str, GuestSession] = {}
    try:
        for name in names:
            machine = catalog.machine("guest", kernel)
            machine.provide(tuple(packages), ())
            guest = machine.open()
            assert isinstance(guest, GuestSession)
            opened[str(host_file(folder, name, guest))] = guest
            guest.agent.close()  # whoever puts something into service brings an agent of their own
        yield opened
    finally:
        for guest in opened.values():
            guest.close()
