"""What everybody needs: the sum."""

from __future__ import annotations

from explorable import Arrow, Box, Label, Part, Scene

from ..interconnect.collectives import GPUS, STEPS, ring_sums

HELD = 3, 1, 4, 2  # what each of four GPUs has found
LISTS = (3, 1, 2, 5), (1, 2, 2, 4), (4, 5, 1, 2), (2, 1, 3, 1)  # what it has found, in as many pieces as there are GPUs


def everyone(step: int) -> Scene:
    """Four GPUs in a ring that add up their numbers: in each round, all pass on what they were given last.

    Parameters
    ----------
    step : int
        From 0, before anything is sent, to 3, when each holds the sum.

    Examples
    --------
    >>> everyone(3).alt
    'After 3 rounds the GPUs hold the sums 10, 10, 10, 10.'
    """
    n = len(HELD)
    if not 0 <= step < n:
        raise ValueError(f"step must be from 0 to {n - 1}, got {step!r}")
    sums = [sum(HELD[(i - k) % n] for k in range(step + 1)) for i in range(n)]
    places = [(20.0, 26.0), (266.0, 26.0), (266.0, 136.0), (20.0, 136.0)]  # clockwise
    parts: list[Part] = []
    for i, (x, y) in enumerate(places):
        done = sums[i] == sum(HELD)
        parts.append(Box(x, y, 114, 48, f"GPU {i} has {HELD[i]}\nsum so far: {sums[i]}", kind="compute", solid=done))
    ways = [
        (138.0, 50.0, 262.0, 50.0),
        (323.0, 78.0, 323.0, 132.0),
        (262.0, 160.0, 138.0, 160.0),
        (77.0, 132.0, 77.0, 78.0),
    ]
    for i, way in enumerate(ways):
        passed = str(HELD[(i - step + 1) % n]) if step else ""
        parts.append(Arrow(*way, passed, kind="wire"))
    said = "Nothing is sent yet" if not step else f"Round {step}: on each arrow what is passed on"
    parts.append(Label(200, 9, said, strong=True))
    told = ", ".join(map(str, sums))
    return Scene(400, 190, parts, alt=f"After {step} rounds the GPUs hold the sums {told}.")


def pieces(step: int) -> Scene:
    """Four GPUs in a ring that add up their lists piece by piece: three rounds to sum, and three to hand out.

    Parameters
    ----------
    step : int
        From 0, before anything is sent, to 6, when each holds all sums. A piece that moves keeps its key.

    Examples
    --------
    >>> pieces(6).alt
    'After 6 of 6 rounds each GPU has sent 1.5 lists. GPU 0: 10, 9, 8, 12; GPU 1: 10, 9, 8, 12; GPU 2: 10, 9, 8, 12; GPU 3: 10, 9, 8, 12.'
    """
    held = ring_sums(step)
    sums = [[sum(LISTS[rank][i] for rank in ranks) for i, ranks in enumerate(row)] for row in held]
    places = [(0.0, 46.0), (240.0, 46.0), (240.0, 146.0), (0.0, 146.0)]  # clockwise
    ways = [(164, 71, 236, 71), (320, 100, 320, 130), (236, 171, 164, 171), (80, 130, 80, 100)]
    parts: list[Part] = [Arrow(*way, kind="wire" if step < STEPS else "ink") for way in ways]
    moving: list[Part] = []
    for gpu, (x, y) in enumerate(places):
        parts += [Box(x, y, 160, 50), Label(x, y - 10, f"GPU {gpu}", "start")]
        for piece, ranks in enumerate(held[gpu]):
            box = x + 7 + 38 * piece, y + 9, 32.0, 32.0
            moves = (gpu - step) % GPUS == piece
            key = str(piece) if moves else ""
            if moves and step < STEPS:
                moving.append(Box(box[0] - 3, box[1] - 3, 38, 38, kind="wire", solid=True, key=f"frame {piece}"))
            elif moves:
                moving.append(Box(*box, kind="ink", key=f"frame {piece}"))
            whole = len(ranks) == GPUS
            number = Box(*box, str(sums[gpu][piece]), kind="compute", solid=whole, key=key)
            (moving if moves else parts).append(number)
    parts += moving
    said = {0: "Each sends the framed piece on", STEPS: "Everyone has the sums"}
    what = "add what arrives" if step < GPUS else "hand the sums out"
    parts.append(Label(200, 9, said.get(step, f"Round {step} of {STEPS}: {what}"), strong=True))
    sent = f"{step / GPUS:g} list" + "s" * (step != GPUS)
    parts.append(Label(200, 218, f"Each GPU has sent {step} pieces, {step} / {GPUS} = {sent}"))
    told = "; ".join(f"GPU {gpu}: {', '.join(map(str, row))}" for gpu, row in enumerate(sums))
    return Scene(400, 230, parts, alt=f"After {step} of {STEPS} rounds each GPU has sent {sent}. {told}.")
