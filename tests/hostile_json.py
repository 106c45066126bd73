"""JSON that nobody honest would send: values of any type, and forms of which one part is another value or missing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import strategies as st

Values = st.SearchStrategy[Any]


def values(special: Sequence[Any]) -> Values:
    """Any JSON value, a few levels deep at most, and often one of some special ones."""
    scalars = st.one_of(
        st.none(), st.booleans(), st.integers(-(1 << 65), 1 << 65), st.floats(), st.text(max_size=5),
        st.sampled_from(special),
    )  # fmt: skip

    def deeper(one: Values) -> Values:
        return st.lists(one, max_size=3) | st.dictionaries(st.text(max_size=3), one, max_size=3)

    return st.recursive(scalars, deeper, max_leaves=6)


def changed_by(replacements: Values) -> Callable[[Any], Values]:
    """Makes, of an honest form, strategies for it with one of its parts, however deep, replaced or left out."""

    @st.composite
    def changed(draw: st.DrawFn, form: Any) -> Any:
        if isinstance(form, (dict, list)) and form and draw(st.integers(0, 3)):
            key = draw(st.sampled_from(sorted(form) if isinstance(form, dict) else range(len(form))))
            copy: Any = form.copy()
            if draw(st.integers(0, 9)):
                copy[key] = draw(changed(form[key]))
            else:
                del copy[key]
            return copy
        return draw(replacements)

    return changed
