"""Drawings of one accelerator: what it holds and how fast it delivers, the roofline, a GEMM, and a decoding step."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from clusterlab.catalogue import Accelerator, Link, Memory
from clusterlab.model import Transformer, kv_cache_bytes, parameters
from clusterlab.roofline import Work, attainable, attention, decode, lower_bound, matmul, ridge_point
from clusterlab.units import fmt
from explorable import Arrow, Box, Label, Part, Scene, breadth, legend

TIMES = "\N{MULTIPLICATION SIGN}"
_THIN = 0.6  # units: what is narrower at its scale is drawn as a line
_FORMATS = {16: ("bf16", "fp16"), 8: ("fp8", "int8"), 4: ("fp4",)}  # by width in bits
_TOKEN = 4.0  # units from the left edge to where a time line starts
_DECADE = 29.0  # units of a factor of ten, in the memory hierarchy
_LEAST_ROOM, _LEAST_RATE = 10e6, 10e9  # bytes and bytes/s where its bars start
_GEMM = 8  # sides of the matrices of a tiled GEMM
_HBM = 398.0  # units of the whole memory, in a decoding step


def one_token(
    chip: Accelerator, model: Transformer, *, rate: float, good: tuple[float, float], looked_up: float = 0.0
) -> Scene:
    """One token of one user, to the scale of time: reading the weights, the arithmetic, and what the user waits for.

    Parameters
    ----------
    chip : Accelerator
        The machine; its peak is that of BF16.
    model : Transformer
        The model, in BF16.
    rate : float
        Tokens/s that the user sees.
    good : pair of float
        Tokens/s that good software reaches on such a machine, at least and at most: below what the weights allow,
        above ``rate``.
    looked_up : float
        Parameters of which a token reads a row alone, and which the step leaves out: those of the input embedding.

    Examples
    --------
    >>> from clusterlab import catalogue
    >>> from clusterlab.model import transformer
    >>> llama = transformer("Llama 3 8B")
    >>> table = parameters(llama).embedding
    >>> scene = one_token(catalogue.accelerator("H100 SXM"), llama, rate=70, good=(127, 162), looked_up=table)
    >>> scene.alt.partition("The rest: ")[2]
    '1.7 to 3.4 ms that good software loses too, and 6.4 to 8.1 ms that it does not.'
    """
    work = decode(1, parameters=parameters(model).total - looked_up)
    bound = lower_bound(compute=(work.flops, chip.peak("bf16")), memory=(work.bytes, chip.hbm_bandwidth))
    read, compute = (float(bound.times[name]) for name in ("memory", "compute"))
    gain = max(read, compute) - max(read, compute / 2)  # of twice the FLOP/s: the two overlap
    wait = 1 / rate
    unit = (400 - 2 * _TOKEN) / wait
    weights, (slow, fast) = fmt(work.bytes, "B"), (1 / one for one in good)
    lost, yours = (
        f"{fmt(1e3 * least, '', 2)} to {fmt(1e3 * most, '', 2)} ms"
        for least, most in ((fast - read, slow - read), (wait - slow, wait - fast))
    )
    parts: list[Part] = [
        Box(2, 22, 130, 62, kind="memory"),
        Label(67, 10, f"HBM, {fmt(chip.hbm_capacity, 'B')}", strong=True),
        Box(12, 32, 110, 42, f"weights read\n{weights}", "weights", solid=True),
        Arrow(138, 53, 244, 53, kind="memory"),
        Label(191, 40, fmt(chip.hbm_bandwidth, "B/s")),
        Label(324, 10, "Compute units", strong=True),
        Box(250, 22, 148, 62, f"{fmt(work.flops, 'FLOP')}\nat {fmt(chip.peak('bf16'), 'FLOP/s')}", "compute"),
    ]
    lanes = [
        (f"Read every weight once: {fmt(read, 's')}", [(0.0, read, "memory", "")]),
        (
            f"Arithmetic: {fmt(compute, 's')}. Twice the FLOP/s saves {fmt(gain, 's') if gain else 'nothing'}.",
            [(0.0, compute, "compute", "")],
        ),
        (
            f"What your user waits for: {fmt(wait, 's')}, {fmt(rate, 'tokens/s')}",
            [
                (0.0, read, "memory", fmt(read, "s", 2)),
                (read, slow, "idle", ""),
                (fast, wait, "waste", yours),  # over the other's end: somewhere in there good software ends
            ],
        ),
    ]
    for i, (text, spans) in enumerate(lanes):
        top = 104 + 48 * i
        parts.append(Label(_TOKEN, top + 8, text, anchor="start"))
        for start, end, kind, inside in spans:
            width = max((end - start) * unit, _THIN)
            solid = kind in ("memory", "compute")
            parts.append(Box(_TOKEN + start * unit, top + 18, width, 20, inside, kind, solid=solid))
    parts += [
        Label(_TOKEN, 254, "physics", anchor="start", strong=True),
        Label(_TOKEN + (read + slow) / 2 * unit, 254, f"good software: {lost}", strong=True),
        Label(396, 254, "your software", anchor="end", strong=True),
    ]
    alt = (
        f"Of the {fmt(wait, 's')} of a token, reading {weights} of weights takes {fmt(read, 's')}, "
        f"and the arithmetic {fmt(compute, 's')}. The rest: {lost} that good software loses too, "
        f"and {yours} that it does not."
    )
    return Scene(400, 264, parts, alt=alt)


def hierarchy(chip: Accelerator, memories: Sequence[Memory], network: Link) -> Scene:
    """Every memory that an accelerator reaches: what it holds and what it delivers, on one logarithmic scale.

    Beside each level stand the FLOPs that a byte from it must feed in BF16: its ridge point.

    Parameters
    ----------
    chip : Accelerator
        The accelerator, whose own memory and scale-up link are two of the levels.
    memories : sequence of Memory
        What lies on its die, the fastest first.
    network : Link
        Its port of the network.

    Examples
    --------
    >>> from clusterlab import catalogue
    >>> die = [catalogue.memory(f"H100 SXM {level}") for level in ("registers", "L1", "L2")]
    >>> hierarchy(catalogue.accelerator("H100 SXM"), die, catalogue.link("InfiniBand NDR")).alt
    'From registers to network, the rate falls from 535 TB/s to 50 GB/s, and the ridge rises from 1.85 to 19,800.'
    """
    levels: list[tuple[str, float | None, float, str]] = [
        (_level(memory.name.removeprefix(chip.name).strip()), memory.capacity, memory.bandwidth, "memory")
        for memory in memories
    ]
    levels.append(("HBM", chip.hbm_capacity, chip.hbm_bandwidth, "memory"))
    if chip.scale_up_bandwidth and chip.scale_up_domain:
        others = chip.scale_up_domain - 1
        levels.append((f"{others} more GPUs, by NVLink", others * chip.hbm_capacity, chip.scale_up_bandwidth, "nvlink"))
    levels.append(("All others, by InfiniBand", None, network.bandwidth, "network"))
    axis, top = 200.0, 50.0
    parts: list[Part] = [
        Label(axis - 8, 8, "holds", anchor="end", strong=True),
        Label(axis + 8, 8, "delivers", anchor="start", strong=True),
        Label(399, 8, "needs", anchor="end", strong=True),
        Arrow(axis, 20, axis, top + 44 * len(levels) - 22, kind="ink", heads=0),
    ]
    for i, (name, room, rate, kind) in enumerate(levels):
        y = top + 44 * i
        ridge = float(ridge_point(chip.peak("bf16"), rate))
        parts.append(Label(0, y - 15, name, anchor="start", strong=True))
        parts.append(Label(399, y - 15, f"{fmt(ridge, 'FLOP/byte')}", anchor="end"))
        wide = _DECADE * math.log10(rate / _LEAST_RATE)
        parts.append(Box(axis, y - 5, wide, 16, kind=kind, solid=True))
        parts.append(Label(axis + wide + 5, y + 3, fmt(rate, "B/s"), anchor="start"))
        if room is not None:
            wide = _DECADE * math.log10(room / _LEAST_ROOM)
            parts.append(Box(axis - wide, y - 5, wide, 16, kind=kind))
            parts.append(Label(axis - wide - 5, y + 3, fmt(room, "B"), anchor="end"))
        else:
            parts.append(Label(axis - 8, y + 3, "the cluster", anchor="end"))
    y = top + 44 * len(levels) - 4
    parts += [Arrow(axis, y, axis + _DECADE, y, kind="ink", heads=2)]
    parts += [Label(axis + _DECADE + 8, y, "ten times as much", anchor="start")]
    ends = [float(ridge_point(chip.peak("bf16"), level[2])) for level in (levels[0], levels[-1])]
    alt = (
        f"From registers to network, the rate falls from {fmt(levels[0][2], 'B/s')} "
        f"to {fmt(network.bandwidth, 'B/s')}, "
        f"and the ridge rises from {fmt(ends[0])} to {fmt(ends[1])}."
    )
    return Scene(400, y + 10, parts, alt=alt)


def _level(name: str) -> str:
    """How the drawing names a memory of the die."""
    return {"registers": "Registers", "L1": "Shared memory", "L2": "L2 cache"}.get(name, name)


def best_peak(chip: Accelerator, bits: int) -> float:
    """Highest dense matrix peak of an accelerator at a width of 16, 8 or 4 bits; NaN where it has no such units.

    Examples
    --------
    >>> from clusterlab import catalogue
    >>> best_peak(catalogue.accelerator("A100 80GB"), 8) / 1e12, best_peak(catalogue.accelerator("A100 80GB"), 4)
    (624.0, nan)
    """
    return max((chip.peaks[name] for name in _FORMATS[bits] if name in chip.peaks), default=math.nan)


def gemm_tile(tile: int, step: int) -> Scene:
    """A tile of a GEMM's output, as a kernel computes it: a column of X and a row of W at a time, number by number.

    The matrices are 8 by 8, in BF16; a step works through one of k.

    Parameters
    ----------
    tile : int
        Rows and columns of the tile.
    step : int
        Steps done, at most 8.

    Examples
    --------
    >>> gemm_tile(4, 8).alt
    'A tile of 4 by 4 after 8 steps: 64 numbers in, 128 multiply-adds done, 2 FLOP/byte.'
    """
    if tile not in (1, 2, 4) or not 0 <= step <= _GEMM:
        raise ValueError(f"a tile is 1, 2 or 4 wide, and a step at most {_GEMM}; got {tile} and {step}")
    cell, top, left = 17.0, 22.0, 0.0
    side = cell * _GEMM
    x, y = 232.0, top + side + 26  # of Y
    at = (
        tile if tile < _GEMM // 2 else 0
    )  # not in the corner where there is room, so that its rows are seen to be its own
    numbers, adds = 2 * tile * step, tile**2 * step
    per = matmul(tile, 1, tile, output_bytes_per_element=1e-9).intensity
    parts: list[Part] = [
        Label(x + side + 16, top + side / 2, "W", strong=True),
        Label(left + side / 2, y + side + 12, "X", strong=True),
        Label(x + side + 16, y + side / 2, "Y", strong=True),
    ]
    for i in range(_GEMM):
        for j in range(_GEMM):
            of_a, of_b = at <= i < at + tile, at <= j < at + tile
            mine = of_a and of_b
            now_a, now_b = of_a and j == step - 1, of_b and i == step - 1
            a = "ink" if now_a else "activations" if of_a else "grey"
            b = "ink" if now_b else "weights" if of_b else "grey"
            parts += [
                Box(left + j * cell, y + i * cell, cell, cell, kind=a, solid=of_a and j < step),
                Box(x + j * cell, top + i * cell, cell, cell, kind=b, solid=of_b and i < step),
                Box(
                    x + j * cell,
                    y + i * cell,
                    cell,
                    cell,
                    str(step) if mine and step else "",  # products in this sum so far
                    kind="compute" if mine else "grey",
                    solid=mine and step == _GEMM,
                ),
            ]
    texts = [
        f"tile of {tile} {TIMES} {tile}",
        f"step {step} of {_GEMM}",
        f"{numbers} numbers in",
        f"{adds} multiply-adds",
        f"{fmt(per)} FLOP/byte",
    ]
    parts += [Label(left, top + 14 + 22 * i, text, anchor="start", strong=i in (0, 4)) for i, text in enumerate(texts)]
    parts += legend(
        left, y + side + 36, [("from X", "activations", True), ("from W", "weights", True), ("now", "ink", True)]
    )
    alt = (
        f"A tile of {tile} by {tile} after {step} steps: {numbers} numbers in, {adds} multiply-adds done, "
        f"{fmt(per)} FLOP/byte."
    )
    return Scene(400, y + side + 46, parts, alt=alt)


def hiding(alone: float, shown: float) -> Scene:
    """Two works of equal length, one behind the other: all of it hidden, a part shown, none hidden.

    Parameters
    ----------
    alone : float
        Time of each alone, in multiples of the time on paper.
    shown : float
        The part of it that shows, as measured.

    Examples
    --------
    >>> hiding(1.59, 1 / 3).alt
    'Reading and computing take 1.59 each. All hidden, both take 1.59; as measured, 2.12; none hidden, 3.18.'
    """
    left, unit = 4.0, 392 / (2 * alone)
    parts: list[Part] = []
    rows = (("All hidden", 0.0), (f"As measured: {fmt(shown, '%', 2)} shows", shown), ("None hidden", 1.0))
    for i, (name, part) in enumerate(rows):
        top, start, took = 84.0 * i, part * alone, (1 + part) * alone
        parts += [
            Label(left, top + 8, f"{name}: {took:.2f}", anchor="start", strong=True),
            Box(left, top + 18, alone * unit, 20, "reading", "memory", solid=True),
        ]
        if part < 1:
            parts.append(Box(left + start * unit, top + 42, (alone - start) * unit, 20, "computing", "compute"))
        if part:
            parts.append(Box(left + alone * unit, top + 42, start * unit, 20, "shown", "compute", solid=True))
    alt = (
        f"Reading and computing take {alone:.2f} each. All hidden, both take {alone:.2f}; "
        f"as measured, {(1 + shown) * alone:.2f}; none hidden, {2 * alone:.2f}."
    )
    return Scene(400, 234, parts, alt=alt)


def gemm_rows(rows: int, side: int) -> Scene:
    """A GEMM of some rows with a square of weights, to scale, and the bytes of each matrix in BF16.

    Parameters
    ----------
    rows : int
        Rows of the left matrix, m: tokens.
    side : int
        Rows and columns of the weights, k = n.

    Examples
    --------
    >>> gemm_rows(64, 4096).alt
    '64 rows by 4,096 columns times 33.6 MB of weights: each weight is used 64 times, 62.1 FLOP/byte.'
    """
    room, middle = 112.0, 84.0
    high = max(room * rows / side, _THIN)
    thin = 2 * rows * side
    parts: list[Part] = [
        Label(56, 10, f"{fmt(rows, digits=4)} {'tokens' if rows > 1 else 'token'}", strong=True),
        Label(200, 10, "weights", strong=True),
        Label(344, 10, "output", strong=True),
        Label(128, middle, TIMES),
        Label(272, middle, "="),
        Box(0, middle - high / 2, room, high, kind="activations", solid=True),
        Box(
            144,
            middle - room / 2,
            room,
            room,
            f"each used\n{fmt(rows, digits=4)} {'times' if rows > 1 else 'time'}",
            "weights",
        ),
        Box(288, middle - high / 2, room, high, kind="compute", solid=True),
        Label(56, 158, f"{fmt(thin, 'B')} read"),
        Label(200, 158, f"{fmt(2 * side**2, 'B')} read"),
        Label(344, 158, f"{fmt(thin, 'B')} written"),
    ]
    work = matmul(rows, side, side)
    alt = (
        f"{fmt(rows, digits=4)} {'rows' if rows > 1 else 'row'} by {side:,} columns times {fmt(2 * side**2, 'B')} of weights: "
        f"each weight is used {fmt(rows, digits=4)} {'times' if rows > 1 else 'time'}, {fmt(work.intensity, 'FLOP/byte')}."
    )
    return Scene(400, 168, parts, alt=alt)


def roofline(chip: Accelerator, works: Mapping[str, Work]) -> Scene:
    """The roofline of an accelerator in BF16 with its parts named, and kernels at the rate that it allows them.

    Parameters
    ----------
    chip : Accelerator
        The machine.
    works : mapping
        Name to work of each kernel.

    Examples
    --------
    >>> from clusterlab import catalogue
    >>> roofline(catalogue.accelerator("H100 SXM"), {"decode": decode(1, parameters=8e9)}).alt
    'The roof rises at 3.35 TB/s to the ridge at 295 FLOP/byte and stays at 989 TFLOP/s. Below it: decode 3.35 TFLOP/s.'
    """
    peak, bandwidth = chip.peak("bf16"), chip.hbm_bandwidth
    ridge = float(ridge_point(peak, bandwidth))
    left, right, top, bottom = 50.0, 396.0, 28.0, 248.0
    low, high, least, most = 0.1, 3e4, 1e11, 1e16

    def at(intensity: float, rate: float) -> tuple[float, float]:
        x = left + (right - left) * math.log10(intensity / low) / math.log10(high / low)
        return x, bottom - (bottom - top) * math.log10(rate / least) / math.log10(most / least)

    knee, roof = at(ridge, peak)
    start = at(low, low * bandwidth)
    parts: list[Part] = [
        Label(0, 8, "FLOP/s", anchor="start"),
        Box(left, top, knee - left, bottom - top, kind="memory"),
        Box(knee, top, right - knee, bottom - top, kind="compute"),
        Arrow(*start, knee, roof, kind="memory", heads=0),
        Arrow(knee, roof, right, roof, kind="compute", heads=0),
        Label((left + knee) / 2, top + 12, "memory-bound", strong=True),
        Label((knee + right) / 2, top + 12, "compute-bound", strong=True),
        Label((left + knee) / 2, top + 29, f"slope: {fmt(bandwidth, 'B/s')}"),
        Label((knee + right) / 2, top + 29, f"flat: {fmt(peak, 'FLOP/s')}"),
        Label(knee - 6, bottom - 11, f"ridge: {fmt(ridge, 'FLOP/byte')}", anchor="end"),
    ]
    for i in range(6):
        x, _ = at(low * 10**i, least)
        parts.append(Label(x, bottom + 12, fmt(low * 10**i), anchor="middle" if i else "start"))
        _, y = at(low, least * 10**i)
        size = fmt(least * 10**i, "FLOP/s").removesuffix("FLOP/s")
        parts.append(Label(left - 5, y, size, anchor="end"))
    parts.append(Label(right, bottom + 30, "FLOP/byte", anchor="end"))
    said = []
    for name, work in works.items():
        rate = float(attainable(work.intensity, peak, bandwidth))
        x, y = at(float(work.intensity), rate)
        said.append(f"{name} {fmt(rate, 'FLOP/s')}")
        parts.append(Box(x - 4, y - 4, 8, 8, kind="ink", solid=True))
        flat, wide = work.intensity >= ridge, breadth(name)
        if flat:
            parts.append(Label(min(x, right - wide / 2 - 3), y + 15, name))
        elif x + 12 + wide < knee:
            parts.append(Label(x + 10, y + 4, name, anchor="start"))
        else:
            parts.append(Label(x - 12, y - 4, name, anchor="end"))
    alt = (
        f"The roof rises at {fmt(bandwidth, 'B/s')} to the ridge at {fmt(ridge, 'FLOP/byte')} and stays at "
        f"{fmt(peak, 'FLOP/s')}. Below it: {', '.join(said)}."
    )
    return Scene(400, bottom + 38, parts, alt=alt)


def decode_step(chip: Accelerator, model: Transformer, batch: int, context: int) -> Scene:
    """What one decoding step reads: the weights once, and the keys and values of each sequence, to the scale of HBM.

    Parameters
    ----------
    chip : Accelerator
        The machine, whose whole memory is the frame.
    model : Transformer
        The model, in BF16, with grouped or plain heads.
    batch : int
        Sequences decoded together.
    context : int
        Tokens that each has so far.

    Examples
    --------
    >>> from clusterlab import catalogue
    >>> from clusterlab.model import transformer
    >>> decode_step(catalogue.accelerator("H100 SXM"), transformer("Llama 3 8B"), 16, 8192).alt
    '16 users at 8,192 tokens: 16.1 GB of weights are read once, and 16 caches of 1.07 GB, 9.8 FLOP/byte in all.'
    """
    weights = decode(batch, parameters=parameters(model).total)
    one = attention(1, context, batch=batch, heads=model.heads, kv_heads=model.kv_heads, head_dim=model.head_dim)
    caches = model.layers * one
    each = float(kv_cache_bytes(model, context))
    unit = _HBM / chip.hbm_capacity
    x, wide = 1 + weights.bytes * unit, each * unit
    fits = weights.bytes + batch * each <= chip.hbm_capacity
    end = min(x + batch * wide, 1 + _HBM)
    parts: list[Part] = [
        Label(0, 8, f"HBM, {fmt(chip.hbm_capacity, 'B')}, to scale", anchor="start", strong=True),
        Box(1, 20, _HBM, 44, kind="ink"),
        Box(1, 20, weights.bytes * unit, 44, f"weights\n{fmt(weights.bytes, 'B')}", "weights", solid=True),
    ]
    count = fmt(int(batch))  # by fmt, so that it follows a slider
    if not fits:
        parts.append(Box(x, 20, end - x, 44, "the caches do not fit", "waste"))
    elif wide > 2.4:
        parts += [Box(x + i * wide, 20, wide, 44, kind="cache") for i in range(batch)]
    else:
        parts.append(Box(x, 20, max(end - x, _THIN), 44, kind="cache"))
    middle = max((x + end) / 2, x + 4)
    users = f"{count} {'users' if batch > 1 else 'user'}"
    parts += [
        Arrow((x + 1) / 2, 70, 94.5, 104, kind="weights"),
        Arrow(middle, 70, 301.5, 104, kind="cache"),
        Box(1, 108, 187, 42, f"weights, read once\n{fmt(weights.intensity, 'FLOP/byte')}", "compute"),
        Box(
            204,
            108,
            195,
            42,
            f"{users}, {fmt(each, 'B')}{' each' * (batch > 1)}\n{fmt(caches.intensity, 'FLOP/byte')}",
            "compute",
        ),
    ]
    both = (weights + caches).intensity
    ridge = fmt(ridge_point(chip.peak("bf16"), chip.hbm_bandwidth), "", 3)
    parts.append(Label(200, 166, f"together {fmt(both, 'FLOP/byte')}, and the ridge is at {ridge}", strong=True))
    alt = (
        f"{users} at {context:,} tokens: {fmt(weights.bytes, 'B')} of weights are read once, "
        f"and {count} {'caches' if batch > 1 else 'cache'} of {fmt(each, 'B')}, {fmt(both, 'FLOP/byte')} in all."
    )
    return Scene(400, 176, parts, alt=alt)
