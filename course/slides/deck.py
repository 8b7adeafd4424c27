"""A deck: slides in one file that needs no network, with the figures' own scripts and tables."""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from book_widgets import kind_script, raw

from .chapter import Slide

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
HOST = ROOT / "sphinx_ext" / "assets" / "widget_host.js"
KATEX = ROOT / "vendor" / "katex"
FONTS = ROOT / "vendor" / "fonts"
KINDS = {
    "question": "Question",
    "hand": "By hand",
    "formula": "The formula",
    "why": "Why",
    "rule": "The rule",
    "vote": "Vote",
    "predict": "Vote: what will happen?",
    "wrong": "A colleague says",
    "figure": "Move it",
    "drawing": "The picture",
    "table": "Numbers",
    "answer": "The answer",
    "aside": "Beside it",
    "point": "",
    "title": "",
}
_STATE = "_spec", "_table", "_exact", "_html", "guess"


@dataclass(frozen=True)
class Placed:
    """A slide at its place in a deck, and from which minute to which it's shown, where the deck is a session's."""

    slide: Slide
    minutes: str = ""


def page(title: str, places: Sequence[Placed], models: Mapping[str, Mapping[str, Any]]) -> str:
    """All slides of a deck in one file."""
    used = [place.slide.model for place in places if place.slide.model]
    sections = "".join(_section(title, number, place, len(places)) for number, place in enumerate(places, 1))
    kinds, states = {}, {}
    for name in dict.fromkeys(used):
        model = models[name]
        state = dict(model["state"])
        kinds[state["_anywidget_id"]] = state["_esm"], state["_css"]
        own = {
            key: state[key] for key in state if key in _STATE or not key.startswith(("_", "layout", "tab", "tooltip"))
        }
        own["_spec"] = own["_spec"] | {"predict": None}  # its question has a slide of its own
        own["_html"] = _asked(own["_html"])
        states[name] = {"kind": state["_anywidget_id"], "state": own, "buffers": model.get("buffers", [])}
        sections = sections.replace(f"data-model='{name}'></div>", f"data-model='{name}'>{own['_html']}</div>")
    scripts = [kind_script(name, source) for name, (source, _) in kinds.items()]
    if states:
        listed = ",".join(f'"{name}":{raw(state)}' for name, state in states.items())
        scripts = [HOST.read_text(encoding="utf-8"), *scripts, f'window.started = widgets.start({{{listed}}}, "");']
    css = "".join([_serif(), _katex() if 'class="katex"' in sections else "", *(css for _, css in kinds.values())])
    scripts.append((HERE / "slides.js").read_text(encoding="utf-8"))
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{css}{(HERE / 'slides.css').read_text(encoding='utf-8')}</style></head><body><main>{sections}</main>"
        f"{''.join(f'<script>{script}</script>' for script in scripts)}</body></html>"
    )


def _section(title: str, number: int, place: Placed, count: int) -> str:
    slide = place.slide
    over = " · ".join(part for part in (KINDS[slide.kind], place.minutes) if part)
    head = f"<header><p class='over'>{over}</p><h1>{slide.heading}</h1></header>"
    foot = f"<footer><span>{html.escape(title)}</span><span>{number}</span></footer>"
    notes = f"<aside class='notes' aria-label='Notes'>{slide.notes or '<p>All is on the slide.</p>'}</aside>"
    return (
        f"<section id='{number}' class='{slide.kind}' aria-label='Slide {number} of {count}'>"
        f"<div class='slide'><div class='in'>{head}<div class='body'>{slide.body}</div>{foot}</div></div>"
        f"{notes}</section>"
    )


def _asked(markup: str) -> str:
    """A figure's markup without its question: nothing is hidden."""
    return re.sub(r'<p class="cl-premise">.*?</p>', "", markup).replace(" cl-ask", "", 1)


def _embedded(path: Path) -> str:
    return f"data:font/woff2;base64,{base64.b64encode(path.read_bytes()).decode()}"


def _serif() -> str:
    """The book's letters."""
    faces = (("roman", "font-weight: 400 700"), ("italic", "font-style: italic"))
    face = '@font-face {{ font-family: "Source Serif"; {}; src: url({}); }}'
    return "".join(face.format(how, _embedded(FONTS / f"source-serif-{name}.woff2")) for name, how in faces)


def _katex() -> str:
    """KaTeX's style sheet with the fonts that are here in it, and without those that are not."""

    def face(match: re.Match[str]) -> str:
        name = re.search(r"fonts/([\w-]+\.woff2)", match[0])
        path = KATEX / "fonts" / name[1] if name else KATEX
        if not path.is_file():
            return ""
        return re.sub(r"src:[^}]*", f'src:url({_embedded(path)}) format("woff2")', match[0])

    return re.sub(r"@font-face\{[^}]*\}", face, (KATEX / "katex.min.css").read_text(encoding="utf-8"))
