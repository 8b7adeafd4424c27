"""Sphinx extension: the reference of the library, page by page from its docstrings, and the map that leads to them.

Nothing here lists a name. ``_toc.yml`` lists the pages, one for each module, under the rooms that they belong to; the
page of a module holds every public name that its source defines, in the order and under the headings of the source.
``{eval-rst}`` with ``.. reference:: MODULE`` is such a page, ``.. reference-map:: ROOM`` the list of a room, and
``.. swatches::`` the palette, drawn.
"""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import json
import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import ParamSpec, TypeVar

import sphinx.util.inspect
from docutils import nodes
from docutils.statemachine import StringList
from sphinx.ext import napoleon
from sphinx.ext.napoleon import NumpyDocstring
from sphinx.util.docutils import SphinxDirective
from sphinx.util.inspect import TypeAliasForwardRef, object_description
from sphinx.util.nodes import nested_parse_with_titles
from sphinx_codeautolink.extension.directive import PrefaceMarker

from clusterlab import quantities
from clusterlab.quantities import Quantity
from explorable import Box, Explorer, Picture, Scene, palette

IMPORTS = re.compile(r"^(import|from) ", re.MULTILINE)
HEADING = re.compile(r"# --- (.+?) -+$")
LOADS = re.compile(r"(?<![\w.])_[A-Za-z]|\bstored\(")  # in a constant, what says how it comes to hold what it holds
LONGEST = 30  # lines: a constant with more of them is data, and its page says only what it is


SECTIONS = napoleon.Config(napoleon_google_docstring=False, napoleon_use_param=False, napoleon_use_rtype=False)


def setup(app):
    """Register with Sphinx."""
    for extension in ("sphinx.ext.autodoc", "sphinx_codeautolink"):
        app.setup_extension(extension)
    app.add_directive("reference", Reference)
    app.add_directive("reference-map", Map)
    app.add_directive("swatches", Swatches)
    app.connect("config-inited", configure, priority=1)
    app.connect("doctree-read", tell_imports, priority=400)  # before sphinx-codeautolink reads the code
    app.connect("autodoc-process-docstring", set_sections)
    app.connect("autodoc-process-signature", show_factories)
    app.connect("autodoc-skip-member", skip)
    app.connect("missing-reference", link_names)
    app.connect("html-page-context", show_names)
    app.connect("html-page-context", tidy, priority=900)
    sphinx.util.inspect.TypeAliasNamespace = by_name  # type: ignore[assignment,misc]
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


def by_name(aliases):
    """Return what stands for each type in a signature; Sphinx's own has no ``in``, by which Python 3.14 asks."""
    return {name: TypeAliasForwardRef(shown) for name, shown in aliases.items()}


def configure(app, config):
    """Say how signatures and docstrings are set: one argument a line where they do not fit, defaults as written."""
    config.add_module_names = False
    config.python_maximum_signature_line_length = 64
    config.python_display_short_literal_types = True
    config.autodoc_member_order = "bysource"
    config.autodoc_preserve_defaults = True
    config.autodoc_use_type_comments = False  # there are none, and to see so it parses each function
    # By name: what a quantity allows, its entry says.
    config.autodoc_type_aliases |= {name: name for name in (*QUANTITIES, "ArrayLike", "Json", "TextFile")}
    config.html_domain_indices = False  # the map lists the modules
    config.toc_object_entries_show_parents = "hide"
    config.codeautolink_concat_default = True  # the cells of a notebook share their names
    config.codeautolink_autodoc_inject = False


def tell_imports(app, doctree):
    """Tell sphinx-codeautolink what a chapter imports, for no page shows it: else no name of its code has a link."""
    path = Path(app.env.doc2path(app.env.docname))
    if path.suffix == ".ipynb":
        doctree.insert(0, PrefaceMarker("\n".join(imports(path)), "file"))


def imports(path: Path) -> list[str]:
    """Return the imports of a notebook, one a line."""
    cells = [cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]
    sources = ["".join(line for line in cell["source"] if not line.startswith("%")) for cell in cells]
    code = "\n".join(source for source in sources if IMPORTS.search(source))  # a tenth of all lines
    return [ast.unparse(node) for node in ast.parse(code).body if isinstance(node, ast.Import | ast.ImportFrom)]


