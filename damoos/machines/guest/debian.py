"""Packages of Debian's archive, fetched and verified without root and without a change to the host's apt."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from damoos.common import paths
from damoos.errors import ConfigError, MachineError, UnsupportedError

BACKPORTS = "trixie-backports"
_CLOUD_IMAGE = re.compile(r"linux-image-(\d+(?:\.\d+)+)\+deb\d+-cloud-amd64")
# Since 7.2 the image's package is empty, and depends on these.
_PARTS = re.compile(r"Depends: (linux-(?:base|binary|modules)-\d\S+)")


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


def kernel_packages(series: str) -> list[str]:
    """Names of the packages that hold Debian's newest cloud kernel of a series, its image first.

    Parameters
    ----------
    series : str
        The start of its version, such as ``6.12`` or ``7.3.4``; empty for any.

    Raises
    ------
    ConfigError : the archive has none
    """
    versions: dict[tuple[int, ...], str] = {}
    for name in names("linux-image-"):
        if (match := _CLOUD_IMAGE.fullmatch(name)) and f"{match[1]}.".startswith(f"{series}." if series else ""):
            versions[tuple(map(int, match[1].split(".")))] = name
    if not versions:
        raise ConfigError(f"Debian's archive has no cloud kernel of version {series}")
    image = versions[max(versions)]
    parts = _PARTS.findall(_apt("apt-cache", "depends", "--important", image))
    return [image, *parts]


def names(prefix: str) -> list[str]:
    """Names of the archive's packages that begin so."""
    return _apt("apt-cache", "pkgnames", prefix).split()


def with_backports(sources: str) -> str:
    """Lines of a sources.list, and one for the backports of its mirror, which have Debian's newest kernels."""
    mirror = next(word for word in sources.split() if "://" in word)
    return f"{sources.rstrip()}\ndeb {mirror} {BACKPORTS} main\n"


@contextmanager
def archive(sources: str) -> Iterator[None]:
    """For as long as the block lasts, the functions of this module ask this archive, whose indices are read anew.

    Parameters
    ----------
    sources : str
        Lines of a sources.list: where the guest's own packages came from, so that kernels come from there, too.
    """
    for part in ("state/lists/partial", "cache/archives/partial"):
        (_place() / part).mkdir(parents=True, exist_ok=True)
    with paths.locked(_place()):  # apt works for one at a time
        (_place() / "sources.list").write_text(sources)
        _apt("apt-get", "-q", "update", "-o", "APT::Update::Error-Mode=any")
        yield


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
