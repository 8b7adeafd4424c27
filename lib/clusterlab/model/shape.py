"""Transformers: what a decoder is, and what follows from its shape alone.

A decoder is ``layers`` of attention and feed-forward on a stream ``hidden`` wide, between an embedding and an output
layer. From its shape (:class:`Transformer`) follow its parameters, the FLOPs of a token and the bytes of its key-value
cache. FLOPs are those of the GEMMs and of attention, two per multiply-add; norms, activations, rotary embeddings and
the softmax are left out, as in every published FLOP count.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..checks import broadcastable, choose, nonnegative, pick, positive, whole
from ..records import Explained, summary, words


@dataclass(frozen=True, repr=False)
class Transformer(Explained):
    """The shape of a decoder. Counts may be arrays: one record is then many models.

    ``kv_heads`` below ``heads`` is grouped-query attention, 1 is multi-query. ``kv_rank`` above 0 is multi-head latent
    attention: keys and values come from one vector of that size, queries from one of ``query_rank`` (0: straight from
    the stream), and ``rope_dim`` more dimensions of queries and keys carry the position. ``experts`` above 0 make every
    layer but the first ``dense_layers`` a mixture of experts. In ``window_layers`` a token sees only the last
    ``window`` tokens. ``positions`` are learned position embeddings. ``biases`` says whether linear layers and norms
    have them. ``node_limit`` above 0 is the most nodes that the router sends a token to. ``expert_latent`` above 0 is
    the width of a projection of the stream that routed experts work on.

    ``mamba_layers`` above 0 make a hybrid, in which a layer is one block: that many are Mamba-2 mixers of
    ``mamba_heads`` heads of ``mamba_head_dim``, whose states have ``mamba_state`` dimensions with inputs and outputs
    shared by ``mamba_groups``; ``feed_forward_layers`` are feed-forwards; the others are attention. ``mtp_depth`` is
    how many further tokens training predicts (:func:`trained`).

    Examples
    --------
    >>> llama = Transformer(layers=32, hidden=4096, heads=32, kv_heads=8, ffn=14336, gated=True, vocab=128256)
    >>> parameters(llama).total
    8030261248
    """

    layers: int
    hidden: int
    heads: int
    ffn: int
    vocab: int
    kv_heads: int | None = None  # as many as heads
    head_dim: int | None = None  # hidden / heads
    gated: bool = False
    tied: bool = False
    biases: bool = False
    positions: int = 0
    experts: int = 0
    experts_per_token: int = 0
    shared_experts: int = 0
    expert_ffn: int | None = None  # ffn
    dense_layers: int = 0
    query_rank: int = 0
    kv_rank: int = 0
    rope_dim: int = 0
    value_dim: int | None = None  # head_dim
    window: int = 0
    window_layers: int = 0
    node_limit: int = 0  # none
    expert_latent: int = 0  # the stream itself
    mamba_layers: int = 0
    mamba_heads: int = 0
    mamba_head_dim: int = 64
    mamba_state: int = 128
    mamba_groups: int = 8
    feed_forward_layers: int = 0  # of a hybrid
    mtp_depth: int = 0
    name: str = ""

    def __post_init__(self) -> None:
        """Fill in what follows from the rest, hold lists as arrays, and refuse what cannot be a decoder."""
        for field, value in list(vars(self).items()):
            if isinstance(value, list | tuple):
                object.__setattr__(self, field, np.asarray(value))
        whole(**{field: getattr(self, field) for field in ("layers", "hidden", "heads", "ffn", "vocab")})
        if self.head_dim is None:
            if np.any(self.hidden % self.heads != 0):
                raise ValueError(f"heads must divide hidden, or give head_dim; got {self.heads} of {self.hidden}")
            object.__setattr__(self, "head_dim", self.hidden // self.heads)
        for field, value in {"kv_heads": self.heads, "expert_ffn": self.ffn, "value_dim": self.head_dim}.items():
            if getattr(self, field) is None:
                object.__setattr__(self, field, value)
        whole(**{field: getattr(self, field) for field in ("head_dim", "kv_heads", "expert_ffn", "value_dim")})
        for field in _MAY_BE_ZERO:
            (count,) = nonnegative(**{field: getattr(self, field)})
            if np.any(count != np.floor(count)):
                raise ValueError(f"{field} must be a whole number of at least 0, got {getattr(self, field)}")
        _check_shapes(self)
        for field in ("gated", "tied", "biases"):
            if not isinstance(getattr(self, field), bool):
                raise ValueError(f"{field} must be True or False, got {getattr(self, field)!r}")
        if np.any(self.heads % np.asarray(self.kv_heads) != 0):
            raise ValueError(f"kv_heads must divide heads, got {self.kv_heads} and {self.heads}")
        for field, limit in _AT_MOST.items():
            if np.any(np.asarray(getattr(self, field)) > getattr(self, limit)):
                raise ValueError(f"{field} must be at most {limit}, got {getattr(self, field)}")
        for field, needed in _NEEDS.items():
            if np.any((np.asarray(getattr(self, field)) > 0) & (np.asarray(getattr(self, needed)) < 1)):
                raise ValueError(f"{field} above 0 needs {needed} above 0, got {getattr(self, needed)}")
        if np.any(np.asarray(self.mamba_layers) + self.feed_forward_layers > self.layers):
            got = f"{self.mamba_layers} and {self.feed_forward_layers} of {self.layers}"
            raise ValueError(f"mamba_layers and feed_forward_layers must be at most layers, got {got}")
        if np.any((np.asarray(self.kv_rank) == 0) & (self.value_dim != np.asarray(self.head_dim))):
            raise ValueError(f"value_dim must be head_dim where kv_rank is 0, got {self.value_dim}")

    @property
    def moe_layers(self):
        """Layers that are a mixture of experts."""
        return (self.ffn_layers - self.dense_layers) * (self.experts > 0)

    @property
    def hybrid(self):
        """Whether some layers are Mamba-2 mixers, and a layer is one block."""
        return self.mamba_layers > 0

    def _of_hybrid(self, yes, no):
        hybrid = self.hybrid
        return no if hybrid is False else pick(hybrid, yes, no)

    @property
    def attention_layers(self):
        """Layers that have attention."""
        return self._of_hybrid(self.layers - self.mamba_layers - self.feed_forward_layers, self.layers)

    @property
    def ffn_layers(self):
        """Layers that have a feed-forward, dense or a mixture."""
        return self._of_hybrid(self.feed_forward_layers, self.layers)

    @property
    def blocks(self):
        """Parts with a norm before them and an addition behind: two a layer, or one in a hybrid."""
        return self._of_hybrid(self.layers, 2 * self.layers)

    @property
    def mamba_width(self):
        """Elements of a Mamba-2 mixer's inner stream, and of its groups' inputs (or outputs) to the states."""
        return self.mamba_heads * self.mamba_head_dim, self.mamba_groups * self.mamba_state

    def _rows(self):
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "name"}
        if not np.any(self.hybrid):
            fields = {name: value for name, value in fields.items() if not name.startswith("mamba")}
        shown = {name: "yes" if value is True else summary(value) for name, value in fields.items() if np.any(value)}
        return [(self.name, "shape"), *((words(name), value) for name, value in shown.items())]


_MAY_BE_ZERO = ("positions", "experts", "experts_per_token", "shared_experts", "dense_layers", "query_rank")
_MAY_BE_ZERO += ("kv_rank", "rope_dim", "window", "window_layers", "node_limit", "expert_latent", "mamba_layers")
_MAY_BE_ZERO += ("mamba_heads", "mamba_head_dim", "mamba_state", "mamba_groups", "feed_forward_layers", "mtp_depth")
_AT_MOST = {"experts_per_token": "experts", "dense_layers": "layers", "window_layers": "layers"}
_NEEDS = {"experts": "experts_per_token", "shared_experts": "experts", "window_layers": "window"}
_NEEDS |= {"query_rank": "kv_rank", "rope_dim": "kv_rank", "node_limit": "experts", "expert_latent": "experts"}
_NEEDS |= {"mamba_layers": "mamba_heads", "feed_forward_layers": "mamba_layers"}


def _check_shapes(model, **values) -> None:
    """Raise a ValueError unless the fields of a model and the values beside them broadcast together."""
    fields = {name: value for name, value in vars(model).items() if not isinstance(value, int | str)}
    broadcastable(**fields, **values)


# --- Parameters ------------------------------------------------------------------------------------------------------


def attention_parameters(model):
    r"""Weights of one layer's attention: those that belong to heads, and those that all heads share.

    .. math:: \text{MHA, GQA, MQA:} \quad 2\,h\,d\,(H + H_{kv}), \qquad 0

    .. math:: \text{MLA:} \quad H\left(r_q (d + d_r) + r_{kv} (d + d_v) + d_v h\right), \qquad h\,(r_q + r_{kv} + d_r)

    Without a query rank, MLA projects its queries from the stream: r_q is h in the first term and 0 in the second.

    Parameters
    ----------
    model : Transformer
        Its hidden h, heads H of size d, kv_heads, query_rank r_q, kv_rank r_kv, rope_dim d_r and value_dim d_v.

    Returns
    -------
    tuple of array_like
        (of heads, shared). Tensor parallelism shards the first; each of its ranks holds all of the second.

    Notes
    -----
    Source: Vaswani et al. 2017, section 3.2; Shazeer 2019 (MQA); Ainslie et al. 2023 (GQA); DeepSeek-V2 2024, section
    2.1 (MLA).

    Examples
    --------
    >>> attention_parameters(Transformer(layers=1, hidden=4096, heads=32, kv_heads=8, ffn=14336, vocab=128256))
    (41943040, 0)
    """
    h, heads, d, value_dim = model.hidden, model.heads, model.head_dim, model.value_dim
    query_from = pick(np.asarray(model.query_rank) > 0, model.query_rank, h)
    latent = heads * (query_from * (d + model.rope_dim) + model.kv_rank * (d + value_dim) + value_dim * h)
    plain = 2 * h * d * (heads + model.kv_heads)
    shared = h * (model.query_rank + model.kv_rank + model.rope_dim)
    return pick(np.asarray(model.kv_rank) > 0, latent, plain), shared


def trained(model):
    """The shape that training runs: each depth of multi-token prediction is one more layer with a feed-forward.

    And one more pass of the output layer. Published numbers of parameters leave it out, and so does serving. A step
    multiplies it at 16 bits (Megatron-Bridge, ``keep_mtp_spec_in_bf16``), and joins each depth to the one before.

    Parameters
    ----------
    model : Transformer
        One shape.

    Returns
    -------
    Transformer

    Notes
    -----
    Source: Gloeckle et al. 2024; DeepSeek-V3 2024, section 2.2.

    Examples
    --------
    >>> from clusterlab.model import transformer
    >>> super_ = transformer("Nemotron 3 Super")
    >>> super_.layers, trained(super_).layers, trained(super_).ffn_layers
    (88, 92, 42)
    """
    depth = model.mtp_depth
    if (isinstance(depth, int) and depth == 0) or not np.any(depth):
        return model
    if not np.any(model.hybrid):
        return replace(model, layers=model.layers + depth)
    return replace(model, layers=model.layers + 2 * depth, feed_forward_layers=model.feed_forward_layers + depth)


def expert_parameters(model):
    r"""Weights of one routed expert.

    .. math:: (2 + g)\,h\,f_e

    Parameters
    ----------
    model : Transformer
        Its hidden h, or expert_latent in its place, and expert_ffn f_e; g is 1 where the feed-forward is gated.

    Returns
    -------
    array_like

    Notes
    -----
    Source: Shazeer 2020 (GLU variants): a gated feed-forward has a third matrix.

    Examples
    --------
    >>> expert_parameters(Transformer(layers=1, hidden=4096, heads=32, ffn=14336, gated=True, vocab=32000))
    176160768
    """
    return (2 + model.gated) * expert_input(model) * model.expert_ffn


def expert_input(model):
    r"""Elements of a token that a routed expert works on: hidden, or expert_latent where there is one.

    Parameters
    ----------
    model : Transformer
        The shape.

    Returns
    -------
    array_like

    Notes
    -----
    Source: NVIDIA 2025 (Nemotron 3), LatentMoE.

    Examples
    --------
    >>> expert_input(Transformer(layers=1, hidden=4096, heads=32, ffn=14336, vocab=32000))
    4096
    """
    latent = model.expert_latent
    return model.hidden if isinstance(latent, int) and not latent else pick(latent > 0, latent, model.hidden)


def beside_parameters(model):
    r"""Weights of one mixture beside its routed experts: of the shared ones, and of the router.

    .. math:: E_s\,(2 + g)\,h\,f_e, \qquad h\,(E + 2\,l)

    Parameters
    ----------
    model : Transformer
        Its hidden h, E experts, E_s shared_experts, expert_ffn f_e and expert_latent l; g is 1 where it is gated.

    Returns
    -------
    tuple of array_like
        (of shared experts, of the router and the projections to a latent and back). Tensor parallelism shards the
        first; each of its ranks holds all of the second.

    Notes
    -----
    Source: DeepSeek-V2 2024, section 2.2 (shared experts); NVIDIA 2025 (Nemotron 3), LatentMoE.

    Examples
    --------
    >>> mixture = Transformer(layers=1, hidden=4096, heads=32, ffn=2688, vocab=131072, experts=512,
    ...                       experts_per_token=22, shared_experts=2, expert_latent=1024)
    >>> beside_parameters(mixture)
    (44040192, 10485760)
    """
    shared = model.shared_experts * (2 + model.gated) * model.hidden * model.expert_ffn
    return shared, model.hidden * (model.experts + 2 * model.expert_latent)


def mamba_parameters(model):
    r"""Weights of one Mamba-2 mixer.

    .. math:: h\,(2 d + 2 g + n) + 5\,(d + 2 g) + d + 3 n + d\,h, \qquad d = n P, \quad g = G N

    Parameters
    ----------
    model : Transformer
        Its hidden h, n mamba_heads of mamba_head_dim P, mamba_groups G and mamba_state N.

    Returns
    -------
    array_like
        Projections in and out, a convolution over four tokens with its bias, the gated norm, and three numbers a head.

    Notes
    -----
    Source: Dao and Gu 2024 (Mamba-2), section 7.1 and figure 6; Megatron-Core, ``ssm/mamba_mixer.py``.

    Examples
    --------
    Mamba-2 2.7B has 64 of these and an embedding: 2.70 billion in all.

    >>> mamba = Transformer(layers=64, hidden=2560, heads=80, ffn=1, vocab=50288, tied=True, mamba_layers=64,
    ...                     mamba_heads=80, mamba_groups=1)
    >>> mamba_parameters(mamba), parameters(mamba).total
    (40214000, 2702599680)
    """
    heads, (d, g) = model.mamba_heads, model.mamba_width
    return model.hidden * (2 * d + 2 * g + heads) + 5 * (d + 2 * g) + d + 3 * heads + d * model.hidden


@dataclass(frozen=True, repr=False)
class ParameterCount(Explained):
    """The parameters of a decoder. The parts add up to ``total``; a token uses all but ``unselected_experts``."""

    embedding: int
    positions: int
    attention: int
    mamba: int
    feed_forward: int  # of the dense layers
    selected_experts: int
    unselected_experts: int
    shared_experts: int
    router: int  # and the projections to and from what experts work on
    norms_and_biases: int
    output: int  # 0 where it is tied to the embedding

    @property
    def total(self):
        """All parameters."""
        return self.active + self.unselected_experts

    @property
    def active(self):
        """Parameters that one token uses. The whole embedding counts, although a token reads only one row."""
        always = (self.embedding, self.positions, self.attention, self.mamba, self.feed_forward, self.shared_experts)
        return sum(always) + self.router + self.norms_and_biases + self.output + self.selected_experts

    def _rows(self):
        parts = {name: getattr(self, name) for name in self.__dataclass_fields__}
        rows = [(words(name), summary(value)) for name, value in parts.items() if np.any(value)]
        return [("", "parameters"), *rows, ("total", summary(self.total)), ("active", summary(self.active))]


def parameters(model) -> ParameterCount:
    r"""Parameters of a decoder, total and active.

    .. math:: N = (1 + [\text{untied}])\,V h + L\,A + L_\text{Mamba} M + L_\text{dense} (2 + g) h f
        + L_\text{MoE} \left((E + E_s)(2 + g) h f_e + h E\right) + \text{norms, biases, positions}

    Parameters
    ----------
    model : Transformer
        The shape. A is :func:`attention_parameters`, both parts; M :func:`mamba_parameters`; E experts, E_s shared.

    Returns
    -------
    ParameterCount
        Integers where the shape is of integers: the count of a checkpoint to the last element for most models.

    Notes
    -----
    Source: Narayanan et al. 2021 (SC21), equation 2, for GPT: 12 l h^2 (1 + 13/12h + (V + s)/12lh); this count is that
    one and the 2h of the final norm. Left out: norms of queries and keys or of MLA's latents, sinks, and the biases of
    a router and of experts, together below 4 in 10,000 of any model in the catalogue.

    Examples
    --------
    Mixtral 8x7B is not 8 times 7 billion: its experts share attention and embeddings.

    >>> mixtral = Transformer(layers=32, hidden=4096, heads=32, kv_heads=8, ffn=14336, gated=True, vocab=32000,
    ...                       experts=8, experts_per_token=2)
    >>> parameters(mixtral).total, parameters(mixtral).active
    (46702792704, 12879925248)
    """
    h, moe, dense = model.hidden, model.moe_layers, model.ffn_layers - model.moe_layers
    of_heads, shared = attention_parameters(model)
    expert, (shared_experts, router) = expert_parameters(model), beside_parameters(model)
    biases = (model.heads + 2 * model.kv_heads) * model.head_dim + (1 + model.gated) * model.ffn + 2 * h
    return ParameterCount(
        embedding=model.vocab * h,
        positions=model.positions * h,
        attention=model.attention_layers * (of_heads + shared),
        mamba=model.mamba_layers * mamba_parameters(model),
        feed_forward=dense * (2 + model.gated) * h * model.ffn,
        selected_experts=moe * model.experts_per_token * expert,
        unselected_experts=moe * (model.experts - model.experts_per_token) * expert,
        shared_experts=moe * shared_experts,
        router=moe * router,
        # A norm before each block and a final one, each with a weight and perhaps a bias.
        norms_and_biases=(model.blocks + 1) * h * (1 + model.biases) + model.layers * biases * model.biases,
        output=0 * h if model.tied else model.vocab * h,
    )


# --- FLOPs of a token ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class ForwardFlops(Explained):
    """FLOPs of one token's forward pass, part by part; ``total`` is their sum."""

    projections: float  # of attention and of Mamba-2
    scores: float  # queries with keys, and weights with values: the attention term
    scan: float  # of Mamba-2
    feed_forward: float
    router: float
    logits: float

    @property
    def total(self):
        """FLOPs of the whole pass."""
        return self.layers + self.logits

    @property
    def layers(self):
        """FLOPs of the layers: all but the output layer."""
        return self.projections + self.scores + self.scan + self.feed_forward + self.router

    def _rows(self):
        parts = ((words(name), getattr(self, name)) for name in (*self.__dataclass_fields__, "total"))
        return [("", "FLOP per token"), *((name, summary(value, "FLOP")) for name, value in parts if np.any(value))]


