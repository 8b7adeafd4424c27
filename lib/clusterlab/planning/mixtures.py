"""Mixtures: the step of a run whose software nobody named, from its steps by every software that it may be by."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import fields

import numpy as np

from ..catalogue import Machine
from ..parallelism import STEP_PARTS, Step
from ..quantities import Amount

_TENTH = 1.2815515655446004  # a tenth of a normal distribution is beyond so many standard deviations
_erf = np.frompyfunc(math.erf, 1, 1)


def mixture(steps: Sequence[Step]) -> Step:
    r"""Step of a run that may be any of several, each as likely as the others: what an unknown stack leaves to expect.

    .. math:: T = \frac{1}{n} \sum T_i, \qquad \frac{1}{n} \sum_i \Phi\!\left(\frac{\ln x - m_i}{s_i}\right) = 0.1
        \;\text{ or }\; 0.9

    Every part is the mean of the parts, so that they still sum to the time. Each step's measured time is normal in the
    logarithm, with a tenth beyond either end of its interval; the ends of the mixture are where a tenth of all is
    beyond. It is never narrower than its steps are apart: it says what is lost by not naming the software.

    Parameters
    ----------
    steps
        Of the same run by each software; one alone is returned as it is.

    Returns
    -------
    Step

    Examples
    --------
    >>> from clusterlab.catalogue import SOFTWARE, machine
    >>> from clusterlab.model import Layout, Workload, transformer
    >>> from clusterlab.parallelism import step
    >>> from clusterlab.planning import plausible_stacks
    >>> run = transformer("Llama 3.1 8B"), machine("H100 SXM"), Workload(8192, 64), Layout(dp=8, recompute="full")
    >>> named = [step(*run, software=SOFTWARE[name]) for name in plausible_stacks("H100 SXM")]
    >>> print(named[0].with_interval, "by", "NeMo;", mixture(named).with_interval, "by any")
    8.46 s (7.63 to 9.38) by NeMo; 9.47 s (8.05 to 11) by any
    """
    if not len(steps):
        raise ValueError("steps must be at least one, got none")
    if len(steps) == 1:
        return steps[0]
    columns = {f.name: np.mean([getattr(one, f.name) for one in steps], axis=0) for f in fields(Step)}
    low, high = mixture_interval([one.low for one in steps], [one.high for one in steps])
    time = sum(columns[name] for name in STEP_PARTS)
    return Step(**(columns | {"spread_low": low / time, "spread_high": high / time}))


def mixture_interval(low: Amount, high: Amount) -> tuple[Amount, Amount]:
    """Ends of the 80 % interval of an amount that is one of several, from the ends of each along the first axis.

    Examples
    --------
    >>> [round(float(end), 2) for end in mixture_interval([0.9, 1.8], [1.1, 2.2])]
    [0.93, 2.13]
    """
    if not np.ndim(low) or np.shape(low) != np.shape(high):
        raise ValueError(f"low and high must be arrays of one shape, got shapes {np.shape(low)} and {np.shape(high)}")
    ends = np.log([low, high])
    middle, deviation = ends.mean(axis=0), (ends[1] - ends[0]) / (2 * _TENTH)
    share = np.reshape([0.1, 0.9], (2, *(1,) * middle[0].ndim))
    least, most = (
        np.broadcast_to(end, (2, *middle[0].shape)) for end in (ends.min(axis=(0, 1)), ends.max(axis=(0, 1)))
    )
    for _ in range(40):
        guess = (least + most) / 2
        deviations = (guess[:, None] - middle) / deviation
        below = ((1 + _erf(deviations / math.sqrt(2)).astype(float)) / 2).mean(axis=1) < share
        least, most = np.where(below, guess, least), np.where(below, most, guess)
    low_end, high_end = np.exp(least)
    return low_end[()], high_end[()]


def not_timed(machine: Machine, kind: str) -> str:
    """The sentence for a plan on an accelerator that no published run of its kind has timed; nothing where one has.

    Examples
    --------
    >>> from clusterlab.catalogue import machine
    >>> not_timed(machine("MI300X"), "dense, 16 bits")
    'MI300X: no published training run timed it; shares of its peaks are assumed from its generation'
    >>> not_timed(machine("H100 SXM"), "dense, 16 bits")
    ''
    """
    reached = machine.efficiency
    if not (reached.timed_dense or reached.timed_dense_8 or reached.timed_experts):
        return (
            f"{machine.name}: no published training run timed it; shares of its peaks are assumed from its generation"
        )
    timed = {"dense, 16 bits": reached.timed_dense, "dense, 8 or 4 bits": reached.timed_dense_8}
    if not timed.get(kind, reached.timed_experts):
        return f"{machine.name}: no published run of this kind ({kind}) timed it; its interval is wider for that"
    return ""


def not_named(low: float, high: float) -> str:
    """The sentence for a reader whose run does not say its software: how far that leaves its time open, and the remedy.

    Examples
    --------
    >>> not_named(0.868, 1.19)
    "software not named: x0.87 to 1.19; name it (such as 'NeMo 25.04', in software) to narrow this"
    """
    return f"software not named: x{low:.2f} to {high:.2f}; name it (such as 'NeMo 25.04', in software) to narrow this"
