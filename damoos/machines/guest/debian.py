"""Packages of Debian's archive, fetched and verified without root and without a change to the host's apt."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from damoos.common import host_programs, paths
from damoos.errors import ConfigError, MachineError, UnsupportedError
from damoos.machines.guest.architecture import Architecture, host

BACKPORTS = "trixie-backports"
_CLOUD_IMAGE = r"linux-image-(\d+(?:\.\d+)+)\+deb\d+-cloud-"
# Since 7.2 the image's package is empty, and depends on these.
_PARTS = re.compile(r"Depends: (linux-(?:base|binary|modules)-\d\S+)")


@dataclass(frozen=True)
class Package:
    """A package file that is here and is what Debian signed."""

    path: Path
    version: str
    sha256: str


@dataclass(frozen=True)
class Archive:
    """An archive whose indices are here.

    Parameters
    ----------
    folder : Path
        apt's own, so that the host's is left alone.
    architecture : Architecture
        Of its packages.
    """

    folder: Path
    architecture: Architecture

    def fetch(self, name: str, folder: Path) -> Package:
        """Bring the newest version of a package into a folder; one that lies there already is only checked.

        Raises
        ------
        MachineError : the archive has no such package, cannot be reached, or the file is not what it signed
        """
        folder.mkdir(parents=True, exist_ok=True)
        shown = _fields(self.apt("apt-cache", "show", "--no-all-versions", name))
        target = folder / Path(shown["Filename"]).name
        if not target.exists() or _sha256(target) != shown["SHA256"]:
            target.unlink(missing_ok=True)
            self.apt("apt-get", "-q", "download", f"{name}={shown['Version']}", cwd=folder)
            # apt escapes the colon of an epoch and the like in a file's name, but has just one file to bring
            brought = [path for path in folder.glob(f"{name}_*.deb") if _sha256(path) == shown["SHA256"]]
            if not brought:
                raise MachineError(f"{name}: the downloaded file does not have the checksum in Debian's signed index")
            brought[0].replace(target)
        return Package(target, shown["Version"], shown["SHA256"])

    def kernel_packages(self, series: str) -> list[str]:
        """Names of the packages that hold Debian's newest cloud kernel of a series, its image first.

        Parameters
        ----------
        series : str
            The start of its version, such as ``6.12`` or ``7.3.4``; empty for any.

        Raises
        ------
        ConfigError : the archive has none
        """
        form = re.compile(_CLOUD_IMAGE + self.architecture.name)
        versions: dict[tuple[int, ...], str] = {}
        for name in self.names("linux-image-"):
            if (match := form.fullmatch(name)) and f"{match[1]}.".startswith(f"{series}." if series else ""):
                versions[tuple(map(int, match[1].split(".")))] = name
        if not versions:
            raise ConfigError(f"Debian's archive has no cloud kernel of version {series} for {self.architecture.name}")
        image = versions[max(versions)]
        parts = _PARTS.findall(self.apt("apt-cache", "depends", "--important", image))
        return [image, *parts]

    def names(self, prefix: str) -> list[str]:
        """Names of the archive's packages that begin so."""
        return self.apt("apt-cache", "pkgnames", prefix).split()

    def apt(self, *argv: str, cwd: Path = host_programs.FOLDER) -> str:
        """What one of apt's programs prints of this archive."""
        folder, name = self.folder, self.architecture.name
        program, *words = argv
        settings = {
            "Dir::State": folder / "state",
            "Dir::State::status": "/dev/null",
            "Dir::Cache": folder / "cache",
            "Dir::Etc::sourcelist": folder / "sources.list",
            "Dir::Etc::sourceparts": "/dev/null",
            "Dir::Etc::preferences": "/dev/null",
            "Dir::Etc::preferencesparts": "/dev/null",
            "APT::Architecture": name,
            "APT::Architectures": name,
            "APT::Sandbox::User": "",
            "Acquire::Languages": "none",
        }
        options = [part for key, value in settings.items() for part in ("-o", f"{key}={value}")]
        try:
            done = host_programs.run([program, *options, *words], cwd, {"LC_ALL": "C"})
        except FileNotFoundError:
            raise UnsupportedError(f"{program} is missing: Debian's packages are fetched with apt") from None
        if done.returncode != 0:
            last = " | ".join(done.stderr.strip().splitlines()[-2:])
            raise MachineError(f"{program} {' '.join(words)}: {last}")
        return done.stdout


def with_backports(sources: str) -> str:
    """Lines of a sources.list, and one for the backports of its mirror, which have Debian's newest kernels."""
    mirror = next(word for word in sources.split() if "://" in word)
    return f"{sources.rstrip()}\ndeb {mirror} {BACKPORTS} main\n"


@contextmanager
def archive(sources: str, architecture: Architecture | None = None) -> Iterator[Archive]:
    """An archive whose indices are read anew; other programs wait until the block ends.

    Parameters
    ----------
    sources : str
        Lines of a sources.list: where the guest's own packages came from, so that kernels come from there, too.
    architecture : Architecture or None
        This host's where it is None.
    """
    opened = Archive(paths.program("apt"), architecture or host())
    for part in ("state/lists/partial", "cache/archives/partial"):
        (opened.folder / part).mkdir(parents=True, exist_ok=True)
    with paths.locked(opened.folder):  # apt works for one at a time
        (opened.folder / "sources.list").write_text(sources)
        opened.apt("apt-get", "-q", "update", "-o", "APT::Update::Error-Mode=any")
        yield opened


def _fields(paragraph: str) -> dict[str, str]:
    pairs = (line.split(": ", 1) for line in paragraph.splitlines() if ": " in line and not line.startswith(" "))
    return {name: value for name, value in pairs}


def _sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
