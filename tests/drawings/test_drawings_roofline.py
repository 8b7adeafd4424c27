"""Drawings of one accelerator: they equal laws and records, every text has room, and the words say the same."""

import math

import numpy as np
import pytest

from clusterlab import catalogue
from clusterlab.model import kv_cache_bytes, parameters, transformer
from clusterlab.roofline import attainable, attention, decode, elementwise, lower_bound, matmul, ridge_point
from clusterlab.units import fmt
from drawings import roofline as drawn
from explorable import Arrow, Box, Label

H100, LLAMA = catalogue.accelerator("H100 SXM"), transformer("Llama 3 8B")
DIE = [catalogue.memory(f"H100 SXM {level}") for level in ("registers", "L1", "L2")]
NDR = catalogue.link("InfiniBand NDR")
HEADS = {"heads": 32, "kv_heads": 8, "head_dim": 128}
WORKS = {
    "residual add": elementwise(4096**2, inputs=2),
    "decode, 1 user": decode(1, parameters=8e9),
    "attention": attention(1, 8192, **HEADS),
    "decode, 64 users": decode(64, parameters=8e9),
    "prefill, training": matmul(8192, 4096, 14336),
}
BATCHES, CONTEXTS = (1, 4, 16, 48, 64, 256, 1024), (100, 400, 1024, 8192)
SCENES = {
    "one token": lambda: drawn.one_token(H100, LLAMA, rate=70, good=(127, 162)),
    "hiding": lambda: drawn.hiding(1.59, 0.34),
    "hierarchy": lambda: drawn.hierarchy(H100, DIE, NDR),
    "roofline": lambda: drawn.roofline(H100, WORKS),
}
SCENES |= {f"tile {t}, {s}": lambda t=t, s=s: drawn.gemm_tile(t, s) for t in (1, 2, 4) for s in range(9)}
SCENES |= {f"{m} rows": lambda m=m: drawn.gemm_rows(m, 4096) for m in (1, 16, 64, 256, 512, 1024, 4096)}
SCENES |= {
    f"batch {b}, context {c}": lambda b=b, c=c: drawn.decode_step(H100, LLAMA, b, c) for b in BATCHES for c in CONTEXTS
}
LETTER = 7.2  # units, a letter of a wide face


def boxes(scene, kind=None, solid=None):
    return [p for p in scene.parts if isinstance(p, Box) and kind in (None, p.kind) and solid in (None, p.solid)]


def texts(scene):
    return [p.text for p in scene.parts if getattr(p, "text", "")]


def extents(part):
    """Left, right, top and bottom of a text, by the width of its letters."""
    lines = part.text.split("\n")
    wide, tall = LETTER * max(map(len, lines)) * (1.06 if getattr(part, "strong", False) else 1), 16 * len(lines) - 3
    if isinstance(part, Box):
        x, y = part.x + part.width / 2 - wide / 2, part.y + part.height / 2
    else:
        x, y = part.x - wide * {"start": 0, "middle": 0.5, "end": 1}[part.anchor], part.y
    return x, x + wide, y - tall / 2, y + tall / 2


@pytest.mark.parametrize("name", SCENES)
def test_no_label_lies_on_a_line_or_in_a_foreign_box(name):
    scene = SCENES[name]()
    for label in (p for p in scene.parts if isinstance(p, Label)):
        left, right, top, bottom = extents(label)
        for arrow in (p for p in scene.parts if isinstance(p, Arrow)):
            t = np.linspace(0, 1, 101)
            x = arrow.x0 + t * (arrow.x1 - arrow.x0)
            y = arrow.y0 + t * (arrow.y1 - arrow.y0)
            assert not np.any((left < x) & (x < right) & (top + 2 < y) & (y < bottom - 2)), (label.text, arrow)
        for box in boxes(scene, solid=True):
            inside = left < box.x + box.width - 1 and box.x + 1 < right and top + 2 < box.y + box.height
            assert not (inside and box.y < bottom - 2), (label.text, box)


