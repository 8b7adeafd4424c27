"""Drawings that prove the stage: a ring all-reduce, a fat tree, and a matrix product in shards."""

from clusterlab.collectives import ring_all_reduce
from clusterlab.explorer import Axis, Explorer, Picture, Select, Step
from clusterlab.scene import Arrow, Box, Label, Scene
from clusterlab.units import GB, fmt

GPUS = 4
STEPS = 2 * (GPUS - 1)
SIZE, BANDWIDTH = 1 * GB, 50 * GB
CORNERS = [(0, 22), (240, 22), (240, 148), (0, 148)]  # of the GPUs, clockwise
CELL, HIGH = 32, 28
TIMES = "\N{MULTIPLICATION SIGN}"


def ring_sums(step):
    """How many GPUs' gradients each chunk of each GPU sums after a number of steps of a ring."""
    held = [[{gpu} for _ in range(GPUS)] for gpu in range(GPUS)]
    for s in range(step):
        sent = [(gpu, (gpu - s) % GPUS) for gpu in range(GPUS)]
        arriving = [(gpu, chunk, set(held[gpu][chunk])) for gpu, chunk in sent]
        for gpu, chunk, sums in arriving:
            there = held[(gpu + 1) % GPUS][chunk]
            held[(gpu + 1) % GPUS][chunk] = sums | there
    return [[len(sums) for sums in chunks] for chunks in held]


def cell(gpu, chunk):
    x, y = CORNERS[gpu]
    return x + 10 + chunk * (CELL + 4), y + 24


def ring(step):
    """One step of a ring all-reduce: the chunks of each GPU, those that move next, and the time line."""
    phase = "reduce-scatter" if step < GPUS - 1 else "all-gather"
    parts, moves = [], []
    for gpu, (x, y) in enumerate(CORNERS):
        parts += [Box(x, y, 160, 62), Label(x, y - 11, f"GPU {gpu}", anchor="start", strong=True)]
        for chunk, sums in enumerate(ring_sums(step)[gpu]):
            left, top = cell(gpu, chunk)
            parts.append(Label(left + CELL / 2, y + 13, "abcd"[chunk]))
            parts.append(Box(left, top, CELL, HIGH, str(sums), kind="memory", solid=sums == GPUS))
    ways = [(164, 53, 236, 53), (320, 88, 320, 126), (236, 179, 164, 179), (80, 126, 80, 88)]
    for gpu, way in enumerate(ways):
        chunk = (gpu - step) % GPUS
        if step < STEPS:
            moves.append(f"GPU {gpu} sends {'abcd'[chunk]} to GPU {(gpu + 1) % GPUS}")
        parts.append(Arrow(*way, "abcd"[chunk], "wire") if step < STEPS else Arrow(*way, kind="ink"))
    for chunk in range(GPUS):
        gpu = (chunk + step) % GPUS
        kind, sums = ("wire" if step < STEPS else "memory"), ring_sums(step)[gpu][chunk]
        parts.append(Box(*cell(gpu, chunk), CELL, HIGH, str(sums), kind, solid=True, key="abcd"[chunk]))
    for x, text, kind, solid in [(4, "partial sum", "memory", False), (130, "sum of all four", "memory", True)]:
        parts += [Box(x, 228, 14, 14, kind=kind, solid=solid), Label(x + 21, 235, text, anchor="start")]
    parts += [Box(282, 228, 14, 14, kind="wire", solid=True), Label(303, 235, "moves next", anchor="start")]
    said = f"After {step} of {STEPS} steps each GPU has {ring_sums(step)[0].count(GPUS)} of 4 chunks complete. "
    each = float(ring_all_reduce(SIZE, GPUS, bandwidth=BANDWIDTH, latency=0).time) / STEPS
    spans = [[(row, s * each, (s + 1) * each, str(s + 1)) for s in r] for row, r in enumerate((range(3), range(3, 6)))]
    return Picture(
        scene=Scene(400, 246, parts, alt=said + (f"{phase.capitalize()}: {', '.join(moves)}." if moves else "Done.")),
        spans={"reduce-scatter": spans[0], "all-gather": spans[1]},
        rules={"now": step * each},
        readouts={"Sent by each GPU": fmt(step * SIZE / GPUS, "B"), "Time": fmt(step * each, "s")},
    )


