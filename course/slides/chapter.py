"""A chapter as slides, by its structure: what each section asks, counts by hand, writes as a formula and puts in a box.

Nothing is typed a second time. A section with a formula or a rule is a law, and gives up to five kinds of slides: its
question, its sums by hand, the formula, why, and the rule. A figure is the figure of the page, with its table. A check
is a vote between its answer and what its known mistakes give. What a slide leaves out stands in its notes.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import nbformat

from clusterlab.units import fmt
from explorable.question import unhide

from .passages import REASON, SUM, Block, Reader, sentences, words

STATE = "application/vnd.jupyter.widget-state+json"
VIEW = "application/vnd.jupyter.widget-view+json"
END = ("Exercises", "Sources")
JOINS = re.compile(r"\**(?:But|And|So|Nor|Then|Now|It|That|This|They|These|Of)\b")
MOVES = re.compile(r"\**(?:Play|Drag|Move|Step|Commit|Predict|Choose|Switch|Take hold|Press|Look|Say beforehand)\b")
ENOUGH = 62  # words of a slide that is read while somebody talks
FEW_WORDS = 24
FEW_ROWS = 12  # of a table that can be read from the last row of a room


@dataclass(frozen=True)
class Slide:
    """A slide: ``kind`` names what it does, ``name`` is the title of its figure or the text of its question."""

    kind: str
    body: str
    notes: str = ""
    heading: str = ""
    section: str = ""
    part: str = ""
    name: str = ""
    model: str = ""


@dataclass(frozen=True)
class Chapter:
    """A chapter that has run: its title, its slides, and of each figure what its script needs, by the figure's id."""

    title: str
    slides: list[Slide]
    models: dict[str, dict[str, Any]]


def read(notebook: nbformat.NotebookNode) -> Chapter:
    """Turn a chapter that has run into its slides."""
    reader = Reader()
    try:
        return _Walk(notebook, reader).chapter()
    finally:
        reader.close()


