"""Where do 105 seconds go? What a student computes from the log of BLOOM 176B."""

from __future__ import annotations

import re
from pathlib import Path

from clusterlab import catalogue, interconnect, operations, parallelism
from clusterlab.evidence import explain, parse_runs
from clusterlab.model import Layout, training_flops, transformer
from clusterlab.units import GB, fmt

DATA = Path(__file__).parent / "data"
GPUS, SEQUENCES, TOKENS = 384, 2048, 2048  # of a step, and of a sequence
LAYOUT = Layout(tp=4, pp=12, dp=8, microbatch=2)
OMNI_PATH = 4 * 12.5 * GB / 8  # four ports of 100 Gbit/s a server of eight GPUs, bytes/s of a GPU
ROW = """row_id,model,gpu,n_gpus,gpus_per_node,tp,pp,dp,micro_batch,global_batch,seq,\
vpp,seq_parallel,recompute,precision,software,step_time_s
before,BLOOM 176B,A100 80GB,384,8,4,12,8,2,2048,2048,1,no,full,bf16,Megatron-DeepSpeed 2022,{step}
"""


def steps() -> list[tuple[int, float, float]]:
    """Task 1: iteration, seconds and TFLOP/s of every line."""
    pattern = re.compile(r"iteration\s+(\d+)/.*\(s\): ([\d.]+).*TFLOPs: ([\d.]+)")
    return [(int(i), float(s), float(t)) for i, s, t in pattern.findall((DATA / "bloom.log").read_text())]


def answers() -> dict[str, str]:
    """Every number of the sample report."""
    model, peak = transformer("BLOOM 176B"), catalogue.accelerator("A100 80GB").peak("bf16")
    log = {iteration: (seconds, rate) for iteration, seconds, rate in steps()}
    (before, printed), (after, _) = log[42780], log[42784]
    tokens = SEQUENCES * TOKENS

    # 2. By hand: six FLOPs for each parameter and token.
    rate = 6 * 176e9 * tokens / before / GPUS
    # 3. The log counts a second forward pass, and attention, and the logits over 250,880 words.
    recomputed = 8 * 176e9 * tokens / before / GPUS
    layers, hidden, words = 70, 14336, 250_880
    megatron = 96.0 * SEQUENCES * TOKENS * layers * hidden**2
    megatron *= 1 + TOKENS / (6 * hidden) + words / (16 * layers * hidden)
    megatron /= before * GPUS
    mfu = training_flops(model, TOKENS).model * tokens / before / GPUS / peak

    # 4. The laws. A stage has six of 72 blocks: 70 layers and two embeddings.
    microbatches = SEQUENCES // (LAYOUT.dp * LAYOUT.microbatch)
    bubble = parallelism.bubble_fraction(LAYOUT.pp, microbatches)
    buffer = LAYOUT.microbatch * TOKENS * hidden * 2
    nvlink = catalogue.link("NVLink 3").bandwidth
    one = interconnect.ring_all_reduce(buffer, LAYOUT.tp, bandwidth=nvlink, latency=0).time
    tensor = one * 6 * 6 * microbatches
    gradients = 4 * 176e9 / (LAYOUT.tp * LAYOUT.pp)
    data = interconnect.ring_all_reduce(gradients, LAYOUT.dp, bandwidth=OMNI_PATH, latency=0).time

    # 5. What the library says, and what it doesn't know.
    runs, _ = parse_runs(ROW.format(step=before), "run.csv")
    found = explain(runs, "before")
    suspects = {suspect.name: suspect for suspect in found.suspects}
    gemms, network, memory = suspects["GEMMs"], suspects["network"], suspects["memory"]
    more = data - float(found.step.data)

    # 6. One GPU of 384.
    slower = after / before - 1
    iterations = sorted(log)
    return {
        "gap_from": f"{iterations[6]:,}",
        "gap_to": f"{iterations[7]:,}",
        "last_fast": f"{iterations[8]:,}",
        "end": f"{iterations[-1]:,}",
        "before": f"{before:.1f} s",
        "after": f"{after:.1f} s",
        "slower": fmt(slower, "%", digits=2),
        "printed": f"{printed:.1f}",
        "tokens": f"{tokens:,}",
        "flops": f"{6 * 176e9 * tokens:.2e}",
        "rate": f"{rate / 1e12:.1f}",
        "share": fmt(rate / peak, "%", digits=2),
        "ratio": f"{printed * 1e12 / rate:.2f}",
        "four_thirds": f"{4 / 3:.2f}",
        "recomputed": f"{recomputed / 1e12:.1f}",
        "megatron": f"{megatron / 1e12:.1f}",
        "hfu": fmt(printed * 1e12 / peak, "%", digits=2),
        "mfu": fmt(mfu, "%", digits=2),
        "microbatches": f"{microbatches:.0f}",
        "bubble": fmt(bubble, "%", digits=2),
        "bubble_seconds": f"{before * bubble / (1 + bubble):.1f} s",
        "buffer": f"{buffer / 1e6:.0f} MB",
        "one": f"{one * 1e3:.2f} ms",
        "tensor": f"{tensor:.1f} s",
        "gradients": f"{gradients / 1e9:.1f} GB",
        "port": f"{OMNI_PATH / GB:.2f} GB/s",
        "data": f"{data:.1f} s",
        "hdr": f"{catalogue.link('InfiniBand HDR').bandwidth / GB:.0f} GB/s",
        "bubble_lib": f"{found.step.bubble:.1f} s",
        "tensor_lib": f"{found.step.tensor:.1f} s",
        "data_lib": f"{found.step.data:.1f} s",
        "interval": found.step.with_interval,
        "gap": f"{found.gap:.1f} s",
        "gap_share": fmt(found.gap / before, "%", digits=2),
        "data_more": f"{more:.1f} s",
        "network_closes": fmt(more / found.gap, "%", digits=2),
        "network_value": fmt(network.value or 0, "%", digits=2),
        "gemm_value": fmt(gemms.value or 0, "%", digits=2),
        "gemm_believed": fmt(gemms.believed or 0, "%", digits=2),
        "memory_value": fmt(memory.value or 0, "%", digits=2),
        "slow_gpus": f"{GPUS * slower / (1 + slower):.0f}",
        "lost_days": f"{3 * slower / (1 + slower):.2f}",
        "lost": f"{GPUS * slower / (1 + slower) - 1:.0f}",
        "bench": fmt(303.6 / 296.5 - 1, "%", digits=2),
        "groups": f"{48 // 3}",
        "least": f"{operations.least_tests(48, 1):.0f}",
    }
