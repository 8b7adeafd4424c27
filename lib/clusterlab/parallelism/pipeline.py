"""Pipelines: a model cut into stages, the schedules that feed them microbatches, and the idle time that is left.

:func:`simulate_pipeline` executes a schedule: every stage works through its own list of passes in order, and a pass
starts when the stage is free and its input has arrived. The closed forms, :func:`bubble_fraction` and
:func:`in_flight`, are what comes out where all stages take the same time. A transfer delays its receiver and keeps no
stage busy.

The model is cut into stages times chunks pieces (virtual stages); stage i holds pieces i, i + stages, i + 2 stages and
so on. A forward pass (F) of a piece needs that of the piece before it, a backward pass (B) that of the piece after it.
The zero-bubble schedules split B in two: the gradient of the input, which the piece before waits for (still B), and the
gradient of the weights (W), which nothing waits for.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from ..checks import Numeric, ceiling, choose, floor, larger, nonnegative, pick, positive, smaller, some, whole
from ..quantities import Amount, Count, Number, PositiveSeconds, Seconds, law
from ..records import Explained, Rows, summary
from ..units import fmt

SCHEDULES = ("gpipe", "1f1b", "interleaved", "zb-h1", "zb-h2")


Pass = tuple[str, int, int]  # its kind, chunk (of DualPipe, direction) and microbatch


# --- What each stage does, in which order ----------------------------------------------------------------------------


def _gpipe(_stage: int, _stages: int, microbatches: int, _chunks: int) -> list[Pass]:
    """All forward passes, then all backward passes."""
    return [("F", 0, m) for m in range(microbatches)] + [("B", 0, m) for m in reversed(range(microbatches))]


def _one_f_one_b(stage: int, stages: int, microbatches: int, chunks: int) -> list[Pass]:
    """As many forward passes as it takes to fill the pipeline, then one forward and one backward in turn."""
    # Chunks take turns in groups of as many microbatches as there are stages, or of some more where they do not divide.
    groups = np.array_split(np.arange(microbatches), max(microbatches // stages, 1))
    forward = [("F", chunk, m) for group in groups for chunk in range(chunks) for m in group]
    backward = [("B", chunk, m) for group in groups for chunk in reversed(range(chunks)) for m in group]
    ahead = stages - stage - 1
    if chunks > 1:
        ahead = 2 * ahead + (chunks - 1) * len(groups[0])
    return _alternating(forward, backward, ahead)


def _alternating(
    forward: list[Pass], backward: list[Pass], ahead: int, weight: Sequence[Pass] = (), late: int = 0
) -> list[Pass]:
    """``ahead`` forward passes, then a forward and a backward in turn, then the backward passes that are left.

    Each weight gradient comes ``late`` backward passes after its own.
    """
    order = forward[:ahead]
    for i, pass_ in enumerate(backward):
        order += [*forward[ahead + i : ahead + i + 1], pass_, *weight[max(i - late, 0) : max(i - late + 1, 0)]]
    return [*order, *weight[max(len(backward) - late, 0) :]]


def _zero_bubble(stage: int, stages: int, microbatches: int, _chunks: int, *, extra: int) -> list[Pass]:
    """1F1B with weight gradients put off by ``stage`` microbatches, and ``extra`` times the usual start."""
    forward, backward, weight = ([(kind, 0, m) for m in range(microbatches)] for kind in "FBW")
    return _alternating(forward, backward, (1 + extra) * (stages - stage - 1), weight, (1 + extra) * stage)


_ORDERS: dict[str, Callable[[int, int, int, int], list[Pass]]] = {
    "gpipe": _gpipe,
    "1f1b": _one_f_one_b,
    "interleaved": _one_f_one_b,
    "zb-h1": partial(_zero_bubble, extra=0),
    "zb-h2": partial(_zero_bubble, extra=1),
}


@dataclass(frozen=True, repr=False)
class Timeline(Explained):
    """What a pipeline did: one entry for each pass, stage by stage in the order of its work.

    ``kind`` is "F", "B" or "W"; ``start`` and ``end`` are in seconds, the first pass starts at 0.
    """

    stages: int
    chunks: int
    kind: np.ndarray
    stage: np.ndarray
    chunk: np.ndarray
    microbatch: np.ndarray
    start: np.ndarray
    end: np.ndarray

    @property
    def time(self) -> Seconds:
        """Seconds from the first pass to the end of the last."""
        return self.end.max()

    @property
    def busy(self) -> np.ndarray:
        """Seconds that each stage works, shape (stages,)."""
        return np.bincount(self.stage, self.end - self.start, minlength=self.stages)

    @property
    def idle(self) -> np.ndarray:
        """Seconds that each stage waits, shape (stages,)."""
        return self.time - self.busy

    @property
    def span(self) -> Seconds:
        """Seconds from a stage's first pass to its last, the longest of all stages.

        A training loop whose stages do not wait for one another between steps takes this long a step, not ``time``.
        """
        stages = range(self.stages)
        return max(self.end[self.stage == i].max() - self.start[self.stage == i].min() for i in stages)

    @property
    def bubble_fraction(self) -> Number:
        """Time lost over the work of the busiest stage: ``span`` / work - 1."""
        return self.span / self.busy.max() - 1

    @property
    def in_flight(self) -> np.ndarray:
        """Most activations that each stage holds at once, in microbatches of all its layers, shape (stages,).

        A piece's activations are held from the start of its forward pass to the end of its last backward pass.
        """
        release = "W" if "W" in self.kind else "B"
        change = 1 * (self.kind == "F") - 1 * (self.kind == release)
        return np.array([np.cumsum(change[self.stage == i]).max() / self.chunks for i in range(self.stages)])

    def spans(self) -> dict[str, list[tuple]]:
        """Spans for a picture: kind of pass to (stage, start, end, microbatch counted from 1)."""
        names = {"F": "forward", "B": "backward", "W": "weight gradient"}
        spans: dict[str, list[tuple]] = {name: [] for name in names.values()}
        for kind, *where, microbatch in zip(self.kind, self.stage, self.start, self.end, self.microbatch, strict=True):
            spans[names[kind]].append((*(x.item() for x in where), str(microbatch + 1)))
        return spans

    def _rows(self) -> Rows:
        rows = [("", "value"), ("passes", fmt(len(self.kind))), ("time", fmt(self.time, "s"))]
        rows += [("span of a stage", fmt(self.span, "s")), ("bubble", fmt(self.bubble_fraction, "%"))]
        for name in ("busy", "idle"):
            rows.append((f"{name}, stage by stage", summary(getattr(self, name), "s")))
        return [*rows, ("microbatches in flight", summary(self.in_flight))]


def _piece_times(name: str, seconds: Seconds, stages: int, chunks: int) -> np.ndarray:
    """Seconds of each piece, shape (stages, chunks), from one number, one a stage, or one a piece."""
    (seconds,) = nonnegative(**{name: seconds})
    if np.shape(seconds) in ((), (stages,)):
        return np.broadcast_to(np.reshape(seconds, (-1, 1)) / chunks, (stages, chunks))
    if np.shape(seconds) == (stages, chunks):
        return seconds
    raise ValueError(f"{name} must be one number, one a stage or one a stage and chunk, got shape {np.shape(seconds)}")


def _counts(**values: Numeric) -> list[int]:
    for name, value in values.items():
        if np.ndim(value):
            raise ValueError(f"{name} must be one whole number, got {value!r}")
    return [int(count) for count in whole(**values)]


def simulate_pipeline(
    schedule: str,
    *,
    stages: int,
    microbatches: int,
    chunks: int = 1,
    forward: Seconds = 1.0,
    backward: Seconds = 2.0,
    weight: Seconds | None = None,
    communication: Seconds = 0.0,
) -> Timeline:
    """Execute a pipeline schedule, pass by pass.

    Parameters
    ----------
    schedule : str
        ``"gpipe"``; ``"1f1b"``; ``"interleaved"``: 1F1B with ``chunks`` pieces a stage; ``"zb-h1"``, ``"zb-h2"``: zero
        bubble, with the memory of 1F1B and with twice that.
    stages, microbatches : int
        Stages of the pipeline and microbatches of a step.
    chunks : int
        Pieces of the model that each stage holds; more than 1 under ``"interleaved"`` only.
    forward, backward
        Seconds of the passes of one microbatch: one number for a whole stage, or shape (stages,), split evenly over the
        chunks; or shape (stages, chunks). Recomputation belongs to ``backward``.
    weight : optional
        The part of ``backward`` that is the gradient of the weights, of use to the zero-bubble schedules; half of it by
        default.
    communication : float
        Seconds from the end of a pass to its output's arrival at the next stage. The stages keep working meanwhile.

    Returns
    -------
    Timeline

    Raises
    ------
    ValueError
        ``weight`` exceeds ``backward``, or the schedule has no chunks and more than 1 are asked for.

    Notes
    -----
    Source: Huang et al. 2019 (GPipe), section 2; Narayanan et al. 2021 (SC21), section 2.2 (1F1B, interleaved); Qi et
    al. 2024 (zero bubble), section 2 and figure 3. An interleaved schedule takes its microbatches in groups, of as many
    as there are stages; where they do not divide, the groups are larger, not smaller, and the bubble is the same.

    Examples
    --------
    >>> simulate_pipeline("1f1b", stages=4, microbatches=8, forward=1e-3, backward=2e-3)
    Timeline
                                          value
    passes                                   64
    time                                  33 ms
    span of a stage                       33 ms
    bubble                                37.5%
    busy, stage by stage    24 ms, all 4 values
    idle, stage by stage     9 ms, all 4 values
    microbatches in flight     1 to 4, 4 values
    """
    if not isinstance(schedule, str) or schedule not in SCHEDULES:
        raise ValueError(f"schedule must be one of {', '.join(SCHEDULES)}; got {schedule!r}")
    p, m, v = _counts(stages=stages, microbatches=microbatches, chunks=chunks)
    if v > 1 and schedule != "interleaved":
        raise ValueError(f"chunks must be 1 under {schedule}, got {chunks}; the schedule with chunks is 'interleaved'")
    times = {"F": _piece_times("forward", forward, p, v), "B": _piece_times("backward", backward, p, v)}
    if not np.any(times["F"] + times["B"] > 0):
        raise ValueError(f"forward and backward must not both be zero, got {forward} and {backward}")
    if schedule.startswith("zb"):
        times["W"] = times["B"] / 2 if weight is None else _piece_times("weight", weight, p, v)
        if np.any(times["W"] > times["B"]):
            raise ValueError(f"weight must be at most backward, got {weight} of {backward}")
        times["B"] = times["B"] - times["W"]
    (hop,) = nonnegative(communication=communication)
    seconds = {kind: each.tolist() for kind, each in times.items()}
    return _execute(
        [[(one,) for one in _ORDERS[schedule](i, p, m, v)] for i in range(p)],
        piece=lambda i, chunk: (0, chunk * p + i),
        parts=lambda kind, i, chunk: [(kind, seconds[kind][i][chunk])],
        pieces=p * v,
        hop=hop if p > 1 else 0.0,
    )


def _execute(
    orders: Sequence[Iterable[Sequence[Pass]]],
    *,
    piece: Callable[[int, int], tuple[int, int]],
    parts: Callable[[str, int, int], list[tuple[str, float]]],
    pieces: int,
    hop: float,
    paired_scale: float = 1.0,
) -> Timeline:
    """Run every stage through its order: units of one pass, or of two that run as a pair.

    A pair takes ``paired_scale`` times as long as its passes one after the other, and both end when it ends.
    ``piece`` is where a stage and chunk stand: direction and number, on the way through ``pieces`` of the model.
    ``parts`` are what a pass is shown as, with its seconds. A stage works on until its next unit lacks an input, and is
    woken when the pass that makes it has run.
    """
    left = [iter(order) for order in orders]
    upcoming = [next(order) for order in left]  # each stage's next unit
    free, rows = [0.0] * len(left), []
    end: dict[tuple[bool, int, int, int], float] = {}  # of passes: forward or not, direction, piece, microbatch
    waiting: dict[tuple[bool, int, int, int], int] = {}  # what a stage waits for, to the stage
    awake = deque(range(len(left)))
    while awake:
        i = awake.popleft()
        while unit := upcoming[i]:
            # The loss follows the last forward pass at once, and a weight gradient its own backward pass.
            made = [(kind == "F", *piece(i, chunk), m) for kind, chunk, m in unit if kind != "W"]
            inputs = [(f, way, at, m) for f, way, own, m in made if 0 <= (at := own - 1 if f else own + 1) < pieces]
            if missing := [one for one in inputs if one not in end]:
                waiting[missing[0]] = i
                break
            now = max([end[one] + hop for one in inputs] + [free[i]])
            scale = paired_scale if len(unit) == 2 else 1.0
            for kind, chunk, m in unit:
                for part, seconds in parts(kind, i, chunk):
                    rows.append((part, i, chunk, m, now, now + scale * seconds))
                    now += scale * seconds
            for one in made:
                end[one] = now
                if one in waiting:
                    awake.append(waiting.pop(one))
            free[i], upcoming[i] = now, next(left[i], ())
    columns = map(np.array, zip(*sorted(rows, key=lambda row: row[1]), strict=True))
    return Timeline(len(orders), pieces // len(orders), *columns)


# --- DualPipe --------------------------------------------------------------------------------------------------------


def _dualpipe(stage: int, stages: int, microbatches: int) -> list[list[tuple[str, int]]]:
    """A stage's units of work: one pass (kind, direction), or two that run as a pair.

    ``"F"`` and ``"B"`` as everywhere, B with its weight gradient; ``"I"`` is the gradient of the input alone, and
    ``"W"`` the weight gradient that has been put off longest. Direction 0 enters at the first stage, 1 at the last.
    """
    half, to_end = stages // 2, min(stage, stages - 1 - stage)
    here, there = int(stage >= half), int(stage < half)  # the direction that enters nearer, and the other

    def put_off(direction: int, is_put_off: bool) -> list[tuple[str, int]]:
        return [("I" if is_put_off else "B", direction)]

    inner = half - to_end - 1
    units: list = [[("F", here)]] * (2 * inner)
    units += [[("F", here)], [("F", there)]] * (to_end + 1)
    units += [[("I", there)], [("W", -1)], [("F", there)]] * inner
    for i in range(microbatches // 2 - stages + to_end + 1):
        apart = i == 0 and not inner  # the two stages in the middle do not pair what they begin with
        units += [[("F", here)], [("B", there)]] if apart else [[("F", here), ("B", there)]]
        units.append([("F", there), ("B", here)])
    units += [[("B", there)], [("F", there), ("B", here)]] * inner
    for i in range(to_end + 1):
        middle, odd = (to_end + 1) // 2, to_end % 2
        units += [put_off(there, i >= middle + (not odd)), put_off(here, i >= middle)]
    return units + [[("W", -1)], [("I", here)]] * inner + [[("W", -1)]] * (to_end + 1)


def _numbered(units: Iterable[Sequence[tuple[str, int]]]) -> Iterator[list[Pass]]:
    """A stage's units, each pass with its microbatch: they come in order, and so do weight gradients put off."""
    begun: Counter[tuple[bool, int]] = Counter()
    put_off: deque[tuple[int, int]] = deque()
    for unit in units:
        passes: list[Pass] = []
        for kind, direction in unit:
            if kind == "W":
                passes.append((kind, *put_off.popleft()))
                continue
            passes.append((kind, direction, begun[kind == "F", direction]))
            begun[kind == "F", direction] += 1
            put_off.extend([passes[-1][1:]] if kind == "I" else [])
        yield passes


