"""Layouts: what is trained (a workload), and how it is cut over the accelerators (a layout), one record each.

A layout cuts a model over ``tp`` tensor-parallel ranks, ``pp`` pipeline stages, ``cp`` ranks of a sequence, ``dp``
replicas of all that and, among the replicas, ``ep`` ranks that share out the experts. Its fields may be arrays: one
record is then many layouts, and a law answers for all of them in one call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from types import MappingProxyType

import numpy as np

from ..checks import NONNEGATIVE, WHOLE, Numeric, check, choose, pick, shape_of, some, whole
from ..quantities import Amount, Count, Number
from ..records import Explained, Rows, count_values, record, summary, words
from .shape import Transformer

# Peak that a precision uses, and bytes of an operand of its GEMMs: NVFP4 has a byte of scale for 16 values.
_SIZES = {"bf16": 2.0, "fp16": 2.0, "fp8": 1.0, "fp8-row": 1.0, "int8": 1.0, "fp4": 0.5625}
PRECISIONS: Mapping[str, tuple[str, float]] = MappingProxyType(
    {name: (name.removesuffix("-row"), size) for name, size in _SIZES.items()}
)
_ALSO = {"mxfp8": "fp8", "float8": "fp8", "nvfp4": "fp4", "mxfp4": "fp4", "bfloat16": "bf16", "float16": "fp16"}
RECOMPUTE = ("none", "selective", "alternate", "full")


def precision_of(text: str) -> str:
    """Return the key of ``PRECISIONS`` that a text is in any case, or by another name; a ValueError where it is none.

    Examples
    --------
    >>> precision_of("MXFP8"), precision_of("BF16")
    ('fp8', 'bf16')
    """
    if (name := _ALSO.get(str(text).casefold(), str(text).casefold())) not in PRECISIONS:
        raise ValueError(f"precision must be one of {', '.join(PRECISIONS)}; got {text!r}")
    return name


@dataclass(frozen=True, repr=False)
class Workload(Explained):
    """What a training step works through.

    Parameters
    ----------
    sequence
        Tokens of a sequence.
    global_batch
        Sequences of a step.
    precision : str
        Of the GEMMs of the layers: ``"bf16"``, ``"fp16"``, ``"fp8"`` (a scale for each tensor, or blocks that the
        hardware scales), ``"fp8-row"`` (a scale for each row), ``"int8"`` or ``"fp4"``. All else is in 16 bits or more.

    Examples
    --------
    >>> Workload(sequence=8192, global_batch=2048).tokens
    16777216.0
    """

    sequence: Count
    global_batch: Count
    precision: str = "bf16"

    def __post_init__(self) -> None:
        """Refuse what is no workload."""
        sequence, global_batch = whole(sequence=self.sequence, global_batch=self.global_batch)
        vars(self).update(sequence=sequence, global_batch=global_batch, precision=precision_of(self.precision))

    @property
    def tokens(self) -> Number:
        """Tokens of a step."""
        return self.sequence * self.global_batch

    def _rows(self) -> Rows:
        rows = [("", "value"), ("sequence", summary(self.sequence, "tokens"))]
        rows += [("global batch", summary(self.global_batch, "sequences")), ("precision", self.precision)]
        return [*rows, ("step", summary(self.tokens, "tokens"))]


@dataclass(frozen=True, repr=False)
class Layout(Explained):
    """How a model and its batch are cut over accelerators: ``tp pp dp cp`` of them.

    Parameters
    ----------
    tp, pp, dp, cp, ep
        Ranks of tensor, pipeline, data, context and expert parallelism. The experts are shared out over ranks of the
        other axes.
    etp : optional
        Ranks that split each expert: by default ``tp``, or 1 where ``ep`` is above 1.
    chunks
        Pieces of the model that each stage holds (interleaved 1F1B).
    microbatch
        Sequences of a microbatch.
    zero
        ZeRO stage, 0 to 3; FSDP is 3, Megatron-LM's distributed optimizer 1. Stage 2 keeps only its share of the
        gradients, so they travel after every microbatch, and not once a step.
    shard_group : optional
        Ranks that share under ZeRO where not all dp cp do (hybrid sharding).
    recompute : str or array of str
        ``"none"``, ``"selective"`` (attention), ``"alternate"`` (every second GEMM, and all that only moves memory) or
        ``"full"``.
    sequence_parallel : bool or array of bool
        Whether tensor-parallel ranks split norms, additions and dropout too.

    Raises
    ------
    ValueError
        ``zero`` is not 0 to 3.

    Examples
    --------
    >>> layout = Layout(tp=8, pp=16, dp=128, microbatch=1)
    >>> layout
    Layout
          value
    tp        8
    pp       16
    dp      128
    zero      1
    GPUs  16384
    >>> layout.microbatches(Workload(sequence=8192, global_batch=2048))
    16.0
    """

    tp: Count = 1
    pp: Count = 1
    dp: Count = 1
    cp: Count = 1
    ep: Count = 1
    etp: Count | None = None
    chunks: Count = 1
    microbatch: Count = 1
    zero: Amount = 1
    shard_group: Count | None = None
    recompute: str | Numeric = "none"
    sequence_parallel: Numeric = True

    def __post_init__(self) -> None:
        """Refuse what is no layout of any model."""
        values = dict(vars(self))
        for name in _COUNTS:
            value = values[name]
            if value is not None or name not in _MAY_BE_NONE:
                values[name] = check(WHOLE, name, value)
        zero = values["zero"] = check(NONNEGATIVE, "zero", self.zero)
        if some(wrong := (zero > 3) | (zero % 1 != 0)):
            raise ValueError(f"zero must be 0, 1, 2 or 3, got {np.extract(wrong, zero)[0]:g}")
        if not isinstance(self.recompute, str) or self.recompute not in RECOMPUTE:
            choose(dict.fromkeys(RECOMPUTE, 0), recompute=self.recompute)
            values["recompute"] = np.asarray(self.recompute)
        if not isinstance(self.sequence_parallel, bool):
            values["sequence_parallel"] = np.asarray(self.sequence_parallel)
            if values["sequence_parallel"].dtype != bool:
                raise ValueError(f"sequence_parallel must be True or False, got {self.sequence_parallel!r}")
        vars(self).update(values)
        try:
            self.shape  # noqa: B018, it raises where shapes do not fit together
        except ValueError:
            shapes = ", ".join(f"{f.name} {np.shape(getattr(self, f.name))}" for f in fields(self))
            raise ValueError(f"shapes do not fit together: {shapes}") from None

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the arrays together; ``()`` for one layout."""
        return shape_of(vars(self).values())

    @property
    def gpus(self) -> Number:
        """Accelerators of the layout."""
        return self.tp * self.pp * self.dp * self.cp

    @property
    def expert_tp(self) -> Number:
        """Ranks that split each expert: ``etp``, or what it is by default."""
        return pick(self.ep > 1, 1.0, self.tp) if self.etp is None else self.etp

    @property
    def sharding_ranks(self) -> Number:
        """Ranks that share under ZeRO."""
        return self.dp * self.cp if self.shard_group is None else self.shard_group

    @property
    def full_recompute(self) -> Numeric:
        """Whether every layer is recomputed from its input."""
        return self.recompute == "full"

    @property
    def selective_recompute(self) -> Numeric:
        """Whether attention alone is recomputed."""
        return self.recompute == "selective"

    @property
    def alternate_recompute(self) -> Numeric:
        """Whether every second GEMM is recomputed, and what lies between."""
        return self.recompute == "alternate"

    def microbatches(self, workload: Workload) -> Number:
        """Microbatches of a step on each data-parallel replica."""
        return workload.global_batch / (self.dp * self.microbatch)

    def __getitem__(self, index: int | slice | np.ndarray) -> Layout:
        """Return one layout, or some, of a record of arrays."""
        shape = self.shape
        if not shape:
            raise TypeError("one layout has no parts; its fields are no arrays")
        values = dict(vars(self))
        for name, value in values.items():
            if isinstance(value, np.ndarray) and value.ndim:
                taken = np.broadcast_to(value, shape)[index]
                values[name] = taken.item() if isinstance(taken, np.generic) else taken
        return record(Layout, values)  # they are checked already, and there may be none of them

    def violations(self, model: Transformer, workload: Workload, *, gpus: Count | None = None) -> Violations:
        """Which layouts cannot be built, and by which rule. Memory is no rule of this list.

        Parameters
        ----------
        model : Transformer
            The shape.
        workload : Workload
            Sequence and batch.
        gpus : optional
            Accelerators that there are, if the layouts shall be checked against them.

        Returns
        -------
        Violations

        Examples
        --------
        >>> from clusterlab.model import transformer
        >>> layouts = Layout(tp=[1, 3, 8], dp=[8, 1, 3])
        >>> found = layouts.violations(transformer("Llama 3.1 8B"), Workload(sequence=8192, global_batch=64), gpus=8)
        >>> found.valid
        array([ True, False, False])
        >>> [rule for rule, broken in found.rules.items() if broken[2]]
        ['tp pp dp cp must be gpus', 'dp times microbatch must divide global_batch']
        """
        t, p, d, c, x, v = self.tp, self.pp, self.dp, self.cp, self.ep, self.chunks
        rules = {
            "tp must divide heads": model.heads % t != 0,
            "pp times chunks must be at most layers + 2": p * v > model.layers + 2,
            "chunks above 1 need pp above 1": (v > 1) & (p == 1),
            "cp must divide sequence": workload.sequence % c != 0,
            "ep must divide experts": max(model.experts, 1) % x != 0,
            "ep must divide tp cp dp": (t * c * d) % x != 0,
            "dp times microbatch must divide global_batch": workload.global_batch % (d * self.microbatch) != 0,
        }
        values = vars(self) | {"heads": model.heads, "layers": model.layers, "experts": model.experts}
        values |= {"sequence": workload.sequence, "global_batch": workload.global_batch}
        if gpus is not None:
            (values["gpus"],) = whole(gpus=gpus)
            rules = {"tp pp dp cp must be gpus": t * p * d * c != values["gpus"]} | rules
        broken, limits = block_violations(model, self, ("tp", "cp"))
        rules.update(broken)
        values.update(limits)
        if self.etp is not None:
            rules["ep times etp must divide tp cp dp"] = (t * c * d) % (x * self.etp) != 0
        if self.shard_group is not None:
            rules["shard_group must divide dp cp"] = (d * c) % self.shard_group != 0
        return Violations(rules, values)

    def _rows(self) -> Rows:
        usual = {f.name: f.default for f in fields(self)}
        rows = [("", "value")]
        for name, value in vars(self).items():
            if name == "zero" or np.ndim(value) or value != usual[name]:
                rows.append((words(name), _shown(value)))
        return [*rows, ("GPUs", _shown(self.gpus))]