class _Walk:
    """One way through a chapter, cell by cell; what has been read and is on no slide yet waits."""

    def __init__(self, notebook: nbformat.NotebookNode, reader: Reader) -> None:
        self.cells, self.reader = notebook.cells, reader
        self.models: dict[str, dict[str, Any]] = notebook.metadata.get("widgets", {}).get(STATE, {}).get("state", {})
        self.used: dict[str, dict[str, Any]] = {}
        self.slides: list[Slide] = []
        self.part = self.section = self.title = ""
        self.waiting: list[Block] = []
        self.formula = self.spoken = ""
        self.law = self.asked = False

    def chapter(self) -> Chapter:
        for cell in self.cells:
            if cell.cell_type == "code":
                if "remove-cell" not in cell.metadata.get("tags", ()) and "hide-cell" not in cell.metadata.get(
                    "tags", ()
                ):
                    self._outputs(cell)
                continue
            for block in self.reader.blocks(cell.source):
                if block.kind == "heading" and block.text.startswith(END):
                    return self._done()
                self._block(block)
        return self._done()

    def _done(self) -> Chapter:
        self._flush()
        wrong = "".join(
            f"<li><b>{self.reader.line(one.name)}</b> {one.notes}</li>" for one in self.slides if one.kind == "wrong"
        )
        notes = f"<p><b>What readers get wrong, and what to say:</b></p><ul>{wrong}</ul>"
        if wrong:
            self.slides = [replace(one, notes=notes) if one.kind == "title" else one for one in self.slides]
        return Chapter(self.reader.plain(self.title), self.slides, self.used)

    def _add(self, kind: str, body: str, notes: str = "", **named: str) -> None:
        heading = self.reader.line(self.section or self.part or self.title)
        if self.section == "The law":  # as many a section is called
            heading = f"{self.reader.line(self.part)}: the law"
        given = {"heading": heading, "section": self.section, "part": self.part} | named
        notes, self.spoken = self.spoken + notes, ""
        self.slides.append(Slide(kind, body, notes, **given))

    # Markdown

    def _block(self, block: Block) -> None:
        if block.kind == "heading":
            self._flush()
            self.law = self.asked = False
            self.formula = ""
            if block.name == "h1":
                self.title = block.text
            elif block.name == "h2":
                self.part, self.section = block.text, ""
            else:
                self.section = block.text
        elif block.kind == "formula":
            self._ask()
            lead = self._lead()
            self._flush()
            self.law, self.formula = True, block.text
            said = f"<p class='lead'>{self.reader.line(lead)}</p>" if lead else ""
            self._add("formula", f"{said}<div class='formula'>{self.reader.formula(block.text)}</div>")
        elif block.kind == "box":
            self._box(block)
        elif not self._caption(block):
            self.waiting.append(block)

    def _caption(self, block: Block) -> bool:
        """Whether a paragraph in italics is the caption of the figure before it, and then it's put there."""
        if not (self.slides and self.slides[-1].model and not self.waiting):
            return False
        if not re.fullmatch(r"\*[^*].*[^*]\*", block.text.strip(), re.DOTALL) or "*Time:*" in block.text:
            return False
        said = f"<p class='caption'>{self.reader.line(block.text.strip()[1:-1])}</p>"
        self.slides[-1] = replace(self.slides[-1], body=self.slides[-1].body + said)
        return True

    def _box(self, block: Block) -> None:
        text = self.reader.markup(block.text)
        if block.name == "The question" and not self.part:
            *premise, question = sentences(block.text)
            said = "".join(f"<p>{self.reader.line(one)}</p>" for one in [" ".join(premise)] if one)
            self._add("title", f"{said}<p class='asked'>{self.reader.line(question.strip('*'))}</p>", name=block.text)
        elif block.name.startswith("Rule"):
            self._ask()
            self.law = True
            self._flush()
            again = f"<div class='formula again'>{self.reader.formula(self.formula)}</div>" if self.formula else ""
            self._add("rule", f"{again}<div class='rule'>{text}</div>")
            self.formula = ""
        elif block.name.startswith("{"):
            return
        else:
            self._flush()
            kind = "answer" if "answer" in f"{block.name}{self.part}{self.section}".lower() else "aside"
            self._add(kind, f"<div class='rule'>{text}</div>", heading=html.escape(block.name))

    def _lead(self) -> str:
        """The sentence that leads to a formula, which then stands above it."""
        if not (self.waiting and self.waiting[-1].kind == "text"):
            return ""
        *before, last = sentences(self.waiting[-1].text)
        if words(last) > 45 or (SUM.search(last) and last.endswith((".", "?", "**"))):
            return ""
        self.waiting.pop()
        if before:
            self.waiting.append(Block("text", " ".join(before)))
        return last

    def _ask(self) -> None:
        """The question of a law: the first that its text asks, with what stands before it; or its heading."""
        if self.asked:
            return
        self.asked = True
        for i, block in enumerate(self.waiting):
            if block.kind != "text":
                continue
            parts = sentences(block.text)
            for k, sentence in enumerate(parts):
                if not re.search(r"\?\**$", sentence):
                    continue
                before = " ".join([*(one.text for one in self.waiting[:i] if one.kind == "text"), *parts[:k]])
                short = " ".join(sentences(before)[-2:])
                said = f"<p class='lead'>{self.reader.line(short)}</p>" if short and words(short) < 50 else ""
                rest = " ".join(parts[k + 1 :])
                kept = [Block("text", rest)] if rest else []
                dropped = [] if words(short) < 50 and len(sentences(before)) <= 2 else self.waiting[:i]
                self.waiting = [*dropped, *kept, *self.waiting[i + 1 :]]
                asked = f"<p class='asked'>{self.reader.line(sentence)}</p>"
                self._add("question", said + asked, _said(self.reader, [before, sentence]))
                return
        heading = self.section or self.part
        if heading.endswith("?"):
            self._add("question", f"<p class='asked'>{self.reader.line(heading)}</p>")

    def _flush(self) -> None:
        """Put what waits on slides: before a formula its sums by hand, after it the reasons; all of it in the notes."""
        blocks, self.waiting = self.waiting, []
        if not self.part or not blocks:
            return
        if re.search("misconception", self.section or self.part, re.IGNORECASE):
            self._misconceptions(blocks)
            return
        notes = self.reader.markup("\n\n".join(block.text for block in blocks))
        tables = [block for block in blocks if block.kind == "table"]
        lines = [line for block in blocks for line in _lines(block)]
        kind = "why" if self.formula else "hand" if any(SUM.search(line) for line in lines) else "point"
        chosen = _chosen(lines, kind)
        if kind != "hand" and not self._just("formula") and sum(map(words, chosen)) < FEW_WORDS:
            chosen = []  # an aside, which the notes keep
        for piece in _pieces(chosen):
            step = " class='step'" if kind == "hand" else ""
            rows = "".join(f"<li{step}>{self.reader.line(line)}</li>" for line in piece)
            self._add(kind, f"<ul class='{kind}'>{rows}</ul>", notes)
            notes = ""
        for table in tables:
            if table.text.count("\n") < FEW_ROWS:
                self._add("table", self.reader.markup(table.text), notes)
                notes = ""
        self.spoken += notes  # what no slide of its own has, the next one's notes say

    def _just(self, kind: str) -> bool:
        return bool(self.slides) and self.slides[-1].kind == kind

    def _misconceptions(self, blocks: Sequence[Block]) -> None:
        self.spoken = ""
        for line in (line for block in blocks for line in (block.items or (block.text,))):
            if match := re.match(r"\*\*([\"“].*?)\*\*\s*(.*)", " ".join(line.split())):
                refuted = " ".join(one for one in sentences(match[2]) if not one.endswith(":"))  # leads to code
                told = f"<div class='told step'><p>{self.reader.line(refuted)}</p></div>" if refuted else ""
                asked = f"<p class='asked'>{self.reader.line(match[1])}</p><p>What's wrong with it?</p>"
                notes = self.reader.line(refuted)
                self._add("wrong", asked + told, notes, name=match[1])

    # Code

    def _outputs(self, cell: nbformat.NotebookNode) -> None:
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            model = self.models.get(data.get(VIEW, {}).get("model_id", ""))
            if model is not None and model.get("model_module") == "anywidget":
                self._widget(data[VIEW]["model_id"], model["state"], str(data.get("text/plain", "")))
            elif "text/html" in data and (self.law or "remember" in (self.section or self.part)):
                self._table(str(data["text/html"]))

    def _table(self, markup: str) -> None:
        rows = markup.count("<tr")
        last = "remember" in (self.section or self.part)
        if "<table" not in markup or (rows > FEW_ROWS and not last):
            return
        self._flush()
        self._add(
            "table",
            f"<div class='data'>{markup}</div>",
            "" if last else "<p>Computed on the page, on real hardware.</p>",
        )

    def _widget(self, identity: str, state: Mapping[str, Any], told: str) -> None:
        if "_sealed" in state:
            spec = json.loads(unhide(state["_sealed"]))
            if not spec["text"].startswith("Exercise"):
                self._flush()
                self._add("vote", *_vote(spec), name=spec["text"])
            return
        spec = state.get("_spec", {})
        if not spec or spec["title"] == "You are here":
            return
        if self.part:
            self._ask_if_law()
        self._flush()
        if asked := spec["predict"]:
            self._add("predict", *_prediction(asked), name=asked["question"])
        self.used[identity] = self.models[identity]
        moves = [line.strip() for line in told.splitlines() if line.startswith("  ") and ": " in line]
        notes = "".join(f"<li>{html.escape(line)}</li>" for line in moves)
        label = "<p><b>What it moves by, and what both ends say:</b></p>" if spec["controls"] else ""
        host = f"<div class='widget-host' data-model='{identity}'></div>"
        heading = html.escape(spec["title"])
        kind = "figure" if spec["controls"] else "drawing"
        self._add(
            kind, host, f"{label}<ul>{notes}</ul>" if notes else "", heading=heading, name=spec["title"], model=identity
        )

    def _ask_if_law(self) -> None:
        """Ask a law's question before its figure, where its text has asked it by then."""
        if any(re.search(r"\?\**(\s|$)", block.text) for block in self.waiting if block.kind == "text"):
            self._ask()


