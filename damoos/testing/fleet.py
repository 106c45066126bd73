"""A fleet that is not there: machines that take their time, get lost now and then, and give the same for the same seed.

It drives the real dispatchers, store and searchers, in this process or in others: a folder with a plugin makes machines
``fake:NAME`` known to every Python that has the folder on its path. What they give is never a result.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from damoos.errors import MachineLost
from damoos.testing.fake import FakeMachine, FakeSession

SETTINGS = "DAMOOS_FAKE"
# When runs of this process began and ended, in seconds of its monotonic clock.
BUSY: list[tuple[float, float]] = []


class FleetMachine(FakeMachine):
    """Behaves after its name: what a policy does to it depends on the policy and the name, not on what ran before.

    Parameters
    ----------
    name : str
    latency_s : float, seconds
        Mean wall time of a run; each takes between half of it and one and a half times it.
    losses : float
        Fraction of runs during which the machine is lost.
    noise : float
        Relative standard deviation of runtime and RSS between policies.
    """

    def __init__(self, name: str, latency_s: float = 0.0, losses: float = 0.0, noise: float = 0.002) -> None:
        self.name = f"fake:{name}"
        seed = _number(name)
        cliff_s = 1 + seed % 4

        def curve(min_age_s: float) -> tuple[float, float]:
            return (0.5, 0.7) if min_age_s < cliff_s else (0.02, max(0.0, 0.6 - min_age_s / 100))

        super().__init__(curve, noise=noise, seed=seed)
        self._latency_s = latency_s
        self._losses = losses
        self._chance = np.random.default_rng([seed, os.getpid()])

    def open(self, say: Callable[[str], None] = lambda _: None) -> FakeSession:
        """A lease; it is on a host of its own."""
        session = super().open(say)
        session.facts["host"] = self.name
        return session

    def begin_run(self, number: int) -> None:
        """Take the time that a run takes, or be lost in the middle of it."""
        share = float(self._chance.uniform(0.5, 1.5))
        lost = self._chance.random() < self._losses
        begun = time.monotonic()
        time.sleep(self._latency_s * share * (0.5 if lost else 1.0))
        BUSY.append((begun, time.monotonic()))
        if lost:
            raise MachineLost("a fake machine got lost, as it was told to")

    def dice(self, number: int, document: dict[str, Any] | None) -> np.random.Generator:
        """Chance that is the same for the same policy."""
        return np.random.default_rng([self.seed, _number(json.dumps(document, sort_keys=True))])


def _number(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")


def fake(name: str) -> FleetMachine:
    """A machine of the plugin; ``DAMOOS_FAKE`` holds further arguments as JSON."""
    return FleetMachine(name, **json.loads(os.environ.get(SETTINGS, "{}")))


def plugin(folder: Path, **settings: float) -> dict[str, str]:
    """Make the fleet known to this process, and to those that are started with the environment that is returned.

    Parameters
    ----------
    folder : Path
        Where the plugin is written.
    **settings
        Arguments of `FleetMachine`.
    """
    about = folder / "damoos_fake_fleet-1.dist-info"
    about.mkdir(parents=True, exist_ok=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: damoos-fake-fleet\nVersion: 1\n")
    (about / "entry_points.txt").write_text(f"[damoos.machines]\nfake = {__name__}:fake\n")
    sys.path.insert(0, str(folder))  # for this process, too
    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": path, SETTINGS: json.dumps(settings)}
