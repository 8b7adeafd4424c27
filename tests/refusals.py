"""What the tests of figures share: that every refusal of a module is reached by a mistake of a list."""

import ast
import inspect
import re
import traceback

import pytest


def unreached(module, mistakes, *rooms) -> set[tuple[str, int]]:
    """Make every mistake, which must be refused with its message; return the places that raise and were not reached."""
    reached = set()
    for message, mistake in mistakes.items():
        with pytest.raises(ValueError, match=re.escape(message)) as refused:
            mistake()
        last = traceback.extract_tb(refused.tb)[-1]
        reached.add((last.filename, last.lineno))
    return {
        (str(source.__file__), node.lineno)
        for source in (module, *rooms)
        for node in ast.walk(ast.parse(inspect.getsource(source)))
        if isinstance(node, ast.Raise)
    } - reached