def forward_flops(model, sequence, *, causal=False) -> ForwardFlops:
    r"""FLOPs of one token's forward pass, averaged over a sequence.

    .. math:: 2\,(\text{weights that the token meets}) + 2 L H (d_{qk} + d_v)\,\bar{s}

    The second term is attention itself. The mean context is the sequence s, as published FLOP counts take it, or
    (s + 1)/2 where the causal mask is exploited; a layer with a window w sees min(s, w) or the mean under the mask.

    Parameters
    ----------
    model : Transformer
        The shape.
    sequence : array_like
        Tokens of a sequence, s.
    causal : bool
        Whether to count only the (query, key) pairs that the causal mask keeps. MFU as published counts all s.

    Returns
    -------
    ForwardFlops
        Per token. The embedding is a lookup and costs none.

    Raises
    ------
    ValueError
        ``sequence`` is not positive and finite, or ``causal`` is not a bool.

    Notes
    -----
    Source: Narayanan et al. 2021 (SC21), appendix, for GPT: 24 h^2 + 4 s h for each layer and 2 h V for the output;
    Chowdhery et al. 2022 (PaLM), appendix B, for 2N + 4 L H d s.

    Examples
    --------
    At 128k tokens, attention is four fifths of the work of an 8B model.

    >>> llama = Transformer(layers=32, hidden=4096, heads=32, kv_heads=8, ffn=14336, gated=True, vocab=128256)
    >>> short, long = forward_flops(llama, 8192), forward_flops(llama, 131072)
    >>> round(short.scores / short.total, 2), round(long.scores / long.total, 2)
    (0.22, 0.82)
    """
    (s,) = positive(sequence=sequence)
    _check_shapes(model, sequence=s)
    if not isinstance(causal, bool):
        raise ValueError(f"causal must be True or False, got {causal!r}")
    return _forward_flops(model, s, causal=causal)


