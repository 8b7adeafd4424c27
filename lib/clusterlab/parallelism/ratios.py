"""Ratios of communication to computation: whether a way to cut a model can keep its accelerators busy.

Both are for training a dense decoder, at 6 FLOPs per parameter and token, with ring all-reduces whose latency is left
out. Above 1, communication cannot hide behind compute.
"""

from __future__ import annotations

from ..quantities import Amount, BytesPerSecond, Count, FlopsPerSecond, Number, PositiveBytes, law


@law
def data_parallel_ratio(
    tokens: Number, *, rate: FlopsPerSecond, bandwidth: BytesPerSecond, gradient_bytes: PositiveBytes = 4
) -> Number:
    r"""Time of a gradient all-reduce over the compute between two of them, in data parallelism; the parameters cancel.

    .. math:: \rho = \frac{2\,b\,N / B}{6\,N\,D / R} = \frac{b\,R}{3\,B\,D}

    Parameters
    ----------
    tokens
        Tokens D that each accelerator processes between two all-reduces.
    rate
        What an accelerator sustains, R.
    bandwidth
        Per direction of its ring, B: of its network port, or of the g ports of a server together, where a
        hierarchical all-reduce sends 1/g of the gradients through each.
    gradient_bytes
        One element of the gradients, b.

    Returns
    -------
    Number
        It is 1 at D = b R / (3 B) tokens.

    Notes
    -----
    Derived from the ring all-reduce of Patarasuk and Yuan 2009. MLSysBook, Fleet Foundations, equation 5, names it.

    Examples
    --------
    An H100 at half its peak, one port of NDR InfiniBand and gradients in BF16:

    >>> round(1e4 * data_parallel_ratio(1e4, rate=989e12 / 2, bandwidth=50e9, gradient_bytes=2))
    6593
    """
    return gradient_bytes * rate / (3 * bandwidth * tokens)


@law
def tensor_parallel_ratio(
    tp: Count, hidden: Number, *, rate: FlopsPerSecond, bandwidth: BytesPerSecond, activation_bytes: PositiveBytes = 2
) -> Amount:
    r"""Time of the tensor-parallel all-reduces over that of the GEMMs between them, in training; the tokens cancel.

    A layer has 12 h^2 parameters and, forward and backward, four all-reduces of b h bytes per token:

    .. math:: \rho = \frac{4 \cdot 2\,\frac{t-1}{t}\,b\,h / B}{72\,h^2 / (t R)} = \frac{(t - 1)\,b\,R}{9\,h\,B}

    Parameters
    ----------
    tp, hidden
        Tensor-parallel ranks t, and hidden size h.
    rate
        What an accelerator sustains, R.
    bandwidth
        Per direction of its ring, B.
    activation_bytes
        One element of the activations, b.

    Returns
    -------
    Amount
        A forward pass alone has 3/2 of it: half the all-reduces, a third of the FLOPs.

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
    return (tp - 1) * activation_bytes * rate / (9 * hidden * bandwidth)
