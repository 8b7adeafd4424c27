"""explorable: figures that one moves and questions that one answers, in JupyterLab and on a page without a kernel.

A figure is an :class:`Explorer`: a plain Python function from control values to a :class:`Picture`, of curves, bars,
marks or a :class:`Scene`. A :class:`Question` knows its answer and the mistakes that people make; a :class:`Check` asks
it. The kit knows nothing of clusters: of the library beside it, it uses the units alone.
"""

from ._widget import Widget
from .check import Check
from .explorer import Axis, Explorer, Picture, Play, Predict, Select, Slider, Toggle, stacked, waterfall
from .question import Question
from .scene import LETTER, Arrow, Band, Box, Label, Part, Scene, breadth, grid, legend

__all__ = [
    "LETTER",
    "Arrow",
    "Axis",
    "Band",
    "Box",
    "Check",
    "Explorer",
    "Label",
    "Part",
    "Picture",
    "Play",
    "Predict",
    "Question",
    "Scene",
    "Select",
    "Slider",
    "Toggle",
    "Widget",
    "breadth",
    "grid",
    "legend",
    "stacked",
    "waterfall",
]  # fmt: skip
