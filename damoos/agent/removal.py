"""Folders that programs have filled: they are removed whatever lies in them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path


def remove_tree(path: Path | str) -> None:
    """Remove a folder with all that is in it, however deep.

    Raises
    ------
    OSError : something stays
    """
    try:
        shutil.rmtree(path)
    except RecursionError:  # a program may nest more folders than Python calls functions
        done = subprocess.run(["rm", "-rf", "--", str(path)], stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            raise OSError(done.stderr.strip()[-200:]) from None
