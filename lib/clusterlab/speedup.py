"""Speedup: what more accelerators can buy, and the ratio of communication to compute that takes it back.

Both ratios are for training a dense decoder, at 6 FLOPs per parameter and token, with ring all-reduces whose latency is
left out. Above 1, communication cannot hide behind compute. :func:`clusterlab.training.step` counts everything else.
"""

from __future__ import annotations

from .units import broadcastable, fraction, positive, whole


def amdahl_speedup(serial, n):
    r"""Speedup of a fixed job on n processors over one (strong scaling).

    .. math:: S = \frac{1}{s + (1 - s)/n} \le \frac{1}{s}

    Parameters
    ----------
    serial : array_like
        Serial share s of the time on one processor, above 0.
    n : array_like
        Processors.

    Returns
    -------
    array_like
        The speedup S.

    Raises
    ------
    ValueError
        ``serial`` is not above 0 and at most 1, or ``n`` is not a positive integer.

    Notes
    -----
    Source: Amdahl 1967.

    Examples
    --------
    >>> round(amdahl_speedup(0.1, 1024), 1)
    9.9
    """
    (s,), (count,) = fraction(serial=serial), whole(n=n)
    broadcastable(serial=s, n=count)
    return 1 / (s + (1 - s) / count)


def gustafson_speedup(serial, n):
    r"""Work that n processors do in the time in which one does 1, for a job that grows with the machine (weak scaling).

    .. math:: S = s + (1 - s)\,n

    Parameters
    ----------
    serial : array_like
        Serial share s of the time on n processors, above 0.
    n : array_like
        Processors.

    Returns
    -------
    array_like
        The scaled speedup S.

    Raises
    ------
    ValueError
        ``serial`` is not above 0 and at most 1, or ``n`` is not a positive integer.

    Notes
    -----
    Source: Gustafson 1988.

    Examples
    --------
    >>> round(gustafson_speedup(0.1, 1024), 1)
    921.7
    """
    (s,), (count,) = fraction(serial=serial), whole(n=n)
    broadcastable(serial=s, n=count)
    return s + (1 - s) * count


def data_parallel_ratio(tokens, *, rate, bandwidth, gradient_bytes=4):
    r"""Time of a gradient all-reduce over the compute between two of them, in data parallelism; the parameters cancel.

    .. math:: \rho = \frac{2\,b\,N / B}{6\,N\,D / R} = \frac{b\,R}{3\,B\,D}

    Parameters
    ----------
    tokens : array_like
        Tokens D that each accelerator processes between two all-reduces.
    rate : array_like
        FLOP/s R that an accelerator sustains.
    bandwidth : array_like
        Bytes/s B per direction of its ring: of its network port, or of the g ports of a server together, where a
        hierarchical all-reduce sends 1/g of the gradients through each.
    gradient_bytes : array_like
        Bytes b of one gradient element.

    Returns
    -------
    array_like
        The ratio. It is 1 at D = b R / (3 B) tokens.

    Raises
    ------
    ValueError
        An argument is not positive and finite.

    Notes
    -----
    Derived from the ring all-reduce of Patarasuk and Yuan 2009. MLSysBook, Fleet Foundations, equation 5, names it.

    Examples
    --------
    An H100 at half its peak, one port of NDR InfiniBand and gradients in BF16:

    >>> round(1e4 * data_parallel_ratio(1e4, rate=989e12 / 2, bandwidth=50e9, gradient_bytes=2))
    6593
    """
    d, r, b, size = positive(tokens=tokens, rate=rate, bandwidth=bandwidth, gradient_bytes=gradient_bytes)
    return size * r / (3 * b * d)


def tensor_parallel_ratio(tp, hidden, *, rate, bandwidth, activation_bytes=2):
    r"""Time of the tensor-parallel all-reduces over that of the GEMMs between them, in training; the tokens cancel.

    A layer has 12 h^2 parameters and, forward and backward, four all-reduces of b h bytes per token:

    .. math:: \rho = \frac{4 \cdot 2\,\frac{t-1}{t}\,b\,h / B}{72\,h^2 / (t R)} = \frac{(t - 1)\,b\,R}{9\,h\,B}

    Parameters
    ----------
    tp, hidden : array_like
        Tensor-parallel ranks t, and hidden size h.
    rate : array_like
        FLOP/s R that an accelerator sustains.
    bandwidth : array_like
        Bytes/s B per direction of its ring.
    activation_bytes : array_like
        Bytes b of one activation element.

    Returns
    -------
    array_like
        The ratio. A forward pass alone has 3/2 of it: half the all-reduces, a third of the FLOPs.

    Raises
    ------
    ValueError
        An argument is not positive and finite, or ``tp`` is not a positive integer.

    Notes
    -----
    Derived from the four all-reduces of Shoeybi et al. 2019. Sequence parallelism all-gathers its inputs once more, and
    has 5/4 of this ratio.

    Examples
    --------
    Llama 3 70B with TP8 on H100s at half their peak, over NVLink and over one port of NDR InfiniBand:

    >>> [round(tensor_parallel_ratio(8, 8192, rate=989e12 / 2, bandwidth=b), 2) for b in (450e9, 50e9)]
    [0.21, 1.88]
    """
    (t,) = whole(tp=tp)
    h, r, b, size = positive(hidden=hidden, rate=rate, bandwidth=bandwidth, activation_bytes=activation_bytes)
    broadcastable(tp=t, hidden=h, rate=r, bandwidth=b, activation_bytes=size)
    return (t - 1) * size * r / (9 * h * b)
