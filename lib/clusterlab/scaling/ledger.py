"""The ledger of compute: FLOPs that a model takes over its life, and the size and tokens that take the fewest.

It counts 6 FLOPs for each parameter and token trained on, 2 for each one generated or read. Scaling laws are data
(``data/economics.toml``).
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from ..catalogue import SCALING_LAWS, ScalingLaw
from ..quantities import Amount, Flops, Number, law
from ..records import Explained, Rows, summary

# --- The ledger of compute -------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Ledger(Explained):
    """FLOPs that a model takes over its life. The parts sum to ``total``."""

    pretraining: Flops
    rollouts: Flops  # generating the samples of reinforcement learning
    updates: Flops  # training on them
    inference: Flops

    @property
    def training(self) -> Flops:
        """FLOPs before the model is served."""
        return self.pretraining + self.rollouts + self.updates

    @property
    def total(self) -> Flops:
        """FLOPs of all."""
        return self.training + self.inference

    def _rows(self) -> Rows:
        rows = [("", "FLOPs", "share")]
        parts = {f.name: getattr(self, f.name) for f in fields(self)} | {"total": self.total}
        return rows + [(n, f"{summary(f / 1e24)} x 10²⁴", summary(f / self.total, "%")) for n, f in parts.items()]


@law
def compute_ledger(
    parameters: Number, tokens: Number, *, rollout_tokens: Amount = 0, updates: Amount = 1, served_tokens: Amount = 0
) -> Ledger:
    r"""FLOPs of pre-training, reinforcement learning and inference.

    .. math:: 6 N D + (2 + 6 u) N R + 2 N S

    Parameters
    ----------
    parameters
        Parameters that a token meets, N: the active ones of a mixture of experts.
    tokens
        Tokens of pre-training, D.
    rollout_tokens
        Tokens that the model generates for reinforcement learning, R.
    updates
        Passes of training over each of them, u.
    served_tokens
        Tokens read and generated for users over the model's life, S.

    Notes
    -----
    Derived: a GEMM is 2 FLOPs for each weight and token, and its backward pass is two GEMMs
    (:func:`clusterlab.model.training_flops`; Kaplan et al. 2020, section 2.1). Attention over long contexts is
    left out, and so is a frozen reference model (2 N R more). FLOPs are not money: generating reaches a smaller share
    of the peak than training.

    Examples
    --------
    >>> compute_ledger(37e9, 14.8e12, rollout_tokens=0.1e12, served_tokens=20e12)
    Ledger
                         FLOPs   share
    pretraining    3.29 x 10²⁴   68.5%
    rollouts     0.0074 x 10²⁴  0.154%
    updates      0.0222 x 10²⁴  0.463%
    inference      1.48 x 10²⁴   30.9%
    total           4.8 x 10²⁴    100%
    """
    return Ledger(
        pretraining=6 * parameters * tokens,
        rollouts=2 * parameters * rollout_tokens,
        updates=6 * parameters * rollout_tokens * updates,
        inference=2 * parameters * served_tokens,
    )


# --- Size and tokens -------------------------------------------------------------------------------------------------

_REFITTED = SCALING_LAWS["Chinchilla, refitted"]


@law
def loss(parameters: Number, tokens: Number, law: ScalingLaw = _REFITTED) -> Number:
    r"""Loss of a decoder at the end of its training.

    .. math:: L = E + \frac{A}{N^\alpha} + \frac{B}{D^\beta}

    Parameters
    ----------
    parameters, tokens
        N and D.
    law
        From ``SCALING_LAWS``, or one of your own.

    Returns
    -------
    Number
        Nats a token.

    Notes
    -----
    Source: Hoffmann et al. 2022, equation 10; Besiroglu et al. 2024 for the coefficients that are used by default. It
    was fitted to models of up to 16 billion parameters and some 1 to 100 tokens for each.

    Examples
    --------
    >>> round(float(loss(70e9, 1.4e12)), 3)
    1.974
    """
    return law.irreducible + _of_size(parameters, law) + law.token_scale * np.power(tokens, -law.token_exponent)


def _of_size(size: Number, law: ScalingLaw) -> Number:
    return law.parameter_scale * size**-law.parameter_exponent
    return law.parameter_scale * np.power(size, -law.parameter_exponent)


@dataclass(frozen=True, repr=False)
class Allocation(Explained):
    """Parameters and training tokens of a model, and the tokens it serves."""

    parameters: Number
    tokens: Number
    served_tokens: Amount = 0.0

    @property
    def ratio(self) -> Number:
        """Training tokens for each parameter."""
        return self.tokens / self.parameters

    @property
    def ledger(self) -> Ledger:
        """Its FLOPs, without reinforcement learning."""
        return compute_ledger(self.parameters, self.tokens, served_tokens=self.served_tokens)

    def _rows(self) -> Rows:
        rows = [("", "value"), ("parameters", f"{summary(self.parameters / 1e9)} billion")]
        rows += [("tokens", f"{summary(self.tokens / 1e12)} trillion"), ("tokens a parameter", summary(self.ratio))]
        return [*rows, ("FLOPs", f"{summary(self.ledger.total / 1e24)} x 10²⁴")]


@law
def compute_optimal(flops: Number, law: ScalingLaw = _REFITTED) -> Allocation:
    r"""Parameters and tokens that reach the least loss for a budget of training FLOPs (Chinchilla's ratio).

    .. math:: N = G \left(\frac{C}{6}\right)^{\beta / (\alpha + \beta)}, \qquad D = \frac{C}{6 N}, \qquad
              G = \left(\frac{\alpha A}{\beta B}\right)^{1 / (\alpha + \beta)}

    Parameters
    ----------
    flops
        FLOPs, C: a plain number here, six for each parameter and token.
    law
        As in :func:`loss`.

    Notes
    -----
    Source: Hoffmann et al. 2022, equation 4.

    Examples
    --------
    Chinchilla's own budget: its 70 billion parameters had 20 tokens each.

    >>> compute_optimal(5.76e23)
    Allocation
                                value
    parameters           72.2 billion
    tokens              1.33 trillion
    tokens a parameter           18.4
    FLOPs                0.576 x 10²⁴
    """
    alpha, beta = law.parameter_exponent, law.token_exponent
    both = alpha + beta
    scale = (alpha * law.parameter_scale / (beta * law.token_scale)) ** (1 / both)
    size = scale * np.power(flops / 6, beta / both)
    return Allocation(size, flops / (6 * size))


@law
def lifetime_optimal(
    target: Number, served_tokens: Amount, law: ScalingLaw = _REFITTED, *, inference_price: Number = 1
) -> Allocation:
    r"""Parameters and tokens that reach a loss at the least cost of training and inference together.

    .. math:: \min_N \; 6\,N\,D(N, L) + 2\,w\,N\,S

    Parameters
    ----------
    target
        Loss, nats a token, L.
    served_tokens
        Tokens read and generated for users over the model's life, S. With none it is :func:`compute_optimal`.
    law
        As in :func:`loss`.
    inference_price
        Dollars for a FLOP of inference over dollars for one of training, w.

    Raises
    ------
    ValueError
        ``target`` is not above the irreducible loss.

    Notes
    -----
    Source: Sardana et al. 2023, equations 2 and 6. The cost falls and then rises with N, between the smallest model
    that can reach the loss at all and Chinchilla's; found by bisection of its slope.

    Examples
    --------
    A model as good as Chinchilla's 70 billion, of which users will read and write 100 trillion tokens:

    >>> lifetime_optimal(loss(70e9, 1.4e12), 100e12)
    Allocation
                                value
    parameters           21.2 billion
    tokens              13.1 trillion
    tokens a parameter            619
    FLOPs                  5.9 x 10²⁴
    """
    over = target - law.irreducible
    if np.any(over <= 0):
        raise ValueError(f"target must be above {law.irreducible:g}, got {np.min(target):g}")
    alpha, beta = law.parameter_exponent, law.token_exponent

    def tokens(share: Number) -> Number:
        """Tokens that reach the loss where the size takes a share of what is above the irreducible loss."""
        return np.power(law.token_scale / (over * (1 - share)), 1 / beta)

    # The size takes the whole at the smallest model, and beta / (alpha + beta) at Chinchilla's.
    nothing = 0 * (over + served_tokens * inference_price)
    low, high = beta / (alpha + beta) + nothing, 1 + nothing
    for _ in range(80):
        share = (low + high) / 2
        training = 6 * tokens(share) * (1 - alpha * share / (beta * (1 - share)))
        slope = training + 2 * inference_price * served_tokens  # of the cost in N
        low, high = np.where(slope > 0, share, low)[()], np.where(slope > 0, high, share)[()]
    return Allocation(np.power(law.parameter_scale / (over * low), 1 / alpha), tokens(low), served_tokens)
