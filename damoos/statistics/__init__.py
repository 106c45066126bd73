"""From repeated runs to numbers with intervals, and to a verdict."""
