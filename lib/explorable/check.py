"""Check: a question with a typed answer, judged where the reader is, with a kernel and without one.

The laws compute the answer, and what each known mistake gives, once, in Python. The browser reads what is typed, names
the mistake where it is a known one, gives the hints one by one and then the way, and remembers. See
:class:`explorable.question.Question` for what a question holds.
"""

from __future__ import annotations

import json
from pathlib import Path

import traitlets

from ._widget import Widget, escape, script, together
from .palette import colour
from .question import Question, Verdict, hide

_HERE = Path(__file__).parent


class Check(Widget):
    """A question in the page. Called with an answer it is a plain function, which needs no browser.

    Parameters
    ----------
    question : Question
        What is asked, and how it is judged.

    Examples
    --------
    >>> gpus = Question("A rack has 18 trays of 4 GPUs. How many GPUs?", 18 * 4, "GPUs", tolerance=0,
    ...                 mistakes={"A tray has four GPUs, not two.": 18 * 2}, hints=["Multiply."], way="18 x 4 = 72.")
    >>> check = Check(gpus)
    >>> check
    Check: A rack has 18 trays of 4 GPUs. How many GPUs?
      a number in GPUs, within 0%; 1 known mistake, 1 hint; fingerprint ebc8
    >>> check("36"), check(72)
    (✗ A tray has four GPUs, not two., ✓ Right: 72 GPUs.)
    """

    _esm = script(_HERE / "check.js")
    _css = (
        f":root {{ --cl-right: light-dark({', '.join(colour('memory'))}); "
        f"--cl-wrong: light-dark({', '.join(colour('red'))}); }}\n" + (_HERE / "check.css").read_text(encoding="utf-8")
    )
    _sealed = traitlets.Unicode().tag(sync=True)
    given = traitlets.Unicode(help="What the reader answered last; empty before.").tag(sync=True)

    def __init__(self, question: Question) -> None:
        super().__init__()
        self._question = question
        self._sealed = hide(json.dumps(question.spec(), ensure_ascii=False))
        self._html = _markup(question)

    def __call__(self, answer: str | float) -> Verdict:
        """Judge an answer, as typed or as a number in SI base units."""
        return self._question.judge(answer)

    def __repr__(self) -> str:
        """Name what is asked and how it is judged, and not the answer."""
        return repr(self._question).replace("Question", "Check", 1)


def _markup(question: Question) -> str:
    """The question, and the answer in a fold for pages where no script runs: where one does, it takes the fold away."""
    text = escape(together(question.text))
    label = escape(question.text[:60])
    choices = "".join(f"<li>{escape(choice)}</li>" for choice in question.choices)
    asked = f"<ul>{choices}</ul>" if choices else f'<p class="cl-unit">{escape(question.asked)}.</p>'
    way = f"<p>{escape(question.explained)}</p>" if question.explained else ""
    return (
        f'<div class="cl-check" role="group" aria-label="Check: {label}"><p class="cl-question">{text}</p>'
        f"<noscript>{asked}<details><summary>Answer</summary><p>{escape(question.shown)}</p>{way}</details>"
        "</noscript></div>"
    )
