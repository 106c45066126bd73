"""A keeper process whose host is a folder: it puts a policy into force once there is a file ``go``.

It answers nothing while there is a file ``hangs``; what stays in force without its keeper stays until it is told else.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

from damoos.machines import catalog
from damoos.service import keeper
from damoos.testing.fake import FakeMachine
from tests.unit.service.test_kept import ON

HOST = Path(os.environ["DAMOOS_SLOW_HOST"])


class Session:
    """The agent of such a host."""

    facts: dict[str, Any] = {}  # noqa: RUF012

    def __init__(self) -> None:
        self.agent = self
        self.stays = False
        (HOST / "in force").unlink(missing_ok=True)  # each agent takes back what is left of the one before

    def call(self, name: str, **args: Any) -> Any:
        in_force = HOST / "in force"
        while (HOST / "hangs").exists():
            time.sleep(0.01)
        if name == "apply":
            (HOST / "asked").touch()
            while not (HOST / "go").exists():
                time.sleep(0.01)
            in_force.touch()
            self.stays = args.get("stays", False)
            return {"pid": 7, "started": 4711, "accepted": {}}
        if name == "stop":
            in_force.unlink(missing_ok=True)
        if name == "facts":
            return {"left_behind": []}
        return {**ON, "in_service": in_force.exists()} if name == "status" else None

    def close(self) -> None:
        if not self.stays:
            (HOST / "in force").unlink(missing_ok=True)


class Host(FakeMachine):
    """Opened at once."""

    def open(self, say: Any = None) -> Any:
        return Session()


if __name__ == "__main__":
    catalog.machine = lambda name, kernel=None: Host()  # type: ignore[assignment]
    keeper.POLL_S = 0.05
    sys.exit(keeper.main())
