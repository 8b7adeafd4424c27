"""Sphinx extension: the catalogue as tables, and a link to them from the first mention of a chip or model on a page.

``{eval-rst}`` with ``.. catalogue:: accelerator`` is a table of the data files: a row for each record, where it has
columns of its own here, and one for each number with its kind, its date and its source. ``.. side-by-side::`` sets two
accelerators beside each other. A page is complete without script; ``tables.js`` adds what sorts, filters and chooses,
and asks nobody else.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from functools import cache

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from clusterlab.catalogue import accelerator, stored
from clusterlab.cli.commands.audit import CATALOGUES, Value, audit
from clusterlab.records import words
from clusterlab.roofline import ridge_point
from clusterlab.units import fmt, parse

# Of tables that are compared row by row: which fields stand beside each other, and under what heading.
COLUMNS = {
    "accelerator": {
        "year": "Year",
        "peak_bf16": "BF16",
        "peak_fp8": "FP8",
        "peak_fp4": "FP4",
        "hbm_capacity": "HBM",
        "hbm_bandwidth": "HBM rate",
        "ridge": "Ridge, BF16",
        "scale_up_bandwidth": "Scale-up",
        "scale_up_domain": "Domain",
        "tdp": "TDP",
    },
    "memory": {"accelerator": "Chip", "capacity": "Holds", "bandwidth": "Rate", "latency": "Latency"},
    "link": {"bandwidth": "One direction", "latency": "Latency", "peers": "Peers"},
    "node": {
        "year": "Year",
        "accelerator": "Accelerator",
        "accelerators": "of them",
        "network_link": "Network",
        "network_ports": "Ports",
        "power": "Rated",
    },
    "model": {
        "year": "Year",
        "parameters": "Parameters",
        "active_parameters": "Active",
        "layers": "Layers",
        "hidden": "Width",
        "heads": "Heads",
        "kv_heads": "KV heads",
        "ffn": "FFN",
        "experts": "Experts",
        "vocab": "Vocabulary",
    },
    "rent": {"price": "Price"},
    "useful_life": {"years": "Life"},
    "fabric": {"latency": "Latency added"},
    "spread": {"low": "From", "high": "To"},
    "assumption": {"value": "Value", "low": "From", "high": "To"},
    "constant": {"value": "Value", "low": "From", "high": "To"},
    "switch": {"link": "Link", "ports": "Ports", "power": "Rated"},
    "signal": {"where": "Where", "meaning": "Meaning", "cause": "Cause", "action": "What to do"},
}
COLUMNS["rack"] = COLUMNS["node"] | {"nodes": "Trays"}
# What people call an accelerator where several boards share the name.
SPOKEN = {"V100": "V100 SXM2", "A100": "A100 80GB", "H100": "H100 SXM", "H200": "H200 SXM", "H800": "H800 SXM"}
NARROW = 5  # columns that fit beside the margin
# How the parts of a field's name are written.
_CAPITALS = {"hbm": "HBM", "tdp": "TDP", "kv": "KV", "ffn": "FFN", "mtp": "MTP", "nvlink": "NVLink", "pcie": "PCIe"}
_PRECISION = re.compile(r"(?:fp|bf|tf|int)\d+")
UNLINKED = ("book/reference/", "book/glossary", "book/sheet", "genindex", "search")


def setup(app):
    """Register with Sphinx."""
    app.add_directive("catalogue", Catalogue)
    app.add_directive("side-by-side", SideBySide)
    app.connect("config-inited", configure, priority=1)
    app.connect("doctree-resolved", link_first_mentions)
    app.connect("html-page-context", add_script)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


def configure(app, config):
    """Add the style sheet of the tables."""
    app.add_css_file("tables.css", priority=810)


def add_script(app, pagename, templatename, context, doctree):
    """Load the script where there is a table for it."""
    if '<div class="catalogue' in context.get("body", ""):
        app.add_js_file("tables.js", loading_method="defer")


@cache
def audited() -> tuple[Value, ...]:
    """Every number of the data files."""
    return tuple(value for name in CATALOGUES for value in audit(stored(name), catalogue=name))


@cache
def values(table: str) -> tuple[Value, ...]:
    """Every number of a table of the data files."""
    return tuple(value for value in audited() if value.table == table)


@cache
def places() -> dict[str, str]:
    """Where each name that pages link to stands: name to page and anchor."""
    kinds = {"accelerator": "hardware", "node": "hardware", "rack": "hardware", "model": "models"}
    found = {
        record: f"book/reference/tables_{page}#{anchor(table, record)}"
        for table, page in kinds.items()
        for record in dict.fromkeys(value.record.name for value in values(table))
    }
    return found | {spoken: found[name] for spoken, name in SPOKEN.items()}


def anchor(table: str, name: str) -> str:
    """Return the place of a record on its page.

    >>> anchor("accelerator", "H100 SXM"), anchor("link", "Infinity Fabric (MI300X)")
    ('accelerator-h100-sxm', 'link-infinity-fabric-mi300x')
    """
    return f"{table}-{re.sub('[^a-z0-9]+', '-', name.lower()).strip('-')}"


def heading(field: str) -> str:
    """Return the name of a field as people write it.

    >>> heading("peak_bf16"), heading("hbm_capacity"), heading("published_mfu")
    ('peak BF16', 'HBM capacity', 'published MFU')
    """
    parts = (_CAPITALS.get(word, word.upper() if _PRECISION.fullmatch(word) else word) for word in field.split("_"))
    return words("_".join(parts))


def link_first_mentions(app, doctree, docname):
    """Link the first mention of a chip, a server or a model in the text of a page to its row."""
    if app.builder.format != "html" or docname.startswith(UNLINKED):
        return
    known, seen = places(), set()
    longest = sorted(known, key=len, reverse=True)
    name = re.compile(rf"(?<![\w-])({'|'.join(map(re.escape, longest))})s?(?![\w-]|\.\d| (?:SXM|PCIe|NVL))")
    for text in [one for one in doctree.findall(nodes.Text) if _plain(one)]:
        parts, at = [], 0
        for match in name.finditer(text):
            where = known[match[1]]
            if where in seen:
                continue
            seen.add(where)
            page, _, row = where.partition("#")
            link = nodes.reference("", match[0], internal=True, classes=["in-catalogue"])
            link["refuri"] = f"{app.builder.get_relative_uri(docname, page)}#{row}"
            parts += [nodes.Text(text[at : match.start()]), link]
            at = match.end()
        if parts:
            text.parent.replace(text, [*parts, nodes.Text(text[at:])])


def _plain(text: nodes.Text) -> bool:
    """Whether a text is a paragraph's own: no link, no code, no heading, no cell of a table."""
    above, inside = text.parent, False
    while above is not None:
        if isinstance(above, nodes.reference | nodes.literal | nodes.title | nodes.entry | nodes.term | nodes.citation):
            return False
        inside = inside or isinstance(above, nodes.paragraph)
        above = above.parent
    return inside


