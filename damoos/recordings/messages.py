"""What a recording agent sends: the form of its messages, and whether one has it.

They come from a machine that may be another's, and lie in journals that may be anybody's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter

from damoos.recordings.recording import USUAL_PAGE_BYTES

Whole = Annotated[int, Field(strict=True, ge=0, lt=1 << 63)]
Finite = Annotated[float, Field(strict=True, allow_inf_nan=False)]
# When it was counted, and of each target the addresses of blocks, and how many pages of them it has in memory.
_Pair = Annotated[list[Whole], Field(min_length=2, max_length=2)]
_Counts = list[tuple[Finite, list[list[_Pair]]]]
_RESIDENT = TypeAdapter(_Counts)
PARTS = ("data", "resident", "objects")


def _is_a_page(size: int) -> int:
    if size not in (4096, 8192, 16384, 65536):
        raise ValueError(f"no machine has pages of {size} bytes")
    return size


PageBytes = Annotated[Whole, AfterValidator(_is_a_page)]


# The kernel's own have less than a page.
MOST_FORMAT_LETTERS = 16 << 10


class Begin(BaseModel):
    """How a recording begins.

    Parameters
    ----------
    source : {"trace", "tried_regions"}
    page_bytes : int
        Of the machine.
    format, page : str
        What the kernel says of its trace event, and of its pages; of source ``trace``.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    source: Literal["trace", "tried_regions"]
    page_bytes: PageBytes = USUAL_PAGE_BYTES
    format: Annotated[str, Field(max_length=MOST_FORMAT_LETTERS)] = ""
    page: Annotated[str, Field(max_length=MOST_FORMAT_LETTERS)] = ""


class _Record(BaseModel):
    """What a reader computes with of ``record`` in ``about``."""

    began_s: Finite = 0.0


class _Cost(BaseModel):
    """What a reader computes with of ``cost``, see `damoos.prediction.reclaim.Cost`."""

    model_config = ConfigDict(extra="forbid")

    pageout_us: Finite
    fault_us: Finite
    shared: Finite = 1.0


class _About(BaseModel):
    """What a reader computes with of ``about``; the rest of it is shown, and no more."""

    page_bytes: PageBytes = USUAL_PAGE_BYTES
    low_us: Finite = 0.0
    high_us: Finite = 0.0
    metrics: dict[str, Finite] = {}
    cost: _Cost | None = None
    assumed: list[str] = []
    record: _Record = _Record()
    resident: _Counts | None = None


def checked(line: Mapping[str, Any]) -> None:
    """Refuse a message that is none of a recording's.

    Raises
    ------
    ValueError
    """
    if "begin" in line:
        Begin.model_validate(line["begin"])
    elif len(line) != 1 or not all(name in PARTS and isinstance(value, str) for name, value in line.items()):
        raise ValueError(f"a message of a recording has one of {', '.join(PARTS)}, and this one {', '.join(line)[:80]}")


def check_resident(counts: Any) -> None:
    """Refuse what is no list of counts of `damoos.agent.memory.resident_blocks` and their times.

    Raises
    ------
    ValueError
    """
    _RESIDENT.validate_python(counts)


def check_about(about: Any) -> None:
    """Refuse an ``about`` of a recording that is to be read if what a reader computes with is wrong in it.

    Raises
    ------
    ValueError
    """
    _About.model_validate(about)
