"""Sphinx extension: kernels that are there at once, and meet their chapters at sockets of their own.

A kernel takes a second of a core to import itself, the library and the widgets. The build does so once, and each kernel
is a fork of it. So is what it takes to read the tables of measurements that several chapters compare with.

jupyter_client looks for free ports, lets them go, and tells the kernel to take them. Until it has, a second later,
another program may be dealt the same: "Address already in use". No one else is dealt a file with a random name.
"""

from __future__ import annotations

import asyncio
import functools
import importlib
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import uuid
from pathlib import Path

from jupyter_cache.executors.utils import single_nb_execution
from jupyter_client import AsyncKernelManager
from jupyter_client.provisioning import local_provisioner
from myst_nb.core.execute import cache

LONGEST = 100  # bytes: macOS takes 103 for the path of a socket, Linux 107
FORKS = sys.platform == "linux"  # elsewhere a fork may hang in what the system's own libraries hold
SHARED = "ipykernel.kernelapp", "clusterlab", "explorable"
TABLES = "published_runs", "published_timings", "published_inference", "published_online"


class OwnSockets(AsyncKernelManager):
    """Speaks to its kernel over files in the temporary folder; over ports where there are no such sockets."""

    def __init__(self, **options):
        super().__init__(**options)
        connection = Path(tempfile.gettempdir(), f"kernel-{uuid.uuid4()}.json")
        if os.name == "posix" and len(os.fsencode(connection)) < LONGEST:
            self.connection_file, self.transport = str(connection), "ipc"


class Fork(multiprocessing.get_context("fork").Process if FORKS else object):  # type: ignore[misc]
    """A kernel that is a fork of this process, with what jupyter_client asks of a Popen."""

    stdin = stdout = stderr = None

    def __init__(self, command, *, env, cwd, **_):
        super().__init__(target=serve, args=(command, env, cwd))
        self.start()
        os.setpgid(self.pid, self.pid)  # here too: jupyter_client asks at once for the group that it will kill

    def poll(self):
        """Return how it ended, or None while it runs."""
        return self.exitcode

    def wait(self):
        """Return how it ended, when it has."""
        self.join()
        return self.exitcode

    def send_signal(self, signum):
        """Send it a signal."""
        os.kill(self.pid, signum)


def serve(command, env, cwd):
    """Become a kernel: nothing of the build is left but the modules that it has imported."""
    from ipykernel.kernelapp import IPKernelApp

    os.setpgid(0, 0)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    sys.path[:] = plain_path()
    sys.modules["debugpy"] = None  # type: ignore[assignment]  # nobody debugs a build, and to import it takes 70 ms
    asyncio.set_event_loop(asyncio.new_event_loop())
    # Where the build dies, so does it.
    IPKernelApp.launch_instance([*command[command.index("-f") :], f"--IPKernelApp.parent_handle={os.getppid()}"])


@functools.cache
def plain_path():
    """Where a Python that knows nothing of the build looks for modules."""
    asked = "import json, sys; print(json.dumps(sys.path[1:]))"
    return json.loads(subprocess.run([sys.executable, "-c", asked], check=True, capture_output=True).stdout)


def setup(app):
    """Register with Sphinx: myst-nb hands what it does not know itself on to nbclient."""
    own = {"kernel_manager_class": OwnSockets, "shutdown_kernel": "immediate"}  # no kernel has anything to put away
    cache.single_nb_execution = functools.partial(single_nb_execution, **own)
    if FORKS:
        local_provisioner.launch_kernel = Fork  # type: ignore[assignment]
        app.connect("env-before-read-docs", share)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


def share(app, env, docnames):
    """Ask, import and read what kernels share, before Sphinx forks the processes that start them."""
    if any(env.doc2path(name).endswith(".ipynb") for name in docnames):
        plain_path()
        for name in SHARED:
            importlib.import_module(name)
        evidence = importlib.import_module("clusterlab.evidence")
        for name in TABLES:  # each remembers what it has read
            getattr(evidence, name)()
