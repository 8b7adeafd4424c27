"""The ledger of compute: FLOPs that a model takes over its life, and the size and tokens that take the fewest.

It counts 6 FLOPs for each parameter and token trained on, 2 for each one generated or read. Scaling laws are data
(``data/economics.toml``).
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from ..catalogue import SCALING_LAWS, ScalingLaw
from ..checks import broadcastable, nonnegative, positive
from ..records import Explained, summary

# --- What a model takes ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Ledger(Explained):
    """FLOPs that a model takes over its life. The parts sum to ``total``."""

    pretraining: float
    rollouts: float  # generating the samples of reinforcement learning
    updates: float  # training on them
    inference: float

    @property
    def training(self):
        """FLOPs before the model is served."""
        return self.pretraining + self.rollouts + self.updates

    @property
    def total(self):
        """FLOPs of all."""
        return self.training + self.inference

    def _rows(self):
        rows = [("", "FLOPs", "share")]
        parts = {f.name: getattr(self, f.name) for f in fields(self)} | {"total": self.total}
        return rows + [(n, f"{summary(f / 1e24)} x 10²⁴", summary(f / self.total, "%")) for n, f in parts.items()]


def compute_ledger(parameters, tokens, *, rollout_tokens=0, updates=1, served_tokens=0) -> Ledger:
    r"""FLOPs of pre-training, reinforcement learning and inference.

    .. math:: 6 N D + (2 + 6 u) N R + 2 N S

    Parameters
    ----------
    parameters : array_like
        Parameters that a token meets, N: the active ones of a mixture of experts.
    tokens : array_like
        Tokens of pre-training, D.
    rollout_tokens : array_like
        Tokens that the model generates for reinforcement learning, R.
    updates : array_like
        Passes of training over each of them, u.
    served_tokens : array_like
        Tokens read and generated for users over the model's life, S.

    Returns
    -------
    Ledger

    Raises
    ------
    ValueError
        ``parameters`` or ``tokens`` is not positive, or another argument is negative.

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
    size, trained = positive(parameters=parameters, tokens=tokens)
    sampled, passes, served = nonnegative(rollout_tokens=rollout_tokens, updates=updates, served_tokens=served_tokens)
    broadcastable(parameters=size, tokens=trained, rollout_tokens=sampled, updates=passes, served_tokens=served)
    return Ledger(6 * size * trained, 2 * size * sampled, 6 * size * sampled * passes, 2 * size * served)


# --- What it reaches -------------------------------------------------------------------------------------------------

_REFITTED = SCALING_LAWS["Chinchilla, refitted"]


def loss(parameters, tokens, law: ScalingLaw = _REFITTED):
    r"""Loss of a decoder at the end of its training.

    .. math:: L = E + \frac{A}{N^\alpha} + \frac{B}{D^\beta}

    Parameters
    ----------
    parameters, tokens : array_like
        N and D.
    law : ScalingLaw
        From ``SCALING_LAWS``, or one of your own.

    Returns
    -------
    array_like
        Nats a token.

    Raises
    ------
    ValueError
        An argument is not positive and finite.

    Notes
    -----
    Source: Hoffmann et al. 2022, equation 10; Besiroglu et al. 2024 for the coefficients that are used by default. It
    was fitted to models of up to 16 billion parameters and some 1 to 100 tokens for each.

    Examples
    --------
    >>> round(float(loss(70e9, 1.4e12)), 3)
    1.974
    """
    size, trained = positive(parameters=parameters, tokens=tokens)
    broadcastable(parameters=size, tokens=trained)
    return law.irreducible + _of_size(size, law) + law.token_scale * trained**-law.token_exponent


def _of_size(size, law):
    return law.parameter_scale * size**-law.parameter_exponent


@dataclass(frozen=True, repr=False)
class Allocation(Explained):
    """Parameters and training tokens of a model, and the tokens it serves."""

    parameters: float
    tokens: float
    served_tokens: float = 0.0

    @property
    def ratio(self):
        """Training tokens for each parameter."""
        return self.tokens / self.parameters

    @property
    def ledger(self) -> Ledger:
        """Its FLOPs, without reinforcement learning."""
        return compute_ledger(self.parameters, self.tokens, served_tokens=self.served_tokens)

    def _rows(self):
        rows = [("", "value"), ("parameters", f"{summary(self.parameters / 1e9)} billion")]
        rows += [("tokens", f"{summary(self.tokens / 1e12)} trillion"), ("tokens a parameter", summary(self.ratio))]
        return [*rows, ("FLOPs", f"{summary(self.ledger.total / 1e24)} x 10²⁴")]


