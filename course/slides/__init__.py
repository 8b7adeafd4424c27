"""Slides of the chapters and of the sessions, each a file that needs no network: ``python -m course.slides``."""

import sys
from pathlib import Path

from .. import plan

CHAPTERS = plan.ORDER  # a deck of each

# The book's own extensions set formulas and start figures; Sphinx finds them by _config.yml, and slides by this.
EXTENSIONS = str(Path(__file__).parents[2] / "sphinx_ext")
if EXTENSIONS not in sys.path:
    sys.path.append(EXTENSIONS)