def simulate_dualpipe(
    stages: int,
    microbatches: int,
    *,
    forward: Seconds = 1.0,
    backward: Seconds = 2.0,
    weight: Seconds | None = None,
    paired: Seconds | None = None,
    communication: Seconds = 0.0,
) -> Timeline:
    """Execute DualPipe: microbatches enter at both ends, and passes of the two directions run in pairs.

    Every stage holds two pieces of the model, its own and that of the stage opposite. A forward pass of one direction
    and a backward pass of the other share the GPU, so that each hides the other's exchange of tokens.

    Parameters
    ----------
    stages, microbatches : int
        Stages p, even, and microbatches of a step, of both directions together: even, and at least twice p.
    forward, backward : float
        Seconds of the passes of one microbatch through one piece.
    weight : float, optional
        The part of ``backward`` that is the gradient of the weights; half of it by default.
    paired : float, optional
        Seconds of a forward and a backward pass that run as a pair; by default as long as one after the other.
    communication : float
        Seconds of a transfer between stages.

    Returns
    -------
    Timeline
        ``chunk`` is the direction. A pair is shown as its passes one after the other, shrunk to its time; what they
        pass on is ready at its end.

    Raises
    ------
    ValueError
        ``weight`` exceeds ``backward``.

    Notes
    -----
    Source: DeepSeek-V3 2024, section 3.2.1; the order of the passes is that of its published code
    (deepseek-ai/DualPipe, ``dualpipe.py``).

    Examples
    --------
    >>> line = simulate_dualpipe(8, 20, forward=1, backward=2, weight=1)
    >>> float(line.idle.max()), float(dualpipe_bubble(8, forward=1, backward=2, weight=1))
    (6.0, 6.0)
    """
    p, m = _counts(stages=stages, microbatches=microbatches)
    if p % 2 or m % 2 or m < 2 * p:
        raise ValueError(f"stages and microbatches must be even, and microbatches at least twice stages; got {p}, {m}")
    f, b = positive(forward=forward, backward=backward)
    w = _weight_part(b, None if weight is None else nonnegative(weight=weight)[0])
    (hop,) = nonnegative(communication=communication)
    (pair,) = positive(paired=f + b if paired is None else paired)
    parts = {"F": [("F", f)], "B": [("B", b - w), ("W", w)], "I": [("B", b - w)], "W": [("W", w)]}
    return replace(
        _execute(
            [_numbered(_dualpipe(i, p, m)) for i in range(p)],
            piece=lambda i, direction: (direction, p - 1 - i if direction else i),
            parts=lambda kind, *_: parts[kind],
            pieces=p,
            hop=hop,
            paired_scale=pair / (f + b),
        ),
        chunks=2,
    )


