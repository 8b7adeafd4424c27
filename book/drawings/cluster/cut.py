"""How a model is cut over the GPUs: layers within a server, servers in line, and copies of the line."""

from __future__ import annotations

from clusterlab.model import Layout
from explorable import Arrow, Box, Label, Part, Scene

_TIMES = "\N{MULTIPLICATION SIGN}"
_TOP, _HIGH = 24.0, 112.0  # of all three pictures
_ROW = 32  # copies in a row


def cut(layout: Layout, layers: int, texts: int) -> Scene:
    """A server whose GPUs cut each layer, the line of servers that it stands in, and all copies of that line.

    Parameters
    ----------
    layout : Layout
        How many GPUs cut a layer (``tp``), servers stand in line (``pp``) and copies there are (``dp``).
    layers, texts : int
        Layers of the model, and texts of a step: what is shared out.

    Examples
    --------
    >>> cut(Layout(tp=8, pp=16, dp=128), 126, 2048).alt.split(":")[0]
    '8 GPUs cut each layer, 16 servers hold 8 layers each, and 128 copies read 16 texts each'
    """
    gpus, servers, copies = int(layout.tp), int(layout.pp), int(layout.dp)
    each, read = -(-layers // servers), texts // copies
    parts: list[Part] = [
        Box(1, _TOP, 92, _HIGH, kind="ink"),
        Box(44, _TOP + 6, 6, _HIGH - 12, kind="nvlink", solid=True),
    ]
    down = (_HIGH - 8) / -(-gpus // 2)
    parts += [
        Box(7 + 47 * (i % 2), _TOP + 6 + down * (i // 2), 33, down - 4, kind="compute", solid=True) for i in range(gpus)
    ]
    pitch = _HIGH / servers
    parts += [Box(142, _TOP + pitch * i, 56, pitch - 2, kind="compute", solid=i == 0) for i in range(servers)]
    parts.append(Arrow(205, _TOP, 205, _TOP + _HIGH, kind="wire"))
    across, row = 164 / _ROW, _HIGH / -(-copies // _ROW)
    bars = [(236 + across * (i % _ROW), _TOP + row * (i // _ROW)) for i in range(copies)]
    parts += [Box(x, y, across - 1.6, row - 7, kind="compute", solid=i == 0) for i, (x, y) in enumerate(bars)]
    # From the corners of a picture to its place in the next.
    parts += [
        Arrow(x0, y0, x1, y1, kind="ink", heads=0)
        for x0, y0, x1, y1 in (
            (93, _TOP, 142, _TOP),
            (93, _TOP + _HIGH, 142, _TOP + pitch - 2),
            (211, _TOP, 236, _TOP),
            (211, _TOP + _HIGH, 236, _TOP + row - 7),
        )
    ]
    told = (
        (49.5, f"{gpus} GPUs", "cut each layer"),
        (170, f"{_TIMES} {servers} servers", f"{each} layers each"),
        (318, f"{_TIMES} {copies} copies", f"{read} texts each"),
    )
    for x, above, below in told:
        parts += [Label(x, 9, above, strong=True), Label(x, _TOP + _HIGH + 14, below)]
    said = f"{gpus} GPUs cut each layer, {servers} servers hold {each} layers each, and {copies} copies read {read} texts each"
    product = f"{gpus} {_TIMES} {servers} {_TIMES} {copies} = {gpus * servers * copies:,} GPUs"
    return Scene(400, 158, parts, alt=f"{said}: {product}.")
