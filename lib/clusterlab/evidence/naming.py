"""Naming: the model that a row of a table names, as the catalogue has it, or made of its shape or its size."""

from __future__ import annotations

import re
from dataclasses import replace
from difflib import get_close_matches
from functools import lru_cache

from ..model import Entry, Transformer, match_model, normalize_name, parameters, transformer, transformers
from ..own import called, is_path, model_of, near_size, sized, spellings
from .rows import SkipRow

Shape = tuple[tuple[str, int], ...]  # what a row says of a model: ("layers", 32) ...


# What a row may say otherwise of a model of the catalogue, which stays that model.
_MAY_DIFFER: tuple[str, ...] = ("vocab", "kv_heads", "ffn", "gated", "experts", "experts_per_token", "shared_experts")
_MAY_DIFFER += ("expert_ffn", "dense_layers")

# Of a model that the catalogue lacks: whether its feed-forward is gated, and its embedding shared with its head.
_MAKES = ((False, True), (False, False), (True, True), (True, False))


@lru_cache(maxsize=4096)
def model_named(
    written: str, shape: Shape, size: float | None, active: float | None, tp: float
) -> tuple[Transformer, str]:
    """A model by its name, shape and size (billions of parameters), and what is filled in for it.

    Of published dense models hidden is about 100 layers, so that 12 layers hidden^2 is their size; heads have 128, and
    are a multiple of the tensor-parallel ranks.
    """
    given = dict(shape)
    if is_path(written):
        return _from_file(written, given)
    if known := in_catalogue(written, shape, size):
        return _known(known, given)
    if other := in_catalogue(written, (), None):
        _contradicts(other.shape, given, size)
    if given.get("experts", 0) == 0 and ((active and active != size) or _ACTIVE.search(written)):
        raise SkipRow(
            f"{written} is a mixture of experts that the catalogue lacks: give its experts, or its config.json"
        )
    note = []
    lacking = [key for key in ("layers", "hidden", "heads") if key not in given]
    if lacking:
        if not size:
            lacks = f"the catalogue lacks {written}, and the row its {', '.join(lacking)}"
            raise SkipRow(f"{lacks}{_nearest(written) or '; the path of its config.json is a name, too'}")
        given = _usual_shape(given, size * 1e9, tp)
        note.append(f"{given['layers']} layers of hidden {given['hidden']}, the usual shape of {size:g} billion")
    made, how = _made(written, given, size)
    if how:
        note.append(how)
    if size and not lacking and "ffn" in given and not near_size(made, size):
        counted = parameters(made).total / 1e9
        raise SkipRow(f"params_b {size:g} contradicts the row's shape, which has {counted:.3g} billion parameters")
    if other:
        why = f"size of {parameters(other.shape).total / 1e9:.3g} billion" if lacking else "shape"
        note.append(f"not {other.name} of the catalogue with its {why}")
    return made, ", ".join(note)


def _from_file(path: str, given: dict[str, int]) -> tuple[Transformer, str]:
    """A model by its config.json, which a row may not contradict."""
    try:
        found = model_of(path)
    except (OSError, ValueError) as error:
        raise SkipRow(str(error)) from None
    if odd := [key for key, value in given.items() if key != "vocab" and value != getattr(found, key)]:
        raise SkipRow(f"{path} has {odd[0]} {getattr(found, odd[0])}, and the row says {given[odd[0]]}")
    return found, f"of {path}"


_ACTIVE = re.compile(r"(?<![A-Za-z0-9])A\d+(?:\.\d+)?B(?![A-Za-z0-9])")  # "355B-A32B": so many billion active


def _known(known: Entry, given: dict[str, int]) -> tuple[Transformer, str]:
    """A model of the catalogue, with what a row says otherwise, and a note of that."""
    layers, others = transformer(known.name).layers, {key: given[key] for key in _MAY_DIFFER if key in given}
    changed = {key: value for key, value in others.items() if value != getattr(known.shape, key)}
    notes = []
    if known.shape.layers < layers:
        dense = known.shape.dense_layers if "dense_layers" not in given else 0
        first = f" ({dense} of them dense)" if dense else ""
        notes.append(f"{known.shape.layers} of the {layers} layers of {known.name}{first}")
    notes += [f"{key} {value:g}" for key, value in changed.items() if key != "vocab"]
    return replace(known.shape, **changed) if changed else known.shape, ", ".join(notes)  # type: ignore[arg-type]  # fields that are counts


