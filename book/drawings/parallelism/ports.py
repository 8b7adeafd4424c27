"""Which ports the gradients of a server leave through, drawn: those of eight parts of a model, and of eight replicas."""

from __future__ import annotations

from clusterlab.units import fmt
from explorable import Arrow, Box, Label, Part, Scene

_EIGHT, _APART, _GPU, _CELL = 8, 50.8, 44.0, 5.0


def ports(port: float) -> Scene:
    """Gradients on the eight GPUs of a server, each GPU's own or alike on all, and the ports that they leave through.

    Parameters
    ----------
    port : float
        Bandwidth of a GPU's port, in bytes/s.

    Examples
    --------
    >>> ports(50e9).alt.split(". ")[0]
    'TP8: each GPU has an eighth of the gradients, and its own port sends them at 50 GB/s'
    """
    one, all_ = fmt(port, "B/s"), fmt(_EIGHT * port, "B/s")
    parts: list[Part] = [
        Label(0, 9, "TP8: each GPU has gradients of its own", "start", strong=True),
        *_server(22, own=True, whole=False),
        *_down(70, 90, "network", heads=2),
        Box(0, 90, 400, 24, f"each through its own port: {one}", "network"),
        Label(0, 139, "Eight replicas: gradients of the same weights", "start", strong=True),
        *_server(152, own=False, whole=True),
        *_down(200, 218, "nvlink", heads=2),
        Box(0, 218, 400, 24, "NVLink adds them up, an eighth on each GPU", "nvlink"),
        *_down(242, 260, "nvlink", heads=1),
        *_server(260, own=True, whole=False),
        *_down(308, 328, "network", heads=2),
        Box(0, 328, 400, 24, f"one sum, through all eight ports: {all_}", "network"),
    ]
    alt = (
        f"TP8: each GPU has an eighth of the gradients, and its own port sends them at {one}. Eight replicas: all have "
        f"gradients of the same weights; NVLink adds them up, and all eight ports send the one sum, at {all_}."
    )
    return Scene(400, 354, parts, alt=alt)


def _server(y: float, *, own: bool, whole: bool) -> list[Part]:
    """Eight GPUs, and of eight pieces of the gradients those that each has: its own, or parts of all the sums."""
    parts: list[Part] = []
    for gpu in range(_EIGHT):
        x = _APART * gpu
        parts.append(Box(x, y, _GPU, 2 * 4 + _EIGHT * _CELL, kind="compute"))
        held = [piece for piece in range(_EIGHT) if whole or piece == gpu]
        parts += [Box(x + 5, y + 4 + _CELL * i, _GPU - 10, _CELL, kind="gradients", solid=own) for i in held]
    return parts


def _down(y: float, to: float, kind: str, *, heads: int) -> list[Part]:
    """An arrow below each GPU."""
    middles = [_APART * gpu + _GPU / 2 for gpu in range(_EIGHT)]
    return [Arrow(x, y, x, to, kind=kind, heads=heads) for x in middles]