def _forward_flops(model, s, *, causal) -> ForwardFlops:
    """The count itself, its arguments checked."""
    moe = model.moe_layers

    def seen(context):  # mean over the tokens of a sequence, each of which sees at most so many
        return context - context * (context - 1) / (2 * s) if causal else context

    local = np.minimum(s, model.window) if np.any(model.window_layers) else s
    contexts = (model.attention_layers - model.window_layers) * seen(s) + model.window_layers * seen(local)
    of_heads, shared = attention_parameters(model)
    shared_experts, router = beside_parameters(model)
    experts = moe * (model.experts_per_token * expert_parameters(model) + shared_experts)
    dense = (model.ffn_layers - moe) * (2 + model.gated) * model.hidden * model.ffn
    return ForwardFlops(
        projections=2 * (model.attention_layers * (of_heads + shared) + model.mamba_layers * mamba_products(model)),
        scores=2 * model.heads * (model.head_dim + model.rope_dim + model.value_dim) * contexts,
        scan=model.mamba_layers * scan_flops(model),
        feed_forward=2 * (dense + experts),
        router=2 * moe * router,
        logits=2 * model.hidden * model.vocab,
    )


CHUNK = 128  # tokens of a chunk of Mamba-2's scan: Megatron-Core's and Nemotron's


