"""A systemd unit that keeps in service, after each boot, what a journal says."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from typing import Any

from damoos.common.terminal import printable
from damoos.errors import ConfigError
from damoos.service.journal import NAME_RULE, Journal, is_name

STAY = "--stay"
"""Has a keeper wait for what will be wanted, when nothing is."""
# A word that systemd takes as it is.
_PLAIN = re.compile(r"[A-Za-z0-9_./@:+-]+")
# As systemd.syntax(7) and systemd.service(5) have it: C escapes in quotes, %% and $$.
_ESCAPED = str.maketrans({"\\": r"\\", '"': r"\"", "%": "%%", "$": "$$"})


def unit(journal: Journal, wanted: Mapping[str, Mapping[str, Any]]) -> str:
    """The unit's text.

    Parameters
    ----------
    wanted : mapping
        What it keeps now, by name; later changes of the journal are followed.

    Raises
    ------
    ConfigError : a process id is in it, which does not outlive a reboot; or a path has signs that no unit can have
    """
    for name, spec in wanted.items():
        if (spec["on"] or {}).get("kind") == "pid":
            raise ConfigError(
                f"'{name}' is on process {spec['on']['pid']}, which does not outlive a reboot; use --on unit:NAME, or"
                " pid-file:, the file of the server's own"
            )
    command = [_program(sys.executable), "-P", "-m", "damoos.service.keeper", _word(str(journal.folder)), STAY]
    return f"""[Unit]
Description=damoos keeps {", ".join(sorted(map(_name, wanted)))} in service
After=network-online.target
Wants=network-online.target

[Service]
ExecStart={" ".join(command)}
Restart=always
RestartSec=10

[Install]
WantedBy=multi-user.target
"""


def _name(name: str) -> str:
    """A name in service, as a description has it."""
    if not is_name(name):
        raise ConfigError(f"'{printable(name)}' cannot be a name in service: {NAME_RULE}")
    return name


def _program(path: str) -> str:
    """The path of a program, in which systemd replaces no variables, but reads quotes and escapes in its own way."""
    if not path.startswith("/") or not _PLAIN.fullmatch(path):
        raise ConfigError(
            f"{printable(path)}: a systemd unit cannot start a program with such a path; install damoos in a folder"
            " whose path has letters, digits and the signs _ . / @ : + - only"
        )
    return path


def _word(text: str) -> str:
    """A word of a command, whatever signs it has that can be seen."""
    if not text.isprintable():
        raise ConfigError(
            f"{printable(text)}: a path with a line feed or another sign that is not to be seen cannot stand in a"
            " systemd unit; rename the folder"
        )
    return f'"{text.translate(_ESCAPED)}"'
