"""What everybody needs: the sum."""

from __future__ import annotations

from explorable import Arrow, Box, Label, Part, Scene

from ..interconnect.collectives import GPUS, STEPS, ring_sums

LISTS = (
    (3, 1, 2, 5),
    (1, 2, 2, 4),
    (4, 5, 1, 2),
    (2, 1, 3, 1),
)  # what each GPU has found, in as many pieces as there are GPUs


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
