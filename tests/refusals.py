"""What the tests of figures share: that every refusal of a module is reached by a mistake of a list."""

import ast
import inspect
import re
import traceback

import pytest


def unreached(module, mistakes) -> set[int]:
    """Make every mistake, which must be refused with its message; return the lines that raise and were not reached."""
    reached = set()
    for message, mistake in mistakes.items():
        with pytest.raises(ValueError, match=re.escape(message)) as refused:
            mistake()
        reached.add(traceback.extract_tb(refused.tb)[-1].lineno)
    return {
        node.lineno for node in ast.walk(ast.parse(inspect.getsource(module))) if isinstance(node, ast.Raise)
    } - reached