def test_bars_of_one_token_are_as_long_as_its_times():
    scene = drawn.one_token(H100, LLAMA, rate=70, good=(127, 162))
    work = decode(1, parameters=parameters(LLAMA).total)
    bound = lower_bound(compute=(work.flops, H100.peak("bf16")), memory=(work.bytes, H100.hbm_bandwidth))
    read, arithmetic, physics, lost, yours = [box for box in boxes(scene) if box.height == 20]
    whole = yours.x + yours.width - physics.x
    assert read.width / whole == pytest.approx(70 * bound.times["memory"])
    assert physics.width == read.width
    assert (lost.x - physics.x, yours.width / whole) == pytest.approx((physics.width, 1 - 70 / 162))
    assert (lost.width + physics.width) / whole == pytest.approx(70 / 127)  # the two meet where good software ends
    ends = [fmt(1e3 * (1 / good - bound.times["memory"]), "", 2) for good in (162, 127)]
    assert f"good software: {ends[0]} to {ends[1]} ms" in texts(scene)
    assert arithmetic.kind == "compute"
    assert arithmetic.width < 1 < read.width  # a line
    slow = drawn.one_token(H100, LLAMA, rate=35, good=(127, 162))
    assert next(box for box in boxes(slow) if box.height == 20).width == pytest.approx(read.width / 2)


def test_what_shows_of_the_shorter_work_makes_the_two_longer():
    scene = drawn.hiding(2.0, 0.25)
    reads, shown = boxes(scene, "memory"), boxes(scene, "compute", solid=True)
    (hidden, part) = boxes(scene, "compute", solid=False)
    assert [box.width for box in (hidden, part, *shown)] == pytest.approx([196, 147, 49, 196])
    assert [box.width for box in reads] == pytest.approx([196] * 3)
    assert [text.rsplit(": ")[-1] for text in texts(scene) if ": " in text] == ["2.00", "2.50", "4.00"]


def test_levels_of_the_hierarchy_are_those_of_the_records_on_one_scale():
    scene = drawn.hierarchy(H100, DIE, NDR)
    rates = [memory.bandwidth for memory in DIE] + [H100.hbm_bandwidth, H100.scale_up_bandwidth, NDR.bandwidth]
    rooms = [memory.capacity for memory in DIE] + [H100.hbm_capacity, 7 * H100.hbm_capacity]
    delivers, holds = boxes(scene, solid=True), boxes(scene, solid=False)
    ruler = next(p for p in scene.parts if isinstance(p, Arrow) and p.heads == 2)
    decade = ruler.x1 - ruler.x0
    for bars, values in ((delivers, rates), (holds, rooms)):
        wide = np.array([bar.width for bar in bars])
        assert wide - wide[-1] == pytest.approx(decade * np.log10(np.array(values) / values[-1]))
        assert [fmt(v, "B/s" if bars is delivers else "B") in texts(scene) for v in values] == [True] * len(values)
    said = [fmt(ridge_point(H100.peak("bf16"), rate), "FLOP/byte") for rate in rates]
    assert [text for text in texts(scene) if text.endswith("FLOP/byte")] == said
    assert [bar.kind for bar in delivers] == ["memory"] * 4 + ["nvlink", "network"]


@pytest.mark.parametrize("tile", [1, 2, 4])
def test_a_tile_brings_in_what_a_kernel_reads(tile):
    n, legends = 8, 12
    for step in range(9):
        scene = drawn.gemm_tile(tile, step)
        used = [box for box in boxes(scene, solid=True) if box.width != legends]
        came = [sum(box.kind == kind for box in used) for kind in ("activations", "weights", "ink", "compute")]
        before = tile * max(step - 1, 0)
        assert came == [before, before, 2 * tile * (step > 0), tile**2 * (step == n)]
        numbers, adds = before * 2 + came[2], tile**2 * step
        assert {f"{numbers} numbers in", f"{adds} multiply-adds"} <= set(texts(scene))
    stripe = matmul(tile, n, tile, output_bytes_per_element=1e-9)
    assert (stripe.flops, round(stripe.bytes)) == (2 * adds, 2 * numbers)
    assert f"{fmt(stripe.intensity)} FLOP/byte" in texts(scene)


