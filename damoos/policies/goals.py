"""How the kernel tunes a quota towards its goal: a parameter of the policies whose schemes have one."""

from __future__ import annotations

from damoos.damon.quotas import TUNERS
from damoos.policies.parameter import Parameter

TUNER = Parameter(
    "choice",
    TUNERS[0],
    choices=TUNERS,
    help="temporal does all that the quota allows until the goal is met, then nothing (since Linux 7.1)",
)


def tuned_by(tuner: str) -> str:
    """A tuner in the words of a scheme; nothing for the one that older kernels have too."""
    return "" if tuner == TUNER.default else f"  quotas.goal_tuner={tuner}"