def _weight_part(backward: Seconds, weight: Seconds | None) -> Seconds:
    """The part of a backward pass that is the gradient of the weights: half of it by default, and at most all."""
    if weight is None:
        return backward / 2
    if some(weight > backward):
        raise ValueError(f"weight must be at most backward, got {weight} of {backward}")
    return weight


@law
def dualpipe_bubble(
    stages: Count,
    *,
    forward: PositiveSeconds = 1.0,
    backward: PositiveSeconds = 2.0,
    weight: Seconds | None = None,
    paired: PositiveSeconds | None = None,
) -> Seconds:
    r"""Seconds that a stage of DualPipe waits in a step, at most.

    .. math:: \left(\frac{p}{2} - 1\right) \max(t_{fb} + t_b - 3 t_w, 0)

    Parameters
    ----------
    stages
        Stages p, even.
    forward, backward, weight, paired
        Seconds of the passes of one microbatch through one piece, as in :func:`simulate_dualpipe`: t_f, t_b with t_w
        in it (half by default), and t_fb of a pair (by default t_f + t_b).

    Returns
    -------
    Seconds
        As long as the schedule takes where forward pass, gradient of the input and gradient of the weights are equally
        long, and never less where the last is the shortest.

    Raises
    ------
    ValueError
        ``stages`` is not even, or ``weight`` exceeds ``backward``.

    Notes
    -----
    Source: DeepSeek-V3 2024, table 2. Against 1F1B's (p - 1)(t_f + t_b) it takes twice the parameters on every stage.

    Examples
    --------
    >>> float(dualpipe_bubble(16, forward=1, backward=2, weight=1))
    14.0
    """
    if some(stages % 2 != 0):
        raise ValueError(f"stages must be even, got {stages}")
    gradient, pair = _weight_part(backward, weight), forward + backward if paired is None else paired
    return (stages / 2 - 1) * larger(pair + backward - 3 * gradient, 0.0)