def test_stripes_lie_beside_the_tile_that_they_make():
    for tile in (1, 2, 4):
        scene = drawn.gemm_tile(tile, 8)
        mine = boxes(scene, "compute")
        rows = [box for box in boxes(scene, "activations", solid=True) if box.height != 12]
        columns = [box for box in boxes(scene, "weights", solid=True) if box.width != 12]
        assert len(mine) == tile**2
        assert {box.y for box in rows} == {box.y for box in mine}
        assert {box.x for box in columns} == {box.x for box in mine}


def test_a_tile_that_is_none_is_refused():
    for tile, step in ((3, 0), (4, 9), (4, -1)):
        with pytest.raises(ValueError, match=f"got {tile} and {step}"):
            drawn.gemm_tile(tile, step)


@pytest.mark.parametrize("rows", [1, 64, 4096])
def test_matrices_are_to_scale_and_move_their_bytes(rows):
    scene = drawn.gemm_rows(rows, 4096)
    tokens, weights, output = boxes(scene)
    assert tokens.height == output.height == pytest.approx(max(weights.height * rows / 4096, 0.6))
    assert tokens.width == weights.width == weights.height
    work = matmul(rows, 4096, 4096)
    assert fmt(work.intensity, "FLOP/byte") in scene.alt
    thin, square = 2 * rows * 4096, 2 * 4096**2
    assert work.bytes == 2 * thin + square
    assert {f"{fmt(thin, 'B')} read", f"{fmt(square, 'B')} read", f"{fmt(thin, 'B')} written"} <= set(texts(scene))
    assert f"{rows:,} time" in weights.text


def test_kernels_lie_on_the_roof_and_its_corner_on_the_ridge():
    scene = drawn.roofline(H100, WORKS)
    slope, flat = [p for p in scene.parts if isinstance(p, Arrow)]
    points = [(box.x + 4, box.y + 4) for box in boxes(scene, "ink")]
    peak, bandwidth = H100.peak("bf16"), H100.hbm_bandwidth
    # Both scales, from the ends of the slope: at 0.1 FLOP/byte, and at the ridge.
    ridge = ridge_point(peak, bandwidth)
    x_decade = (slope.x1 - slope.x0) / math.log10(ridge / 0.1)
    y_decade = (slope.y0 - slope.y1) / math.log10(ridge / 0.1)
    for (x, y), work in zip(points, WORKS.values(), strict=True):
        assert x == pytest.approx(slope.x1 + x_decade * math.log10(work.intensity / ridge))
        rate = attainable(work.intensity, peak, bandwidth)
        assert y == pytest.approx(flat.y0 - y_decade * math.log10(rate / peak))
    assert (flat.x0, flat.y0) == (slope.x1, slope.y1)
    assert flat.y1 == flat.y0
    memory, compute = boxes(scene, "memory")[0], boxes(scene, "compute")[0]
    assert memory.x + memory.width == pytest.approx(compute.x) == pytest.approx(slope.x1)
    assert f"ridge: {fmt(ridge, 'FLOP/byte')}" in texts(scene)


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("context", CONTEXTS)
def test_a_decoding_step_reads_the_weights_once_and_a_cache_for_each(batch, context):
    scene = drawn.decode_step(H100, LLAMA, batch, context)
    frame, weights = boxes(scene, "ink")[0], boxes(scene, "weights")[0]
    unit = frame.width / H100.hbm_capacity
    total, each = 2 * parameters(LLAMA).total, kv_cache_bytes(LLAMA, context)
    assert weights.width == pytest.approx(total * unit)
    caches, over = boxes(scene, "cache"), boxes(scene, "waste")
    assert bool(over) == (total + batch * each > H100.hbm_capacity) == (not caches)
    if caches:
        assert sum(box.width for box in caches) == pytest.approx(max(batch * each * unit, 0.6))
        assert len(caches) in (1, batch)
    step = decode(batch, parameters=parameters(LLAMA).total)
    step += LLAMA.layers * attention(1, context, batch=batch, **HEADS)
    assert f"{fmt(step.intensity, 'FLOP/byte')} in all" in scene.alt
    assert any(fmt(step.intensity, "FLOP/byte") in text for text in texts(scene))
