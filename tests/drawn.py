"""Drawings that prove the stage: a ring all-reduce, a fat tree, and a matrix product in shards."""

from clusterlab import interconnect
from clusterlab.interconnect import ring_all_reduce
from clusterlab.units import GB, fmt
from drawings import interconnect as fabric
from explorable import Arrow, Axis, Box, Explorer, Label, Picture, Play, Scene, Select

STEPS = fabric.STEPS
SIZE, BANDWIDTH = 1 * GB, 50 * GB
TIMES = "\N{MULTIPLICATION SIGN}"


def ring(step):
    """One step of a ring all-reduce, and its time line."""
    each = float(ring_all_reduce(SIZE, fabric.GPUS, bandwidth=BANDWIDTH, latency=0).time) / STEPS
    spans = [[(row, s * each, (s + 1) * each, str(s + 1)) for s in r] for row, r in enumerate((range(3), range(3, 6)))]
    return Picture(
        scene=fabric.ring(step),
        spans={"reduce-scatter": spans[0], "all-gather": spans[1]},
        rules={"now": step * each},
        readouts={"Sent by each GPU": fmt(step * SIZE / fabric.GPUS, "B"), "Time": fmt(step * each, "s")},
    )


def fat_tree():
    """Two levels of switches, each leaf with a link to every spine."""
    return Picture(scene=fabric.fat_tree(interconnect.fat_tree(32, 8), 8))


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
            controls={"step": Play("Step", range(STEPS + 1))},
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
