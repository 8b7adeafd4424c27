"""``clusterlab serve``: how many GPUs keep a promise to users, with prompts read apart and without."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator

import numpy as np

from ...catalogue import Machine, ServingSoftware, machine
from ...checks import positive
from ...model import PRECISIONS, Layout, Transformer
from ...own import accelerator_of, model_of, serving_software_of
from ...planning import InfeasibleError, quantity
from ...records import aligned
from ...serving import Formats, Kept, Promise, Replica, Requests, largest_batch, pools_for, replicas_for, violations
from ...units import fmt
from ..command import INPUTS, KINDS, Command, Progress, read_input, say_unlikely

_FRAMEWORKS = ("vLLM", "TensorRT-LLM", "SGLang")


# What is promised to whom, and what is usual; the first token has no other default here.
_ASKED = {"rate": None, "prompt": "1000", "output": "300", "cached": "0", "first-token": "2s", "speed": "20"}


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", metavar="NAME", required=True, help="such as 'Llama 3.1 70B'")
    parser.add_argument("--accelerator", metavar="NAME", required=True, help="such as 'H100 SXM'")
    for one in INPUTS:
        if one.name in _ASKED:
            usual = _ASKED[one.name]
            text = one.help.replace("serve: ", "").replace("serve instead: ", "")
            parser.add_argument(f"--{one.name}", metavar=one.kind, default=usual, required=usual is None, help=text)
    parser.add_argument("--share", metavar="SHARE", default="0.95", help="of requests for which both are kept (0.95)")
    text = "variance over mean of the number that come in a while (1: a Poisson process)"
    parser.add_argument("--burstiness", metavar="N", default="1", help=text)
    parser.add_argument("--precision", metavar="NAME", help="of the GEMMs: bf16, fp8, fp4 (the narrowest but fp4)")
    text = f"{', '.join(_FRAMEWORKS)} (constants between theirs)"
    parser.add_argument("--software", metavar="NAME", default="usual", help=text)
    parser.add_argument("--json", action="store_true", help="print one object")


def _run(arguments: argparse.Namespace) -> int:
    """Try every layout of a replica, together and apart, and print the cheapest of both."""
    number = {name: _number(name, getattr(arguments, name)) for name in _NUMBERS}
    model = model_of(arguments.model)
    one = machine(accelerator_of(arguments.accelerator).name)
    positive(rate=number["rate"])
    requests = Requests(number["prompt"], number["output"], number["cached"])
    promise = Promise(number["first_token"], 1 / number["speed"], number["share"], number["burstiness"])
    software = serving_software_of(arguments.software)
    formats = _formats(arguments.precision, one, software)
    candidates = list(_replicas(model, one, formats, software))
    found: list[_Found] = []
    whys: dict[str, None] = {}
    with Progress() as progress:
        for i, replica in enumerate(candidates):
            for several in ([], candidates):
                try:
                    found.append((replica, _kept(several, replica, requests, promise, number["rate"])))
                except ValueError as why:
                    whys[str(why)] = None
            if progress:
                progress((i + 1) / len(candidates), f"{_layout(replica)} of {one.name}")
    if not found:
        raise InfeasibleError(f"{model.name} on {one.name}: {'; '.join(whys) or 'no layout fits'}")
    say_unlikely(number)
    best = [_best(found, apart=apart) for apart in (False, True)]
    if arguments.json:
        print(json.dumps({name: _object(two) for name, two in zip(_WAYS, best, strict=True)}, indent=1))
        return 0
    print(_table(best))
    print(_verdict(best))
    print(f"assumed: {candidates[0].formats.compute} GEMMs, software {candidates[0].software.name}, mean lengths")
    return 0


_NUMBERS = ("rate", "prompt", "output", "cached", "first_token", "speed", "share", "burstiness")
_WAYS = ("together", "apart")
_Found = tuple[Replica, Kept]


def _number(name: str, text: str) -> float:
    if name in KINDS:
        return float(read_input(name, text))
    try:
        return float(quantity(text))
    except ValueError:
        raise ValueError(f"{name}: cannot read {text!r}; write it as a number, with its unit if it has one") from None


def _formats(precision: str | None, one: Machine, software: ServingSoftware) -> Formats:
    usual = next(name for name in ("fp8", "bf16", "fp16") if PRECISIONS[name][0] in one.peaks)
    name = precision or usual
    return Formats(name, cache_bytes=software.cache_bytes if PRECISIONS.get(name, ("", 2.0))[1] < 2 else 2.0)


def _replicas(model: Transformer, one: Machine, formats: Formats, software: ServingSoftware) -> Iterator[Replica]:
    """Replicas of up to eight GPUs, of more where nothing else fits; mixtures also with attention rank by rank."""
    some = False
    for size in 2 ** np.arange(int(np.log2(one.domain)) + 1):
        layouts = [Layout(tp=size)] if not model.experts else [Layout(tp=size, etp=size), Layout(dp=size, ep=size)]
        for layout in layouts if size <= _USUAL or not some else ():
            replica = Replica(model, one, layout, formats, software=software) if _sound(model, layout) else None
            if replica and largest_batch(replica, 1.0) >= 1:
                some = True
                yield replica


_USUAL = 8  # GPUs of a replica, at most


def _sound(model: Transformer, layout: Layout) -> bool:
    return bool(np.all(violations(model, layout).valid))


def _kept(prefill: list[Replica], decode: Replica, requests: Requests, promise: Promise, rate: float) -> Kept:
    if not prefill:
        return replicas_for(decode, requests, promise, rate=rate)
    return pools_for(prefill, decode, requests, promise, rate=rate)


def _best(found: list[_Found], *, apart: bool) -> _Found | None:
    some = [one for one in found if bool(one[1].prefill) == apart]
    return min(some, key=lambda one: one[1].gpus) if some else None


def _layout(replica: Replica) -> str:
    layout = replica.layout
    return f"TP{layout.tp:g}" if layout.dp == 1 else f"DP{layout.dp:g} EP{layout.ep:g}"


def _table(best: list[_Found | None]) -> str:
    rows = [("", "GPUs", "", "replicas", "of", "what binds")]
    for name, one in zip(_WAYS, best, strict=True):
        if one is None:
            rows.append((name, "-", "", "-", "-", "not as promised"))
            continue
        decode, kept = one
        counts, layouts = f"{kept.replicas:,}", _layout(decode)
        if kept.prefill:
            counts = f"{kept.prefill_replicas:,} + {kept.replicas - kept.prefill_replicas:,}"
            layouts = f"{_layout(kept.prefill)} + {layouts}"
        ends = f"({kept.low:,.0f} to {kept.high:,.0f})"
        rows.append((name, f"{kept.gpus:,.0f}", ends, counts, layouts, kept.binds))
    return aligned(rows)


def _verdict(best: list[_Found | None]) -> str:
    together, apart = (one and one[1] for one in best)
    if together is None or apart is None:
        return f"only {'apart' if together is None else 'together'} it can be kept"
    less = 1 - min(together.gpus, apart.gpus) / max(together.gpus, apart.gpus)
    if not less:
        return "as many either way: read prompts where answers are written, which is simpler"
    if apart.gpus < together.gpus:
        return f"apart is {fmt(less, '%', 2)} less: no token waits for somebody's prompt"
    return f"together is {fmt(less, '%', 2)} less: a pool that only reads prompts would stand idle in part"


def _object(one: _Found | None) -> dict[str, object] | None:
    if one is None:
        return None
    decode, kept = one
    return {
        "gpus": kept.gpus,
        "low": kept.low,
        "high": kept.high if np.isfinite(kept.high) else None,
        "replicas": kept.replicas,
        "prefill_replicas": kept.prefill_replicas,
        "rate_of_replica": kept.rate_of_replica,
        "binds": kept.binds,
        "layout": _layout(decode),
        "prefill_layout": _layout(kept.prefill) if kept.prefill else None,
    }


COMMAND = Command(
    "count the GPUs that keep a promised first token and speed",
    "Lengths, a rate of requests, and what is promised to users: the fewest GPUs that keep it, with prompts read where "
    "answers are written and in a pool of their own, with an 80 % interval of each count, and what binds.",
    """\
    %(prog)s --model "Llama 3.1 70B" --accelerator "H200 SXM" --rate 1000
    %(prog)s --model "Qwen3 32B" --accelerator "H100 SXM" --rate 200 --prompt 8000 --first-token 1s --speed 40
    %(prog)s --model "DeepSeek-V3" --accelerator B200 --rate 50 --software SGLang --json
    """,
    _add_arguments,
    _run,
)
