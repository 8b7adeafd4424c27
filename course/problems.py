"""Problems, and the draws that give every student parameters of their own.

The parameters of a problem come from HMAC(HMAC(secret, student), problem): the same student gets the same numbers each
time, another gets others, and nobody without the secret can tell which. A student's own key opens that student's
problems alone.
"""

from __future__ import annotations

import hmac
import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from explorable import Question

SETS = (
    "roofline",
    "interconnect",
    "parallelism",
    "serving",
    "failures",
    "operations",
    "power",
    "scaling",
    "plan",
    "capstone",
)
_MOST_DRAWS = 60


# A design: its first question, its second, and the answer to the second from whatever was found in the first.
Step = tuple[Question, Question, Callable[[float], float]]


class DegenerateDrawError(ValueError):
    """These parameters make no good problem; the next ones are drawn."""


class Draw:
    """Parameters of one problem for one student, drawn one after the other."""

    def __init__(self, key: bytes, problem: str, attempt: int = 0) -> None:
        digest = hmac.digest(key, f"{problem}\0{attempt}".encode(), "sha512")
        self._left = int.from_bytes(digest)
        self._key, self._set = key, problem.partition("/")[0]

    @property
    def common(self) -> Draw:
        """A draw that all problems of the set share, whichever attempt this is."""
        return Draw(self._key, self._set)

    def below(self, count: int) -> int:
        """A whole number from 0 to below ``count``."""
        self._left, drawn = divmod(self._left, count)
        return drawn

    def one_of(self, options: Sequence):
        """One of several options."""
        return options[self.below(len(options))]

    def number(self, low: int, high: int, step: int = 1) -> int:
        """A whole number from ``low`` to ``high``, in steps."""
        return low + step * self.below((high - low) // step + 1)

    def require(self, plausible: bool) -> None:
        """Draw again unless the parameters make sense together.

        Raises
        ------
        DegenerateDrawError
            They do not.
        """
        if not plausible:
            raise DegenerateDrawError


@dataclass(frozen=True)
class Problem:
    """One problem of a set: typed and judged by machine, or an essay with a rubric, judged by a person."""

    set: str
    name: str
    title: str
    make: Callable[[Draw], Question] | Callable[[Draw], str]
    points: int
    rubric: Mapping[str, int] = field(default_factory=dict)
    before: str = ""  # of the second step of a design: the problem whose answer it goes on from
    design: Callable[[Draw], Step] | None = None

    @property
    def full_name(self) -> str:
        """Name within the course."""
        return f"{self.set}/{self.name}"

    def draw(self, key: bytes) -> tuple[Question | str, int]:
        """The student's question (of an essay, its text), and the number of draws that it took.

        Raises
        ------
        RuntimeError
            No draw was plausible: the problem asks for too much.
        """
        for attempt in range(_MOST_DRAWS):
            try:
                return self.make(self._parameters(key, attempt)), attempt + 1
            except DegenerateDrawError:
                continue
            except ValueError as wrong:
                if "cannot be told" not in str(wrong):  # two mistakes meet, or one meets the answer
                    raise
        raise RuntimeError(f"{self.full_name}: no plausible draw in {_MOST_DRAWS}")

    def _parameters(self, key: bytes, attempt: int) -> Draw:
        """Both steps of a design have the same."""
        return Draw(key, f"{self.set}/{self.design.__name__}" if self.design else self.full_name, attempt)

    def onward(self, key: bytes, value_before: float) -> Question:
        """The second step of a design, from what a student found in the first.

        Raises
        ------
        ValueError
            It is no second step, or nothing follows from this value.
        """
        if not self.before or not self.design:
            raise ValueError(f"{self.full_name} goes on from no other problem")
        _, attempts = self.draw(key)
        _, second, value = self.design(self._parameters(key, attempts - 1))
        return replace(second, answer=value(value_before), mistakes={})

    def question(self, key: bytes) -> Question:
        """The student's question of a problem that is judged by machine."""
        drawn, _ = self.draw(key)
        if not isinstance(drawn, Question):
            raise ValueError(f"{self.full_name} is an essay")
        return drawn

    def text(self, key: bytes) -> str:
        """What the student reads."""
        drawn, _ = self.draw(key)
        return drawn.text if isinstance(drawn, Question) else drawn


class ProblemSet:
    """The problems of one chapter, in their order. Its methods decorate the functions that make them."""

    def __init__(self, name: str, title: str) -> None:
        self.name, self.title = name, title
        self.problems: list[Problem] = []

    def problem(self, title: str, points: int = 2):
        """Decorate a function from a draw to a question."""

        def add(make: Callable[[Draw], Question]):
            self.problems.append(Problem(self.name, make.__name__, title, make, points))
            return make

        return add

    def design(self, first: str, second: str, points: tuple[int, int] = (2, 2)):
        """Decorate a function from a draw to a design: two problems with the same parameters."""

        def add(make: Callable[[Draw], Step]):
            name, one, two = make.__name__, points[0], points[1]
            self.problems += [
                Problem(self.name, f"{name}_first", first, lambda draw: make(draw)[0], one, design=make),
                Problem(self.name, f"{name}_then", second, lambda draw: make(draw)[1], two, {}, f"{name}_first", make),
            ]
            return make

        return add

    def essay(self, title: str, rubric: Mapping[str, int]):
        """Decorate a function from a draw to a text; ``rubric`` maps each criterion to its points."""

        def add(make: Callable[[Draw], str]):
            self.problems.append(Problem(self.name, make.__name__, title, make, sum(rubric.values()), rubric))
            return make

        return add

    def __getitem__(self, name: str) -> Problem:
        """Return the problem of this name."""
        return next(problem for problem in self.problems if problem.name == name)


def load(name: str) -> ProblemSet:
    """Return a set by its name.

    Raises
    ------
    ValueError
        There is no such set.
    """
    if name not in SETS:
        raise ValueError(f"no problem set {name!r}; there are: {', '.join(SETS)}")
    return importlib.import_module(f"course.sets.{name}").SET


def student_key(secret: str, student: str) -> bytes:
    """The key of one student's draws.

    Raises
    ------
    ValueError
        The secret is shorter than twelve characters.
    """
    if len(secret) < 12:
        raise ValueError(f"the secret must have at least 12 characters, got {len(secret)}")
    return hmac.digest(secret.encode(), student.encode(), "sha256")
