"""How well, and how fast, a replica with users is predicted: the laws, and aiconfigurator on the same rows.

``python bench/serving.py`` prints the errors of a first token, a token and a throughput on published runs, by model,
machine and framework, and predictions a second on one core. aiconfigurator, which looks up kernels that were timed on
each GPU, is asked where it can be imported (it is no dependency of the project: ``INSTALL``) about every tenth run
that one pool serves, with the same axes and formats, at the versions of frameworks that it knows best; ``--all`` asks
about each of them. Its errors stand beside the laws', group by group, whoever wins. Times are of the processor, not of
the clock, and the least of several.
"""

import os
import sys
import time
from importlib.metadata import version

os.environ["OMP_NUM_THREADS"] = "1"

import logging

import numpy as np

from clusterlab.evidence import compare_online, measured_once, predict_online, published_online
from clusterlab.serving import MEASURES, closed_loop
from clusterlab.units import fmt

INSTALL = ".venv/bin/pip install aiconfigurator==0.12.0"
ONE_BY_ONE, TIMES, EVERY = 100, 3, 10


def least(call, times=TIMES):
    """Seconds of the processor that a call takes, the least of several, and its result."""
    seconds = []
    for _ in range(times):
        start = time.process_time()
        result = call()
        seconds.append(time.process_time() - start)
    return min(seconds), result


def line(name, runs, errors) -> str:
    """A name, how many runs, and mean absolute errors in the order of the measures."""
    return f"{name:<46}{runs:>6}" + "".join(f"{error:>13.1%}" for error in errors)


def errors_of(runs, predicted) -> list[float]:
    """Mean absolute error of each measure."""
    found = []
    for name in MEASURES:
        measured = np.array([run.measured[name] or np.nan for run in runs])
        found.append(float(np.nanmean(np.abs(predicted[name] / measured - 1))))
    return found


def laws(runs) -> None:
    """Print the laws' errors by group, and predictions a second."""
    print(f"{'mean absolute error':<46}{'runs':>6}" + "".join(f"{said:>13}" for said in MEASURES.values()))
    for one in sorted(compare_online(runs), key=lambda group: -group.runs):
        print(line(one.group, one.runs, one.errors))
    together, predicted = least(lambda: predict_online(runs))
    print(line("all", len(runs), errors_of(runs, predicted)))
    some = [run for run in runs if not run.pools][:ONE_BY_ONE]

    def alone():
        return [closed_loop(run.serves, run.requests, users=run.users, alike=run.alike) for run in some]

    each, _ = least(alone)
    print()
    for name, seconds, count in (("as arrays", together, len(runs)), ("one at a time", each, len(some))):
        print(f"{name:<30}{fmt(seconds / count, 's'):>10}{count / seconds:>10,.0f} predictions/s")


# --- aiconfigurator --------------------------------------------------------------------------------------------------

_MODELS = {
    "Llama 3.1 70B": "meta-llama/Meta-Llama-3.1-70B",
    "DeepSeek-V3": "deepseek-ai/DeepSeek-V3",
    "gpt-oss 120B": "openai/gpt-oss-120b",
    "Qwen3 32B": "Qwen/Qwen3-32B",
    "MiniMax M2.5": "MiniMaxAI/MiniMax-M2.5",
    "Qwen3.5 397B-A17B": "Qwen/Qwen3.5-397B-A17B",
    "GLM-5": "zai-org/GLM-5",
}
_SYSTEMS = {"H100 SXM": "h100_sxm", "H200 SXM": "h200_sxm", "B200": "b200_sxm", "GB200": "gb200"}
_BACKENDS = {"TensorRT-LLM": "trtllm", "vLLM": "vllm", "SGLang": "sglang"}