def mamba_products(model):
    """Weights of one Mamba-2 mixer that a token is multiplied by: its projections in and out."""
    d, g = model.mamba_width
    return model.hidden * (3 * d + 2 * g + model.mamba_heads)


def scan_flops(model):
    r"""FLOPs of the scan of one Mamba-2 mixer, for each token, by chunks of Q = 128 tokens.

    .. math:: 2 Q\,(g + d) + 4\,N d

    Within a chunk inputs and outputs of the groups are multiplied, and the result with the values, as attention does
    with its scores; each chunk adds to the states, and reads what those before it left.

    Parameters
    ----------
    model : Transformer
        Its mamba_heads of mamba_head_dim make d, its mamba_groups of mamba_state N make g.

    Returns
    -------
    array_like

    Notes
    -----
    Source: Dao and Gu 2024 (Mamba-2), section 6, whose four steps these are. Megatron-LM counts 7 N d.

    Examples
    --------
    >>> nano = Transformer(layers=2, hidden=2688, heads=32, ffn=1856, vocab=131072, mamba_layers=1, mamba_heads=64,
    ...                    head_dim=128)
    >>> round(scan_flops(nano) / (7 * 128 * 4096), 2)
    0.93
    """
    d, g = model.mamba_width
    return 2 * CHUNK * (g + d) + 4 * model.mamba_state * d


