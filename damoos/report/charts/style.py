"""Colours, markers and dashes: never a colour alone tells two things apart."""

from __future__ import annotations

# Okabe and Ito's palette, told apart also without colour vision; each is seen on white and on black.
BLUE, ORANGE, GREEN, RED, SKY, PINK, GREY = "#0072b2", "#e69f00", "#009e73", "#d55e00", "#56b4e9", "#cc79a7", "#767676"
PALETTE = (BLUE, ORANGE, GREEN, RED, SKY, PINK, GREY)
# The same from hot to cold.
HOT_TO_COLD = (RED, ORANGE, "#f0e442", SKY, BLUE, "#999999")
# Marks and dashes that go with the palette, in words that Plotly knows and matplotlib is told.
MARKERS = ("circle", "square", "diamond", "triangle-up", "triangle-down", "cross", "star")
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
# Where a heatmap has no memory.
NOTHING = "#d9d9d9"
# From worse to better, with nothing in the middle.
DIVERGING = (RED, "#f7f7f7", BLUE)


def nth(number: int) -> tuple[str, str, str]:
    """Colour, marker and dash of one series of several; they begin anew after the last one, in other combinations."""
    return PALETTE[number % len(PALETTE)], MARKERS[number % len(MARKERS)], DASHES[number % len(DASHES)]
