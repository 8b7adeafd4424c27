"""Sealed questions: a notebook judges an answer, and nobody reads the answer out of the notebook.

The line of values is cut into buckets, whose edges are the same for all questions of one tolerance. What is said to the
right answer and to each known mistake lies under a key, made by a slow and salted hash (scrypt) from the bucket of the
value. So it opens to who has the value, and to who tries every bucket. The exact bounds lie under the key as well: a
tolerance holds to the digit.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import math
import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from .question import Question, Verdict, line_and_value, reads

COST = 2**13  # scrypt's n: some 30 ms of a core, and 8 MB, for a hash
_NARROW = 0.01  # the least width of a bucket, in logarithms: a tolerance of zero would have buckets without number
_TAG = 16  # bytes that tell a right key


class _Said(NamedTuple):
    """What is said to values from ``low`` to ``high``; of a choice, whatever they are."""

    kind: str
    text: str
    at: float = 0.0
    low: float = -math.inf
    high: float = math.inf


class Sealed:
    """A question as :meth:`of` sealed it. Called with an answer it judges; it holds nothing that can be read.

    Parameters
    ----------
    text : str
        What :meth:`of` returned.

    Raises
    ------
    ValueError
        The text is not complete.

    Examples
    --------
    >>> gpus = Question("A rack has 18 trays of 4 GPUs. How many GPUs?", 18 * 4, "GPUs", tolerance=0,
    ...                 mistakes={"A tray has four GPUs, not two.": 18 * 2}, hints=["Multiply."], way="18 x 4 = 72.")
    >>> sealed = Sealed(Sealed.of(gpus, cost=2**4))
    >>> sealed("72 GPUs"), sealed(36), sealed(71)
    (✓ Right: 72 GPUs. 18 x 4 = 72., ✗ A tray has four GPUs, not two. Hint: Multiply., ✗ Not right: reads as 71 GPUs.)
    """

    def __init__(self, text: str) -> None:
        try:
            known = json.loads(base64.b64decode(text, validate=True))
            self._unit, self._width, self._cost = known["unit"], known["width"], known["cost"]
            self._salt = base64.b64decode(known["salt"])
            self._kept = [base64.b64decode(one) for one in known["kept"]]
        except (ValueError, KeyError, TypeError) as wrong:
            raise ValueError(f"this is no sealed question, or not all of it: {text[:20]!r}...") from wrong

    @classmethod
    def of(cls, question: Question, *, letters: Mapping[str, str] | None = None, cost: int = COST) -> str:
        """Seal a question.

        Parameters
        ----------
        question : Question
            What is asked. One with lines (``line`` and ``units``) is answered by a line and its value; a line after
            the right one may have a value that is known, too (``later``).
        letters : mapping
            Of a question with choices, the letter under which each stands.
        cost : int
            What a hash costs: scrypt's n, a power of two.

        Returns
        -------
        str
            A text without a word or a number of the answer in it.
        """
        said, width = dict[str, list[_Said]](), 0.0
        if question.choices:
            for letter, choice in (letters or {}).items():
                verdict = question.judge(choice)
                said[f"letter {letter}"] = [_Said(verdict.kind, verdict.text)]
        else:
            right = float(question.answer)
            low, high = question.span(right)
            width, line = max(1.001 * math.log(max(high / low, low / high)), _NARROW), getattr(question, "line", 0)
            told = [_Said("right", f"{question.judge(_typed(question)).text} {question.way}".strip(), right, low, high)]
            hint = f" Hint: {question.hints[0]}" if question.hints else ""
            told += [_Said("mistake", why + hint, at, *question.span(at)) for why, at in question.mistakes.items()]
            placed = [(line, one) for one in told]
            for other, at in getattr(question, "later", {}).items():
                verdict = question.judge(f"{other}: {at!r}")
                placed.append((other, _Said(verdict.kind, verdict.text, at, *question.span(at))))
            for number, one in placed:
                for bucket in _buckets(one.low, one.high, width):
                    said.setdefault(f"line {number} bucket {bucket}", []).append(one)
        texts = [json.dumps(lines, ensure_ascii=False).encode() for lines in said.values()]
        length = 256 * math.ceil(max(map(len, texts)) / 256)
        salt = os.urandom(16)
        with ThreadPoolExecutor() as threads:  # scrypt lets go of Python's lock
            keys = threads.map(lambda token: _key(token, salt, cost), said)
            kept = [_closed(text.ljust(length), key) for text, key in zip(texts, keys, strict=True)]
        # As many as there could be, whatever lies across an edge: the number tells nothing.
        lines = len(getattr(question, "units", ())) or 1
        most = len(question.choices) or 2 * (lines + len(question.mistakes))
        kept += [os.urandom(length + _TAG) for _ in range(most - len(kept))]
        unit = "a" if question.choices else getattr(question, "units", question.unit)
        sealed = {"unit": unit, "width": width, "cost": cost, "salt": _text(salt), "kept": sorted(map(_text, kept))}
        return _text(json.dumps(sealed).encode())

    def __call__(self, answer: object) -> Verdict:
        """Judge an answer: a text, a number in SI base units, or a letter; one hash, whatever it is."""
        reading = reads(answer, self._unit)
        if answer is None or "cannot be read" in reading:
            return Verdict("unread", reading[:1].upper() + reading[1:] + ".")
        token, value = self._token(answer)
        for one in self._opened(_key(token, self._salt, self._cost)):
            if one.low <= value <= one.high:
                return Verdict(one.kind, one.text)
        return Verdict("wrong", f"Not right: {reading}.")

    def _token(self, answer: object) -> tuple[str, float]:
        """What the key is made from, and the value."""
        if self._unit == "a":
            return f"letter {str(answer).strip().lower()}", 0.0
        line, said, unit = 0, answer, self._unit
        if not isinstance(unit, str):
            line, said = line_and_value(answer) or (0, "")
            unit = unit[line - 1]
        reading = Question("?", 1.0, unit).read(said if isinstance(said, str) else repr(float(said)))  # type: ignore[arg-type]
        assert reading is not None
        return f"line {line} bucket {_bucket(reading.value, self._width)}", reading.value

    def _opened(self, key: bytes) -> list[_Said]:
        """What lies under a key, the right answer first, then the nearest mistake; nothing, mostly."""
        for kept in self._kept:
            hidden = kept[_TAG:]
            if hmac.compare_digest(kept[:_TAG], _tag(hidden, key)):
                return [_Said(*one) for one in json.loads(_turned(hidden, key))]
        return []

    def __repr__(self) -> str:
        """Say what it is."""
        return "Sealed question: call it with your answer."


def _typed(question: Question) -> str:
    line = getattr(question, "line", 0)
    return f"{line}: {question.answer!r}" if line else repr(float(question.answer))


def _bucket(value: float, width: float) -> str:
    sign = "-" if value < 0 else ""
    return f"{sign}{math.floor(math.log(abs(value)) / width)}" if value else "none"


def _buckets(low: float, high: float, width: float) -> Iterator[str]:
    """Every bucket that a span touches: two at most, as a bucket is a little wider than the answer's span."""
    return iter(dict.fromkeys(_bucket(value, width) for value in (low, high)))


def _key(token: str, salt: bytes, cost: int) -> bytes:
    return hashlib.scrypt(token.encode(), salt=salt, n=cost, r=8, p=1, dklen=64)


def _turned(text: bytes, key: bytes) -> bytes:
    stream = hashlib.shake_256(key[:32]).digest(len(text))
    return bytes(a ^ b for a, b in zip(text, stream, strict=True))


def _tag(hidden: bytes, key: bytes) -> bytes:
    return hmac.digest(key[32:], hidden, "sha256")[:_TAG]


def _closed(text: bytes, key: bytes) -> bytes:
    hidden = _turned(text, key)
    return _tag(hidden, key) + hidden


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
