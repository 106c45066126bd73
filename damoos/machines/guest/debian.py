"""Packages of Debian's archive, fetched and verified without root and without a change to the host's apt."""

from __future__ import annotations

import hashlib
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from damoos.common import paths
from damoos.errors import MachineError, UnsupportedError


@dataclass(frozen=True)
class Package:
    """A package file that is here and is what Debian signed."""

    path: Path
    version: str
    sha256: str


def fetch(name: str, folder: Path) -> Package:
    """Bring the newest version of a package into a folder; one that lies there already is only checked.

    Raises
    ------
    MachineError : the archive has no such package, cannot be reached, or the file is not what it signed
    """
    folder.mkdir(parents=True, exist_ok=True)
    shown = _fields(_apt("apt-cache", "show", "--no-all-versions", name))
    target = folder / Path(shown["Filename"]).name
    if not target.exists() or _sha256(target) != shown["SHA256"]:
        target.unlink(missing_ok=True)
        _apt("apt-get", "-q", "download", f"{name}={shown['Version']}", cwd=folder)
        # apt escapes the colon of an epoch and the like in a file's name, but has just one file to bring
        brought = [path for path in folder.glob(f"{name}_*.deb") if _sha256(path) == shown["SHA256"]]
        if not brought:
            raise MachineError(f"{name}: the downloaded file does not have the checksum in Debian's signed index")
        brought[0].replace(target)
    return Package(target, shown["Version"], shown["SHA256"])


def newest_of(meta: str) -> str:
    """The package that a meta package stands for, its first dependency of the same kind."""
    stem = meta.split("-6")[0]
    for line in _apt("apt-cache", "depends", meta).splitlines():
        word = line.split()[-1]
        if "Depends:" in line and word.startswith(stem):
            return word
    raise MachineError(f"Debian's archive has no kernel package for '{meta}'")


def refresh(sources: str) -> None:
    """Read an archive's signed indices anew.

    Parameters
    ----------
    sources : str
        Lines of a sources.list: where the guest's own packages came from, so that kernels come from there, too.
    """
    for part in ("state/lists/partial", "cache/archives/partial"):
        (_place() / part).mkdir(parents=True, exist_ok=True)
    (_place() / "sources.list").write_text(sources)
    _apt("apt-get", "-q", "update", "-o", "APT::Update::Error-Mode=any")


def _place() -> Path:
    return paths.cache() / "apt"


def _apt(*argv: str, cwd: Path | None = None) -> str:
    folder = _place()
    program, *words = argv
    settings = {
        "Dir::State": folder / "state",
        "Dir::State::status": "/dev/null",
        "Dir::Cache": folder / "cache",
        "Dir::Etc::sourcelist": folder / "sources.list",
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::Etc::preferences": "/dev/null",
        "Dir::Etc::preferencesparts": "/dev/null",
        "APT::Architecture": "amd64",
        "APT::Architectures": "amd64",
        "APT::Sandbox::User": "",
        "Acquire::Languages": "none",
    }
    options = [part for name, value in settings.items() for part in ("-o", f"{name}={value}")]
    try:
        done = subprocess.run(
            [program, *options, *words], cwd=cwd, env={**os.environ, "LC_ALL": "C"},
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        )  # fmt: skip
    except FileNotFoundError:
        raise UnsupportedError(f"{program} is missing: Debian's packages are fetched with apt") from None
    if done.returncode != 0:
        last = " | ".join(done.stderr.strip().splitlines()[-2:])
        raise MachineError(f"{program} {' '.join(words)}: {last}")
    return done.stdout


def _fields(paragraph: str) -> dict[str, str]:
    pairs = (line.split(": ", 1) for line in paragraph.splitlines() if ": " in line and not line.startswith(" "))
    return {name: value for name, value in pairs}


def _sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
