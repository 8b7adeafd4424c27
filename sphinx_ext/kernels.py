"""Sphinx extension: kernels that meet their chapters at sockets of their own, so that many may start at once.

jupyter_client looks for free ports, lets them go, and tells the kernel to take them. Until it has, a second later,
another program may be dealt the same: "Address already in use". No one else is dealt a file with a random name.
"""

from __future__ import annotations

import functools
import os
import tempfile
import uuid
from pathlib import Path

from jupyter_cache.executors.utils import single_nb_execution
from jupyter_client import AsyncKernelManager
from myst_nb.core.execute import cache

LONGEST = 100  # bytes: macOS takes 103 for the path of a socket, Linux 107


class OwnSockets(AsyncKernelManager):
    """Speaks to its kernel over files in the temporary folder; over ports where there are no such sockets."""

    def __init__(self, **options):
        super().__init__(**options)
        connection = Path(tempfile.gettempdir(), f"kernel-{uuid.uuid4()}.json")
        if os.name == "posix" and len(os.fsencode(connection)) < LONGEST:
            self.connection_file, self.transport = str(connection), "ipc"


def setup(app):
    """Register with Sphinx: myst-nb hands what it does not know itself on to nbclient."""
    own = {"kernel_manager_class": OwnSockets, "shutdown_kernel": "immediate"}  # no kernel has anything to put away
    cache.single_nb_execution = functools.partial(single_nb_execution, **own)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
