"""The reference pages: every public name has its entry, and the code of the chapters leads there."""

import ast
import doctest
import functools
import importlib
import inspect
import pkgutil
import posixpath
import re
from types import FunctionType, ModuleType
from typing import ParamSpec, TypeVar

import nbformat
import pytest
from bs4 import BeautifulSoup
from sphinx.util.inventory import InventoryFile

import clusterlab
from building import ROOT
from explorable import palette

MEMBERS = FunctionType, property, classmethod, staticmethod, functools.cached_property
HIDDEN = {"remove-cell", "remove-input"}
NOT_SHOWN = ModuleType, TypeVar, ParamSpec


@pytest.fixture(scope="module")
def inventory(site) -> dict[str, str]:
    """The page and anchor of every name of Python that the site documents."""
    with (site / "objects.inv").open("rb") as stream:
        found = InventoryFile.load(stream, "", posixpath.join)
    return {name: entry[2] for kind in found if kind.startswith("py:") for name, entry in found[kind].items()}


@pytest.fixture(scope="module")
def reference(site) -> dict[str, BeautifulSoup]:
    """The pages of the reference by the name of their file."""
    paths = (site / "book" / "reference").glob("*.html")
    return {path.name: BeautifulSoup(path.read_text(), "html.parser") for path in paths}


@pytest.fixture(scope="module")
def linked(site):
    """Return the links in the code of a chapter."""
    link = re.compile('<a class="sphinx-codeautolink-a".*?</a>', re.DOTALL)

    @functools.cache
    def links(chapter):
        found = link.findall((site / "book" / f"{chapter}.html").read_text())
        return BeautifulSoup("".join(found), "html.parser").find_all("a")

    return links


@functools.cache
def modules() -> dict[str, ModuleType]:
    """The rooms, which say what is public."""
    found = [info.name for info in pkgutil.iter_modules(clusterlab.__path__, "clusterlab.")]
    hidden = {"clusterlab.__main__", "clusterlab.cli"}
    return {name: importlib.import_module(name) for name in [*found, "explorable"] if name not in hidden}


