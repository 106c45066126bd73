"""Charts: what is to be seen as data (`chart`, `layers`), and its renderings.

`picture` draws with matplotlib (PNG, SVG), `page` with Plotly (HTML), `terminal` with characters; none of them computes
anything. What is in a chart is said in the rooms beside this one, `damoos.report.study.tuning` and others.
"""

from damoos.report.charts.chart import Chart
from damoos.report.charts.content import Panel
from damoos.report.charts.layers import Axis, Bars, Cells, Layer, Level, Line, Points, Span, Stack, Steps, Upright

__all__ = [
    "Axis", "Bars", "Cells", "Chart", "Layer", "Level", "Line", "Panel", "Points", "Span", "Stack", "Steps", "Upright",
]  # fmt: skip
