"""The agent as one file: a zipapp named by the hash of its content, the same bytes from the same sources."""

from __future__ import annotations

import hashlib
import io
import os
import zipfile
from pathlib import Path

from damoos import places

_PACKAGE = Path(__file__).resolve().parent.parent
_PARTS = ("__init__.py", "errors.py", "units.py", "damon/*.py", "agent/*.py")
_MAIN = "import sys\nfrom damoos.agent.__main__ import main\nsys.exit(main())\n"


def agent_bundle() -> Path:
    """Path of the agent's zipapp in the cache, built when the sources have changed."""
    content = _zipped()
    path = places.cache() / "agent" / f"damoos-agent-{hashlib.sha256(content).hexdigest()[:16]}.pyz"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(f".{os.getpid()}")
        draft.write_bytes(content)
        draft.replace(path)
    return path


def _zipped() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as bundle:

        def add(name: str, text: str) -> None:
            bundle.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), text, zipfile.ZIP_DEFLATED)

        add("__main__.py", _MAIN)
        for pattern in _PARTS:
            for source in sorted(_PACKAGE.glob(pattern)):
                add(f"damoos/{source.relative_to(_PACKAGE)}", source.read_text())
    return buffer.getvalue()