def set_sections(app, what, name, obj, options, lines):
    """Turn the sections of a docstring into fields; of a property too, whose colons Napoleon takes for a type."""
    kind = "method" if what in ("property", "attribute", "data") else what
    lines[:] = NumpyDocstring(list(lines), SECTIONS, app, kind, name, obj, options).lines()  # type: ignore[arg-type]


def show_factories(app, what, name, obj, options, signature, returns):
    """Write the default of a field as dots: of one that a factory makes, which Sphinx can't read, and of a record."""
    signature = (signature or "").replace("<factory>", "...")
    for field in fields(obj) if what == "class" and is_dataclass(obj) else ():
        if is_dataclass(field.default):  # of a screen's length, if it holds others
            signature = signature.replace(object_description(field.default), "...")
    return signature or None, returns


def skip(app, what, name, obj, skipped, options):
    """Leave out what is not the library's own word: the fields of a named tuple say only their number."""
    return True if type(obj).__name__ == "_tuplegetter" else None


def show_names(app, pagename, templatename, context, doctree):
    """List the names, and not only the headings, in the contents of a page of the reference."""
    if app.env.metadata.get(pagename, {}).get("reference"):
        context["theme_show_toc_level"] = 2


def tidy(app, pagename, templatename, context, doctree):
    """Mend what a screen reader stumbles over: arguments in half a definition list, and a button without a name.

    In signatures and names each word has an element of its own, which says only that it may not break, and here it may
    (book.css). These elements go: they're a fifth of a reference page, and a telephone lays out every one.
    """

    def divisions(signature):
        return re.sub(r"<(/?)d[ld]>", lambda tag: "</div>" if tag[1] else "<div>", words(signature))

    def words(code):
        return re.sub(r'<span class="pre">([^<]*)</span>', r"\1", code[0])

    if "body" in context:
        body = re.sub(r'<dt class="sig .*?</dt>', divisions, context["body"], flags=re.DOTALL)
        context["body"] = re.sub(r'<code class="xref .*?</code>', words, body, flags=re.DOTALL)
    if "toc" in context:  # a name in the contents may go on in a second line, between its words
        context["toc"] = re.sub(
            r'<span class="pre">([^<]*)</span>',
            lambda name: re.sub(r"(?<=\w)([_(])", r"<wbr>\1", name[1]),
            context["toc"],
        )
    draw = context["generate_toctree_html"]

    def named(*args, **kwargs):
        tree = draw(*args, **kwargs)
        for button in tree.select("summary") if tree else ():
            button["aria-label"] = f"Pages of {button.find_parent('li').a.get_text(strip=True)}"
        return tree

    context["generate_toctree_html"] = named


@dataclass(frozen=True)
class Public:
    """Public names that one statement of a module defines: a function, a class, or constants with their source."""

    kind: str
    names: tuple[str, ...]
    heading: str = ""
    about: str = ""
    source: str = ""


@functools.cache
def public(module) -> list[Public]:
    """List what a module defines for others, in the order of its source; names with an underscore are its own.

    What a package takes from its rooms, modules with an underscore, it defines too.
    """
    text = inspect.getsource(module)
    lines, heading, above = text.splitlines(), "", 0
    found: list[Public] = []
    for node in ast.parse(text).body:
        headings = [match[1] for line in lines[above : node.lineno] if (match := HEADING.match(line))]
        heading = headings[-1] if headings else heading
        above = node.end_lineno or node.lineno
        if isinstance(node, ast.ImportFrom) and node.level == 1 and hasattr(module, "__path__"):
            shared = {alias.name for alias in node.names} & set(getattr(module, "__all__", ()))
            room = importlib.import_module(f".{node.module}", module.__name__)
            found += [
                replace(item, heading=item.heading or title(room)) for item in public(room) if shared & {*item.names}
            ]
            continue
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            kind, names = ("class" if isinstance(node, ast.ClassDef) else "function"), [node.name]
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            kind, names = "data", [n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)]
        else:
            continue
        if shown := tuple(name for name in names if not (name.startswith("_") or is_for_types(module, name))):
            source = "\n".join(lines[node.lineno - 1 : node.end_lineno])
            found.append(Public(kind, shown, heading, _comment(lines, node.lineno - 1), source))
    order = {name: place for place, name in enumerate(getattr(module, "__all__", ()))}
    found.sort(key=lambda item: min(order.get(name, len(order)) for name in item.names))
    headings = list(dict.fromkeys(item.heading for item in found))  # what belongs together stays together
    return sorted(found, key=lambda item: headings.index(item.heading))


