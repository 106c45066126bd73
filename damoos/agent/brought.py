"""Words of a run that name files which the controller has brought, at other paths."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

# Keys of a run's specification that hold words.
_KEYS = ("argv", "stdin", "setup", "load", "containers", "env", "program_env")


def renamed(spec: Mapping[str, Any], paths: Mapping[str, str]) -> dict[str, Any]:
    """A specification in which each path of a file is replaced by another one.

    Parameters
    ----------
    spec : mapping
        See `damoos.agent.run.Run`.
    paths : mapping of str to str
        New paths by the old ones.
    """
    if not paths:
        return dict(spec)
    longest_first = sorted(paths, key=len, reverse=True)
    path = re.compile("|".join(map(re.escape, longest_first)))

    def of(value: Any) -> Any:
        if isinstance(value, str):
            return path.sub(lambda match: paths[match[0]], value)
        if isinstance(value, dict):
            return {key: of(one) for key, one in value.items()}
        return [of(one) for one in value] if isinstance(value, list) else value

    return {key: of(value) if key in _KEYS else value for key, value in spec.items()}
