"""Which edition a site says that it is, its map and its pictures."""

import re
import subprocess
from types import SimpleNamespace

import numpy as np
from matplotlib.image import imread

import clusterlab
import edition
import pictures
from building import ROOT
from explorable import Arrow, Box, Label

PARTS = Box(10, 10, 80, 24, "HBM", kind="memory", solid=True), Arrow(90, 22, 130, 22), Label(150, 26, "to <the> rest")
DRAWN = "".join(part.svg() for part in PARTS)
SCENE = f'<svg class="cl-scene" role="img" aria-label="A GPU" viewBox="0 0 200 40">{DRAWN}</svg>'


def git(folder, *command):
    own = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run(["git", *own, *command], cwd=folder, check=True, capture_output=True)


def test_a_folder_has_the_date_of_its_own_commit_and_not_of_a_repository_around_it(tmp_path):
    git(tmp_path, "init")
    git(tmp_path, "commit", "--allow-empty", "--message", "x")
    (tmp_path / "book").mkdir()
    assert edition.edition(tmp_path / "book") == {"version": clusterlab.__version__}
    found = edition.edition(tmp_path, "https://example.org/b")
    assert re.fullmatch(r"\d{1,2} \w+ 20\d\d", found["date"])
    assert found["link"] == f"https://example.org/b/commit/{found['commit']}"
    (tmp_path / "a").touch()
    git(tmp_path, "add", "a")
    assert edition.edition(tmp_path)["commit"] == f"{found['commit']}+"  # not what was committed


def published(tmp_path, base):
    """Run what the extension does to a page and to a site, and return the tags of the page."""
    config = SimpleNamespace(html_baseurl=base, html_title="A book", root_doc="index", language="en")
    env = SimpleNamespace(found_docs={"index", "book/a"})
    app = SimpleNamespace(config=config, env=env, outdir=tmp_path, srcdir=ROOT, builder=SimpleNamespace(format="html"))
    (tmp_path / "404.html").write_text('<a href="book/a.html">')
    (tmp_path / "index.html").write_text(SCENE)
    described = '<meta name="description" content="Two &lt; three">'
    context = {"title": "A <em>page</em>", "metatags": described, "body": SCENE}
    edition.share(app, "book/a", "page.html", context, doctree=object())
    edition.map_site(app, None)
    return context["metatags"]


def test_a_site_with_an_address_has_a_map_pictures_and_a_page_for_lost_readers_at_any_depth(tmp_path):
    tags = published(tmp_path, "https://example.org/b/")
    assert '<meta property="og:title" content="A page">' in tags
    assert '<meta property="og:description" content="Two &lt; three">' in tags
    assert '<meta property="og:image" content="https://example.org/b/_static/cards/book-a.png">' in tags
    assert "<loc>https://example.org/b/book/a.html</loc>" in (tmp_path / "sitemap.xml").read_text()
    assert (tmp_path / "404.html").read_text() == '<a href="/b/book/a.html">'
    for name in ("book-a", "book"):
        path = tmp_path / f"_static/cards/{name}.png"
        assert imread(path).shape[:2] == (pictures.HEIGHT, pictures.WIDTH)
        assert path.stat().st_size < 60_000


def test_a_picture_has_each_part_of_the_scene_in_its_colour(tmp_path):
    pictures.draw(SCENE, "A page", "A book", tmp_path / "a.png")
    drawn = (imread(tmp_path / "a.png")[..., :3] * 255).round().astype(int)
    for colour in ("#43a17d", "#d4671a", "#222832"):  # memory, a wire, ink
        assert (drawn == [int(colour[i : i + 2], 16) for i in (1, 3, 5)]).all(axis=2).sum() > 20, colour
    assert (np.array(drawn[0, 0]) == 255).all()


def test_a_site_without_an_address_has_none_of_that(tmp_path):
    assert "og:" not in published(tmp_path, "")
    assert {path.name for path in tmp_path.iterdir()} == {"404.html", "index.html"}
    assert edition.edition(ROOT)["version"] == clusterlab.__version__