class Catalogue(SphinxDirective):
    """``.. catalogue:: TABLE``."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return the tables as they are on the page."""
        (table,) = self.arguments
        if not values(table):
            raise self.error(f"the data files have no table {table!r}")
        return [nodes.raw("", section(table), format="html")]


class SideBySide(SphinxDirective):
    """``.. side-by-side::``."""

    def run(self) -> list[nodes.Node]:
        """Return two accelerators beside each other, as the page has them without script."""
        return [nodes.raw("", side_by_side("H100 SXM", "B200"), format="html")]


def section(table: str) -> str:
    """Return the tables of one table of the data files: records side by side, then every number with its source."""
    facts = _table(["Name", "What", "Value", "Kind", "Date", "Source"], _facts(table), f"facts-{table}")
    if table not in COLUMNS:
        return facts
    columns = COLUMNS[table]
    names = list(dict.fromkeys(value.record.name for value in values(table)))
    compared = _table(["Name", *columns.values()], (_record(table, name) for name in names), f"records-{table}")
    count = len(values(table))
    things = "texts" if table == "signal" else "numbers"
    fold = f"<summary>Each of the {count} {things}, with its kind, its date and its source</summary>"
    return f'{compared}<details class="facts">{fold}{facts}</details>'


def _table(heads: list[str], rows: Iterator[str], name: str) -> str:
    head = "".join(f'<th scope="col">{html.escape(one)}</th>' for one in heads)
    wide = " tag_wide" if len(heads) > NARROW else ""
    return (
        f'<div class="catalogue{wide}" data-name="{name}"><div class="filtered"></div>'
        '<div class="pst-scrollable-table-container"><table class="table">'
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div></div>"
    )


