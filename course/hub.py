"""``python -m course.hub``: the links that bring the chapters to students on a JupyterHub with nbgitpuller."""

from __future__ import annotations

import argparse
from urllib.parse import quote, urlencode

from .slides import CHAPTERS


def link(hub: str, repository: str, path: str, branch: str = "main") -> str:
    """The link that fetches a repository into a student's home, or what is new in it, and opens one of its files.

    Examples
    --------
    >>> address = link("https://hub.example.edu/", "https://github.com/you/clusters.git", "book/power.ipynb")
    >>> print(*address.split("&"), sep=" ")  # doctest: +NORMALIZE_WHITESPACE
    https://hub.example.edu/hub/user-redirect/git-pull?repo=https%3A%2F%2Fgithub.com%2Fyou%2Fclusters.git
    branch=main targetPath=clusters urlpath=lab%2Ftree%2Fclusters%2Fbook%2Fpower.ipynb%3Fautodecode
    """
    folder = repository.rstrip("/").rpartition("/")[2].removesuffix(".git")
    # Without a target nbgitpuller would name the folder as the address ends, .git and all.
    asked = {
        "repo": repository,
        "branch": branch,
        "targetPath": folder,
        "urlpath": f"lab/tree/{quote(f'{folder}/{path}')}?autodecode",
    }
    return f"{hub.rstrip('/')}/hub/user-redirect/git-pull?{urlencode(asked)}"


def main(arguments: list[str] | None = None) -> int:
    """Print a link for each chapter."""
    parser = argparse.ArgumentParser(prog="python -m course.hub", description=main.__doc__)
    parser.add_argument("hub", help="address of the hub")
    parser.add_argument("repository", help="address of this book's repository, or of yours")
    parser.add_argument("--branch", default="main")
    given = parser.parse_args(arguments)
    for name in CHAPTERS:
        print(f"{name}: {link(given.hub, given.repository, f'book/{name}.ipynb', given.branch)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