@dataclass(frozen=True, repr=False)
class TrainingFlops(Explained):
    """FLOPs of one token in training: ``model`` for MFU, and ``hardware``, with recomputation, for HFU."""

    forward: float
    backward: float
    recomputed: float

    @property
    def model(self):
        """Model FLOPs: forward and backward, without recomputation."""
        return self.forward + self.backward

    @property
    def hardware(self):
        """Hardware FLOPs: those of the model, and the recomputed ones."""
        return self.model + self.recomputed

    def _rows(self):
        parts = ((name, getattr(self, name)) for name in (*self.__dataclass_fields__, "model", "hardware"))
        return [("", "FLOP per token"), *((name, summary(value, "FLOP")) for name, value in parts)]


def training_flops(model, sequence, *, recompute="none", causal=False) -> TrainingFlops:
    r"""FLOPs of one token in training: a forward pass F, a backward pass of 2F, and what is recomputed.

    .. math:: \text{model} = 3F, \qquad
        \text{hardware} = 3F +
        \{0,\; F_\text{scores},\; \alpha\,(F_\text{layers} - F_\text{scores}),\; F_\text{layers}\}

    with :math:`\alpha` the share of keys, output and up projection in a layer's GEMMs.

    Parameters
    ----------
    model : Transformer
        The shape.
    sequence : array_like
        Tokens of a sequence.
    recompute : str or array of str
        ``"none"``; ``"selective"``: the scores and what follows up to the weighted values; ``"alternate"``: every
        second GEMM of a layer; ``"full"``: every layer from its input. The output layer is never recomputed.
    causal : bool
        As in :func:`forward_flops`.

    Returns
    -------
    TrainingFlops
        Per token.

    Raises
    ------
    ValueError
        ``sequence`` is not positive and finite, ``recompute`` is not one of these, or ``causal`` is not a bool.

    Notes
    -----
    Source: Narayanan et al. 2021 (SC21), equation 3: 96 B s l h^2 (1 + s/6h + V/16lh) is ``hardware`` under full
    recomputation for a GPT. Korthikanti et al. 2022, appendix A, for model FLOPs; they give selective recomputation
    hardware FLOPs of 72 B s l h^2 (1 + s/3h + V/12lh), their equation 8, but the 4 B s^2 h a layer that they add
    make it 2s/9h, not s/3h: their HFU counts the recomputed scores three times.

    Examples
    --------
    >>> gpt = Transformer(layers=96, hidden=12288, heads=96, ffn=49152, vocab=51200)
    >>> [round(training_flops(gpt, 2048, recompute=r).hardware / 1e9) for r in ("none", "selective", "full")]
    [1076, 1086, 1434]
    """
    model = trained(model)
    forward = forward_flops(model, sequence, causal=causal)
    forward = replace(forward, logits=forward.logits * (1 + model.mtp_depth))
    _check_shapes(model, sequence=sequence, recompute=recompute)
    products = forward.layers - forward.scores
    again = {"none": 0 * forward.layers, "selective": forward.scores, "alternate": _alternate_share(model) * products}
    recomputed = choose(again | {"full": forward.layers}, recompute=recompute)
    return TrainingFlops(forward.total, 2 * forward.total, recomputed)