def _lines(block: Block) -> list[str]:
    """What can be a line of a slide: a sentence, or an item of a list; not what leads to code or tells what to move."""
    if block.kind == "list":
        return [item if words(item) <= 40 else _short(item) for item in block.items]
    found = [line for line in (sentences(block.text) if block.kind == "text" else ()) if not MOVES.match(line)]
    return [re.sub(r":$", ".", line) for line in found if not line.endswith(":") or words(line) > 4]


def _short(item: str) -> str:
    """Of a long item what it names and what it counts."""
    first, *rest = sentences(item)
    return " ".join([first, *(one for one in rest if SUM.search(one))])


def _chosen(lines: Sequence[str], kind: str) -> list[str]:
    """The lines that a slide shows, in their order; the others are said."""
    if kind == "point":
        lines = [line for line in lines if "**" in line]
    if sum(map(words, lines)) <= ENOUGH:
        return list(lines)
    sums = 8 if kind == "hand" else 1
    weight = {
        line: sums * bool(SUM.search(line)) + 4 * ("**" in line) + 2 * bool(REASON.search(line)) for line in lines
    }
    kept = {line for line in lines if weight[line] >= 8}
    first = next((i for i, line in enumerate(lines) if line in kept), 0)
    if first and JOINS.match(lines[first]) and words(lines[first - 1]) < ENOUGH / 2:
        kept.add(lines[first - 1])  # what it answers to
    for line in sorted(lines, key=lambda one: -weight[one]):
        if weight[line] and sum(map(words, kept)) + words(line) <= ENOUGH:
            kept.add(line)
    return [line for line in lines if line in kept]


