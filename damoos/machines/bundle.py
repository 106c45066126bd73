"""The agent as one file: a zipapp named by the hash of its sources.

Each module is in it twice, as source and as bytecode of this Python. A machine with the same Python does not compile
the agent at each start, which costs an emulated guest 1.5 s of CPU; another Python ignores the bytecode.
"""

from __future__ import annotations

import hashlib
import importlib.util
import io
import py_compile
import tempfile
import zipfile
from pathlib import Path

from damoos.agent.standby import ATTACH, STANDBY
from damoos.common import atomic_file, paths
from damoos.common.cache import mark_used

_PACKAGE = Path(__file__).resolve().parent.parent
_PARTS = ("__init__.py", "errors.py", "units.py", "ownership.py", "regular_file.py", "damon/**/*.py", "agent/**/*.py")
# Words that any Python can read: an older one is told so in one line, and not by a traceback.
_MAIN = f"""import sys
if sys.version_info < (3, 9):
    sys.exit("damoos's agent needs Python 3.9 or newer; this is %d.%d" % sys.version_info[:2])
if sys.argv[1:] == ["{STANDBY}"]:
    from damoos.agent.standby import wait as main
elif sys.argv[1:2] == ["{ATTACH}"]:
    from damoos.agent.standby import attach as main
else:
    from damoos.agent.__main__ import main
sys.exit(main())
"""


def agent_bundle() -> Path:
    """Path of the agent's zipapp in the cache, built when the sources or this Python have changed."""
    sources = _sources()
    hashed = hashlib.sha256(importlib.util.MAGIC_NUMBER)
    for name, text in sources.items():
        hashed.update(f"{name}\0{text}\0".encode())
    path = paths.program("agent", f"damoos-agent-{hashed.hexdigest()[:16]}.pyz")
    if not path.exists():
        atomic_file.fill(path, [_zipped(sources)], mode=0o644)
    mark_used(path)
    return path


def _sources() -> dict[str, str]:
    files = {"__main__.py": _MAIN}
    for pattern in _PARTS:
        for source in sorted(_PACKAGE.glob(pattern)):
            files[f"damoos/{source.relative_to(_PACKAGE)}"] = source.read_text()
    return files


def _zipped(sources: dict[str, str]) -> bytes:
    zipped = io.BytesIO()
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(zipped, "w") as bundle:
        source, compiled = Path(folder) / "source.py", Path(folder) / "compiled.pyc"

        def add(name: str, content: str | bytes) -> None:
            bundle.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), content, zipfile.ZIP_DEFLATED)

        for name, text in sources.items():
            source.write_text(text)
            py_compile.compile(
                str(source), str(compiled), dfile=name, doraise=True,
                invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
            )  # fmt: skip
            add(name, text)
            add(f"{name}c", compiled.read_bytes())
    return zipped.getvalue()
