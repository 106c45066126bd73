"""A systemd unit that keeps in service, after each boot, what a journal says."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from damoos.errors import ConfigError
from damoos.service.journal import Journal

STAY = "--stay"
"""Has a keeper wait for what will be wanted, when nothing is."""


def unit(journal: Journal, wanted: Mapping[str, Mapping[str, Any]]) -> str:
    """The unit's text.

    Parameters
    ----------
    wanted : mapping
        What it keeps now, by name; later changes of the journal are followed.

    Raises
    ------
    ConfigError : a process id is in it, which does not outlive a reboot
    """
    for name, spec in wanted.items():
        if (spec["on"] or {}).get("kind") == "pid":
            raise ConfigError(
                f"'{name}' is on process {spec['on']['pid']}, which does not outlive a reboot; use --on unit:NAME, or"
                " pid-file:, the file of the server's own"
            )
    folder = str(journal.folder)
    for sign, escaped in (("\\", r"\\"), ('"', r"\""), ("%", "%%"), ("$", "$$")):
        folder = folder.replace(sign, escaped)
    return f"""[Unit]
Description=damoos keeps {", ".join(sorted(wanted))} in service
After=network-online.target
Wants=network-online.target

[Service]
ExecStart={sys.executable} -P -m damoos.service.keeper "{folder}" {STAY}
Restart=always
RestartSec=10

[Install]
WantedBy=multi-user.target
"""
