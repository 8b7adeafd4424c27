"""Build the book on plain Sphinx into ``_build/sphinx``, and say what differs from the site of Jupyter Book.

``python tools/plain.py`` builds, and compares with ``_build/html`` where that is there: which files either has alone,
and which pages say something else.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from bs4 import BeautifulSoup

ROOT = Path(__file__).parents[1]
BUILD = ROOT / "_build"


def sphinx(builder: str, output: Path, *options: str) -> None:
    """Run Sphinx on the book with the configuration beside this file."""
    command = [sys.executable, "-m", "sphinx", "-q", "-b", builder, "-c", str(ROOT / "tools" / "conf")]
    kept = str(output.with_name(f".{output.name}-doctrees"))
    subprocess.run([*command, "-d", kept, *options, str(ROOT), str(output)], check=True)


def pages(site: Path) -> dict[str, str]:
    """Return the text of every page of a site."""
    found = {}
    for path in site.rglob("*.html"):
        if "_static" not in path.parts:
            page = BeautifulSoup(path.read_text("utf-8"), "html.parser")
            found[path.relative_to(site).as_posix()] = page.get_text(" ", strip=True)
    return found


def main() -> None:
    """Build and compare."""
    sphinx("html", BUILD / "sphinx", "-W", "--keep-going")
    if not (BUILD / "html" / "index.html").exists():
        print("There is no _build/html to compare with: make book")
        return
    plain, book = pages(BUILD / "sphinx"), pages(BUILD / "html")
    for name, one, other in (("Jupyter Book", book, plain), ("plain Sphinx", plain, book)):
        print(f"{name} alone has: {', '.join(sorted(one.keys() - other.keys())) or 'nothing'}")
    differ = sorted(name for name in plain.keys() & book.keys() if plain[name] != book[name])
    print(f"Of {len(plain.keys() & book.keys())} pages, these say something else: {', '.join(differ) or 'none'}")


if __name__ == "__main__":
    main()
