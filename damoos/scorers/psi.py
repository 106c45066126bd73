"""Save memory as long as nobody waits for it: the rule of TMO, as a score."""

from __future__ import annotations

from damoos.scorers.sla import SlaScorer

# TMO, section 3.2: "some" pressure is kept at 0.1 %.
PRESSURE = 0.001


class PsiScorer(SlaScorer):
    """Net memory saving while ``some`` pressure on memory and on io stays at or under 0.1 % of the runtime.

    References
    ----------
    TMO: Transparent Memory Offloading in Datacenters (ASPLOS'22), section 3
    """

    name = "psi"

    def __init__(self) -> None:
        super().__init__("net_saving", None, (f"memory_pressure<={PRESSURE}", f"io_pressure<={PRESSURE}"))
