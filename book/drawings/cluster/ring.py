"""What everybody needs: the sum."""

from __future__ import annotations

from explorable import Arrow, Box, Label, Part, Scene

HELD = 3, 1, 4, 2  # what each of four GPUs has found


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