# --- Uneven stages ---------------------------------------------------------------------------------------------------


@law
def stage_layers(layers: Count, stages: Count, stage: Amount = 0, *, chunks: Count = 1) -> Amount:
    r"""Layers of one pipeline stage, where they are shared out as evenly as can be.

    .. math:: v \left\lceil \frac{L}{p v} \right\rceil - \text{pieces of the stage that are short of a layer}

    The model is cut into stages times chunks pieces of ceil(layers / pieces) layers. Where that is too many, the last
    piece has one less, then the first, the last but one, and so on: the ends also have the loss and the embedding.

    Parameters
    ----------
    layers, stages
        Layers of the model and stages of the pipeline.
    stage
        The stage, counted from 0.
    chunks
        Pieces a stage, dealt in turn: stage i has pieces i, i + stages, i + 2 stages and so on.

    Returns
    -------
    Amount
        Layers of the stage. They add up to ``layers`` over the stages.

    Raises
    ------
    ValueError
        There is no such stage, or more than two pieces would be empty.

    Notes
    -----
    Source: The Llama 3 Herd of Models 2024, section 3.3.2: one layer less on the first and on the last stage; here for
    any number.

    Examples
    --------
    Llama 3 405B: 126 layers on 16 stages.

    >>> [float(stage_layers(126, 16, i)) for i in (0, 1, 14, 15)]
    [7.0, 8.0, 8.0, 7.0]
    """
    check_stage(stage, stages)
    _check_pieces(layers, stages, chunks)
    return held_layers(*short_pieces(layers, stages, chunks), stage, stages, chunks)


