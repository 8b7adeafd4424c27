"""``pytest --nbval book``: every chapter runs, and prints what it holds."""

import pytest
from nbval.plugin import IPyNbFile

from replay import NOT_STORED

collect_ignore = ["conftest.py"]  # it holds no example, and its name is that of another


@pytest.hookimpl(wrapper=True)
def pytest_collect_file():
    """Compare tables and drawings by the text beside them: a committed notebook holds neither HTML nor pictures."""
    files = yield
    for notebook in files:
        if isinstance(notebook, IPyNbFile):
            notebook.skip_compare += NOT_STORED
    return files
