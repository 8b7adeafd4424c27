"""A scoreboard: who predicts published training runs best, on the same rows.

``python bench/scoreboard.py`` prints the mean error of clusterlab (its constants fitted to other sources), of calculon,
of mlsysim, of one MFU for each generation and precision, and of the nearest run (both from other sources), whoever
wins. calculon and mlsysim are asked about the rows that they can express, with the constants that they come with; they
are used where they can be imported, and neither is a dependency of the project (``INSTALL``). ``--json`` prints one
object, ``--rows`` every row.

calculon: dense models at 16 bits with one head of keys for each of queries and no gate, on its files of A100 80 GB and
H100 (their memory boundless), in pipelines of equal stages, without FSDP and without context parallelism. mlsysim:
dense models at 16 bits on its A100, H100 and B200 servers, without context parallelism; its efficiency is its default,
and selective recomputation, for which it has no word, counts as none.
"""

import json
import logging
import math
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np

from clusterlab.evidence import predict_runs, published_runs, rivals, unseen_times
from clusterlab.model import parameters

INSTALL = {
    "mlsysim": "pip install mlsysim==0.3.0",
    "calculon": "git clone https://github.com/calculon-ai/calculon && git -C calculon checkout caa4b11"
    " && pip install pandas psutil && export PYTHONPATH=$PYTHONPATH:$PWD/calculon",
}
NAMES = {"clusterlab": "clusterlab", "calculon": "calculon", "mlsysim": "mlsysim"}
NAMES |= {"one_mfu": "one MFU", "nearest": "nearest run"}


def dense_at_16_bits(run) -> bool:
    """Whether both peers have words for the model and the precision of a run."""
    return not run.model.experts and run.workload.precision in ("fp16", "bf16") and run.layout.cp == 1


# --- calculon --------------------------------------------------------------------------------------------------------

_SYSTEMS = {"A100 80GB": "a100_80g.json", "H100 SXM": "h100_80g_nvl8.json"}


def calculon():
    """Return what predicts a run in seconds, or None where it has no words for it."""
    import calculon as package

    log = logging.getLogger("calculon")
    systems = {}
    for chip, name in _SYSTEMS.items():
        written = json.loads((Path(package.__file__).parents[1] / "systems" / name).read_text())
        # It keeps the scores of attention, which fused kernels do not, and would refuse runs that ran.
        written["mem1"]["GiB"] = 1000
        systems[chip] = package.System(written)

    def predict(run):
        model, layout, work = run.model, run.layout, run.workload
        plain = not model.gated and model.kv_heads == model.heads and not model.others
        sharded = layout.zero >= 2 or layout.sharding_ranks < layout.dp
        if not (dense_at_16_bits(run) and plain and run.machine.name in systems) or sharded:
            return None
        tp, pp, dp = (int(n) for n in (layout.tp, layout.pp, layout.dp))
        if model.layers % (pp * int(layout.chunks)):
            return None
        app = {"hidden": model.hidden, "feedforward": model.ffn, "seq_size": int(work.sequence)}
        app |= {"attn_heads": model.heads, "attn_size": model.head_dim, "num_blocks": model.layers}
        recompute = {"none": "none", "selective": "attn_only", "full": "full"}.get(str(layout.recompute))
        split = bool(layout.sequence_parallel) and tp > 1
        inside = run.machine.domain
        execution = {
            "num_procs": tp * pp * dp,
            "tensor_par": tp,
            "pipeline_par": pp,
            "data_par": dp,
            "tensor_par_net": int(tp > inside),
            "pipeline_par_net": int(tp * pp * dp > inside),
            "data_par_net": int(tp * dp > inside),
            "batch_size": int(work.global_batch),
            "microbatch_size": int(layout.microbatch),
            "datatype": "float16",
            "fused_activation": run.software.fused_attention,
            "attention_type": "multihead",
            "activation_recompute": recompute,
            "pipeline_interleaving": int(layout.chunks),
            "optimizer_sharding": bool(layout.zero == 1 and dp > 1),
            "tensor_par_comm_type": "rs_ag" if split else "ar",
            "tensor_par_overlap": "ring" if run.software.tensor_overlap_forward and tp > 1 else "none",
            "seq_par_ag_redo": split and recompute != "full",
            "data_par_overlap": run.software.data_overlap and dp > 1,
            "weight_offload": False,
            "activations_offload": False,
            "optimizer_offload": False,
            "training": True,
        }
        one = package.Llm(package.Llm.Application(app), log)
        one.compile(systems[run.machine.name], package.Llm.Execution.from_json(execution))
        one.run(systems[run.machine.name])
        return one.get_total_time()

    return predict


# --- mlsysim ---------------------------------------------------------------------------------------------------------

_CLUSTERS = {"A100 80GB": "Lab_64_A100", "H100 SXM": "Lab_64_H100", "B200": "Training_1K_B200"}


