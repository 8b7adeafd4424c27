"""Drawings of scaling and cost: what is drawn is what the laws say, and every text has its room."""

import numpy as np
import pytest

from clusterlab.catalogue import price_list
from clusterlab.scaling import capital, chain, redundancy, yearly_bill
from clusterlab.units import fmt
from drawings import scaling as draw
from explorable import Band, Box, Label

COMPOUND = chain(1024 * 989e12, MFU=0.5, scaling=0.5, goodput=0.77)
GIGAWATT = capital(72 * 5932, 1e9, price_list("GB200 NVL72"))
YEAR = yearly_bill(72 * 5932, 1e9, price_list("GB200 NVL72"), rate=0.08)
WAYS = {"N": redundancy(10, 0.995), "N+1": redundancy(10, 0.995, spares=1), "2N": redundancy(10, 0.995, paths=2)}
FACTS = {"for the site": "45.9 MW", "a year": "$485M", "if you double it": "does not fit"}


def machine(gpus=32768, share=0.32):
    return draw.machine(chain(gpus * 1e15, MFU=share), gpus=gpus, facts=FACTS)


SCENES = {
    "machine": machine,
    "a machine that loses nearly all": lambda: machine(131072, 0.02),
    "one GPU": lambda: machine(1, 0.62),
    "a machine that loses nothing": lambda: machine(8, 1.0),
    "cascade": lambda: draw.cascade(COMPOUND),
    "cascade of little": lambda: draw.cascade(chain(1e18, MFU=0.3, scaling=0.35, goodput=0.6)),
    "cascade without a loss": lambda: draw.cascade(chain(1e18, MFU=0.5, scaling=1.0, goodput=0.97)),
    "items": lambda: draw.items(GIGAWATT, {"GPUs": "compute"}),
    "items of a year": lambda: draw.items(YEAR, {}, largest=5.5e9, per=" a year"),
    "spares": lambda: draw.spares(WAYS),
    "ladder": lambda: draw.ladder(
        [("a year", "$243M"), ("a GPU-hour", "$1.69"), ("an EFLOP", "$1.32"), ("Llama 405B", "$50M")]
    ),
}


def test_a_machine_is_drawn_to_scale():
    peak, kept, lost = [part for part in machine().parts if isinstance(part, Band)]
    assert kept.width0 / peak.width0 == pytest.approx(0.32)
    assert kept.width0 + lost.width0 == pytest.approx(peak.width0)
    assert (kept.kind, lost.kind) == ("compute", "waste")
    assert "10.5 EFLOP/s of it are left, 32%" in machine().alt
    assert machine(1, 0.5).alt.startswith("1 GPU has a peak of 1 PFLOP/s; 500 TFLOP/s")
    assert len({machine(n, s).height for n, s in ((1, 0.62), (131072, 0.02), (8, 1.0))}) == 1


def test_a_cascade_loses_what_the_chain_loses():
    bands = [part for part in draw.cascade(COMPOUND).parts if isinstance(part, Band)]
    peak = bands[0].width0
    trunk = [band.width0 / peak for band in bands if band.kind == "compute"]
    np.testing.assert_allclose(trunk, [rate / COMPOUND.start for rate in COMPOUND.rates.values()])
    lost = [band.width0 / peak for band in bands if band.kind == "waste"]
    np.testing.assert_allclose(sorted(lost), sorted(x / COMPOUND.start for x in COMPOUND.lost.values()))
    # No two losses cross: they leave in the order in which they arrive.
    ends = {band.x0: band.y1 for band in bands if band.kind == "waste"}
    assert [ends[x] for x in sorted(ends)] == sorted(ends.values(), reverse=True)
    for band in bands:
        assert band.y1 + band.width1 <= draw.cascade(COMPOUND).height


def test_items_are_the_bill():
    boxes = [part for part in draw.items(GIGAWATT, {"GPUs": "compute"}).parts if isinstance(part, Box)]
    dollars = list(GIGAWATT.parts.values())
    np.testing.assert_allclose([b.width / boxes[0].width for b in boxes], np.array(dollars) / dollars[0], atol=0.01)
    assert boxes[0].kind == "compute"
    texts = [part.text for part in draw.items(YEAR, {}, per=" a year").parts if isinstance(part, Label)]
    assert fmt(YEAR.total, "$") + " a year" in texts
    assert "energy $582M, 7.5%" in draw.items(YEAR, {}, per=" a year").alt


def test_spares_are_counted():
    boxes = [part for part in draw.spares(WAYS).parts if isinstance(part, Box)]
    assert len(boxes) == 10 + 11 + 20
    assert sum(box.solid for box in boxes) == 30
    assert "N+1: 11 units for 10, 11.7 h a year" in draw.spares(WAYS).alt


def test_a_ladder_ends_in_what_it_is_for():
    boxes = [part for part in SCENES["ladder"]().parts if isinstance(part, Box)]
    assert [box.solid for box in boxes] == [False, False, False, True]
    assert boxes[-1].text == "$50M\nLlama 405B"
