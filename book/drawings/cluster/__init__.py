"""The machine: one drawing, from a GPU to a site, that every page looks at from its own distance.

Everything stands at its place in one plane. A camera shows a part of it: the whole of so many GPUs, or, in the strip at
the head of a chapter, five parts side by side.
"""

from .ring import HELD, LISTS, everyone, pieces
from .sizes import SIZES, Size, size
from .strip import here, you_are_here
from .zoom import machine

__all__ = ["HELD", "LISTS", "SIZES", "Size", "everyone", "here", "machine", "pieces", "size", "you_are_here"]