def _alternate_share(model):
    """The share of a layer's GEMMs that is every second one: keys, output and up of q, k, v, o, gate, up, down."""
    wide = model.experts_per_token * model.expert_ffn if np.any(model.experts) else model.ffn
    output, keys = model.heads * model.value_dim, model.kv_heads * model.head_dim
    return (keys + output + wide) / (model.heads * model.head_dim + 2 * keys + output + (2 + model.gated) * wide)


# --- The key-value cache ---------------------------------------------------------------------------------------------


def kv_bytes_per_token(model, *, bytes_per_element=2):
    r"""Bytes of keys and values that one more token adds to the cache.

    .. math:: 2\,b\,L\,H_{kv}\,d \quad \text{(MHA, GQA, MQA)}, \qquad b\,L\,(r_{kv} + d_r) \quad \text{(MLA)}

    Parameters
    ----------
    model : Transformer
        The shape.
    bytes_per_element : array_like
        2 for BF16, 1 for FP8, b.

    Returns
    -------
    array_like
        Bytes. A layer with a window stops growing at its window: see :func:`kv_cache_bytes`.

    Raises
    ------
    ValueError
        ``bytes_per_element`` is not positive and finite.

    Notes
    -----
    Source: Shazeer 2019 and Ainslie et al. 2023 for shared heads; DeepSeek-V2 2024, table 1, for MLA.

    Examples
    --------
    Llama 2 7B keeps all its heads, Llama 3 8B a quarter of them.

    >>> from dataclasses import replace
    >>> llama = Transformer(layers=32, hidden=4096, heads=32, ffn=14336, gated=True, vocab=128256)
    >>> [kv_bytes_per_token(replace(llama, kv_heads=heads)) / 2**10 for heads in (32, 8, 1)]
    [512.0, 128.0, 16.0]
    """
    (size,) = positive(bytes_per_element=bytes_per_element)
    _check_shapes(model, bytes_per_element=size)
    return model.attention_layers * _kv_elements(model) * size


