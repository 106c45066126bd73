"""Words that name something, such as a machine: an empty one is what a script says whose variable is not set."""

from __future__ import annotations

from collections.abc import Mapping

from damoos.errors import ConfigError

# As the commands and the functions of the API call them.
NAMING = frozenset(
    ("study", "name", "machine", "machines", "guest", "on", "ray", "storage", "results", "workload", "named", "kernel")
)


def check_named(given: Mapping[str, object], shown: Mapping[str, str] | None = None) -> None:
    """Refuse an empty name: it would be taken for one that is not given, and damoos would choose itself.

    Every command and every function of the API that takes names begins with this.

    Parameters
    ----------
    given : mapping
        Values by parameter.
    shown : mapping or None
        What people call each parameter; None for its name.

    Raises
    ------
    ConfigError : a name is empty
    """
    for name, value in given.items():
        if name in NAMING and isinstance(value, str) and not value.strip():
            called = (shown or {}).get(name, name)
            raise ConfigError(f"{called} is empty; name something, or leave it out")
