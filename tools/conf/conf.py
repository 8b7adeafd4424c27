"""The book on plain Sphinx: what Jupyter Book 1 makes of ``_config.yml``, written out.

Nothing here asks for Jupyter Book: Sphinx, MyST-NB, the theme and the extensions that it brings do all the work.
"""

import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "sphinx_ext"))
SETTINGS = yaml.safe_load((ROOT / "_config.yml").read_text("utf-8"))

project = html_title = SETTINGS["title"]
author, copyright = SETTINGS["author"], SETTINGS["copyright"]  # noqa: A001
exclude_patterns = SETTINGS["exclude_patterns"]
extensions = [
    "myst_nb",
    "sphinx_book_theme",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_external_toc",
    "sphinx_multitoc_numbering",
    "sphinx_togglebutton",
    "sphinxcontrib.bibtex",
    *SETTINGS["sphinx"]["local_extensions"],
]
external_toc_path = str(ROOT / "_toc.yml")
external_toc_exclude_missing = SETTINGS["only_build_toc_files"]
html_theme, html_favicon, html_sourcelink_suffix = "sphinx_book_theme", str(ROOT / SETTINGS["html"]["favicon"]), ""
myst_enable_extensions = ["colon_fence", "dollarmath", "linkify", "substitution", "tasklist"]
myst_url_schemes = ["mailto", "http", "https"]
nb_execution_mode, nb_execution_timeout = SETTINGS["execute"]["execute_notebooks"], SETTINGS["execute"]["timeout"]
nb_execution_cache_path = str(ROOT / "_build" / ".jupyter_cache")  # what Jupyter Book ran is not run again
pygments_style = "sphinx"
locale_dirs, gettext_compact = [str(ROOT / "locale")], False

OWN = SETTINGS["sphinx"]["config"]
globals().update(OWN)
html_static_path = [str(ROOT / name) for name in OWN["html_static_path"]]
templates_path = [str(ROOT / name) for name in OWN["templates_path"]]
bibtex_bibfiles = [str(ROOT / name) for name in SETTINGS["bibtex_bibfiles"]]
