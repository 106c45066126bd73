"""The token that this user's Ray clusters ask for; without it nobody joins, reads or uses one.

Ray gets the token's file by name. The token itself is in no command line and in no environment, which tools list.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from damoos.common import paths
from damoos.common.atomic_file import fill
from damoos.errors import ConfigError
from damoos.ownership import private_folder

_MODE, _TOKEN, _FILE = "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def folder() -> Path:
    """Folder of what damoos keeps of its clusters, which only this user can read; made if need be.

    Raises
    ------
    MachineError : another user made it, or can write to it
    """
    return private_folder(paths.cache() / f"ray-{os.geteuid()}")


def own_file() -> Path:
    """File of the token of this user's clusters of several hosts; made if need be.

    Raises
    ------
    ConfigError : other users can read it
    """
    path = folder() / "token"
    return _checked(path if path.exists() else made(path))


def made(path: Path) -> Path:
    """A file of a new token, of 256 random bits."""
    fill(path, [secrets.token_hex(32).encode()])
    return path


@dataclass(frozen=True)
class Token:
    """What a driver shows a cluster.

    Parameters
    ----------
    text : str
    source : str
        Where it is from, for error messages.
    environment : dict
        Variables by which Ray finds it.
    """

    text: str = field(repr=False)
    source: str
    environment: dict[str, str]


def token(environment: Mapping[str, str]) -> Token:
    """The token that Ray's variables name, or else this user's for damoos, or else that of Ray's own file.

    Raises
    ------
    ConfigError : its file is not there, or other users can read it
    """
    if given := environment.get(_TOKEN):
        return Token(given, _TOKEN, {_MODE: "token"})
    if named := environment.get(_FILE):
        return of(_checked(Path(named).expanduser()))
    rays_own = Path.home() / ".ray/auth_token"
    is_rays = rays_own.exists() and not (folder() / "token").exists()
    return of(_checked(rays_own) if is_rays else own_file())


def of(file: Path) -> Token:
    """The token of a file."""
    # Ray takes a token that stands in the environment before the one of a file.
    return Token(file.read_text().strip(), str(file), {**demanded(file), _TOKEN: ""})


def _checked(path: Path) -> Path:
    try:
        status = path.stat()
    except OSError as error:
        raise ConfigError(f"token of the Ray cluster: {path}: {error.strerror}") from None
    if status.st_mode & _OTHERS:
        raise ConfigError(
            f"token of the Ray cluster: other users can read {path}; run chmod 600 on it, and make a new token where"
            " other users can log in"
        )
    return path


def demanded(file: Path) -> dict[str, str]:
    """Variables of a process of Ray's that shows the token of a file, and asks for it."""
    return {_MODE: "token", _FILE: str(file)}


def without_token(environment: Mapping[str, str]) -> dict[str, str]:
    """An environment in which no token stands in plain text."""
    return {name: value for name, value in environment.items() if name != _TOKEN}


NOT_DEMANDED = {_MODE: "disabled"}
"""Variables of a process of Ray's that shows no token, and asks for none."""
