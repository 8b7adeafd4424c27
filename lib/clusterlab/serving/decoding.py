"""Decoding: pipelines of microbatches, drafts that a model verifies, phases apart, and the price of a token."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..checks import larger, pick
from ..quantities import (
    Amount,
    Count,
    Dollars,
    DollarsPerSecond,
    Multiple,
    Number,
    PerSecond,
    PositiveSeconds,
    Seconds,
    Share,
    law,
)
from ..records import Explained, Rows, summary


@dataclass(frozen=True, repr=False)
class PipelinedDecode(Explained):
    """Microbatches that follow one another through the stages of a pipeline, each until its answers end.

    ``token_time`` is from one token of a sequence to its next, ``busy`` the share of its time that a stage works, and
    ``microbatches_to_fill`` the fewest with which no stage waits.
    """

    token_time: Seconds
    busy: Share
    microbatches_to_fill: Number

    def _rows(self) -> Rows:
        rows = [("", "value"), ("token time", summary(self.token_time, "s")), ("busy", summary(self.busy, "%"))]
        return [*rows, ("microbatches to fill", summary(self.microbatches_to_fill))]


@law
def pipelined_decode(
    stages: Count, microbatches: Count, *, stage_time: PositiveSeconds, hand_off: Seconds = 0
) -> PipelinedDecode:
    r"""Decoding in a pipeline: a microbatch returns to the first stage with its next token when the last has drawn it.

    .. math:: T = \max\big(p\,(\tau + h),\; m\,\tau\big), \qquad \text{busy} = m\,\tau / T

    Parameters
    ----------
    stages, microbatches
        Stages p (racks, say) and microbatches m on the way.
    stage_time
        Seconds of a microbatch in a stage, tau.
    hand_off
        Seconds from a stage to the next, and from the last to the first, h, in which neither stage is kept busy.

    Returns
    -------
    PipelinedDecode

    Notes
    -----
    Derived: each microbatch needs p stages and p hand-offs for a token, each stage serves m microbatches in that time.
    Unlike in training there is no bubble at the end of a step, because decoding has none.

    Examples
    --------
    Four racks of 20 ms: one batch keeps them busy a quarter of the time, four all of it. A user waits 80 ms either way.

    >>> many = pipelined_decode(4, [1, 4, 8], stage_time=20e-3)
    >>> many.busy, many.token_time
    (array([0.25, 1.  , 1.  ]), array([0.08, 0.08, 0.16]))
    """
    p, m, tau = stages, microbatches, stage_time
    way = p * (tau + hand_off)
    time = larger(way, m * tau)
    return PipelinedDecode(time, m * tau / time, np.ceil(way / tau * (1 - 1e-12)) + 0 * m)


@law
def accepted_tokens(acceptance: Share, drafted: Amount) -> Multiple:
    r"""Tokens that a sequence gains in a pass that verifies drafted tokens, its own new one included.

    .. math:: \frac{1 - a^{\gamma + 1}}{1 - a}

    Parameters
    ----------
    acceptance
        Probability that a drafted token is accepted, each on its own, from 0 to 1, a.
    drafted
        Tokens drafted, gamma.

    Returns
    -------
    Multiple
        From 1 to gamma + 1.

    Notes
    -----
    Source: Leviathan, Kalman and Matias 2023, equation 1. Multi-token prediction is the same with heads of the model as
    the draft: DeepSeek-V3 2024, section 5.4.3, accepts 85 to 90 % of one drafted token.

    Examples
    --------
    >>> [round(float(accepted_tokens(a, g)), 2) for a, g in ((0.87, 1), (0.8, 4))]
    [1.87, 3.36]
    """
    a, g = acceptance, drafted
    sure = np.equal(a, 1)
    return pick(sure, g + 1.0, (1 - a ** (g + 1)) / (1 - pick(sure, 0.0, a)))


@law
def speculative_speedup(acceptance: Share, drafted: Amount, *, draft_time: Amount, verify_time: Number = 1) -> Number:
    r"""How much faster a sequence grows when a draft runs ahead and the model verifies.

    .. math:: \frac{1 - a^{\gamma + 1}}{1 - a} \cdot \frac{1}{\gamma\,c + v}

    Parameters
    ----------
    acceptance, drafted
        As in :func:`accepted_tokens`.
    draft_time, verify_time
        Time of drafting one token, c, and of the pass that verifies all, v, in plain passes. Where reading is the limit
        v is 1; in a large batch it is up to gamma + 1: :func:`forward_pass` of a batch with ``verified`` tokens knows.

    Returns
    -------
    Number
        Below 1 it is slower.

    Notes
    -----
    Source: Leviathan, Kalman and Matias 2023, theorem 3.8, for v = 1.

    Examples
    --------
    Four drafts at a twentieth of a pass each; then with a pass that has become compute-bound:

    >>> [round(float(speculative_speedup(0.8, 4, draft_time=0.05, verify_time=v)), 2) for v in (1, 5)]
    [2.8, 0.65]
    """
    return accepted_tokens.unchecked(acceptance, drafted) / (drafted * draft_time + verify_time)


@dataclass(frozen=True, repr=False)
class Split(Explained):
    """GPUs that only read prompts beside GPUs that only decode.

    ``prefill_share`` is the share of the former, ``requests_per_second`` are those of one GPU of all.
    """

    prefill_share: Share
    requests_per_second: PerSecond

    def _rows(self) -> Rows:
        rows = [("", "value"), ("prefill share", summary(self.prefill_share, "%"))]
        return [*rows, ("requests per second per gpu", summary(self.requests_per_second))]


@law
def disaggregate(prefill_rate: PerSecond, decode_rate: PerSecond) -> Split:
    r"""How many GPUs shall read prompts, and how many decode, where each does only one.

    .. math:: \frac{n_p}{n_p + n_d} = \frac{r_d}{r_p + r_d}, \qquad r = \frac{r_p\, r_d}{r_p + r_d}

    Parameters
    ----------
    prefill_rate, decode_rate
        Requests a second of one GPU that only reads prompts, r_p, and of one that only decodes, r_d.

    Returns
    -------
    Split
        Neither kind waits for the other.

    Notes
    -----
    Source: Zhong et al. 2024 (DistServe), for serving the phases apart; the balance is derived: n_p r_p = n_d r_d.

    Examples
    --------
    DeepSeek's day of February 2025: a node decodes 14,800 tokens/s or reads 73,700; 608 billion tokens in, 168 out.

    >>> split = disaggregate(73_700 / 608e9, 14_800 / 168e9)  # days' traffic a second
    >>> round(float(split.prefill_share), 3), round(1 / split.requests_per_second / 86_400, 1)  # nodes
    (0.421, 226.9)
    """
    r_p, r_d = prefill_rate, decode_rate
    return Split(r_d / (r_p + r_d), r_p * r_d / (r_p + r_d))


@law
def token_price(price: DollarsPerSecond, tokens_per_second: PerSecond) -> Dollars:
    r"""Price of a token from the price of a GPU's time.

    .. math:: P / R

    Parameters
    ----------
    price
        $/s of a GPU, P: ``2 / 3600`` for two dollars an hour.
    tokens_per_second
        Tokens a second of one GPU, R: those that it reads for the price in, those that it writes for the price out.

    Returns
    -------
    Dollars
        Of a token. Its energy is the same quotient of watts: :func:`clusterlab.power.energy_per`.

    Notes
    -----
    Derived. An idle GPU costs as much: divide by the share of the day in which it works.

    Examples
    --------
    LMSYS 2025: 22,282 tokens/s on eight H100, at two dollars an hour each, for a million tokens:

    >>> round(float(1e6 * token_price(2 / 3600, 22_282 / 8)), 2)
    0.2
    """
    return price / tokens_per_second
