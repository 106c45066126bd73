"""``damoos`` and ``python -m damoos``: one line also for a Ctrl-C while the commands are being imported."""

from __future__ import annotations

import os
import signal
import stat
from types import FrameType
from typing import NoReturn

INTERRUPTED = 130


def _on_sigint(signum: int, frame: FrameType | None) -> NoReturn:
    os.write(2, b"damoos: interrupted\n")
    os._exit(INTERRUPTED)  # nothing has begun that would have to end


def main() -> NoReturn:
    """Import the commands and run one."""
    # Every user could change what damoos makes under a umask of 0: kernels, images, folders.
    os.umask(os.umask(0o022) | stat.S_IWOTH)
    taken = signal.signal(signal.SIGINT, _on_sigint)
    from damoos.cli import main as run

    signal.signal(signal.SIGINT, taken)
    run()


if __name__ == "__main__":
    main()
