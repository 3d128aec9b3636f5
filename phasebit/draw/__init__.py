"""Pictures that belong to the page: plots, grids of cells, diagrams.

A ``Picture`` is an SVG and a sentence. The sentence carries the numbers that matter: it is the
alternative text of the picture and what a test compares.
"""

from phasebit.draw.charts import Cell, chart
from phasebit.draw.diagrams import Arrow, Node, diagram
from phasebit.draw.grids import heatmap
from phasebit.draw.panels import Panel, panels
from phasebit.draw.picture import Picture, Real
from phasebit.draw.plots import curves, roofline, scatter
from phasebit.draw.row_plots import bars, dots, spread

__all__ = [
    "Arrow",
    "Cell",
    "Node",
    "Panel",
    "Picture",
    "Real",
    "bars",
    "chart",
    "curves",
    "diagram",
    "dots",
    "heatmap",
    "panels",
    "roofline",
    "scatter",
    "spread",
]
