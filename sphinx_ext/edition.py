"""Sphinx extension: which edition of the book this is, for readers, for search engines and for who shares a link.

Every page names its version at its foot and, where the book is built from a repository, that commit and its date: no
clock. ``404.html`` is what a server shows for an address that leads nowhere. Where the site's address is known, in
``BOOK_URL``, there are a map of the site, absolute links on the page of lost readers, which is shown at any depth, and
a picture of each page for those who share it (``pictures``); without it the site is the same, wherever it lies.
"""

from __future__ import annotations

import datetime
import html
import os
import re
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

from babel import Locale

import clusterlab
import pictures

# A link of a page to the site itself, in markup or in the script of its head; none to a place on the page.
OWN = re.compile(r'((?: (?:href|src|data-src|action)=|\bhref: )")(?![a-z]+:|[#/"])')


def setup(app):
    """Register with Sphinx."""
    app.connect("config-inited", configure, priority=1)
    app.connect("html-collect-pages", lost_readers)
    app.connect("html-page-context", share, priority=970)  # when the figures are in their places
    app.connect("build-finished", map_site, priority=910)  # when the styles have been gathered
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


def configure(app, config):
    """Say what the foot of a page says, and take the site's address."""
    config.html_context["edition"] = edition(Path(app.srcdir), os.environ.get("BOOK_REPOSITORY", "").rstrip("/"))
    if url := os.environ.get("BOOK_URL", "").rstrip("/"):
        config.html_baseurl = f"{url}/"


def edition(folder: Path, repository: str = "") -> dict[str, str]:
    """Return the version and, in a repository, the commit with its date, and where it is to be read."""
    found = {"version": clusterlab.__version__}
    own = {"GIT_CEILING_DIRECTORIES": str(folder.resolve().parent)}  # a repository around the book is not the book's

    def git(*command: str) -> str:
        said = subprocess.run(["git", *command], cwd=folder, env=os.environ | own, capture_output=True, text=True)
        return said.stdout.strip() if said.returncode == 0 else ""

    try:
        date, commit = git("log", "-1", "--format=%cs"), git("describe", "--always", "--exclude=*", "--dirty=+")
    except OSError:  # there is no git
        return found
    if date and commit:
        day = datetime.date.fromisoformat(date)
        found |= {"date": f"{day.day} {day:%B %Y}", "commit": commit}
        if repository:
            found["link"] = f"{repository}/commit/{commit.rstrip('+')}"
    return found


def lost_readers(app):
    """Make the page of an address that leads nowhere."""
    yield "404", {"title": "There is no such page"}, "404.html"


def share(app, pagename, templatename, context, doctree):
    """Where the site's address is known, tell who shares a link what the page is; name its translations."""
    base = app.config.html_baseurl
    if not base or doctree is None:
        return
    if app.config.language == "en":
        found = sorted(Path(app.srcdir, "locale").glob(f"*/LC_MESSAGES/{pagename}.po"))
        codes = [catalogue.relative_to(app.srcdir).parts[1] for catalogue in found]
        context["languages"] = {code: (Locale(code).display_name, f"{base}{code}/{pagename}.html") for code in codes}
    title = html.unescape(re.sub(r"<[^>]+>", "", context["title"]))
    (described,) = re.findall(r'<meta name="description" content="([^"]*)">', context["metatags"]) or [""]
    scene, said = pictures.opening(context["body"])
    name = f"_static/cards/{pagename.replace('/', '-') if scene else 'book'}.png"
    if scene:
        pictures.draw(scene, title, app.config.html_title, Path(app.outdir, name))
    tags = {
        "og:type": "article",
        "og:site_name": app.config.html_title,
        "og:title": title,
        "og:description": html.unescape(described),
        "og:url": f"{base}{pagename}.html",
        "og:image": f"{base}{name}",
        "og:image:alt": said or "One GPU, its server, its rack and the site",
    }
    lines = [f'<meta property="{key}" content="{html.escape(value, quote=True)}">' for key, value in tags.items()]
    context["metatags"] += "".join([*lines, '<meta name="twitter:card" content="summary_large_image">'])


def map_site(app, exception):
    """Where the site's address is known, write its map, and make the links of ``404.html`` good at any depth."""
    base = app.config.html_baseurl
    if exception or app.builder.format != "html" or not base:
        return
    site = Path(app.outdir)
    places = "".join(f"<url><loc>{base}{name}.html</loc></url>\n" for name in sorted(app.env.found_docs))
    opening = '<?xml version="1.0" encoding="UTF-8"?>\n<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">\n'
    (site / "sitemap.xml").write_text(f"{opening}{places}</urlset>\n", encoding="utf-8")
    lost = site / "404.html"
    lost.write_text(anchored(lost.read_text(encoding="utf-8"), base), encoding="utf-8")
    front = (site / f"{app.config.root_doc}.html").read_text(encoding="utf-8")
    pictures.draw(pictures.opening(front)[0], app.config.html_title, "", site / "_static/cards/book.png")


def anchored(page: str, base: str) -> str:
    """Return a page whose links to the site begin at the root of the server.

    >>> anchored('<a href="a.html"><a href="#b"><a href="mailto:c">', "https://example.org/book/")
    '<a href="/book/a.html"><a href="#b"><a href="mailto:c">'
    """
    return OWN.sub(rf"\g<1>{urlsplit(base).path}", page)
