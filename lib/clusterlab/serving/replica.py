"""Replicas: what is served, what users ask, what one pass works through, and the GPUs that serve one copy of a model.

A replica is ``tp pp dp`` GPUs of a :class:`~clusterlab.model.Layout`: ``tp`` of them split attention, ``dp`` groups
have sequences and caches of their own (attention data parallelism), ``ep`` share out the experts, over all groups.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, fields

import numpy as np

from ..catalogue import SERVING, Machine, ServingSoftware
from ..checks import Numeric, at_least_one, broadcastable, nonnegative, positive
from ..model import PRECISIONS, Layout, Transformer, Violations, block_violations, precision_of
from ..quantities import Amount, Number, PositiveBytes, Share
from ..records import Explained, Rows, summary

_ONE_GPU = Layout()
# The rate of FP8 with a scale for each row was measured in training alone.
_COMPUTE = tuple(name for name in PRECISIONS if name != "fp8-row")


@dataclass(frozen=True, repr=False)
class Formats(Explained):
    """Number formats: of the GEMMs, of the weights in memory, of the caches.

    ``compute`` is a precision of :data:`~clusterlab.model.PRECISIONS`. ``weight_bytes`` of a weight are by default
    those of an operand; ``cache_bytes`` are of an element of the caches. ``mixing`` is the precision of those blocks
    that mix tokens, attention for one, where it is another: checkpoints in 4 bits often leave these in 8 or 16, and
    narrow the experts alone. Output layer and embedding stay in 16 bits, states of a hybrid in 32.

    Examples
    --------
    >>> Formats("fp8", cache_bytes=1).weight_bytes
    1.0

    Experts in 4 bits, attention in 8, caches in 16:

    >>> mixed = Formats("fp4", mixing="fp8")
    >>> mixed.of(feeds_forward=True), mixed.of(feeds_forward=False), mixed.cache_bytes
    (('fp4', 0.5625), ('fp8', 1.0), 2.0)
    """

    compute: str = "bf16"
    weight_bytes: PositiveBytes = None  # those of an operand
    cache_bytes: PositiveBytes = 2.0
    mixing: str | None = None  # as the others

    def __post_init__(self) -> None:
        """Fill in the bytes of a weight, and refuse unknown precisions and sizes that are none."""
        for name in ("compute", "mixing"):
            value = getattr(self, name)
            if (name, value) == ("mixing", None):
                continue
            with suppress(ValueError):  # by another name, or in another case
                value = precision_of(value)
            if value not in _COMPUTE:
                raise ValueError(f"{name} must be one of {', '.join(_COMPUTE)}; got {value!r}")
            object.__setattr__(self, name, value)
        if self.weight_bytes is None:
            object.__setattr__(self, "weight_bytes", PRECISIONS[self.compute][1])
        for name in ("weight_bytes", "cache_bytes"):
            object.__setattr__(self, name, positive(**{name: getattr(self, name)})[0])

    def of(self, *, feeds_forward: bool) -> tuple[str, Number]:
        """Return the precision of a block's GEMMs, and the bytes of its weights."""
        if feeds_forward or self.mixing is None:
            return self.compute, self.weight_bytes
        return self.mixing, PRECISIONS[self.mixing][1]


@dataclass(frozen=True, repr=False)
class Requests(Explained):
    """What users ask: tokens of a prompt, tokens of its answer, and the share of the prompt that a cache has already.

    A ``cached`` of 1 is a prompt that other GPUs have read: this replica only decodes. ``prompt`` and ``output`` are
    means, and both spreads standard deviations over them: 0 where all are alike, 1 where answers end at random, more in
    a chat. A law takes of a distribution what it needs, which is no more than both moments; percentiles take it as
    lognormal.

    Examples
    --------
    >>> Requests(prompt=4000, output=500, cached=0.5).read
    2000.0
    """

    prompt: Number
    output: Number
    cached: Share = 0.0
    prompt_spread: Amount = 0.0
    output_spread: Amount = 0.0

    def __post_init__(self) -> None:
        """Refuse what no user asks."""
        least = {name: getattr(self, name) for name in ("cached", "prompt_spread", "output_spread")}
        for name, value in zip(
            ("prompt", "output", *least),
            [*positive(prompt=self.prompt, output=self.output), *nonnegative(**least)],
            strict=True,
        ):
            object.__setattr__(self, name, value)
        if np.any(np.less(self.output, 1)):
            raise ValueError(f"output must be at least 1, got {np.min(self.output):g}")
        if np.any(np.greater(self.cached, 1)):
            raise ValueError(f"cached must be at most 1, got {np.max(self.cached):g}")
        broadcastable(prompt=self.prompt, output=self.output, **least)

    @property
    def read(self) -> Amount:
        """Tokens of a prompt that no cache has."""
        return self.prompt * (1 - self.cached)

    @property
    def mean_context(self) -> Number:
        """Tokens that a sequence has in its cache, averaged over the passes that write answers.

        A long answer is in more passes than a short one, so what a pass meets is longer than what is asked.

        Examples
        --------
        >>> float(Requests(1000, 500).mean_context), float(Requests(1000, 500, output_spread=1).mean_context)
        (1250.0, 1500.0)
        """
        return self.prompt + self.met_output / 2

    @property
    def met_output(self) -> Number:
        """Tokens of the answer that a sequence of a pass will have in the end: long ones are met more often."""
        return self.output * (1 + self.output_spread**2)