def check_stage(stage: Amount, stages: Count) -> None:
    """Raise a ValueError unless there are such stages."""
    if some(stage >= stages) or some(stage != floor(stage)):
        got = f"{np.max(stage):g} of {np.min(stages):g}"
        raise ValueError(f"stage must be a whole number from 0 to stages - 1, got {got}")


def _check_pieces(layers: Count, stages: Count, chunks: Count) -> None:
    pieces = stages * chunks
    if some(pieces > layers + 2):
        got = f"{np.max(pieces):g} and {np.max(layers):g}"
        raise ValueError(f"stages times chunks must be at most layers + 2, got {got}")


def short_pieces(layers: Count, p: Count, v: Count) -> tuple[Number, Number, Number]:
    """Layers of a piece of the model, and how many pieces at the front and at the back are one short of that."""
    size = ceiling(layers / (p * v))
    short = p * v * size - layers
    return size, floor(short / 2), ceiling(short / 2)


def held_layers(size: Number, front: Number, back: Number, i: Amount, p: Count, v: Count) -> Number:
    """Layers of stage i."""
    if not some(back > 0):
        return v * size + 0 * i
    return v * size - _pieces_before(front, i, p, v) - _pieces_before(back, p - 1 - i, p, v)


def _pieces_before(limit: Number, i: Amount, p: Count, v: Count) -> Number:
    """Pieces of stage i that are among the first ``limit``."""
    return larger(smaller(ceiling((limit - i) / p), v), 0.0)