def aiconfigurator():
    """Return what predicts a run, in seconds and tokens/s by the names of the measures; it raises where it cannot."""
    from aiconfigurator.cli.api import cli_estimate

    logging.disable(logging.WARNING)

    def predict(run):
        one, asked = run.serves, run.requests
        layout = one.layout
        # Of its own for experts, and for each GPU that has attention of its own.
        axes = {"tp_size": int(layout.tp), "pp_size": int(layout.pp), "attention_dp_size": int(layout.dp)}
        if one.model.experts:
            axes |= {"moe_tp_size": int(layout.expert_tp), "moe_ep_size": int(layout.ep)}
        found = cli_estimate(
            _MODELS[one.model.name],
            _SYSTEMS[one.machine.name],
            backend_name=_BACKENDS[one.software.name],
            isl=round(asked.prompt),
            osl=round(asked.output),
            batch_size=max(round(run.users / layout.dp), 1),
            **axes,
            **formats(one),
        )
        first, token = found.ttft / 1e3, found.tpot / 1e3
        rate = run.users * asked.output / (first + (asked.output - 1) * token)
        return dict(zip(MEASURES, (first, token, rate), strict=True))

    return predict


def formats(one) -> dict[str, str]:
    """How it names what products are computed in."""
    blocks = one.model.name in ("DeepSeek-V3", "MiniMax M2.5", "GLM-5")
    dense = {"fp8": "fp8_block" if blocks else "fp8", "fp4": "nvfp4"}.get(one.formats.compute, "bfloat16")
    if one.model.name == "gpt-oss 120B":  # 4-bit experts, and the rest in 16
        return {"gemm_quant_mode": "bfloat16", "moe_quant_mode": "w4a16_mxfp4"}
    return {"gemm_quant_mode": dense} | ({"moe_quant_mode": dense} if one.model.experts else {})


def beside(runs, every=EVERY) -> None:
    """Print the errors of both on the rows that aiconfigurator can express."""
    try:
        predict = aiconfigurator()
        name = f"aiconfigurator {version('aiconfigurator')}"
    except Exception as error:  # a peer that is not there, or not this version, does not stop the bench
        print(f"\naiconfigurator not asked: {error}. To install: {INSTALL}")
        return
    some, theirs, refused = [], [], {}
    start = time.process_time()
    for run in [run for run in runs if not run.pools][::every]:
        try:
            theirs.append(predict(run))
            some.append(run)
        except Exception as error:  # no table of this GPU, or this layout: said below
            why = f"{type(error).__name__}: {str(error).splitlines()[0][:90]}"
            refused[why] = refused.get(why, 0) + 1
    took = time.process_time() - start
    print(f"\non the {len(some)} runs that {name} can express")
    if some:
        columns = {measure: np.array([one[measure] for one in theirs]) for measure in MEASURES}
        by_group(some, columns, predict_online(some), name)
        asked = len(some) + sum(refused.values())
        print(f"{name:<30}{fmt(took / asked, 's'):>10}{asked / took:>10,.0f} predictions/s")
    for why, count in sorted(refused.items(), key=lambda item: -item[1])[:5]:
        print(f"{count:>6} refused: {why}")


def by_group(runs, theirs, ours, name) -> None:
    """Print the errors of both, by model, machine and framework, and of all; the smaller of each two has a star."""
    where = {}
    for i, run in enumerate(runs):
        where.setdefault(f"{run.decoding.model.name}, {run.decoding.machine.name}, {run.software.name}", []).append(i)
    print(f"{'clusterlab / ' + name:<46}{'runs':>6}" + "".join(f"{said:>17}" for said in MEASURES.values()))
    for group, rows in [*sorted(where.items(), key=lambda item: -len(item[1])), ("all", list(range(len(runs))))]:
        some = [runs[i] for i in rows]
        both = [errors_of(some, {m: found[m][rows] for m in MEASURES}) for found in (ours, theirs)]
        cells = (f"{a:.1%}{'*' if a < b else ' '}/{b:>6.1%}{'*' if b < a else ' '}" for a, b in zip(*both, strict=True))
        print(f"{group:<46}{len(some):>6}" + "".join(f"{cell:>17}" for cell in cells))


if __name__ == "__main__":
    published = measured_once(published_online()[0])
    laws(published)
    beside(published, 1 if "--all" in sys.argv else EVERY)