def fat_tree():
    """Two levels of switches, each leaf with a link to every spine."""
    parts = []
    spines, leaves, hosts = 4, 4, 4
    at = [46 + 102 * i for i in range(4)]  # middles of the columns
    for x in at:
        parts += [Arrow(x, 44, to, 104, kind="network", heads=0) for to in at]
        for i in range(hosts):
            parts.append(Arrow(x, 132, x - 33 + 22 * i, 182, kind="nvlink", heads=0))
    for i, x in enumerate(at):
        parts.append(Box(x - 38, 16, 76, 28, f"Spine {i}", kind="network"))
        parts.append(Box(x - 38, 104, 76, 28, f"Leaf {i}", kind="network", solid=True))
        parts += [Box(x - 42 + 22 * k, 182, 18, 22, kind="compute", solid=True) for k in range(hosts)]
        parts.append(Label(x, 218, f"{hosts} servers"))
    alt = f"A fat tree: {spines} spines, each linked to all of {leaves} leaves; {hosts} servers below each leaf."
    return Picture(scene=Scene(398, 228, parts, alt=alt))


def product(cut):
    """A matrix product whose weights are cut across four GPUs: by columns, or by rows."""
    columns = cut == "columns"
    parts = [Label(80, 12, "X", strong=True), Label(230, 12, "W", strong=True), Label(358, 12, "Y", strong=True)]
    parts += [Label(149, 84, TIMES), Label(305, 84, "=")]

    def matrix(x, y, width, height, kind, across, down):
        for i in range(across * down):
            w, h = (width - 4 * (across - 1)) / across, (height - 4 * (down - 1)) / down
            left, top = x + (w + 4) * (i if across > 1 else 0), y + (h + 4) * (i if down > 1 else 0)
            text = str(i) if across * down > 1 else ""
            parts.append(Box(left, top, w, h, text, kind, solid=i == 0 and bool(text)))

    matrix(24, 44, 112, 80, "activations", 1 if columns else 4, 1)
    matrix(162, 28, 130, 112, "weights", 4 if columns else 1, 1 if columns else 4)
    matrix(318, 44, 80, 80, "activations", 4 if columns else 1, 1)
    parts.append(Label(80, 156, f"B {TIMES} D"))
    parts.append(Label(230, 156, f"D {TIMES} F"))
    parts.append(Label(358, 156, f"B {TIMES} F"))
    if not columns:
        parts.append(Box(318, 44, 80, 80, "sum of\nfour parts", "wire"))
    alt = {
        "columns": "Every GPU has all of X and a quarter of W's columns; it computes its quarter of Y's columns.",
        "rows": "Every GPU has a quarter of X's columns and of W's rows; an all-reduce sums their four parts of Y.",
    }[cut]
    return Picture(
        scene=Scene(400, 166, parts, alt=alt), readouts={"Then": "nothing to send" if columns else "all-reduce of Y"}
    )


def pipeline():
    """Four stages of an interleaved pipeline, each with two runs of layers, and the way back to the first."""
    parts = []
    for i in range(4):
        x = 105 * i
        parts.append(Box(x, 62, 85, 34, f"GPU {i}", "compute", solid=True))
        parts.append(Arrow(x + 42.5, 100, x + 42.5, 136, kind="memory", heads=2))
        parts.append(Box(x, 140, 85, 46, f"layers {2 * i}, {2 * i + 1}\nand {8 + 2 * i}, {9 + 2 * i}", "weights"))
        if i:
            parts.append(Arrow(x - 17, 79, x - 3, 79))
    parts.append(Arrow(357.5, 58, 42.5, 58, "activations, once more around", bend=-0.13))
    alt = "Activations pass through four GPUs, and then once more, for each holds two runs of the layers."
    return Picture(scene=Scene(400, 188, parts, alt=alt))


def explorers():
    """One of each, by name."""
    return {
        "ring": Explorer(
            ring,
            controls={"step": Step("Step", range(STEPS + 1))},
            x=Axis("Time", "s"),
            lanes=["reduce-scatter", "all-gather"],
            colours={"reduce-scatter": "nvlink", "all-gather": "network"},
            title="A ring all-reduce of four GPUs",
        ),
        "fat tree": Explorer(fat_tree, title="A two-level fat tree"),
        "pipeline": Explorer(pipeline, title="An interleaved pipeline"),
        "product": Explorer(
            product, controls={"cut": Select("W is cut by", ["columns", "rows"])}, title="A matrix product on four GPUs"
        ),
    }
