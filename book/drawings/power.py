"""Drawings of a site: where its watts go between the grid and the chip, what carries their heat, what they become.

Electricity on its way is ochre, a GPU's own watts are compute, and what the building takes is waste. All is to scale.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from clusterlab.power import AIR, WATER, EnergyFootprint, Load, coolant_flow
from clusterlab.units import fmt
from explorable import Arrow, Band, Box, Label, Part, Scene, breadth, legend

_TIMES = "\N{MULTIPLICATION SIGN}"
_RACK = 0.6, 2.0  # m, the front of a rack
_METRE = 58.0  # units for each


def load_bars(
    loads: Mapping[str, Load], kinds: Mapping[str, str], *, limit: float | None = None, meanings: Mapping[str, str]
) -> Scene:
    """Loads as bars of their parts, one below the other, and a limit through all of them.

    Parameters
    ----------
    loads : mapping
        What a bar shows to its load, W.
    kinds : mapping
        Part to its colour, in the order in which a bar has them.
    limit : float, optional
        W.
    meanings : mapping
        Colour to its meaning, for the legend.

    Examples
    --------
    >>> from clusterlab.power import load
    >>> two = {"one hall": load(GPUs=7e6), "two halls": load(GPUs=14e6)}
    >>> load_bars(two, {"GPUs": "compute"}, limit=10e6, meanings={"compute": "GPUs"}).alt
    'one hall: 7 MW, within the limit of 10 MW. two halls: 14 MW, above the limit of 10 MW.'
    """
    unit = 328 / max(load.total for load in loads.values())
    top = 22.0 if limit else 0.0
    parts: list[Part] = []
    if limit:  # behind the bars, which cross it
        x = limit * unit
        parts += [
            Arrow(x, 16, x, top + 54 * len(loads) - 8, kind="ink", heads=0),
            Label(x, 7, fmt(limit, "W"), strong=True),
        ]
    said, y, unnamed = [], top, dict(meanings)
    for name, load in loads.items():
        x = 0.0
        parts.append(Label(0, y + 8, name, anchor="start"))
        for part, kind in kinds.items():
            if width := load.parts.get(part, 0) * unit:
                text = fmt(load.parts[part], "W")
                if kind in unnamed and width > breadth(f"{unnamed[kind]} {text}") + 6:
                    text = f"{unnamed.pop(kind)} {text}"  # the first bar with room has the name
                room = width > breadth(text) + 6
                parts.append(Box(x, y + 18, width, 24, text if room else "", kind, solid=True))
                x += width
        parts.append(Label(400, y + 30, fmt(load.total, "W"), anchor="end", strong=True))
        side = f", {'within' if load.total <= limit * (1 + 1e-9) else 'above'} the limit of" if limit else ""
        said.append(f"{name}: {fmt(load.total, 'W')}{side}{' ' + fmt(limit, 'W') if limit else ''}.")
        y += 54
    parts += legend(0, y + 8, [(text, kind, True) for kind, text in unnamed.items()])
    return Scene(400, y + 18, parts, alt=" ".join(said))


def chip_to_grid(
    drawn: Load, stages: Mapping[str, Sequence[str]], kinds: Mapping[str, str], *, largest: float
) -> Scene:
    """Flow of watts from the grid to the chip, as wide as the watts; at each stage some parts leave it.

    Parameters
    ----------
    drawn : Load
        All that the meter counts, W.
    stages : mapping
        Place to the parts that go no further, from the grid inward; at the last place is the one part that arrives.
    kinds : mapping
        Part to its colour; grey where it has none.
    largest : float
        W for which the drawing has room, so that several drawings have one scale.

    Raises
    ------
    ValueError
        The stages do not name every part of the load once, or the load is above the largest.

    Examples
    --------
    >>> from clusterlab.power import load
    >>> hall = load(GPUs=700, servers=350, cooling=150)
    >>> stages = {"grid": ["cooling"], "server": ["servers"], "chip": ["GPUs"]}
    >>> chip_to_grid(hall, stages, {"GPUs": "compute"}, largest=1200).alt
    'Of 1.2 kW at the meter, 700 W reach the chip: 58%. On the way go servers 350 W, cooling 150 W. All is heat.'
    """
    there = {name: watts for name, watts in drawn.parts.items() if watts}
    leaving = [name for names in stages.values() for name in names]
    if sorted(leaving) != sorted(there) or drawn.total > largest * (1 + 1e-9):
        raise ValueError(f"stages must name each of {', '.join(there)} once, and {drawn.total:g} W at most {largest:g}")
    unit, top, end = 150 / largest, 24.0, 234.0
    height = top + 150 + 14 * len(there)
    gap = (height - top - drawn.total * unit) / len(there)  # between two rows
    step = end / len(stages)
    trunk: list[Part] = []
    branches: list[tuple[float, float, str]] = []
    left = drawn.total
    for i, (place, names) in enumerate(stages.items()):
        arrived = i == len(stages) - 1
        kind = kinds.get(names[0], "grey") if arrived else "ochre"
        trunk.append(Band(i * step, top, (i + 1) * step, top, left * unit, left * unit, kind))
        if arrived:
            trunk.append(Label(end + 7, 12, "all leaves as heat", "start", strong=True))
            trunk.append(Label(end + 7, top + left * unit / 2, f"{place}\n{fmt(left, 'W')}", "start", strong=True))
        else:
            trunk.append(Label((i + 0.5) * step, 12, place, strong=True))
            trunk.append(Label((i + 0.5) * step, top + 12, fmt(left, "W")))
            for name in names:  # the first leaves at the bottom
                left -= there[name]
                branches.insert(0, ((i + 1) * step, top + left * unit, name))
    parts, y = trunk, top + left * unit
    for x, start, name in branches:  # from the top down: the last to leave comes first, so none crosses another
        y += gap
        width = there[name] * unit
        parts.append(Band(x, start, end, y, width, width, kinds.get(name, "grey")))
        watts = fmt(there[name], "W", 2 if there[name] < 100 else 3)
        parts.append(Label(end + 7, y + width / 2, f"{name} {watts}", "start"))
        y += width
    lost = ", ".join(f"{name} {fmt(there[name], 'W')}" for _, _, name in branches)
    share, last = fmt(left / drawn.total, "%", 2), list(stages)[-1]
    said = f"Of {fmt(drawn.total, 'W')} at the meter, {fmt(left, 'W')} reach the {last}: {share}. On the way go {lost}."
    said += " All is heat."
    return Scene(400, height, parts, alt=said)


def air_and_water(heat: float, rise: float, *, largest: float) -> Scene:
    """The volume of air, and of water, that carries a rack's heat away each second, as cubes beside the rack.

    Parameters
    ----------
    heat : float
        W of the rack.
    rise : float
        How much warmer the coolant leaves, K.
    largest : float
        m³ of air for which the drawing has room.

    Raises
    ------
    ValueError
        More air than the largest.

    Examples
    --------
    >>> air_and_water(120e3, 10, largest=12).alt
    'Away with 120 kW at a rise of 10 K: each second 10.1 m³ of air or 2.88 L of water, 3,494 to 1 by volume.'
    """
    air, water = (float(coolant_flow(heat, rise, coolant)) for coolant in (AIR, WATER))
    if air > largest * (1 + 1e-9):
        raise ValueError(f"{air:g} m³ of air are more than the largest, {largest:g}")
    deep = 0.25  # how far back a cube goes, as a share of its edge
    floor = _METRE * largest ** (1 / 3) * (1 + deep) + 2
    across, down = (_METRE * side for side in _RACK)
    parts: list[Part] = [
        Box(14, floor - down, across, down, "rack", "compute"),
        Label(14 + across / 2, floor + 14, fmt(heat, "W"), strong=True),
    ]
    for x, volume, kind, text in ((86, air, "grey", "air"), (340, water, "violet", "water")):
        edge = _METRE * volume ** (1 / 3)
        right, back, up = x + edge, edge * deep, floor - edge
        corners = [(x, up), (right, up), (right, floor)]
        parts += [Arrow(a, b, a + back, b - back, kind=kind, heads=0) for a, b in corners]
        parts += [Arrow(x + back, up - back, right + back, up - back, kind=kind, heads=0)]
        parts += [Arrow(right + back, up - back, right + back, floor - back, kind=kind, heads=0)]
        parts.append(Box(x, up, edge, edge, text if edge > 40 else "", kind, solid=edge < 40))
    parts += [
        Label(86, floor + 14, f"{fmt(air, 'm³')} of air", "start", strong=True),
        Label(344, floor + 14, f"{fmt(1e3 * water, 'L')} of water", strong=True),
        Label(292, floor - down / 2, f"{air / water:,.0f}\ntimes\nas much"),
        Label(200, floor + 36, f"each second, {rise:g} K warmer; all to one scale"),
    ]
    alt = (
        f"Away with {fmt(heat, 'W')} at a rise of {rise:g} K: each second {fmt(air, 'm³')} of air "
        f"or {fmt(1e3 * water, 'L')} of water, {air / water:,.0f} to 1 by volume."
    )
    return Scene(400, floor + 46, parts, alt=alt)


def becomes(
    used: EnergyFootprint, *, work: str, it_power: str, ratio: float, price: str, carbon: str, water: str
) -> Scene:
    """What a run's energy becomes: from accelerator time to energy, and on to dollars, carbon and water.

    Parameters
    ----------
    used : EnergyFootprint
        What the run used.
    work : str
        Its accelerator time.
    it_power, price, carbon, water : str
        What it was multiplied by, with units: IT power of one, price, carbon intensity, water usage.
    ratio : float
        The PUE.

    Examples
    --------
    >>> from clusterlab.power import energy_footprint
    >>> from clusterlab.units import MW, day
    >>> run = energy_footprint(1 * MW, 10 * day, pue=1.1)
    >>> rates = {"price": "8.3 ¢/kWh", "carbon": "369 g/kWh", "water": "1.8 L/kWh"}
    >>> becomes(run, work="240,000 GPU-hours", it_power="1 kW", ratio=1.1, **rates).alt
    '240,000 GPU-hours are 240 MWh of IT and 264 MWh at the meter: $0, 0 t of CO2e and 0 m³ of water.'
    """
    it, meter, tonnes = (fmt(used.it_energy, "MWh"), fmt(used.energy, "MWh"), fmt(used.carbon / 1000, "t"))
    dollars, litres = fmt(used.cost, "$"), fmt(used.water, "m³")
    wide, high, far = 128, 40, 284
    parts: list[Part] = [
        Box(0, 0, wide, high, work, "compute"),
        Box(0, 92, wide, high, f"{it}\nof IT", "ochre"),
        Box(0, 184, wide, high, f"{meter}\nat the meter", "ochre", solid=True),
        Arrow(wide / 2, high + 4, wide / 2, 88, kind="ochre"),
        Arrow(wide / 2, 136, wide / 2, 180, kind="ochre"),
        Label(wide / 2 + 8, 65, f"{_TIMES} {it_power}", "start"),
        Label(wide / 2 + 8, 157, f"{_TIMES} PUE {fmt(ratio)}", "start"),
        Box(far, 92, 116, high, f"{litres}\nof water", "violet"),
        Box(far, 158, 116, high, f"{tonnes}\nof CO₂e", "waste"),
        Box(far, 212, 116, high, f"{dollars}\nof electricity", "grey"),
        Arrow(wide + 4, 112, far - 4, 112, f"{_TIMES} {water}", "violet"),
        Arrow(wide + 4, 198, far - 4, 178, f"{_TIMES} {carbon}", "waste"),
        Arrow(wide + 4, 210, far - 4, 232, f"{_TIMES} {price}", "grey"),
    ]
    alt = f"{work} are {it} of IT and {meter} at the meter: {dollars}, {tonnes} of CO2e and {litres} of water."
    return Scene(400, 254, parts, alt=alt)