def own(module) -> dict[str, object]:
    """What a module holds for others: whatever it did not import, but from its own rooms, and does not hide."""
    tree = ast.walk(ast.parse(inspect.getsource(module)))
    imported = {
        alias.asname or alias.name
        for node in tree
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    shared = set(getattr(module, "__all__", ()))
    return {
        name: thing
        for name, thing in vars(module).items()
        if not (name.startswith("_") or name in imported - shared or isinstance(thing, NOT_SHOWN))
    }


def laws_and_records() -> dict[str, object]:
    return {
        f"{module}.{name}": thing
        for module in modules()
        for name, thing in own(modules()[module]).items()
        if isinstance(thing, type | FunctionType)
    }


def test_every_public_name_of_every_module_has_an_entry(inventory):
    names = {f"{module}.{name}" for module in modules() for name in own(modules()[module])}
    assert {"clusterlab.roofline.matmul", "clusterlab.units.GB"} <= names
    assert sorted(names - set(inventory)) == []


def test_every_public_member_of_a_record_has_an_entry_and_no_private_one_has(inventory):
    members = {
        f"{name}.{member}"
        for name, thing in laws_and_records().items()
        if isinstance(thing, type)
        for member, what in vars(thing).items()
        if isinstance(what, MEMBERS) and not member.startswith("_")
    }
    assert "clusterlab.roofline.Work.intensity" in members
    assert sorted(members - set(inventory)) == []
    assert [name for name in inventory if re.search(r"\._[^.]*$", name)] == []


def test_the_map_leads_to_every_law_and_record(inventory, reference):
    led = {link["href"].split("#")[-1] for link in reference["index.html"].select("dl.reference-map a[href*='#']")}
    assert sorted(set(laws_and_records()) - led) == []


def test_every_cross_reference_of_a_docstring_is_a_link(reference):
    broken = {
        f"{name}: {code.get_text()}"
        for name, page in reference.items()
        for code in page.select("article code.xref")
        if code.find_parent("a") is None
    }
    assert sorted(broken) == []


def test_every_example_stands_on_its_page_as_it_is_written(inventory, reference):
    shown, missing = 0, []
    texts = {name: "\n".join(pre.get_text() for pre in page.select("pre")) for name, page in reference.items()}
    for name, thing in laws_and_records().items():
        text = texts[inventory[name].split("#")[0].split("/")[-1]]
        for example in doctest.DocTestParser().get_examples(inspect.getdoc(thing) or ""):
            shown += 1
            if example.want.strip() not in text:
                missing.append(f"{name}: {example.source}")
    assert shown > 100
    assert missing == []


def test_a_signature_names_its_quantities_and_each_leads_to_its_unit_and_its_rule(reference):
    signature = reference["roofline.html"].find(id="clusterlab.roofline.kernel_time")
    assert "bytes_moved: Bytes" in " ".join(signature.get_text().split())
    assert "quantities.html#clusterlab.quantities.Bytes" in [link["href"] for link in signature.select("a.reference")]
    entry = reference["quantities.html"].find(id="clusterlab.quantities.Bytes").find_next("dd").get_text()
    assert "A number or an array, in B: zero or more and finite." in entry
    assert {page for page, soup in reference.items() if "Annotated[" in str(soup.select("dt.sig"))} == set()


def test_a_property_keeps_its_sentence(reference):
    entry = reference["roofline.html"].find(id="clusterlab.roofline.Work.intensity").find_next("dd").get_text()
    assert entry.strip().startswith("Arithmetic intensity, FLOP per byte moved: I = FLOPs / bytes")


def names_shown(notebook) -> set[str]:
    """Full names of the library that the code on a chapter's page uses; the imports stand off the page."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    trees = [ast.parse(re.sub(r"^%.*$", "", cell.source, flags=re.MULTILINE)) for cell in cells]
    imported = {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module.startswith("clusterlab")
        for alias in node.names
    }
    shown = [tree for tree, cell in zip(trees, cells, strict=True) if not HIDDEN & {*cell.metadata.get("tags", [])}]
    nodes = [node for tree in shown for node in ast.walk(tree)]
    assigned = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    used = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    rooms = {imported[name] for name in used & imported.keys() if imported[name] in modules()}
    laws = {
        f"{imported[node.value.id]}.{node.attr}"
        for node in nodes
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and imported.get(node.value.id) in rooms
    }
    # Of a chain, such as LAWS.items(), it is the end that leads somewhere.
    starts = {id(node.value) for node in nodes if isinstance(node, ast.Attribute)}
    alone = {node.id for node in nodes if isinstance(node, ast.Name) and id(node) not in starts} - assigned
    return laws | {imported[name] for name in alone & imported.keys()} - rooms


def test_every_name_of_the_library_in_a_chapter_s_code_leads_to_its_entry(linked):
    found = {}
    for chapter in sorted((ROOT / "book").glob("*.ipynb")):
        wanted = names_shown(nbformat.read(chapter, 4))
        led = {link["href"].split("#")[-1] for link in linked(chapter.stem)}
        found[chapter.stem] = len(wanted)
        assert sorted(wanted - led) == [], chapter.stem
    assert sum(count > 10 for count in found.values()) > 5, found


def test_a_call_in_a_chapter_leads_to_the_law(linked, reference):
    calls = [link for link in linked("interconnect") if link.get_text() == "interconnect.ring_all_reduce"]
    assert calls
    for link in calls:
        page, anchor = link["href"].split("/")[-1].split("#")
        assert "ring_all_reduce(" in reference[page].find(id=anchor).get_text().replace("\n", "")


def test_the_palette_is_drawn_with_every_colour_that_it_has(reference):
    drawn = reference["explorable.html"].select_one("figure.cl-drawn")
    boxes = {box.get_text(): box["class"] for box in drawn.select(".cl-box.cl-solid")}
    assert boxes.keys() == palette.PALETTE.keys()
    assert all(f"cl-c-{name}" in classes for name, classes in boxes.items())
    assert ".cl-c-wire {" in reference["explorable.html"].find(string=re.compile("light-dark"))