@dataclass(frozen=True, repr=False)
class CriticalStage(Explained):
    """The stage that sets the pace of a pipeline, and what the others make it wait.

    ``layers`` are those that it holds, ``time`` its seconds for one microbatch, forward and backward.
    ``has_embedding`` and ``has_output`` are 1 where it is the first and the last stage, else 0. ``bubble``: seconds of
    a step in which it waits.
    """

    layers: Number
    time: Seconds
    has_embedding: Number
    has_output: Number
    bubble: Seconds


@law
def critical_stage(
    layers: Count,
    *,
    layer_time: Seconds,
    embedding_time: Seconds,
    output_time: Seconds,
    stages: Count,
    microbatches: Count,
    chunks: Count = 1,
) -> CriticalStage:
    r"""Which stage of an uneven pipeline is slowest, and the time that it waits in a step.

    .. math:: T = m\,\tau + W, \qquad \tau = \max_i \tau_i, \qquad
        W = \max\left(\frac{\sum_i \tau_i - \tau}{v},\; \sum_i \tau_i - \tau - (m - 1)(\tau - \pi)\right)

    with :math:`\tau_i` the time of stage i for one microbatch and :math:`\pi` the longest piece of a stage. The first
    term of W is the bubble of the interleaved schedule; the second is more where stages get few microbatches: one goes
    through all pieces, the others behind it through the slowest.

    Parameters
    ----------
    layers
        Layers of the model, dealt out as in :func:`stage_layers`.
    layer_time, embedding_time, output_time
        Seconds of one microbatch, forward and backward, in one layer, in the embedding and in the output layer.
    stages, microbatches, chunks
        Stages of the pipeline, microbatches m of a step, and pieces a stage v.

    Returns
    -------
    CriticalStage
        Exact for one microbatch, and without chunks where the last stage is the slowest; without chunks never less than
        a pipeline takes.

    Raises
    ------
    ValueError
        More than two pieces would be empty.

    Notes
    -----
    Source: Narayanan et al. 2021 (SC21), section 2.2.2, for even stages; derived for uneven ones and held against
    :func:`simulate_pipeline`.

    Examples
    --------
    Four stages of eight layers, 1 ms each, with an output layer of 3 ms: its stage sets the pace.

    >>> slow = critical_stage(32, layer_time=1e-3, embedding_time=0, output_time=3e-3, stages=4, microbatches=16)
    >>> float(slow.layers), float(slow.has_output), round(float(slow.time * 1e3), 6), round(float(slow.bubble * 1e3), 6)
    (8.0, 1.0, 11.0, 24.0)
    """
    _check_pieces(layers, stages, chunks)
    p, v = stages, chunks
    size, front, back = short_pieces(layers, p, v)
    single = 1.0 * (p == 1)
    staged = 1.0 - single
    first_layers = held_layers(size, front, back, 0.0, p, v)
    last_layers = held_layers(size, front, back, p - 1, p, v)
    # Short pieces at the front end at this stage: of those between the ends none holds more.
    fullest = larger(smaller(front - p * floor(front / p), p - 2), 1.0)
    middle_layers = held_layers(size, front, back, fullest, p, v) * staged
    last_time = last_layers * layer_time + output_time + single * embedding_time
    first_time = (first_layers * layer_time + embedding_time) * staged
    time = larger(larger(first_time, last_time), middle_layers * layer_time)
    has_output = 1.0 * (last_time == time)
    at_first = (1.0 - has_output) * (first_time == time)
    held = pick(has_output > 0, last_layers, pick(at_first > 0, first_layers, middle_layers))
    others = layers * layer_time + embedding_time + output_time - time
    piece = larger(layer_time * (size - (front > 0)) + embedding_time, layer_time * (size - (back > 0)) + output_time)
    piece = larger(piece, layer_time * size)
    bubble = larger(others / v, others - (microbatches - 1) * (time - piece)) * staged
    return CriticalStage(held, time, at_first + single, has_output, bubble)


