"""Drawings of a site: what is drawn is what the laws say, every text has its room, and the words say the point."""

from itertools import pairwise

import numpy as np
import pytest

from clusterlab import catalogue
from clusterlab.power import AIR, WATER, coolant_flow, energy_footprint, facility, load, site
from clusterlab.units import MW, day, fmt, kWh
from drawings import power as draw
from explorable import Band, Box, Label

NVL72 = catalogue.rack("GB200 NVL72")
STAGES = {"grid": ["cooling", "distribution losses"], "IT": ["network"], "server": ["fans", "CPUs"], "GPU": ["GPU"]}
KINDS = {"GPU": "compute", "network": "network", "cooling": "waste"}
IT = load(GPU=700, CPUs=88, fans=128, network=94)
HALLS = [(0.95, 16), (0.90, 2.37)]
MOST = max(site(IT, distribution=eta, cop=cop).total for eta, cop in HALLS)
BARS = {"rated": facility(load(GPUs=7 * MW, servers=5.75 * MW), 1.12), "capped": facility(load(GPUs=4 * MW), 1.12)}
RATES = {"price": "8.3 ¢/kWh", "carbon": "369 g/kWh", "water": "1.8 L/kWh"}


def bars(limit=10 * MW):
    kinds = {"GPUs": "compute", "servers": "grey", "cooling and distribution": "waste"}
    return draw.load_bars(BARS, kinds, limit=limit, meanings={"compute": "GPUs", "grey": "rest of servers"})


def flow(eta=0.95, cop=16):
    return draw.chip_to_grid(site(IT, distribution=eta, cop=cop), STAGES, KINDS, largest=MOST)


def used():
    return energy_footprint(
        1056, 7e6 * 3600, pue=1.12, price=0.083 / kWh, carbon_intensity=0.369 / kWh, water_usage=1.8e-3 / kWh
    )


def chain():
    return draw.becomes(used(), work="7 M GPU-hours", it_power="1,056 W", ratio=1.12, **RATES)


SCENES = {
    "load_bars": bars,
    "chip_to_grid": flow,
    "an old hall": lambda: flow(*HALLS[1]),
    "air_and_water": lambda: draw.air_and_water(NVL72.power, 10, largest=10.1),
    "becomes": chain,
}


def of(scene, kind):
    return [part for part in scene.parts if isinstance(part, kind)]


def test_bars_are_as_long_as_their_watts_and_cross_their_limit_where_they_exceed_it():
    scene = bars()
    boxes = [box for box in of(scene, Box) if box.height == 24]
    line = next(part for part in scene.parts if not isinstance(part, Box | Label))
    unit = line.x0 / (10 * MW)
    parts = [watts for each in BARS.values() for watts in each.parts.values()]
    np.testing.assert_allclose([box.width for box in boxes], np.array(parts) * unit)
    ends = {box.y: box.x + box.width for box in boxes}  # the last of each bar
    assert [end > line.x0 for end in ends.values()] == [each.total > 10 * MW for each in BARS.values()]
    assert "rated: 14.3 MW, above the limit of 10 MW" in scene.alt
    assert "limit" not in bars(limit=None).alt


@pytest.mark.parametrize("hall", HALLS)
def test_what_enters_from_the_grid_leaves_by_its_parts(hall):
    scene, drawn = flow(*hall), site(IT, distribution=hall[0], cop=hall[1])
    bands = of(scene, Band)
    unit = bands[0].width0 / drawn.total
    ends = [band for band in bands if band.x1 == max(b.x1 for b in bands)]
    assert sum(band.width1 for band in ends) == pytest.approx(drawn.total * unit)
    reached = sorted(band.width1 / unit for band in ends)
    np.testing.assert_allclose(reached, sorted(watts for watts in drawn.parts.values() if watts))
    ochre = [band.width0 / unit for band in bands if band.kind == "ochre"]
    np.testing.assert_allclose(ochre, [drawn.total, IT.total, 916])
    assert f"{700 / drawn.total:.0%}" in scene.alt


def test_no_flow_crosses_another_and_two_halls_have_one_scale():
    bands = [band for band in of(flow(*HALLS[1]), Band) if band.kind != "ochre"]
    for band, below in pairwise(bands[1:]):
        assert band.y1 + band.width1 < below.y1
        assert band.x0 >= below.x0
        assert band.y0 + band.width0 <= below.y0 + 1e-9
    one, other = flow(*HALLS[0]), flow(*HALLS[1])
    assert (one.width, one.height) == (other.width, other.height)
    gpu = [next(b for b in of(scene, Band) if b.kind == "compute").width1 for scene in (one, other)]
    assert gpu[0] == pytest.approx(gpu[1])


def test_a_flow_names_every_part_once_and_fits():
    drawn = site(IT, distribution=0.95, cop=16)
    with pytest.raises(ValueError, match=r"name each of .* once"):
        draw.chip_to_grid(drawn, STAGES | {"IT": []}, KINDS, largest=MOST)
    with pytest.raises(ValueError, match="at most"):
        draw.chip_to_grid(drawn, STAGES, KINDS, largest=drawn.total - 1)


@pytest.mark.parametrize("rise", [10, 14])
def test_cubes_and_rack_have_one_scale(rise):
    scene = draw.air_and_water(NVL72.power, rise, largest=10.1)
    rack, air, water = of(scene, Box)
    metre = rack.width / 0.6
    assert rack.height == pytest.approx(2.0 * metre)
    for cube, coolant in ((air, AIR), (water, WATER)):
        assert cube.width == cube.height
        assert (cube.width / metre) ** 3 == pytest.approx(coolant_flow(NVL72.power, rise, coolant))
    assert "3,494 to 1" in scene.alt
    with pytest.raises(ValueError, match="more than the largest"):
        draw.air_and_water(2 * NVL72.power, rise, largest=10.1)


def test_what_a_run_becomes_is_what_its_footprint_says():
    scene, run = chain(), used()
    texts = [box.text for box in of(scene, Box)]
    assert texts[1:3] == ["7,390 MWh\nof IT", "8,280 MWh\nat the meter"]
    assert f"{fmt(run.carbon / 1000, 't')}\nof CO₂e" in texts
    assert "$687,000\nof electricity" in texts
    assert run.water * 1000 == pytest.approx(1.8 * run.it_energy / kWh)
    assert "8,280 MWh at the meter" in scene.alt
    none = energy_footprint(1 * MW, 1 * day, pue=1)
    assert "$0" in draw.becomes(none, work="a day", it_power="1 MW", ratio=1, **RATES).alt