def _contradicts(shape: Transformer, given: dict[str, int], size: float | None) -> None:
    """Refuse a row that names a model and says otherwise of it, without a whole shape or a size of its own."""
    own = [key for key in ("layers", "hidden", "heads") if key in given]
    if len(own) == 3 or size or not own:
        return
    said = " and ".join(f"{key} {given[key]}" for key in own)
    has = ", ".join(f"{key} {getattr(shape, key)}" for key in own)
    raise SkipRow(
        f"{shape.name} has {has}, and the row says {said}: give a model of your own its layers, hidden, heads and ffn"
    )


def _made(written: str, given: dict[str, int], size: float | None) -> tuple[Transformer, str]:
    """A model of the catalogue's making: gated and tied by what comes nearest its size, or by its width; and a note.

    Without a size, a feed-forward four times as wide as the stream is not gated, and its embedding is the head too, as
    in GPT; any other width, or shared keys, is that of a gated one with a head of its own, as in Llama.
    """
    fields = {"ffn": 4 * given["hidden"], "vocab": 50304} | given
    if fields["hidden"] % fields["heads"]:
        fields["head_dim"] = 128
    makes = [
        replace(Transformer(**fields, name=written), gated=gated, tied=tied)  # type: ignore[arg-type]  # counts
        for gated, tied in _MAKES
        if gated == given.get("gated", gated)
    ]
    if size:
        return min(makes, key=lambda model: abs(parameters(model).total - size * 1e9)), ""
    shared = fields.get("kv_heads", fields["heads"]) < fields["heads"]
    gated = bool(given.get("gated", shared or fields["ffn"] != 4 * fields["hidden"]))
    made = next(model for model in makes if model.gated == gated and model.tied != gated)
    if "gated" in given:
        return made, ""
    return (
        made,
        f"{'gated' if gated else 'not gated'} (its ffn is {fields['ffn'] / fields['hidden']:.3g} times its hidden)",
    )


def _usual_shape(given: dict[str, int], params: float, tp: float) -> dict[str, int]:
    """Layers, hidden and heads of a dense model of so many parameters, beside what is given of them."""
    cubic = (params / 12e4) ** (1 / 3)
    layers = given.get("layers") or max(round(params / 12 / given["hidden"] ** 2 if "hidden" in given else cubic), 1)
    hidden = given.get("hidden") or 1024 * max(round((params / 12 / layers) ** 0.5 / 1024), 1)
    return {"layers": layers, "hidden": hidden, "heads": int(tp * max(round(hidden / 128 / tp), 1))} | given


@lru_cache(maxsize=4096)
def in_catalogue(written: str, shape: Shape, size: float | None) -> Entry | None:
    """A model of the catalogue, by its name with and without what stands around it; its shape and size must agree."""
    given = dict(shape)
    bare = spellings(written)
    # "Grok-1 314B": a size behind the name, which must be that of the row, if it has one.
    name, behind = sized(bare[-1])
    if behind and 0.75 < behind / (size or behind) < 1.25:
        bare, size = [*bare, name], size or behind
    for known in filter(None, map(match_model, called(bare))):
        asked = [key for key in ("layers", "hidden", "heads") if key in given]
        agrees: dict[str, bool] = {key: given[key] == getattr(known.shape, key) for key in asked}
        if not agrees and size:
            agrees["size"] = near_size(known.shape, size)
        if all(agrees.values()):
            return known
        if agrees.keys() & {"layers"} and all(agree for key, agree in agrees.items() if key != "layers"):
            # A proxy: some of the layers of a known model.
            proxy = replace(known.shape, layers=given["layers"])
            if given["layers"] < known.shape.layers and (not size or len(agrees) > 1 or near_size(proxy, size)):
                return replace(known, shape=proxy)
    return None


@lru_cache(maxsize=4096)
def _nearest(written: str) -> str:
    """A hint where a model of the catalogue has nearly that name."""
    names = {normalize_name(model.name): model.name for model in transformers()}
    near = get_close_matches(normalize_name(written), names, n=2, cutoff=0.8)
    return f"; did you mean {' or '.join(repr(names[name]) for name in near)}?" if near else ""