def compute_optimal(flops, law: ScalingLaw = _REFITTED) -> Allocation:
    r"""Parameters and tokens that reach the least loss for a budget of training FLOPs (Chinchilla's ratio).

    .. math:: N = G \left(\frac{C}{6}\right)^{\frac{\beta}{\alpha + \beta}}, \qquad D = \frac{C}{6 N}, \qquad
              G = \left(\frac{\alpha A}{\beta B}\right)^{\frac{1}{\alpha + \beta}}

    Parameters
    ----------
    flops : array_like
        FLOPs, C.
    law : ScalingLaw
        As in :func:`loss`.

    Returns
    -------
    Allocation

    Raises
    ------
    ValueError
        ``flops`` is not positive and finite.

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
    (budget,) = positive(flops=flops)
    alpha, beta = law.parameter_exponent, law.token_exponent
    both = alpha + beta
    scale = (alpha * law.parameter_scale / (beta * law.token_scale)) ** (1 / both)
    size = scale * (budget / 6) ** (beta / both)
    return Allocation(size, budget / (6 * size))


def tokens_for_loss(parameters, target, law: ScalingLaw = _REFITTED):
    r"""Training tokens with which a model of a size reaches a loss.

    .. math:: D = \left(\frac{B}{L - E - A N^{-\alpha}}\right)^{1 / \beta}

    Parameters
    ----------
    parameters : array_like
        N.
    target : array_like
        Loss, nats a token, L.
    law : ScalingLaw
        As in :func:`loss`.

    Returns
    -------
    array_like

    Raises
    ------
    ValueError
        An argument is not positive, or a model of that size cannot reach the loss with any number of tokens.

    Notes
    -----
    Derived: :func:`loss` solved for D.

    Examples
    --------
    >>> f"{tokens_for_loss(20e9, loss(70e9, 1.4e12)):.2e}"
    '1.62e+13'
    """
    size, goal = positive(parameters=parameters, target=target)
    broadcastable(parameters=size, target=goal)
    left = goal - law.irreducible - _of_size(size, law)
    if np.any(left <= 0):
        raise ValueError(
            f"target must be above {np.max(law.irreducible + _of_size(size, law)):.4g}, got {np.min(goal):.4g}"
        )
    return (law.token_scale / left) ** (1 / law.token_exponent)


def lifetime_optimal(target, served_tokens, law: ScalingLaw = _REFITTED, *, inference_price=1) -> Allocation:
    r"""Parameters and tokens that reach a loss at the least cost of training and inference together.

    .. math:: \min_N \; 6\,N\,D(N, L) + 2\,w\,N\,S

    Parameters
    ----------
    target : array_like
        Loss, nats a token, L.
    served_tokens : array_like
        Tokens read and generated for users over the model's life, S. With none it is :func:`compute_optimal`.
    law : ScalingLaw
        As in :func:`loss`.
    inference_price : array_like
        Dollars for a FLOP of inference over dollars for one of training, w.

    Returns
    -------
    Allocation

    Raises
    ------
    ValueError
        ``target`` is not above the irreducible loss, ``served_tokens`` is negative, or ``inference_price`` is not
        positive.

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
    goal, price = positive(target=target, inference_price=inference_price)
    (served,) = nonnegative(served_tokens=served_tokens)
    broadcastable(target=goal, served_tokens=served, inference_price=price)
    over = goal - law.irreducible
    if np.any(over <= 0):
        raise ValueError(f"target must be above {law.irreducible:g}, got {np.min(goal):g}")
    alpha, beta, scale = law.parameter_exponent, law.token_exponent, law.parameter_scale
    # Of what is above the irreducible loss, the share that the size takes: 1 at the smallest model, and Chinchilla's.
    low, high = beta / (alpha + beta) + 0 * (over + served * price), 1 + 0 * (over + served * price)
    for _ in range(80):
        share = (low + high) / 2
        tokens = (law.token_scale / (over * (1 - share))) ** (1 / beta)
        slope = 6 * tokens * (1 - alpha * share / (beta * (1 - share))) + 2 * price * served  # of the cost in N
        low, high = np.where(slope > 0, share, low)[()], np.where(slope > 0, high, share)[()]
    size = (scale / (over * low)) ** (1 / alpha)
    return Allocation(size, (law.token_scale / (over * (1 - low))) ** (1 / beta), served)
