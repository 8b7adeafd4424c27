"""What a law needs to be called soundly, beyond what its quantities say: a module for each room.

``ARGUMENTS`` maps the name of a law to two values of each argument that its own rules ask for, in place of the usual
two numbers, and to its arguments that are no quantities. ``IN_UNITS`` has what replaces them where units are tried:
records whose fields have units. None: records of a machine, which are plain numbers; tests of the room scale its clock.
"""

import importlib
import pkgutil

ARGUMENTS: dict[str, dict] = {}
IN_UNITS: dict[str, dict | None] = {}
for _found in pkgutil.iter_modules(__path__):
    _room = importlib.import_module(f"{__name__}.{_found.name}")
    ARGUMENTS |= {f"{_found.name}.{name}": values for name, values in _room.ARGUMENTS.items()}
    IN_UNITS |= {f"{_found.name}.{name}": values for name, values in getattr(_room, "IN_UNITS", {}).items()}
