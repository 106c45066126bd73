"""Names that fit under a bar."""

from __future__ import annotations


def short(workload: str) -> str:
    """A workload's name as the paper shortens it: ``P/raytrace``, ``S/fft``."""
    suite, slash, name = workload.rpartition("/")
    letters = {"parsec3": "P", "splash2x": "S"}
    return f"{letters[suite]}/{name}" if slash and suite in letters else name or workload
