"""Scaling: what more accelerators can give, and the ratio of communication to computation that takes it back.

The two ratios are for training a dense decoder, at 6 FLOPs a parameter and token, with rings whose latency is left out.
Above 1 an exchange cannot hide behind the work. :func:`clusterlab.training.step` counts all the rest.
"""

from __future__ import annotations

from .units import broadcastable, fraction, positive, whole


def amdahl_speedup(serial, n):
    r"""How many times as fast n processors do the same job as one.

    .. math:: S = \frac{1}{s + (1 - s)/n} \le \frac{1}{s}

    Parameters
    ----------
    serial : array_like
        Share s of the time on one processor that cannot be spread, above 0.
    n : array_like
        Processors.

    Returns
    -------
    array_like
        The speedup S.

    Raises
    ------
    ValueError
        ``serial`` is not above 0 and at most 1, or ``n`` is no whole number of at least 1.

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
    r"""How many times the work of one processor n do in the same time, where the job grows with the machine.

    .. math:: S = s + (1 - s)\,n

    Parameters
    ----------
    serial : array_like
        Share s of the time on n processors that is not spread, above 0.
    n : array_like
        Processors.

    Returns
    -------
    array_like
        The scaled speedup S.

    Raises
    ------
    ValueError
        ``serial`` is not above 0 and at most 1, or ``n`` is no whole number of at least 1.

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
    r"""All-reduce of the gradients over the work between two of them; the parameters cancel.

    .. math:: \rho = \frac{2\,b\,N / B}{6\,N\,D / R} = \frac{b\,R}{3\,B\,D}

    Parameters
    ----------
    tokens : array_like
        Tokens D that an accelerator works through between two exchanges.
    rate : array_like
        FLOP/s R that it reaches.
    bandwidth : array_like
        Bytes/s B of its ring: of its port, or of g ports where a hierarchical all-reduce sends 1/g through each.
    gradient_bytes : array_like
        Bytes b of a gradient.

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
    Derived, from the ring of Patarasuk and Yuan 2009. MLSysBook, Fleet Foundations, equation 5, names the ratio.

    Examples
    --------
    An H100 at half its peak, one port of NDR InfiniBand and gradients in BF16:

    >>> round(1e4 * data_parallel_ratio(1e4, rate=989e12 / 2, bandwidth=50e9, gradient_bytes=2))
    6593
    """
    d, r, b, size = positive(tokens=tokens, rate=rate, bandwidth=bandwidth, gradient_bytes=gradient_bytes)
    return size * r / (3 * b * d)


def tensor_parallel_ratio(tp, hidden, *, rate, bandwidth, activation_bytes=2):
    r"""Sums over the tensor-parallel ranks over the products between them, in a training step; the tokens cancel.

    A layer has 12 h^2 parameters and, forward and backward, four all-reduces of b h bytes a token:

    .. math:: \rho = \frac{4 \cdot 2\,\frac{t-1}{t}\,b\,h / B}{72\,h^2 / (t R)} = \frac{(t - 1)\,b\,R}{9\,h\,B}

    Parameters
    ----------
    tp, hidden : array_like
        Ranks t, and hidden size h.
    rate : array_like
        FLOP/s R that an accelerator reaches.
    bandwidth : array_like
        Bytes/s B of its ring.
    activation_bytes : array_like
        Bytes b of an activation.

    Returns
    -------
    array_like
        The ratio. Of a forward pass alone it is 3/2 of this: half the exchanges, a third of the products.

    Raises
    ------
    ValueError
        An argument is not positive and finite, or ``tp`` is no whole number of at least 1.

    Notes
    -----
    Derived, from the four sums of Shoeybi et al. 2019. Sequence parallelism gathers its inputs once more, 5/4 of this.

    Examples
    --------
    Llama 3 70B on eight H100s at half their peak, over NVLink and over a port of NDR InfiniBand:

    >>> [round(tensor_parallel_ratio(8, 8192, rate=989e12 / 2, bandwidth=b), 2) for b in (450e9, 50e9)]
    [0.21, 1.88]
    """
    (t,) = whole(tp=tp)
    h, r, b, size = positive(hidden=hidden, rate=rate, bandwidth=bandwidth, activation_bytes=activation_bytes)
    broadcastable(tp=t, hidden=h, rate=r, bandwidth=b, activation_bytes=size)
    return (t - 1) * size * r / (9 * h * b)
