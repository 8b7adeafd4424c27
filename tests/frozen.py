"""What the library predicts, frozen: every published run, collective, checkpoint and figure of power, and shapes.

``python tests/frozen.py`` writes ``frozen.json`` anew. Do so only for a change that is meant, and list it in
``CHANGELOG.md``: what changed and why, how many predictions moved, and by how much.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np

from clusterlab import failures, power, serving
from clusterlab.catalogue import SOFTWARE, machine
from clusterlab.evidence import (
    by_source,
    fit_links,
    predict_held_out,
    predict_inference,
    predict_run,
    published,
    published_inference,
    published_runs,
    published_timings,
)
from clusterlab.model import (
    RECOMPUTE,
    Layout,
    Workload,
    forward_flops,
    kv_bytes_per_token,
    kv_cache_bytes,
    parameters,
    state_bytes,
    training_flops,
    transformer,
)
from clusterlab.parallelism import footprint, step
from clusterlab.serving import PASS_PARTS, Batch, Formats, Replica, forward_pass, largest_batch
from clusterlab.units import GB, TB, day, hour, minute

FILE = Path(__file__).with_suffix(".json")


def training_runs() -> dict[str, float]:
    """Seconds of a step of every published run that can be predicted, and the measured seconds read from its row."""
    runs, skipped = published_runs()
    found = {f"{run.row} predicted": float(predict_run(run).time) for run in runs}
    found |= {f"{run.row} measured": float(run.seconds) for run in runs}
    return found | {f"{one.row} skipped": 0.0 for one in skipped}


def collectives() -> dict[str, float]:
    """Seconds of every published collective: as fitted, and as predicted from other machines."""
    rows = published_timings()
    found = {}
    for kind, results in {
        "fitted": [fit_links(some) for some in by_source(rows).values()],
        "predicted": predict_held_out(rows, rows),
    }.items():
        for result in results:
            found |= {f"{result.source} {kind} {i}": seconds for i, seconds in enumerate(result.times)}
    return found


def checkpoints() -> dict[str, float]:
    """Checkpoints, intervals and goodput of the published fleets, for each size and mean time to failure on record."""
    rows = published("failures")
    fleets = {row["run"]: row["gpus"] for row in rows if row["gpus"]}
    found = {}
    for run, gpus in fleets.items():
        mtbf = failures.system_mtbf(50_000 * hour, gpus)
        size = failures.checkpoint_size(405e9)
        written = failures.checkpoint(
            size, storage_bandwidth=2 * TB, writers=gpus, writer_bandwidth=2 * GB, local_bandwidth=10 * GB
        )
        write = max(written.lag, 1.0)
        interval = failures.optimal_interval(write, mtbf)
        job = failures.Job(
            interval=interval, write=write, mtbf=mtbf, detection=2 * minute, repair=minute, restart=5 * minute
        )
        share = failures.goodput(replace(job, maintenance=0.01))
        time = failures.expected_run_time(54 * day, job)
        runs = failures.simulate_job(54 * day, job, runs=50, seed=1)
        parts = {"stall": written.stall, "lag": written.lag, "interval": interval}
        parts |= {f"goodput {name}": part for name, part in share.parts.items()}
        parts |= {f"run time {name}": part for name, part in time.parts.items()}
        parts |= {f"simulated {name}": float(np.mean(part)) for name, part in runs.parts.items()}
        found |= {f"{run}: {name}": float(part) for name, part in parts.items()}
    return found


def power_figures() -> dict[str, float]:
    """Every published figure of power, as the laws take it up: facility, energy, carbon, cap and airflow."""
    found = {}
    for row in published("power"):
        value, name = row["value"], f"{row['row_id']} {row['quantity']}"
        it = power.load(accelerators=8 * 700.0, rest=4600.0)
        if row["quantity"] == "power":
            parts = power.site(power.load(it=value), distribution=0.94, cop=5.0, other=0.01)
            found |= {f"{name} {part}": float(watts) for part, watts in parts.parts.items()}
        elif row["quantity"] == "pue":
            found[name] = float(power.facility(it, max(value, 1.0)).total)
        elif row["quantity"] == "carbon_intensity":
            bill = power.energy_footprint(1e6, 30 * day, pue=1.2, price=1e-8, carbon_intensity=value, water_usage=1e-9)
            found |= {f"{name} {part}": float(getattr(bill, part)) for part in ("energy", "cost", "carbon", "water")}
        elif row["quantity"] == "cap":
            capped = power.power_cap(min(value, 1.0), static=0.2, dynamic=0.8, voltage_floor=0.7, fixed=0.1, rest=0.3)
            found |= {f"{name} {key}": float(part) for key, part in vars(capped).items()}
    return found


def layouts() -> dict[str, float]:
    """The parts of a step, and the bytes, of layouts that no published run has."""
    rng, found = np.random.default_rng(7), {}
    jobs = [("GPT 175B", "A100 80GB", "2022"), ("Llama 3.1 405B", "H100 SXM", "2024")]
    jobs += [
        ("Mixtral 8x7B", "H100 SXM", "2024"),
        ("DeepSeek-V3", "GB200", "2026"),
        ("Llama 3.1 8B", "TPU v5p", "2023"),
    ]
    for name, chip, era in jobs:
        shape, mach, software = transformer(name), machine(chip), SOFTWARE[era]
        workload = Workload(sequence=8192, global_batch=2**11, precision="fp8" if era == "2026" else "bf16")
        tp, cp = 2 ** rng.integers(0, 4, 40), 2 ** rng.integers(0, 3, 40)
        pp, ep = 2 ** rng.integers(0, 4, 40), 2 ** rng.integers(0, 4, 40) if shape.experts else np.ones(40, int)
        ep = np.minimum(ep, shape.experts or 1)
        axes = {"tp": tp, "pp": pp, "cp": cp, "ep": ep, "dp": 2 ** rng.integers(3, 6, 40)}
        axes |= {"chunks": np.where(pp > 1, rng.integers(1, 3, 40), 1), "microbatch": 2 ** rng.integers(0, 2, 40)}
        axes["zero"] = rng.integers(0, 4, 40)
        axes["recompute"] = rng.choice(["none", "selective", "full"], 40)
        axes["sequence_parallel"] = rng.random(40) < 0.7
        layout = Layout(**axes)
        took = step(shape, mach, workload, layout, software=software)
        need = footprint(shape, workload, layout, software=software)
        for kind, record in {"step": took, "memory": need}.items():
            for part, values in vars(record).items():
                if part.startswith(("spread", "_")):
                    continue  # an interval learned from residuals, no prediction; what was asked for
                for i, value in enumerate(np.broadcast_to(values, 40)):
                    found[f"{name} {era} {i} {kind} {part}"] = float(value)
    return found


def inference() -> dict[str, float]:
    """Seconds of every published inference run that can be predicted."""
    runs, _ = published_inference()
    times = predict_inference(runs)
    return {run.row: float(time) for run, time in zip(runs, times, strict=True)}


SHAPES = ("GPT-3 175B", "PaLM 540B", "Llama 3.1 8B", "Mixtral 8x7B", "DeepSeek-V3", "Kimi K2", "gpt-oss 120B")
SHAPES += ("Nemotron-H 8B", "Nemotron-H 47B", "Nemotron 3 Nano", "Nemotron 3 Super")


def shapes() -> dict[str, float]:
    """What follows from a shape alone: parameters, FLOPs, caches and states, for every kind of layer."""
    found = {}
    for name in SHAPES:
        shape = transformer(name)
        counted = parameters(shape)
        found |= {f"{name} parameters": float(counted.total), f"{name} active": float(counted.active)}
        for sequence in (1024, 131072):
            for causal in (False, True):
                flops = forward_flops(shape, sequence, causal=causal)
                for part in ("scores", "scan", "layers", "logits"):
                    found[f"{name} {sequence} {causal} {part}"] = float(getattr(flops, part))
            for how in RECOMPUTE:
                flops = training_flops(shape, sequence, recompute=how)
                found[f"{name} {sequence} {how} hardware"] = float(flops.hardware)
            found[f"{name} {sequence} cache"] = float(kv_cache_bytes(shape, sequence))
        found[f"{name} per token"] = float(kv_bytes_per_token(shape))
        found[f"{name} state"] = float(state_bytes(shape))
    return found


def memories() -> dict[str, float]:
    """The bytes of a rank in training, for every kind of layer, on the fullest stage and on the first."""
    jobs = [("Nemotron 3 Nano", "2026", "bf16"), ("Nemotron-H 8B", "2024", "bf16"), ("gpt-oss 120B", "2026", "bf16")]
    jobs += [("DeepSeek-V3", "2026", "fp8"), ("Qwen3 30B-A3B", "2026", "bf16"), ("Nemotron 3 Super", "2026", "fp8")]
    jobs += [("Llama 3.1 8B", "2023", "bf16")]
    rng, found = np.random.default_rng(3), {}
    for name, era, precision in jobs:
        shape, n = transformer(name), 24
        axes = {"tp": 2 ** rng.integers(0, 3, n), "pp": 2 ** rng.integers(0, 3, n), "dp": 2 ** rng.integers(3, 6, n)}
        axes |= {"ep": 2 ** rng.integers(0, 4, n) if shape.experts else np.ones(n, int), "zero": rng.integers(0, 4, n)}
        axes["recompute"] = rng.choice(["none", "selective", "full"], n)
        workload = Workload(sequence=4096, global_batch=512, precision=precision)
        for stage in (None, 0):
            need = footprint(shape, workload, Layout(**axes), software=SOFTWARE[era], stage=stage)
            for part, values in vars(need).items():
                if part.startswith("_"):
                    continue
                for i, value in enumerate(np.broadcast_to(values, n)[:KEPT]):
                    found[f"{name} {stage} {i} {part}"] = float(value)
    return found


KEPT = 4  # layouts of each job


def passes() -> dict[str, float]:
    """The parts of a pass, the bytes and the largest batch of replicas, for every kind of layer."""
    jobs = [("Llama 3.1 70B", "H100 SXM", 4, False, "fp8"), ("DeepSeek-V3", "H100 SXM", 8, True, "fp8")]
    jobs += [("Nemotron-H 8B", "H100 SXM", 2, False, "bf16"), ("Nemotron 3 Nano", "H100 SXM", 2, True, "bf16")]
    jobs += [("gpt-oss 120B", "GB200", 2, True, "fp8"), ("Kimi K2", "GB200", 4, True, "fp8")]
    jobs += [("Mixtral 8x7B", "A100 80GB", 2, False, "bf16")]
    found = {}
    for name, chip, tp, whole, products in jobs:
        shape = transformer(name)
        for pp, dp in ((1, 1), (2, 8)):
            ep = tp * dp if whole and dp > 1 else 1
            layout = Layout(tp=tp, pp=pp, dp=dp, ep=ep)
            redundant = -shape.experts % ep if ep > 1 else 0
            replica = Replica(shape, machine(chip), layout, Formats(products), redundant=redundant)
            batches = {
                "decode": Batch(sequences=64 * dp * pp, context=4000),
                "prefill": Batch(prompt_tokens=8192 * dp * pp, chunk=2048, cached=1000),
                "mixed": Batch(
                    sequences=32 * dp * pp, context=2000, verified=2, prompt_tokens=512 * dp * pp, chunk=512
                ),
            }
            key = f"{name} {tp} {pp} {dp}"
            for how, batch in batches.items():
                one = forward_pass(replica, batch)
                found |= {f"{key} {how} {part}": float(getattr(one, part)) for part in (*PASS_PARTS, "flops")}
            need = vars(serving.replica_footprint(replica, sequences=100, context=5000))
            found |= {f"{key} bytes {part}": float(value) for part, value in need.items()}
            found[f"{key} largest"] = float(largest_batch(replica, 5000))
    return found


KINDS = (training_runs, collectives, checkpoints, power_figures, layouts, inference, shapes, memories, passes)


def everything() -> dict[str, dict[str, float]]:
    """All of it, by kind."""
    return {kind.__name__: kind() for kind in KINDS}


if __name__ == "__main__":
    FILE.write_text(json.dumps(everything(), indent=0) + "\n")
