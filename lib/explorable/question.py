"""Questions: what a typed answer says, whether it is right, and which known mistake gives it.

A question keeps its answer, and the value that each known mistake gives, as the laws computed them. Two readers judge
what is typed: this module, and ``check.js`` in a browser. Both use one pattern, one table of units and one order of
tests, which :meth:`Question.spec` holds; a test feeds both the same texts.
"""

from __future__ import annotations

import base64
import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from clusterlab.units import fmt, ladder, spellings

# What Python and JavaScript read alike: sign, currency, number (thousands separated properly, or not at all), unit.
_PATTERN = (
    r" *(-?)(\$?) *((?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?|\.[0-9]+(?:[eE][+-]?[0-9]+)?)"
    r" *([^ ](?:[\s\S]*[^ ])?)? *"
)
_SPACES = "[\\t\\n\\r\\u00a0\\u2009\\u202f]"  # what a paste may hold for a space
_SLACK = 1e-9  # so that a tolerance of zero forgives the last bits of a float
_SHIFTS = 1e3, 1e6, 1e9, 1e12, 1e-3, 1e-6, 1e-9, 1e-12  # right digits under a wrong prefix
_KEY = 42  # hides an answer from a glance, not from anybody who wants it


class Reading(NamedTuple):
    """A typed quantity: its value in SI base units, and whether a unit was written."""

    value: float
    bare: bool


class Verdict(NamedTuple):
    """What there is to say to an answer: ``kind`` is right, mistake, unit, prefix, low, high or unread."""

    kind: str
    text: str

    @property
    def right(self) -> bool:
        """Whether the answer is right."""
        return self.kind == "right"

    def __repr__(self) -> str:
        """Return the text alone, as a reader of a notebook wants it."""
        return ("✓ " if self.right else "✗ ") + self.text