def _pieces(lines: Sequence[str]) -> Iterator[list[str]]:
    """Lines as slides: each as full as one may be, and all about equally."""
    whole = sum(map(words, lines))
    count = -(-whole // ENOUGH)
    piece: list[str] = []
    for line in lines:
        if piece and sum(map(words, piece)) + words(line) / 2 > whole / count:
            yield piece
            piece = []
        piece.append(line)
    if piece:
        yield piece


def _said(reader: Reader, texts: Sequence[str]) -> str:
    return "".join(reader.markup(text) for text in texts if text)


def _options(choices: Sequence[tuple[str, bool]]) -> str:
    rows = "".join(f"<li{' class=right' if right else ''}>{html.escape(text)}</li>" for text, right in choices)
    return f"<ol class='choices'>{rows}</ol>"


def _wrong_notes(pairs: Sequence[tuple[str, str]]) -> str:
    rows = "".join(f"<li><b>{html.escape(text)}</b>: {html.escape(why)}</li>" for text, why in pairs)
    return f"<p><b>Usual wrong answers, and what to say:</b></p><ul>{rows}</ul>" if rows else ""


def _vote(spec: Mapping[str, Any]) -> tuple[str, str]:
    """A check as a vote: its slide and its notes."""
    if spec["choices"]:
        named = [(choice, choice == spec["answer"]) for choice, _ in spec["choices"]]
        wrong = [(choice, why) for choice, why in spec["choices"] if choice != spec["answer"]]
    else:
        values = sorted([(spec["answer"], ""), *map(tuple, spec["mistakes"])])
        told = [(spec["shown"] if not why else fmt(value, spec["unit"]), why) for value, why in values]
        named, wrong = [(text, not why) for text, why in told], [(text, why) for text, why in told if why]
    shown = f"<b>{html.escape(str(spec['shown']))}.</b> {html.escape(spec['way'])}"
    body = f"<p class='asked'>{html.escape(spec['text'])}</p>{_options(named) if len(named) > 1 else ''}"
    hints = "".join(f"<li>{html.escape(hint)}</li>" for hint in spec["hints"])
    helps = f"<p><b>If nobody moves, ask:</b></p><ul>{hints}</ul>" if hints else ""
    notes = f"<p><b>Right:</b> {shown}</p>{_wrong_notes(wrong)}{helps}"
    return f"{body}<div class='told step'><p>{shown}</p></div>", notes


def _prediction(asked: Mapping[str, Any]) -> tuple[str, str]:
    """A figure's question as a vote; the figure on the next slide shows the answer."""
    why = dict(asked["answers"])
    right = f"<b>{html.escape(asked['right'])}.</b> {html.escape(why[asked['right']])}"
    options = _options([(answer, answer == asked["right"]) for answer in why])
    wrong = [(answer, reason) for answer, reason in why.items() if answer != asked["right"]]
    body = f"<p class='lead'>{html.escape(asked['premise'])}</p><p class='asked'>{html.escape(asked['question'])}</p>"
    notes = f"<p><b>Right:</b> {right}</p>{_wrong_notes(wrong)}<p>The next slide shows it.</p>"
    return f"{body}{options}<div class='told step'><p>{right}</p></div>", notes