# --- Closed forms ----------------------------------------------------------------------------------------------------


@law
def bubble_fraction(
    stages: Count,
    microbatches: Count,
    *,
    schedule: str | Sequence[str] = "interleaved",
    chunks: Count = 1,
    forward: PositiveSeconds = 1.0,
    backward: PositiveSeconds = 2.0,
    weight: Seconds | None = None,
) -> Amount:
    r"""Time that a pipeline loses, over the time of its work, where all stages take the same time.

    .. math:: \frac{p - 1}{m v} + \frac{\max(p - m, 0)}{m}\left(1 - \frac{1}{v}\right)
        \quad \text{(GPipe, 1F1B: } v = 1)

    .. math:: \frac{(p - 1)\,\max(t_f + t_b - 2 t_w, 0)}{m\,(t_f + t_b)} \;\text{(ZB-H1)}, \qquad
        \frac{(p - 1)\,\max(t_f + t_b - 3 t_w, 0)}{m\,(t_f + t_b)} \;\text{(ZB-H2)}

    Parameters
    ----------
    stages, microbatches
        Stages p and microbatches m of a step.
    schedule : str or array of str
        As in :func:`simulate_pipeline`. 1F1B is the interleaved schedule with one chunk.
    chunks
        Pieces of the model a stage, v; of no effect but under ``"interleaved"``.
    forward, backward, weight
        Seconds t_f and t_b of the passes, and t_w, the part of t_b that is the gradient of the weights (half by
        default). Of effect for zero bubble only.

    Returns
    -------
    Amount
        The share (t - m (t_f + t_b)) / (m (t_f + t_b)), with t the span of a stage. Multiply by the work of a stage for
        the seconds lost.

    Raises
    ------
    ValueError
        ``weight`` exceeds ``backward``.

    Notes
    -----
    Source: Huang et al. 2019 for (p - 1)/m; Narayanan et al. 2021 (SC21), section 2.2.2, for (p - 1)/(v m); Qi et al.
    2024, table 2, for zero bubble, whose t_B is t_b - t_w here. Derived: the term for fewer microbatches than stages,
    and that microbatches need not be a multiple of stages. Zero bubble asks for at least p microbatches (2p - 1 for
    ZB-H2), and for weight gradients no longer than either other pass: else it loses more than this.

    Examples
    --------
    Eight stages and 32 microbatches: interleaving two or four chunks halves and quarters the bubble.

    >>> [float(round(bubble_fraction(8, 32, chunks=v), 3)) for v in (1, 2, 4)]
    [0.219, 0.109, 0.055]
    >>> [float(round(bubble_fraction(8, 32, schedule=s), 3)) for s in ("zb-h1", "zb-h2")]
    [0.073, 0.0]
    """
    p, m, v, f, b, w = stages, microbatches, chunks, forward, backward, _weight_part(backward, weight)
    plain = (p - 1) / m
    forms = {
        "gpipe": plain,
        "1f1b": plain,
        "interleaved": plain / v + np.maximum(p - m, 0) / m * (1 - 1 / v),
        "zb-h1": plain * np.maximum(f + b - 2 * w, 0) / (f + b),
        "zb-h2": plain * np.maximum(f + b - 3 * w, 0) / (f + b),
    }
    return choose(forms, schedule=schedule)