def _record(table: str, name: str) -> str:
    """A row of a record; what no source gives is an empty cell."""
    facts = {value.field: value.fact for value in values(table) if value.record.name == name}
    cells = []
    for field in COLUMNS[table]:
        if field == "ridge":
            cells.append(_ridge(name))
        elif field in facts:
            cells.append(_cell(facts[field].printed))
        else:
            cells.append("<td></td>")
    return f'<tr id="{anchor(table, name)}"><th scope="row">{_name(name)}</th>{"".join(cells)}</tr>'


def _ridge(name: str) -> str:
    chip = accelerator(name)
    if "bf16" not in chip.peaks:
        return "<td></td>"
    value = float(ridge_point(chip.peaks["bf16"], chip.hbm_bandwidth))
    return f'<td data-value="{value:g}">{fmt(value, "", 3)}</td>'


def _facts(table: str) -> Iterator[str]:
    """A row of each number."""
    seen: set[str] = set()
    for value in values(table):
        fact, name = value.fact, value.record.name
        first = "" if table in COLUMNS or name in seen else f' id="{anchor(table, name)}"'
        seen.add(name)
        what = heading(value.field)
        source = html.escape(fact.source.title)
        if fact.source.url:
            source = f'<a href="{html.escape(fact.source.url)}">{source}</a>'
        elif fact.source.document and fact.source.document != fact.source.title:
            source += f" ({html.escape(fact.source.document)})"
        checked = f", by way of {html.escape(fact.source.via)}" if fact.source.via else ""
        checked += ", from memory" if fact.source.checked == "memory" else ""
        note = f"; {html.escape(fact.note)}" if fact.note else ""
        role = f"; {fact.role} {html.escape(fact.by)}".rstrip() if fact.role else ""
        yield (
            f'<tr{first} data-record="{html.escape(name)}" data-field="{value.field}"><th scope="row">'
            f"{_name(name)}</th><td>{html.escape(what)}</td>{_cell(fact.printed)}<td>{fact.kind}</td>"
            f'<td class="number">{fact.source.date}</td><td><span>{source}{checked}{note}{role}</span></td></tr>'
        )


def _cell(printed: str | float) -> str:
    """A cell, and the number by which it is sorted where it is one."""
    text = ("yes" if printed else "no") if isinstance(printed, bool) else _grouped(printed)
    number = _number(printed)
    return f'<td data-value="{number:g}">{text}</td>' if number is not None else f"<td>{html.escape(text)}</td>"


def _name(name: str) -> str:
    """A record's name, which may go on in a second line between its words."""
    return html.escape(name).replace("_", "_<wbr>")


def _grouped(printed: str | float) -> str:
    """A stored value as a page has it: a count with commas, but a year; microseconds by their sign; units stay."""
    if isinstance(printed, int) and abs(printed) >= 10_000:
        return f"{printed:,}"
    return re.sub(r"(?<=\d) (?=\S{1,10}$)", "\u00a0", re.sub(r"(?<=\d )us\b", "\u00b5s", str(printed)))


def _number(printed: str | float) -> float | None:
    if isinstance(printed, bool | list):
        return None
    if not isinstance(printed, str):
        return float(printed)
    try:
        return float(parse(printed))
    except ValueError:
        return None


def side_by_side(left: str, right: str) -> str:
    """Return two accelerators beside each other: each field of either, and how many times the second has of it."""
    both = [{v.field: v.fact.printed for v in values("accelerator") if v.record.name == name} for name in (left, right)]
    rows = []
    for field in dict.fromkeys(value.field for value in values("accelerator")):
        if not any(field in one for one in both):
            continue
        printed = [one.get(field, "") for one in both]
        numbers = [_number(one) if one != "" else None for one in printed]
        times = numbers[1] / numbers[0] if field != "year" and numbers[0] and numbers[1] else None
        name = heading(field)
        cells = "".join(f"<td>{html.escape(str(one))}</td>" for one in printed)
        ratio = f"{times:.3g}" if times else ""
        rows.append(f'<tr data-field="{field}"><th scope="row">{html.escape(name)}</th>{cells}<td>{ratio}</td></tr>')
    options = ",".join(dict.fromkeys(value.record.name for value in values("accelerator")))
    head = "".join(f'<th scope="col">{one}</th>' for one in ("What", left, right, "Times"))
    return (
        f'<div class="side-by-side" data-options="{html.escape(options)}"><div class="pst-scrollable-table-container">'
        f'<table class="table"><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table></div></div>'
    )