@dataclass(frozen=True, repr=False)
class Batch(Explained):
    """What one pass of a replica works through, on all its attention ranks together.

    ``sequences`` are decoding: the pass reads ``context`` cached tokens of each and computes ``verified`` new ones
    (one, or one more than were drafted). ``prompt_tokens`` of prompts are read besides, in chunks of ``chunk`` tokens,
    each of which follows ``cached`` tokens of its own prompt.

    Examples
    --------
    >>> Batch(sequences=256, context=4096).tokens, Batch(prompt_tokens=8192, chunk=2048).tokens
    (256.0, 8192.0)
    """

    sequences: Amount = 0.0
    context: Number = 1.0
    verified: Number = 1.0
    prompt_tokens: Amount = 0.0
    chunk: Number = 1.0
    cached: Amount = 0.0

    def __post_init__(self) -> None:
        """Refuse a pass without tokens."""
        amounts = {name: getattr(self, name) for name in ("sequences", "prompt_tokens", "cached")}
        lengths = {name: getattr(self, name) for name in ("context", "chunk")}
        (verified,) = at_least_one(verified=self.verified)
        values = [*nonnegative(**amounts), *positive(**lengths), verified]
        for name, value in zip((*amounts, *lengths, "verified"), values, strict=True):
            object.__setattr__(self, name, value)
        broadcastable(**amounts, **lengths, verified=verified)
        positive(tokens=self.tokens)

    @property
    def tokens(self) -> Number:
        """Tokens that the pass computes."""
        return self.sequences * self.verified + self.prompt_tokens


def violations(model: Transformer, layout: Layout, *, redundant: Amount = 0) -> Violations:
    """Which layouts cannot serve a model, and by which rule. Memory is no rule of this list.

    Parameters
    ----------
    model : Transformer
        The shape.
    layout : Layout
        tp, pp, dp, ep and etp of a replica.
    redundant
        Copies of experts besides the first.

    Returns
    -------
    Violations

    Examples
    --------
    DeepSeek-V3's 256 experts and 32 copies are 288, which 72 GPUs can share; 256 they cannot.

    >>> from clusterlab.model import transformer
    >>> layout = Layout(dp=72, ep=72)
    >>> violations(transformer("DeepSeek-V3"), layout, redundant=[0, 32]).valid
    array([False,  True])
    """
    (extra,) = nonnegative(redundant=redundant)
    t, p, d, x = layout.tp, layout.pp, layout.dp, layout.ep
    rules = {
        "tp must divide heads": model.heads % t != 0,
        "pp must be at most layers": p > model.layers,
        "cp must be 1": layout.cp != 1,
        "ep must divide experts with redundant": (max(model.experts, 1) + extra) % x != 0,
        "ep times etp must divide tp dp": (t * d) % (x * layout.expert_tp) != 0,
    }
    values = {f.name: getattr(layout, f.name) for f in fields(layout)} | {"etp": layout.expert_tp, "redundant": extra}
    broken, limits = block_violations(model, layout, ("tp",))
    names = ("heads", "layers", "experts")
    return Violations(rules | broken, values | limits | {name: getattr(model, name) for name in names})


@dataclass(frozen=True, repr=False)
class Replica(Explained):
    """One copy of a model, and the GPUs that serve it.

    Parameters
    ----------
    model : Transformer
        One shape.
    machine : Machine
        From :func:`clusterlab.catalogue.machine`.
    layout : Layout
        tp, pp, dp, ep and etp. Of arrays: as many replicas.
    formats : Formats
        Of GEMMs, weights and caches.
    two_batch_overlap : bool or array of bool
        Whether a batch is halved, so that one half computes while the other communicates.
    redundant
        Copies of experts besides the first.
    software : ServingSoftware
        From ``SERVING``, or one of your own.

    Raises
    ------
    ValueError
        The machine has no such precision, a layout breaks a rule of :func:`violations`, or the software cuts weights
        along two axes and a block of the model cannot be.

    Examples
    --------
    >>> from clusterlab.catalogue import machine
    >>> from clusterlab.model import transformer
    >>> Replica(transformer("Llama 3.1 70B"), machine("H100 SXM"), Layout(tp=4), Formats("fp8"))
    Replica
                               value
    model              Llama 3.1 70B
    machine                 H100 SXM
    GPUs                           4
    compute                      fp8
    two-batch overlap             no
    software                   usual
    """

    model: Transformer
    machine: Machine
    layout: Layout = _ONE_GPU
    formats: Formats = Formats()
    two_batch_overlap: Numeric = False
    redundant: Amount = 0
    software: ServingSoftware = SERVING["usual"]

    def __post_init__(self) -> None:
        """Refuse what cannot be served."""
        violations(self.model, self.layout, redundant=self.redundant).refuse()
        known = [name for name in _COMPUTE if PRECISIONS[name][0] in self.machine.peaks]
        for name in ("compute", "mixing"):
            got = getattr(self.formats, name)
            if got not in (*known, None):
                raise ValueError(f"{name} must be one of {', '.join(known)} on {self.machine.name}; got {got!r}")
        uncut = [type(block).__name__ for block in self.model.blocks if block.exchanged(self.model) is None]
        if uncut and self.software.two_axes:
            raise ValueError(f"two_axes of the software must be False where layers are {uncut[0]}, got True")
        if np.asarray(self.two_batch_overlap).dtype != bool:
            raise ValueError(f"two_batch_overlap must be True or False, got {self.two_batch_overlap!r}")

    @property
    def gpus(self) -> Number:
        """GPUs of the replica."""
        return self.layout.gpus

    def _rows(self) -> Rows:
        both = (np.ndim(self.two_batch_overlap) and "some") or ("yes" if self.two_batch_overlap else "no")
        rows = [("", "value"), ("model", self.model.name), ("machine", self.machine.name)]
        rows += [("GPUs", summary(self.gpus)), ("compute", self.formats.compute)]
        rows += [("mixing", self.formats.mixing)] if self.formats.mixing else []
        rows += [("two-batch overlap", both)]
        return [*rows, ("software", self.software.name)]