def _kv_elements(model):
    """Elements that one layer caches for a token."""
    latent = model.kv_rank + model.rope_dim
    return pick(np.asarray(model.kv_rank) > 0, latent, 2 * model.kv_heads * model.head_dim)


def kv_cache_bytes(model, context, *, bytes_per_element=2):
    r"""Bytes of the key-value cache of one sequence.

    .. math:: b\,e\left((L - L_w)\,s + L_w \min(s, w)\right)

    Parameters
    ----------
    model : Transformer
        The shape, with e cached elements a token and layer, and L_w layers of window w.
    context : array_like
        Tokens of the sequence so far, s.
    bytes_per_element : array_like
        2 for BF16, 1 for FP8, b.

    Returns
    -------
    array_like
        Bytes.

    Raises
    ------
    ValueError
        An argument is negative or not finite, or ``bytes_per_element`` is zero.

    Notes
    -----
    Source: as :func:`kv_bytes_per_token`; Beltagy et al. 2020 for windows.

    Examples
    --------
    >>> from clusterlab.units import fmt
    >>> llama = Transformer(layers=126, hidden=16384, heads=128, kv_heads=8, ffn=53248, gated=True, vocab=128256)
    >>> fmt(kv_cache_bytes(llama, 131072), "B")
    '67.6 GB'
    """
    (s,), (size,) = nonnegative(context=context), positive(bytes_per_element=bytes_per_element)
    _check_shapes(model, context=s, bytes_per_element=size)
    local = np.minimum(s, model.window) if np.any(model.window_layers) else s
    tokens = (model.attention_layers - model.window_layers) * s + model.window_layers * local
    return _kv_elements(model) * size * tokens


