"""The machine: one drawing, from a GPU to a site, that every page looks at from its own distance.

Everything stands at its place in one plane. A camera shows a part of it: the whole of so many GPUs, or, in the strip at
the head of a chapter, five parts side by side.
"""

from .cut import cut
from .ring import LISTS, pieces
from .sizes import SIZES, Size, size
from .strip import here, you_are_here
from .zoom import machine

__all__ = ["LISTS", "SIZES", "Size", "cut", "here", "machine", "pieces", "size", "you_are_here"]
