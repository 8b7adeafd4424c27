"""What a law needs to be called soundly, beyond what its quantities say: a module for each room.

``ARGUMENTS`` maps the name of a law to two values of each argument that its own rules ask for, in place of the usual
two numbers, and to its arguments that are no quantities.
"""

import importlib
import pkgutil

ARGUMENTS: dict[str, dict] = {}
for _found in pkgutil.iter_modules(__path__):
    _room = importlib.import_module(f"{__name__}.{_found.name}").ARGUMENTS
    ARGUMENTS |= {f"{_found.name}.{name}": values for name, values in _room.items()}
