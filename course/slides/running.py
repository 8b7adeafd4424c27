"""Chapters that have run: as the site's build keeps them, or run now, some at a time, and kept for both."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nbformat
from jupyter_cache import get_cache
from jupyter_cache.base import CacheBundleIn
from nbclient import NotebookClient

from book_widgets import library_digest
from kernels import OwnSockets

from ..plan import BOOK

KEPT = BOOK.parent / "_build" / ".jupyter_cache"  # by the library's digest, as the build of the site has it


def run(path: Path) -> nbformat.NotebookNode:
    """Run a notebook, and return it with its outputs.

    Raises
    ------
    nbclient.exceptions.CellExecutionError
        It does not run.
    """
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook,
        timeout=600,
        resources={"metadata": {"path": str(path.parent)}},
        kernel_manager_class=OwnSockets,
        shutdown_kernel="immediate",
    )
    client.execute()
    return notebook


def executed(
    paths: Iterable[Path], *, say: Callable[[str], None] = print, kept: Path = KEPT
) -> Iterator[tuple[Path, nbformat.NotebookNode]]:
    """Notebooks with their outputs: those that are kept, and then the others, run on all cores and kept from now on."""
    cache = get_cache(kept / library_digest())
    others = []
    for path in paths:
        try:
            _, notebook = cache.merge_match_into_notebook(nbformat.read(path, as_version=4))
        except KeyError:  # no such notebook has run with this library
            others.append(path)
        else:
            yield path, notebook
    if others:
        names = ", ".join(path.stem for path in others)
        say(f"running {names} (what `make book` has run is there already)")
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        for path, notebook in zip(others, threads.map(run, others), strict=True):
            cache.cache_notebook_bundle(CacheBundleIn(notebook, str(path)), check_validity=False, overwrite=True)
            yield path, notebook
