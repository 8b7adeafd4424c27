"""Batches: a replica under load, one batch from start to end or one that never ends, and what its users get."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import ClassVar

import numpy as np

from ..catalogue import PREDICTION_INTERVALS
from ..checks import Numeric, larger, nonnegative, pick, positive, smaller
from ..model import Transformer
from ..quantities import Amount, Multiple, Number, PerSecond, Seconds, Share, law
from ..records import Explained, Predicted, Rows, summary, words
from .caches import largest_batch
from .decoding import accepted_tokens
from .passes import pass_time, serving_kind
from .replica import Batch, Replica, Requests


@dataclass(frozen=True, repr=False)
class Service(Predicted):
    """What users of a replica get, and what it yields.

    ``sequences`` are in the batch; ``time_to_first_token`` counts from when a request is taken up, without a queue;
    ``time_per_token`` is the mean between tokens of an answer. 0 sequences: it does not fit, and nobody is served.
    ``low`` and ``high`` are the ends of the 80 % interval of ``tokens_per_second_per_gpu``: a token's highest price, by
    :func:`token_price`, and its longest time go with the lower. ``spread_low`` and ``spread_high`` are those of its
    :func:`serving_kind`, in multiples of its times.
    """

    sequences: Amount
    time_to_first_token: Seconds
    time_per_token: Seconds
    latency: Seconds
    tokens_per_second: PerSecond
    gpus: Number
    spread_low: Number
    spread_high: Number

    _follow: ClassVar = dict.fromkeys(("time_to_first_token", "time_per_token", "latency"), ("s", -1))
    _follow |= dict.fromkeys(("speed", "tokens_per_second"), ("tokens/s", 1))

    @property
    def speed(self) -> PerSecond:
        """Tokens a second of one user."""
        return 1 / self.time_per_token

    @property
    def tokens_per_second_per_gpu(self) -> PerSecond:
        """Tokens of answers a second of one GPU."""
        return self.tokens_per_second / self.gpus

    def _predicted(self) -> tuple[Numeric, Numeric, Numeric, str]:
        each = self.tokens_per_second_per_gpu
        return each, each / self.spread_high, each / self.spread_low, "tokens/s"

    def _rows(self) -> Rows:
        names = [f.name for f in fields(self) if not f.name.startswith("spread")]
        rows = [
            (words(name), self.say(name) if name in self._follow else summary(getattr(self, name))) for name in names
        ]
        return [("", "value"), *rows, ("tokens per second per gpu", self.with_interval)]


def _spread(model: Transformer, how: str, shape: tuple[int, ...]) -> list[Number]:
    """Both ends of the spread of a kind, in the shape of what they belong to."""
    ends = PREDICTION_INTERVALS[serving_kind(model, how)]
    return [np.broadcast_to(end, shape)[()] for end in (ends.low, ends.high)]


@law
def static_batch(replica: Replica, requests: Requests, *, sequences: Number) -> Service:
    r"""A batch that starts together and ends together: one prefill, then a pass for each further token.

    .. math:: T = T_\text{prefill} + (n - 1)\,T_\text{pass}(\bar s)

    Parameters
    ----------
    replica : Replica
        Model, machine, layout and software.
    requests : Requests
        Prompt and answer of n tokens, the same for all.
    sequences
        Sequences of the batch. Those that find no room wait for others to end.

    Returns
    -------
    Service

    Raises
    ------
    ValueError
        Not one sequence fits, there is nothing to read, or answers are not alike.

    Notes
    -----
    Derived. A pass is linear in the context, so the mean context gives the mean pass.

    Examples
    --------
    >>> from clusterlab.catalogue import machine
    >>> from clusterlab.model import transformer
    >>> from clusterlab.serving import Formats
    >>> replica = Replica(transformer("Llama 2 7B"), machine("A100 80GB"), formats=Formats("fp16"))
    >>> static_batch(replica, Requests(128, 128), sequences=1).latency < 1.6  # 1.25 s measured, LMDeploy 2023
    True
    """
    if np.any(requests.output_spread):
        raise ValueError("output_spread must be 0 for a batch that ends together")
    wanted = sequences
    room = largest_batch(replica, requests.prompt + requests.output)
    if np.any(room < 1):
        raise ValueError("not one sequence fits into the memory")
    held = smaller(wanted, room)
    (read,) = positive(read=requests.read)
    prefill = pass_time(replica, Batch(prompt_tokens=held * read, chunk=read, cached=requests.prompt - read))
    decode = pass_time(replica, Batch(sequences=held, context=requests.mean_context))
    latency = (prefill + (requests.output - 1) * decode) * wanted / held
    spread = _spread(replica.model, "static batch", np.shape(latency))
    return Service(held, prefill, decode, latency, wanted * requests.output / latency, replica.gpus, *spread)


@dataclass(frozen=True, repr=False)
class MixedPasses(Predicted):
    """Passes of a batch that never ends: a ``share`` of them reads a chunk of a prompt too, the others only decode.

    ``decoding`` and ``reading`` are the seconds of each kind; ``spread_low`` and ``spread_high`` as in
    :class:`Service`. Of your own times they are left out.
    """

    decoding: Seconds
    reading: Seconds
    share: Share
    spread_low: Number = 1.0
    spread_high: Number = 1.0

    _follow: ClassVar = dict.fromkeys(("decoding", "reading"), ("s", 1))

    @property
    def mean(self) -> Seconds:
        """Seconds of a mean pass, which set the throughput."""
        return self.reading + (self.decoding - self.reading) * (1 - self.share)

    def _predicted(self) -> tuple[Numeric, Numeric, Numeric, str]:
        return self.mean, self.mean * self.spread_low, self.mean * self.spread_high, "s"

    def _rows(self) -> Rows:
        rows = [("", "share", "pass", "")]
        for name, share in (("decoding", 1 - self.share), ("reading", self.share)):
            rows.append((name, summary(share, "%"), *self._cells(name)))
        return [*rows, ("mean", "", *self._cells())]


def _chunked(requests: Requests, sequences: Numeric, chunk: Numeric) -> tuple[Numeric, dict[str, Numeric]]:
    """Tokens of a chunk, and what else a pass that reads one holds."""
    read = pick(np.greater(requests.read, 0), requests.read, 1.0)  # nothing to read: no chunk, of any size
    if chunk is not None:
        read = smaller(chunk, read)
    before = larger(requests.prompt - (requests.read + read) / 2, 0.0)  # of its prompt, before the mean chunk
    return read, {"sequences": sequences, "context": requests.mean_context, "chunk": read, "cached": before}


@dataclass(frozen=True, repr=False)
class Drafts(Explained):
    """Tokens that are drafted for a pass to verify, all at once: by heads of the model (MTP, EAGLE) or a smaller one.

    ``drafted`` tokens a pass, by default none, each accepted with the probability ``acceptance``; ``draft_time`` is
    what drafting one takes, in passes.

    Examples
    --------
    >>> round(float(Drafts(drafted=3, acceptance=0.8).gain), 2)  # tokens a pass
    2.95
    """

    drafted: Amount = 0.0
    acceptance: Share = 0.85
    draft_time: Amount = 0.02

    def __post_init__(self) -> None:
        """Refuse what is no share."""
        for name, value in zip(
            ("drafted", "acceptance", "draft_time"),
            nonnegative(drafted=self.drafted, acceptance=self.acceptance, draft_time=self.draft_time),
            strict=True,
        ):
            object.__setattr__(self, name, value)
        if np.any(np.greater(self.acceptance, 1)):
            raise ValueError(f"acceptance must be at most 1, got {np.max(self.acceptance):g}")

    @property
    def gain(self) -> Multiple:
        """Tokens that a sequence gains in a pass."""
        return accepted_tokens.unchecked(self.acceptance, self.drafted)

    @property
    def slower(self) -> Multiple:
        """What drafting adds to a pass, in multiples of it."""
        return 1 + self.drafted * self.draft_time

    def _rows(self) -> Rows:
        names = ("drafted", "acceptance", "draft_time", "gain")
        return [("", "value"), *((words(name), summary(getattr(self, name))) for name in names)]


NO_DRAFTS = Drafts()  # a token a pass


@law
def mixed_passes(
    replica: Replica, requests: Requests, *, sequences: Number, chunk: Number | None = None, drafts: Drafts = NO_DRAFTS
) -> MixedPasses:
    r"""Lengths of the passes of a batch that never ends, with a chunk of a prompt and without one.

    .. math:: k = \frac{S\,p}{n\,c}, \qquad T = T_\text{pass}(S,\; c) \text{ in a share } k \text{ of passes, else }
        T_\text{pass}(S,\; 0)

    In each pass S/n of the sequences end and as many prompts of p tokens come, in chunks of c. From k = 1 on every pass
    reads k c tokens, and all are alike. Who reads an answer sees these lengths as gaps between tokens: with long
    chunks two lengths far apart, of which the mean is neither.

    Parameters
    ----------
    replica : Replica
        Model, machine, layout and software.
    requests : Requests
        Prompts of p tokens that no cache has, and answers of n.
    sequences
        Sequences of the batch, S, whether they fit or not.
    chunk : optional
        Most tokens of a prompt in one pass, c; by default the whole prompt.
    drafts : Drafts
        Tokens that a pass verifies besides the one that it would write.

    Returns
    -------
    MixedPasses

    Notes
    -----
    Source: Agrawal et al. 2024 (Sarathi-Serve), for the stall of those who decode behind a prompt. Derived.

    Examples
    --------
    Llama 3.1 70B in 8 bits on eight H100s, 200 users, prompts of 1,000 and answers of 500 tokens:

    >>> from clusterlab.catalogue import machine
    >>> from clusterlab.model import Layout, transformer
    >>> from clusterlab.serving import Formats
    >>> formats = Formats("fp8", cache_bytes=1)
    >>> replica = Replica(transformer("Llama 3.1 70B"), machine("H100 SXM"), Layout(tp=8), formats)
    >>> mixed_passes(replica, Requests(1000, 500), sequences=200)
    MixedPasses
              share     pass
    decoding    60%  14.5 ms  (11.5 to 18.2)
    reading     40%  47.5 ms  (37.7 to 59.8)
    mean             27.7 ms    (22 to 34.8)
    """
    verified = {"context": requests.mean_context, "verified": 1 + drafts.drafted}
    decoding = drafts.slower * pass_time(replica, Batch(sequences=sequences, **verified))
    spread = _spread(replica.model, "saturated", np.shape(decoding))
    if not np.any(requests.read):
        return MixedPasses(decoding, decoding, 0.0 * decoding, *spread)
    read, mixed = _chunked(requests, sequences, chunk)
    chunks = sequences * requests.read * drafts.gain / (requests.output * read)
    mixed |= verified
    reading = drafts.slower * pass_time(replica, Batch(prompt_tokens=larger(chunks, 1.0) * read, **mixed))
    return MixedPasses(decoding, reading, smaller(chunks, 1.0), *spread)


@law
def continuous_batch(
    replica: Replica,
    requests: Requests,
    *,
    sequences: Number | None = None,
    chunk: Number | None = None,
    drafts: Drafts = NO_DRAFTS,
) -> Service:
    r"""A batch that never ends: where an answer is complete another prompt is read, while the others decode.

    .. math:: R = S / \bar{T}, \qquad \bar{T} = (1 - k)\,T_\text{pass}(S,\; 0) + k\,T_\text{pass}(S,\; c)
        \;\text{ or }\; T_\text{pass}(S,\; k\,c)

    With S sequences in the batch, S/n of them end in each pass, and as many prompts of p tokens are read, k = S p/(n c)
    chunks of c tokens. Where that is less than one, some passes have a chunk and the others none.

    Parameters
    ----------
    replica : Replica
        Model, machine, layout and software.
    requests : Requests
        Prompts of p tokens that no cache has, and answers of n.
    sequences : optional
        Sequences of the batch; by default the most that memory and software allow (saturation).
    chunk : optional
        Most tokens of a prompt in one pass; by default the whole prompt.
    drafts : Drafts
        With them a pass of S sequences writes S times their ``gain``.

    Returns
    -------
    Service
        Where more sequences are asked for than fit, NaN and a throughput of 0.

    Notes
    -----
    Source: Yu et al. 2022 (Orca), for batches that change from pass to pass; Agrawal et al. 2024 (Sarathi-Serve) for
    chunks. Derived: the mean over :func:`mixed_passes`. Prompts are spread evenly over attention ranks.

    Examples
    --------
    Llama 3.1 8B in 8 bits on one H100, prompts of 1,000 and answers of 2,000 tokens: 13,899 tokens/s measured
    (TensorRT-LLM 1.0).

    >>> from clusterlab.catalogue import machine
    >>> from clusterlab.model import transformer
    >>> from clusterlab.serving import Formats
    >>> replica = Replica(transformer("Llama 3.1 8B"), machine("H100 SXM"), formats=Formats("fp8", cache_bytes=1))
    >>> bool(11e3 < continuous_batch(replica, Requests(1000, 2000)).tokens_per_second < 17e3)
    True
    """
    layout = replica.layout
    room = saturation(replica, requests)
    held = room if sequences is None else sequences
    fits = (held <= room) & (held > 0)
    held = pick(fits, held, 1.0)
    mean = mixed_passes.unchecked(replica, requests, sequences=held, chunk=chunk, drafts=drafts).mean
    passes = mean / drafts.gain  # ... for each token
    first = 0.0 * passes
    if np.any(requests.read):
        read, mixed = _chunked(requests, held, chunk)
        taken = pass_time(replica, Batch(prompt_tokens=read * layout.dp * layout.pp, **mixed))
        first = np.ceil(requests.read / read) * taken
    nobody = pick(fits, 1.0, np.nan)
    return Service(
        pick(fits, held, 0.0),
        first * nobody,
        passes * nobody,
        (first + (requests.output - 1) * passes) * nobody,
        pick(fits, held / passes, 0.0),
        replica.gpus,
        *_spread(replica.model, "saturated", np.shape(passes)),
    )


def saturation(replica: Replica, requests: Requests) -> Amount:
    """Sequences of the largest batch that memory and software allow.

    Parameters
    ----------
    replica : Replica
        Model, machine, layout and software; its ``max_sequences`` and ``max_tokens`` are per attention rank and stage.
    requests : Requests
        Prompts and answers; the cache of each is kept free to its last token, or takes memory as it ``grows``.

    Examples
    --------
    Short answers to long prompts: the tokens of a pass are the limit, not the memory.

    >>> from clusterlab.catalogue import machine
    >>> from clusterlab.model import transformer
    >>> from clusterlab.serving import Formats
    >>> replica = Replica(transformer("Llama 3.1 8B"), machine("H200 SXM"), formats=Formats("fp8", cache_bytes=1))
    >>> [float(saturation(replica, Requests(p, n))) for p, n in ((128, 128), (2048, 128), (20_000, 2000))]
    [2048.0, 481.0, 84.0]
    """
    software, groups = replica.software, replica.layout.dp * replica.layout.pp
    tokens = groups * software.max_tokens / (1 + requests.read / requests.output)
    longest = requests.mean_context if software.grows else requests.prompt + requests.met_output
    count = smaller(largest_batch(replica, longest), groups * software.max_sequences)
    return np.floor(smaller(count, tokens))
