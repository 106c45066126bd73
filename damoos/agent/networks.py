"""A network of a run's own: loopback only. No program outside of it reaches its ports, or holds one of them.

References
----------
network_namespaces(7), user_namespaces(7)
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
import subprocess
from pathlib import Path

from damoos.errors import UnsupportedError

OWN, HOST = "own", "host"
_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1


class Network:
    """A new network namespace; it is gone with its last process, once it is closed here.

    An agent that is not root gets it with a user namespace, in which the user is the same.

    Raises
    ------
    UnsupportedError : this machine refuses it
    """

    def __init__(self) -> None:
        uid, gid = os.geteuid(), os.getegid()
        kinds = {"net": _CLONE_NEWNET} if uid == 0 else {"user": _CLONE_NEWUSER, "net": _CLONE_NEWNET}

        def begin() -> None:
            _called("unshare", sum(kinds.values()))
            if uid != 0:
                Path("/proc/self/setgroups").write_text("deny")
                Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
                Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")
            _bring_up_loopback()

        try:
            with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, preexec_fn=begin) as first:
                # The end of its input, which comes with that of the block, is its end.
                self._namespaces = [(_namespace(first.pid, name), kind) for name, kind in kinds.items()]
        except (OSError, subprocess.SubprocessError):
            way = "run the agent as root, or allow user namespaces (sysctl user.max_user_namespaces)"
            raise UnsupportedError(f'this machine refuses a network of its own (network = "own"); {way}') from None

    def enter(self) -> None:
        """From now on, for this process and those that it starts; for a new process to call.

        Raises
        ------
        OSError : the kernel refuses
        """
        for fd, kind in self._namespaces:
            _called("setns", fd, kind)

    def close(self) -> None:
        """Let go of it; processes that are in it stay there."""
        for fd, _ in self._namespaces:
            os.close(fd)
        self._namespaces = []


def _namespace(pid: int, name: str) -> int:
    return os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC)


def _called(function: str, *arguments: int) -> None:
    """Call a function of libc that this Python has no name for."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc[function](*arguments) != 0:
        raise OSError(ctypes.get_errno(), function)


def _bring_up_loopback() -> None:
    """Loopback is there in a new network, but down; it gets its address once it is up."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sH22x", b"lo", 0)
        flags = struct.unpack("16sH22x", fcntl.ioctl(any_socket, _SIOCGIFFLAGS, request))[1]
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sH22x", b"lo", flags | _IFF_UP))