def title(module) -> str:
    """Return what a module is about, as a heading: its docstring up to the first colon or stop."""
    return re.split(r"[:.](?:\s|$)", summary(module), maxsplit=1)[0]


def is_for_types(module, name) -> bool:
    """Tell whether a name stands for a type in signatures, which is of no use to a reader."""
    return isinstance(getattr(module, name, None), TypeVar | ParamSpec)


def quantity_of(annotation) -> Quantity | None:
    """Return the quantity that an annotation says."""
    return next((one for one in getattr(annotation, "__metadata__", ()) if isinstance(one, Quantity)), None)


QUANTITIES = {name for name, annotation in vars(quantities).items() if quantity_of(annotation)}


def link_names(app, env, node, contnode):
    """Lead from a name to its entry, wherever that is: a docstring is written in one room and read in another.

    Sphinx looks for what a signature is annotated with among classes; a quantity is none.
    """
    if node.get("refdomain") != "py":
        return None
    domain = env.get_domain("py")
    if not hasattr(app.builder, "entries"):  # by what stands behind library and room
        app.builder.entries = defaultdict(list)
        for full in domain.objects:
            app.builder.entries[".".join(full.split(".")[2:])].append(full)
    found = app.builder.entries.get(node["reftarget"], [])
    if len(found) != 1:
        return None
    return domain.resolve_xref(env, node["refdoc"], app.builder, "obj", found[0], node, contnode)


def summary(thing) -> str:
    """Return the first sentence of a docstring, on one line."""
    opening = (inspect.getdoc(thing) or "").split("\n\n")[0]
    return re.split(r"(?<=\.)\s", " ".join(opening.split()), maxsplit=1)[0]


class Reference(SphinxDirective):
    """Every public name of a module."""

    required_arguments = 1

    def run(self):
        """Write what autodoc is to set, and have it set."""
        module = importlib.import_module(self.arguments[0])
        self.env.note_dependency(str(module.__file__))
        self.env.metadata[self.env.docname]["reference"] = module.__name__
        # Links are for the code of the chapters: an example here stands beside its function.
        lines = [f".. automodule:: {module.__name__}", "", ".. autolink-skip:: file", ""]
        heading = ""
        for item in public(module):
            if item.heading != heading:
                heading = item.heading
                lines += [heading, "-" * len(heading), ""]
            lines += _constants(item, module) if item.kind == "data" else _documented(item)
        found = _parsed(self, lines, module.__file__)
        for section in found:
            section["names"] = []  # a label that another page may have too
        return found


