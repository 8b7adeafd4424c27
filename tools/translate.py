"""Bring a language's catalogues up to date with the pages, and build the book in it: ``python tools/translate.py de``.

A catalogue, ``locale/de/LC_MESSAGES/book/cluster.po``, holds the texts of a page and their translations; what has none
stays in English. A page gets one when it is named: ``python tools/translate.py de book/glossary``.
"""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.pofile import read_po, write_po

from plain import BUILD, ROOT, sphinx

# No dates and no names: the repository knows both.
HEAD = """msgid ""
msgstr ""
"Language: {language}\\n"
"MIME-Version: 1.0\\n"
"Content-Type: text/plain; charset=utf-8\\n"
"Content-Transfer-Encoding: 8bit\\n"

"""


def update(catalogue: Path, messages: Path, language: str) -> str:
    """Bring a catalogue up to date with what a page says now; return how far it is translated."""
    template = read_po(messages.open("rb"))
    held = read_po(catalogue.open("rb"), locale=language) if catalogue.exists() else Catalog(locale=language)
    held.update(template)
    for message in held:
        message.locations, message.auto_comments = [], []  # lines move with every change and tell a translator nothing
    catalogue.parent.mkdir(parents=True, exist_ok=True)
    told = io.BytesIO()
    write_po(told, held, width=120, omit_header=True, ignore_obsolete=True)
    catalogue.write_bytes(HEAD.format(language=language).encode() + told.getvalue().rstrip() + b"\n")
    texts = [message for message in held if message.id]
    done = sum(bool(message.string) and not message.fuzzy for message in texts)
    return f"{catalogue.relative_to(ROOT)}: {done} of {len(texts)} texts are translated"


def main() -> None:
    """Update the catalogues that there are, and those of the pages named; then build."""
    language, *named = sys.argv[1:] or ["de"]
    folder, messages = ROOT / "locale" / language / "LC_MESSAGES", BUILD / "messages"
    sphinx("gettext", messages, "-D", "nb_execution_mode=off")
    known = [path.relative_to(folder).with_suffix("").as_posix() for path in folder.rglob("*.po")]
    for page in dict.fromkeys([*known, *named]):
        print(update(folder / f"{page}.po", messages / f"{page}.pot", language))
    if url := os.environ.get("BOOK_URL", "").rstrip("/"):
        os.environ["BOOK_URL"] = f"{url}/{language}"
    sphinx("html", BUILD / language, "-D", f"language={language}")
    print(f"The book: {BUILD / language / 'book' / 'index.html'}")


if __name__ == "__main__":
    main()
