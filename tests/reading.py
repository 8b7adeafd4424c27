"""How long a page takes to read: the one rule behind all minutes that the book states."""

import re

# Half the 238 words a minute at which adults read non-fiction (Brysbaert 2019, doi:10.1016/j.jml.2019.104047): these
# have to be followed. The others are rules of thumb. Nobody has been timed.
WORDS = 120  # a minute
LINE = 5 / 60  # minutes for a line of code that the page shows
FIGURE = 1.0  # for a figure that moves
DRAWING = 0.5  # for one that doesn't
CHECK = 1.5
EXERCISE = 7.0  # with its hints, its check and its solution

HIDDEN = {"remove-input", "remove-cell", "hide-input", "hide-cell"}
DIRECTIVE = r"^(?::{3,}|`{3,}).*|^:\w[\w-]*:.*$"
MARKED = re.compile(r"#+ .*\n\s*(?:\([\w-]+\)=\s*)?\*Second reading:\*")  # sphinx_ext/second.py folds it
UNREAD = rf"(?m:{DIRECTIVE})|(?s:\$\$.*?\$\$)|\{{cite[^}}]*\}}`[^`]*`|\]\([^)]*\)"


def words(text: str) -> int:
    """Count the words that a reader sees: no target of a link, no directive; a formula in the line is one."""
    return len(re.findall(r"\$[^$\n]+\$|\S*\w\S*", re.sub(UNREAD, " ", text)))


def of_cell(cell) -> float:
    """Minutes for a cell of a notebook."""
    if cell.cell_type == "markdown":
        return words(cell.source) / WORDS
    tags, took = set(cell.metadata.get("tags", ())), 0.0
    if not tags & HIDDEN:
        took += LINE * sum(bool(line.strip()) for line in cell.source.splitlines())
    if not tags & {"remove-cell", "remove-output"}:
        shown = [output.get("data", {}).get("text/plain", "") for output in cell.outputs]
        figures = [one for one in shown if one.startswith("Explorer: ")]
        took += sum(FIGURE if "\n  first: " in one else DRAWING for one in figures)
        took += CHECK * sum(one.startswith("Check: ") for one in shown)
    return took


def passages(cells):
    """Give what is read before a chapter's exercises, piece by piece: heading of its section, minutes, its cell."""
    heading = ""
    for cell in cells:
        parts = re.split(r"^## (.*)$", cell.source, flags=re.MULTILINE) if cell.cell_type == "markdown" else [""]
        yield heading, words(parts[0]) / WORDS if cell.cell_type == "markdown" else of_cell(cell), cell
        for heading, text in zip(parts[1::2], parts[2::2], strict=True):
            if heading == "Exercises":
                return
            yield heading, words(f"{heading} {text}") / WORDS, cell


def second(cells) -> float:
    """Minutes, of those, in sections for a second reading: each up to the next heading that isn't below its own."""
    took, folded = 0.0, 0
    for cell in cells:
        if cell.cell_type == "code":
            took += of_cell(cell) if folded else 0.0
            continue
        for part in re.split(r"^(?=#{2,4} )", cell.source, flags=re.MULTILINE):
            if part.startswith("## Exercises\n"):
                return took
            depth = re.match("#*", part).end()
            folded = 0 if 0 < depth <= folded else folded
            folded = folded or (depth if depth and MARKED.match(part) else 0)
            took += words(part) / WORDS if folded else 0.0
    return took


def sections(cells) -> dict[str, float]:
    """Minutes of each section before the exercises, by its heading; what stands before the first is under none."""
    found: dict[str, float] = {}
    for heading, minutes, _ in passages(cells):
        found[heading] = found.get(heading, 0.0) + minutes
    return found


def stated(minutes: float) -> int:
    """Return what a page says: to five minutes."""
    return 5 * round(minutes / 5)
