"""Signals: what the person on call sees, with its cause, its urgency and what to do."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from ..catalogue import Fact, Sourced, read_records, stored

#: How soon to act: a job is down or wrong; when the job next stops; on a rate; it is a bug of the job.
URGENCIES = ("now", "next stop", "watch", "the user's")
_OURS = ("law", "urgency")  # the book's judgement, which rests on no source


@dataclass(frozen=True, repr=False)
class Signal(Sourced):
    """A code, a counter or a sign, as its source explains it; what it touches and how soon to act are our judgement.

    Examples
    --------
    >>> SIGNALS["Xid 79"].meaning, SIGNALS["Xid 79"].urgency
    ('GPU has fallen off the bus', 'now')
    """

    #: Whose log or counter it is.
    where: str
    meaning: str
    cause: str
    action: str
    #: The page and section whose arithmetic it touches, as a link of the book.
    law: str
    #: One of :data:`URGENCIES`.
    urgency: str

    @staticmethod
    def read(key: str, printed: object) -> str:
        """Return a stored value as it is: a text."""
        if not isinstance(printed, str) or not printed:
            raise ValueError(f"{key} must be text, got {printed!r}")
        return printed


def read_signals(document: Mapping) -> dict[str, dict[str, Signal]]:
    """Build every record of a parsed ``signals.toml``, refusing whatever rests on nothing.

    Raises
    ------
    ValueError
        With every gap found.
    """

    def of(name: str, facts: dict[str, Fact], _row: Mapping) -> Signal:
        values = {key: Signal.read(key, fact.printed) for key, fact in facts.items()}
        kept = MappingProxyType({key: fact for key, fact in facts.items() if key not in _OURS})
        made = Signal(name=name, facts=kept, **values)
        if made.urgency not in URGENCIES:
            raise ValueError(f"urgency must be one of {', '.join(URGENCIES)}; got {made.urgency!r}")
        return made

    return read_records(document, "signal", {"signal": of})


#: Every signal by its name.
SIGNALS: Mapping[str, Signal] = MappingProxyType(read_signals(tomllib.loads(stored("signals.toml")))["signal"])