def mlsysim():
    """Return what predicts a run in seconds, or None where it has no words for it."""
    from mlsysim import Models, Systems
    from mlsysim.solvers import DistributedModel

    solver, gpt = DistributedModel(), Models.Language.GPT3

    def predict(run):
        model, layout = run.model, run.layout
        if not dense_at_16_bits(run) or run.machine.name not in _CLUSTERS:
            return None
        fleet = getattr(Systems.Clusters, _CLUSTERS[run.machine.name])
        gpus = int(layout.tp * layout.pp * layout.dp)
        if gpus % fleet.node.accelerators_per_node:
            return None
        fleet = fleet.model_copy(update={"count": gpus // fleet.node.accelerators_per_node})
        shape = {"layers": model.layers, "hidden_dim": model.hidden, "heads": model.heads, "kv_heads": model.kv_heads}
        size = float(parameters(model).total)
        counts = {"parameters": size * gpt.parameters.units, "inference_flops": 2 * size * gpt.inference_flops.units}
        one = gpt.model_copy(update={**shape, **counts, "vocab_size": model.vocab})
        result = solver.solve(
            one,
            fleet,
            batch_size=int(run.workload.global_batch),
            seq_len=int(run.workload.sequence),
            microbatch_count=int(layout.microbatches(run.workload)),
            tp_size=int(layout.tp),
            pp_size=int(layout.pp),
            v_stages=int(layout.chunks),
            zero_stage=int(layout.zero),
            activation_recomputation=str(layout.recompute) == "full",
            overlap_comm=run.software.data_overlap,
        )
        return result.step_latency_total.m_as("s")

    return predict


# --- The board -------------------------------------------------------------------------------------------------------


def predicted_by(peer, runs) -> tuple[np.ndarray, int, str]:
    """Seconds of each run by a peer (NaN: none), how many it was asked about and refused, and why it is not there."""
    times, refused = np.full(len(runs), np.nan), 0
    try:
        predict = peer()
    except Exception as error:  # a peer that is not there, or not this version, does not stop the board
        return times, 0, f"not asked: {error}. To install: {INSTALL[peer.__name__]}"
    for i, run in enumerate(runs):
        try:
            found = predict(run)
        except Exception:  # it says that the run does not fit, or fails
            refused += 1
            continue
        if found is not None and math.isfinite(found):
            times[i] = found
    return times, refused, ""


def board() -> dict:
    """Mean errors on the rows that each can predict."""
    runs, _ = published_runs()
    seconds = np.array([run.seconds for run in runs])
    steps = predict_runs(runs)
    at_peak = steps.model_flops / (steps.gpus * steps.peak)
    one, nearest = rivals(runs)
    times = {"clusterlab": unseen_times(runs), "one_mfu": at_peak / one, "nearest": at_peak / nearest}
    notes = {}
    for peer in (calculon, mlsysim):
        times[peer.__name__], refused, why = predicted_by(peer, runs)
        notes[peer.__name__] = why or f"{refused} more were refused"
    errors = {name: np.abs(found / seconds - 1) for name, found in times.items()}
    known = {name: ~np.isnan(found) for name, found in times.items()}
    fair = known["clusterlab"] & known["one_mfu"] & known["nearest"]
    rows = {f"those that {name} can say": fair & known[name] for name in ("calculon", "mlsysim")}
    if all(where.any() for where in rows.values()):
        rows["those that both can say"] = np.logical_and(*rows.values())
    sixteen = np.array([dense_at_16_bits(run) for run in runs])
    rows |= {"all dense at 16 bits": fair & sixteen, "all": fair}
    table = []
    for name, where in rows.items():
        if not where.any():
            continue
        means = {who: float(errors[who][where].mean()) if known[who][where].all() else None for who in NAMES}
        sources = len({run.source for run, here in zip(runs, where, strict=True) if here})
        table.append({"rows": name, "count": int(where.sum()), "sources": sources, **means})
    each = [{"row": run.row, **{who: float(found[i]) for who, found in times.items()}} for i, run in enumerate(runs)]
    return {"versions": {name: _version(name) for name in INSTALL}, "notes": notes, "table": table, "each": each}


def _version(package: str) -> str | None:
    try:
        return version(package)
    except Exception:
        return getattr(sys.modules.get(package), "__version__", None)


def main() -> None:
    """Print the board."""
    found = board()
    if "--json" in sys.argv:
        print(json.dumps({name: found[name] for name in ("versions", "notes", "table")}, indent=1))
        return
    print(f"{'mean error on':<32}{'rows':>5}{'sources':>9}" + "".join(f"{name:>13}" for name in NAMES.values()))
    for row in found["table"]:
        cells = "".join(f"{'-' if row[who] is None else format(row[who], '.1%'):>13}" for who in NAMES)
        print(f"{row['rows']:<32}{row['count']:>5}{row['sources']:>9}{cells}")
    for name, note in found["notes"].items():
        print(f"{name} {found['versions'][name] or ''}: {note}")
    if "--rows" in sys.argv:
        print(",".join(found["each"][0]))
        for row in found["each"]:
            print(",".join(str(value) for value in row.values()))


if __name__ == "__main__":
    main()