@law
def in_flight(
    stages: Count,
    microbatches: Count,
    stage: Amount = 0,
    *,
    schedule: str | Sequence[str] = "interleaved",
    chunks: Count = 1,
) -> Number:
    r"""Most activations that a stage holds at once, in microbatches of all its layers.

    .. math:: m \;\text{(GPipe)}, \qquad \min(m, p - i) \;\text{(1F1B)}, \qquad
        \min\left(m, \frac{2(p - i - 1) + (v - 1) g + 1}{v}\right) \;\text{(interleaved, } v > 1)

    .. math:: \min(m, p) \;\text{(ZB-H1)}, \qquad \min(m, 2p - 1) \;\text{(ZB-H2)}

    Parameters
    ----------
    stages, microbatches
        Stages p and microbatches m of a step.
    stage
        The stage i, counted from 0.
    schedule : str or array of str
        As in :func:`simulate_pipeline`. 1F1B is the interleaved schedule with one chunk.
    chunks
        Pieces of the model a stage, v. The group g is p where p divides m, else the next larger even share of m.

    Returns
    -------
    Number
        Microbatches; the first stage of an interleaved pipeline holds a share (p - 1)/(p v) more than p.

    Raises
    ------
    ValueError
        There is no such stage.

    Notes
    -----
    Source: Narayanan et al. 2021 (SC21), section 2.2; Korthikanti et al. 2022, section 4.2.3: L (1 + (p - 1)/(p v))
    layers; Qi et al. 2024, table 2. Here a weight gradient holds all activations of its pass to its end.

    Examples
    --------
    >>> [float(in_flight(8, 64, chunks=v)) for v in (1, 3)]
    [8.0, 10.333333333333334]
    """
    check_stage(stage, stages)
    p, m, i, v = stages, microbatches, stage, chunks
    ahead = p - i - 1
    if isinstance(schedule, str) and schedule == "interleaved":
        group = np.ceil(m / larger(np.floor(m / p), 1.0))
        return smaller(m, pick(v > 1, (2 * ahead + (v - 1) * group + 1) / v, ahead + 1))
    forms = {
        "gpipe": m,
        "1f1b": smaller(m, ahead + 1),
        "interleaved": m if isinstance(schedule, str) else in_flight.unchecked(p, m, i, chunks=v),
        "zb-h1": smaller(m, p),
        "zb-h2": smaller(m, 2 * p - 1),
    }
    return choose(forms, schedule=schedule)
