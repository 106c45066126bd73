"""Values that are older than they look: of a source that has stopped, and goes on to tell the last one."""

from __future__ import annotations

# By the source's own time: when its file was written, or what a page of Prometheus says beside the value.
GREATEST_AGE_S = 300.0
# A number with a fraction that has changed so often, and then stays the same to its last digit for so long, and for so
# many times as long as ever before, is no longer measured. Whole numbers stay the same rightly: a count of errors, say.
LEAST_CHANGES, GREATEST_REST_S, LONGER = 10, 3600.0, 10.0


class Staleness:
    """Watches one metric of a service, reading by reading."""

    def __init__(self) -> None:
        self._value: float | None = None
        self._since_s = 0.0
        self._nr_changes = 0
        self._longest_s = 0.0

    def add(self, value: float, age_s: float | None, now_s: float) -> str:
        """Take a reading into account; returns why its value is stale, and nothing if it is not.

        Parameters
        ----------
        value : float
        age_s : float or None, seconds
            By the source's own time; None if it tells none.
        now_s : float, seconds
            The machine's clock.
        """
        if value != self._value:
            if self._value is not None:
                self._nr_changes += 1
                self._longest_s = max(self._longest_s, now_s - self._since_s)
            self._value, self._since_s = value, now_s
        if age_s is not None:
            return f"its source has told nothing new for {age_s:.0f} s" if age_s > GREATEST_AGE_S else ""
        rests_s = now_s - self._since_s
        is_measured = self._nr_changes >= LEAST_CHANGES and not float(value).is_integer()
        if is_measured and rests_s > max(GREATEST_REST_S, LONGER * self._longest_s):
            return f"it has been {value!r} to the last digit for {rests_s:.0f} s"
        return ""