@dataclass(frozen=True, repr=False)
class Question:
    """A question with a typed answer: a quantity, or one of several choices.

    Parameters
    ----------
    text : str
        What is asked, with all that a reader must know to answer.
    answer : float or str
        The right value in SI base units; or the right one of ``choices``.
    unit : str
        Unit of the answer, as for :func:`clusterlab.units.fmt`; any of its :func:`clusterlab.units.spellings` is read.
    tolerance : float
        Share of the answer by which a typed value may be off, from 0 to below 0.5.
    mistakes : mapping
        What went wrong, said to the reader, to the value that it gives: computed from the wrong formula.
    choices : mapping
        Each possible answer, and the reason why it is right or wrong.
    hints : sequence of str
        Given one by one, on request.
    way : str
        The way to the answer, given after the last hint.

    Raises
    ------
    ValueError
        The question is empty; the answer is zero, not finite or no choice; or a mistake cannot be told from the
        answer or from another mistake.

    Examples
    --------
    >>> link = Question("100 GB pass a port of 400 Gbit/s. How long does it take?", 100e9 / 50e9, "s",
    ...                 mistakes={"The port counts bits, and 8 bits are a byte.": 100e9 / 400e9})
    >>> link.judge("2,000 ms"), link.judge("0.25 s"), link.judge("3 s")
    (✓ Right: 2 s., ✗ The port counts bits, and 8 bits are a byte., ✗ Too large.)
    >>> link
    Question: 100 GB pass a port of 400 Gbit/s. How long does it take?
      a number in s, within 2%; 1 known mistake, no hints; fingerprint 3c44
    """

    text: str
    answer: float | str
    unit: str = ""
    tolerance: float = 0.02
    mistakes: Mapping[str, float] = field(default_factory=dict)
    choices: Mapping[str, str] = field(default_factory=dict)
    hints: Sequence[str] = ()
    way: str = ""

    def __post_init__(self) -> None:
        """Refuse a question that cannot be asked, or whose mistakes cannot be told apart."""
        if not self.text.strip():
            raise ValueError("a question needs a text")
        if isinstance(self.answer, str):
            if len(self.choices) < 2 or self.answer not in self.choices:
                raise ValueError(f"answer must be one of two or more choices, got {self.answer!r}")
            return
        if self.choices:
            raise ValueError(f"a question with choices needs one of them as its answer, got {self.answer!r}")
        if not math.isfinite(self.answer) or self.answer == 0:
            raise ValueError(f"answer must be finite and not zero, got {self.answer!r}")
        if not 0 <= self.tolerance < 0.5:
            raise ValueError(f"tolerance must be 0 or more and below 0.5, got {self.tolerance!r}")
        told = [("the answer", float(self.answer))]
        for why, value in self.mistakes.items():
            if not math.isfinite(value):
                raise ValueError(f"mistake {why!r} must be finite, got {value!r}")
            for other, at in told:
                if self._near(value, at) or self._near(at, value):
                    raise ValueError(f"mistake {why!r} gives {value:g}, which cannot be told from {other!r}")
            told.append((why, float(value)))

    @property
    def shown(self) -> str:
        """The answer as the book prints it."""
        return self.answer if isinstance(self.answer, str) else fmt(self.answer, self.unit)

    @property
    def explained(self) -> str:
        """The way to the answer; of a choice that has none, the reason why it is right.

        Examples
        --------
        >>> Question("Faster?", "no", choices={"no": "Right: memory limits.", "yes": "It reads."}).explained
        'Memory limits.'
        """
        reason = re.sub(r"^Right\W+", "", self.choices.get(str(self.answer), ""))
        return self.way or reason[:1].upper() + reason[1:]

    @property
    def asked(self) -> str:
        """What to type, said to the reader before anything is typed."""
        if self.choices or not self.unit:
            return "Your answer"
        if self.unit == "%":
            return "Your answer, such as 12 % or 0.12"
        if self._label:
            return f"Your answer, in {self.unit}"
        names = [name for _, _, name in ladder(base(self.unit))]
        return f"Your answer, with its unit ({names[0]} to {names[-1]})"

    @property
    def identity(self) -> str:
        """Short name of the question, made from its text: under it a browser remembers the answer."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:12]

    @property
    def fingerprint(self) -> str:
        """Four digits that change when the answer does, and do not tell it."""
        exact = self.answer if isinstance(self.answer, str) else f"{self.answer:.5g}"
        return hashlib.sha256(f"{self.text}\0{exact}".encode()).hexdigest()[:4]

    def read(self, text: str) -> Reading | None:
        """Read a typed quantity; None where it is no finite number with a unit that fits.

        Examples
        --------
        >>> time = Question("How long?", 1.0, "s")
        >>> [time.read(text) for text in ("3.35 ms", "3.4e-3", "1,024", "5 GB")]
        [Reading(value=0.00335, bare=False), Reading(value=0.0034, bare=True), Reading(value=1024.0, bare=True), None]
        """
        match = re.fullmatch(_PATTERN, re.sub(_SPACES, " ", text))
        if not match:
            return None
        sign, currency, number, unit = match.groups(default="")
        name = currency + unit.replace("\u03bc", "\u00b5")  # Greek mu for the micro sign
        units = self._units()
        size = units.get(name.lower() if self._label else name) if name else 1.0
        if size is None:
            return None
        value = float(sign + number.replace(",", "")) * size
        return Reading(value, not name) if math.isfinite(value) else None

    def judge(self, answer: str | float) -> Verdict:
        """Say whether an answer, typed or a number in SI base units, is right; name the mistake if it is known."""
        if self.choices:
            kinds = {choice: "right" if choice == self.answer else "mistake" for choice in self.choices}
            kind, choice = kinds.get(str(answer), "unread"), str(answer)
            return Verdict(kind, self.choices[choice]) if kind == "mistake" else self._say(kind)
        if isinstance(answer, str):
            reading = self.read(answer)
        else:
            try:
                reading = Reading(float(answer), bare=True) if math.isfinite(answer) else None
            except TypeError:
                raise ValueError(f"an answer is a text or a number, got {answer!r}") from None
        if reading is None:
            return self._say("unread")
        value, right = reading.value, float(self.answer)
        if self._near(value, right):
            return self._say("right")
        known = [why for why, wrong in self.mistakes.items() if self._near(value, wrong)]
        if known:
            return Verdict("mistake", min(known, key=lambda why: abs(value - self.mistakes[why])))
        meant = [right, *(self.mistakes.values() if self.unit == "%" else ())]  # 25 for 25 % is no 2,500 %
        if reading.bare and any(self._near(value * size, one) for size in self._units().values() for one in meant):
            return self._say("unit")
        if any(self._near(value * shift, right) for shift in _SHIFTS):
            return self._say("prefix")
        return self._say("low" if value < right else "high")

    def spec(self) -> dict:
        """All that a browser needs, as JSON can hold it; its order of tests is that of :meth:`judge`."""
        return {
            "id": self.identity,
            "text": self.text,
            "asked": self.asked,
            "answer": self.answer if isinstance(self.answer, str) else float(self.answer),
            "shown": self.shown,
            "unit": self.unit,
            "tolerance": self.tolerance + _SLACK,
            "mistakes": [[float(value), why] for why, value in self.mistakes.items()],
            "choices": list(self.choices.items()),
            "hints": list(self.hints),
            "way": self.explained,
            "said": self._said(),
            "units": {} if self.choices else self._units(),
            "label": self._label,
            "pattern": f"^(?:{_PATTERN})$",
            "spaces": _SPACES,
            "shifts": _SHIFTS,
        }

    def span(self, target: float) -> tuple[float, float]:
        """From where to where a value passes for the answer, or for a known mistake.

        Examples
        --------
        >>> Question("How many GPUs?", 200, tolerance=0.05).span(200)
        (189.9999998, 210.0000002)
        """
        slack = (self.tolerance + _SLACK) * abs(target)
        return target - slack, target + slack

    def __repr__(self) -> str:
        """Name what is asked and how it is judged, and not the answer."""
        hints = f"{_count(len(self.hints), 'hint')}; fingerprint {self.fingerprint}"
        if self.choices:
            return f"Question: {self.text}\n  one of {' | '.join(self.choices)}; {hints}"
        how = f"a number in {self.unit or 'units of one'}, within {fmt(self.tolerance, '%')}"
        return f"Question: {self.text}\n  {how}; {_count(len(self.mistakes), 'known mistake')}, {hints}"

    def _near(self, value: float, target: float) -> bool:
        low, high = self.span(target)
        return low <= value <= high

    @property
    def _label(self) -> bool:
        """Whether the unit is a label, read in any case; of a scaled unit the case is part of the name: mW, MW."""
        return list(spellings(self.unit)) == [self.unit] and self.unit != "%"

    def _units(self) -> dict[str, float]:
        """Names that are read, with their sizes."""
        return {self.unit.lower(): 1.0} if self._label else dict(spellings(self.unit))

    def _say(self, kind: str) -> Verdict:
        return Verdict(kind, self._said()[kind])

    def _said(self) -> dict[str, str]:
        """What is said to each kind of answer."""
        if self.choices:
            return {"right": str(self.choices[str(self.answer)]), "unread": "Choose one of the answers."}
        names = [name for name in spellings(self.unit) if name]
        return {
            "right": f"Right: {self.shown}.",
            "unit": f"Which unit do you mean? A bare number is read in {base(self.unit)}"
            + (": write 12 % or 0.12." if self.unit == "%" else "."),
            "prefix": "The digits are right, the power of ten is not: check the prefix.",
            "low": "Too small.",
            "high": "Too large.",
            "unread": "That cannot be read. Write a number, such as 1,024 or 3.4e-3"
            + (f", and one of these units: {', '.join(names)}." if names else "."),
        }


def line_and_value(answer: object) -> tuple[int, str] | None:
    """The line of a plan that an answer names, and what it should say; None where it names none.

    Examples
    --------
    >>> line_and_value("4: 3.35 ms"), line_and_value("line 2, 1,024 GPUs"), line_and_value("4,096 GPUs")
    ((4, '3.35 ms'), (2, '1,024 GPUs'), None)
    """
    found = re.fullmatch(r"\s*(?:line\s*)?(\d{1,2})(?:\s*[:;)]\s*|,?\s+)(\S.*?)\s*", str(answer), re.IGNORECASE)
    return (int(found[1]), found[2]) if found else None


def reads(answer: object, unit: str | Sequence[str]) -> str:
    """Say how an answer reads, before anybody judges it. Several units are those of a plan's lines.

    Examples
    --------
    >>> reads("3.35 ms", "s"), reads(0.00335, "s"), reads("3,35 ms", "s"), reads(None, "s")
    ('reads as 3.35 ms', 'reads as 3.35 ms', 'cannot be read: a number, and a unit such as s', 'no answer yet')
    >>> reads("2: 3.35 ms", ("GPUs", "s"))
    'line 2, reads as 3.35 ms'
    """
    if answer is None:
        return "no answer yet"
    if not isinstance(unit, str):
        line, said = line_and_value(answer) or (0, "")
        if not 1 <= line <= len(unit):
            return 'cannot be read: a line and what it should say, such as "4: 3.35 ms"'
        return f"line {line}, {reads(said, unit[line - 1])}"
    if unit == "a":  # a choice has a letter
        return (
            f"reads as {answer}" if str(answer).strip().lower() in set("abcdefgh") else "cannot be read: give a letter"
        )
    asked = Question("?", 1.0, unit)
    reading = asked.read(answer if isinstance(answer, str) else repr(float(answer)))  # type: ignore[arg-type]
    if reading is None:
        return "cannot be read: a number" + (f", and a unit such as {unit}" if unit else "")
    scaled = base(unit) if unit in spellings(unit) and unit != "%" else unit
    return f"reads as {fmt(reading.value, scaled)}"


def hide(text: str) -> str:
    """Text as base64 with every byte turned: nobody reads it by accident, and ``check.js`` turns it back.

    Examples
    --------
    >>> hide("3 ms")
    'GQpHWQ=='
    """
    return base64.b64encode(bytes(byte ^ _KEY for byte in text.encode())).decode()


def unhide(hidden: str) -> str:
    """Turn back what :func:`hide` has turned.

    Examples
    --------
    >>> unhide("GQpHWQ==")
    '3 ms'
    """
    return bytes(byte ^ _KEY for byte in base64.b64decode(hidden)).decode()


def base(unit: str) -> str:
    """The unit in which a bare number is read: the one of size 1.

    Examples
    --------
    >>> base("GB/s"), base("min"), base("GPUs"), base("%")
    ('B/s', 's', 'GPUs', 'shares of one')
    """
    return next((name for name, size in spellings(unit).items() if size == 1), "shares of one")


def _count(many: int, what: str) -> str:
    return f"{many or 'no'} {what}{'' if many == 1 else 's'}"