def block_violations(
    model: Transformer, layout: Layout, axes: Sequence[str]
) -> tuple[dict[str, Numeric], dict[str, Numeric]]:
    """The rules of a model's blocks along some axes and the layouts that break them, and the numbers they speak of."""
    rules: dict[str, Numeric] = {}
    values: dict[str, Numeric] = {}
    for block, axis, name, most in model.limits:
        if axis in axes:
            rule = f"{axis} must divide {name}" if name else f"{axis} must be 1 where layers are {type(block).__name__}"
            rules[rule] = most % getattr(layout, axis) != 0
            values |= {name: most} if name else {}
    return rules, values


_COUNTS = ("tp", "pp", "dp", "cp", "ep", "etp", "chunks", "microbatch", "shard_group")
_MAY_BE_NONE = ("etp", "shard_group")


def _shown(value: str | Numeric) -> str:
    """A field in a table: a count, a name, or the range of an array."""
    if isinstance(value, str | bool):
        return str(value)
    if np.ndim(value) and value.dtype.kind in "Ub":
        return f"{', '.join(map(str, np.unique(value)))}, {count_values(value)}"
    return summary(value, digits=7) if np.ndim(value) else f"{value:g}"


@dataclass(frozen=True, repr=False)
class Violations(Explained):
    """Which layouts cannot be built: ``broken`` maps each rule, which is its own message, to those that break it.

    ``values`` are what the rules speak of.
    """

    broken: Mapping[str, np.ndarray | bool]
    values: Mapping[str, Numeric]

    @property
    def rules(self) -> Mapping[str, np.ndarray]:
        """Each rule, and a mask of the layouts that break it, all of one shape."""
        return dict(zip(self.broken, np.broadcast_arrays(*self.broken.values()), strict=True))

    @property
    def valid(self) -> np.ndarray:
        """True where no rule is broken."""
        return ~np.any(list(self.rules.values()), axis=0)

    def refuse(self) -> None:
        """Raise a ValueError that names a broken rule and what the first layout to break it has there, if any does."""
        for rule, broken in self.broken.items():
            if broken is not False and np.any(broken):
                mask = self.rules[rule]
                first, named = int(np.argmax(mask)), [name for name in self.values if name in rule.split()]
                got = (np.broadcast_to(self.values[name], mask.shape).flat[first] for name in named)
                raise ValueError(f"{rule}, got {', '.join(f'{n} {x:g}' for n, x in zip(named, got, strict=True))}")

    def _rows(self) -> Rows:
        rows = [("rule", "broken by")]
        rows += [(rule, f"{np.count_nonzero(broken):,}") for rule, broken in self.rules.items()]
        return [*rows, ("valid", f"{np.count_nonzero(self.valid):,}")]