def state_bytes(model, *, bytes_per_element=4):
    r"""Bytes of the states that a hybrid keeps of one sequence, however long it is.

    .. math:: b\,L_\text{Mamba} \left(N d + 3\,(d + 2 g)\right)

    The second term are the last tokens that the convolution over four still needs.

    Parameters
    ----------
    model : Transformer
        The shape: d, g and N as in :func:`scan_flops`.
    bytes_per_element : array_like
        4 for FP32, b.

    Returns
    -------
    array_like
        Bytes.

    Raises
    ------
    ValueError
        ``bytes_per_element`` is not positive and finite.

    Notes
    -----
    Source: Dao and Gu 2024 (Mamba-2), section 7.

    Examples
    --------
    At 8,192 tokens Nemotron-H 8B keeps 235 MB of keys, values and states; Llama 3.1 8B 1.07 GB of keys and values.

    >>> from clusterlab.model import transformer
    >>> from clusterlab.units import fmt
    >>> hybrid = transformer("Nemotron-H 8B")
    >>> fmt(state_bytes(hybrid), "B"), fmt(kv_cache_bytes(hybrid, 8192), "B")
    ('104 MB', '134 MB')
    """
    (size,) = positive(bytes_per_element=bytes_per_element)
    _check_shapes(model, bytes_per_element=size)
    d, g = model.mamba_width
    return model.mamba_layers * (model.mamba_state * d + 3 * (d + 2 * g)) * size