class Map(SphinxDirective):
    """The modules of a room, and a line for each of their laws and records."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self):
        """Take the modules of the room from the table of contents."""
        lines = []
        for docname in rooms(self.env)[self.arguments[0]]:
            if not (described := page_module(Path(self.env.doc2path(docname)))):
                continue
            module = importlib.import_module(described)
            self.env.note_dependency(str(module.__file__))
            items, opening = public(module), summary(module)
            constants = [name for item in items if item.kind == "data" for name in item.names]
            lines += [
                f".. py:currentmodule:: {module.__name__}",
                "",
                f":doc:`/{docname}`",
                f"   {opening.partition(': ')[2] or opening}",
                "",
            ]
            for item in items:
                if item.kind != "data":
                    role, name = item.kind.replace("function", "func"), item.names[0]
                    lines.append(f"   - :{role}:`{name}` {summary(getattr(module, name))}")
            if constants:
                lines.append("   - " + ", ".join(f":data:`{name}`" for name in constants))
            lines.append("")
        found = _parsed(self, [*lines, ".. py:currentmodule:: None"], self.env.doc2path(self.env.docname))
        for node in found:
            node["classes"].append("reference-map")
        return found


class Swatches(SphinxDirective):
    """Every colour of the palette, as a drawn figure: each meaning over its shades, then what has no meaning."""

    def run(self):
        """Draw it with what the figures of the book are drawn with."""
        self.env.note_dependency(str(palette.__file__))
        wide, high, gap = 93, 26, 8
        last = 1 + max(map(len, palette.SHADES.values()))  # rows of the columns of meanings

        def box(column, row, name):
            return Box(2 + column * (wide + gap), 2 + row * (high + gap), wide, high, name, kind=name, solid=row != 1)

        parts = []
        for column, (meaning, shades) in enumerate(palette.SHADES.items()):
            parts += [box(column, row, name) for row, name in enumerate([meaning, meaning, *shades])]
        others = [name for name in palette.CYCLE if name not in palette.SHADES]
        parts += [box(column, last + 1, name) for column, name in enumerate(others)]
        parts.append(box(0, last + 2, "ink"))
        said = "; ".join(f"{meaning}: {', '.join(shades)}" for meaning, shades in palette.SHADES.items())
        scene = Scene(
            4 * (wide + gap) - 4, (last + 3) * (high + gap) - 4, parts, alt=f"The meanings and shades: {said}"
        )
        drawn = Explorer(lambda: Picture(scene=scene), title="Each meaning, its tint and its shades")
        return [nodes.raw("", f"<style>{drawn._css}</style>{drawn._html}", format="html")]


def rooms(env) -> dict[str, list[str]]:
    """Return the pages of each room as ``_toc.yml`` lists them below the page that is being read."""
    trees = env.app.config.external_site_map[env.docname].subtrees
    return {tree.caption: [str(item) for item in tree.items] for tree in trees}


def page_module(page: Path) -> str:
    """Return the module of a page, or ``""`` of one that describes none."""
    return next(iter(re.findall(r"^\.\. reference:: (\S+)$", page.read_text(encoding="utf-8"), re.MULTILINE)), "")


def _comment(lines, at) -> str:
    """Return the comment right above a line."""
    above: list[str] = []
    while at and lines[at - 1].startswith("# ") and not HEADING.match(lines[at - 1]):
        at -= 1
        above.insert(0, lines[at][2:])
    return " ".join(above)


def _documented(item) -> list[str]:
    return [f".. auto{item.kind}:: {item.names[0]}", *["   :members:"] * (item.kind == "class"), ""]


def _constants(item, module) -> list[str]:
    head, *others = item.names
    lines = [f".. py:data:: {head}", *(f"             {name}" for name in others)]
    lines += ["   :no-contents-entry:", ""]
    if item.about:
        lines += [f"   {item.about}", ""]
    if quantity := quantity_of(getattr(module, head, None)):
        unit = f"in ``{quantity.unit}``" if quantity.unit else "a plain number"
        lines += [f"   A number or an array, {unit}: {quantity.rule.text}.", ""]
    source = re.sub(r"  # type: .*", "", item.source).splitlines()
    if LOADS.search(item.source) or len(source) > LONGEST:
        return [*lines, f"   {_contents(getattr(module, head), getattr(module, '__all__', ()))}", ""]
    return [*lines, "   .. code-block:: python", "", *(f"      {line}" for line in source), ""]


def _contents(value, shown) -> str:
    """Say what a constant holds, where its source doesn't."""
    if not isinstance(value, Mapping):
        return f"A :class:`{type(value).__name__}`."
    first = next(iter(value.values()))
    if isinstance(first, tuple) and not hasattr(first, "_fields"):  # plain, and short
        return ", ".join(f"``{key!r}: {one!r}``" for key, one in value.items()) + "."
    kind = type(first).__name__
    kind = f":class:`{kind}`" if kind in shown else f"``{kind}``"
    return f"Each a {kind}, by name: " + ", ".join(f"``{key!r}``" for key in value) + "."


def _parsed(directive, lines, source):
    node = nodes.section()
    node.document = directive.state.document
    nested_parse_with_titles(directive.state, StringList(lines, source=source), node)
    return node.children
