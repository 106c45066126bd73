"""What a command of a user's prints, in a bounded time and up to a bounded size."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Sequence

_CHUNK_BYTES = 64 << 10
# Of the error output, the end.
_KEPT_BYTES = 64 << 10


def output_of(argv: Sequence[str], limit_s: float, most_bytes: int) -> tuple[int, bytes, bytes]:
    """Run a command.

    Returns
    -------
    tuple : exit status, output, and the end of the error output

    Raises
    ------
    OSError : it cannot be started
    ValueError : it took longer, or printed more; it is ended, with the others of its process group
    """
    deadline = time.monotonic() + limit_s
    with subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    ) as child:
        try:
            out, err = _read(child, deadline, most_bytes)
            return child.wait(max(0.0, deadline - time.monotonic())), out, err
        except (TimeoutError, subprocess.TimeoutExpired):
            _kill(child)
            raise ValueError(f"it took longer than {limit_s:g} s") from None
        except BaseException:
            _kill(child)
            raise


def _kill(child: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(OSError):
        os.killpg(child.pid, signal.SIGKILL)


def _read(child: subprocess.Popen[bytes], deadline: float, most_bytes: int) -> tuple[bytes, bytes]:
    """All of its output and the end of its error output.

    Raises
    ------
    TimeoutError : one of them has no end in time
    ValueError : it prints more
    """
    assert child.stdout
    assert child.stderr
    texts = {child.stdout.fileno(): bytearray(), child.stderr.fileno(): bytearray()}
    out, err = texts.values()
    with selectors.DefaultSelector() as selector:
        for fd in texts:
            selector.register(fd, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(max(0.0, deadline - time.monotonic()))
            if not ready or time.monotonic() > deadline:
                raise TimeoutError
            for key, _ in ready:
                chunk = os.read(key.fd, _CHUNK_BYTES)
                if not chunk:
                    selector.unregister(key.fd)
                texts[key.fd] += chunk
            del err[:-_KEPT_BYTES]
            if len(out) > most_bytes:
                raise ValueError(f"it printed more than {most_bytes >> 20} MiB")
    return bytes(out), bytes(err)
