"""Parallelism: FLOPs, memory, the three axes, bubbles."""

from __future__ import annotations

from clusterlab import interconnect, parallelism, scaling
from clusterlab.model import transformer
from clusterlab.units import GB, TFLOP, billion, day, fmt, trillion
from course.kinds import Estimate, Flaw, Line, flawed, rough
from course.problems import Draw, ProblemSet, Step
from explorable import Question

SET = ProblemSet("parallelism", "Parallelism: one model on many GPUs")


@SET.problem("How long a run takes", points=1)
def run(draw: Draw) -> Question:
    """A warm-up: 6 N D over what the GPUs do."""
    parameters, tokens = draw.number(7, 480) * billion, draw.number(10, 200) * trillion / 10
    gpus, mfu, peak = 256 * draw.number(2, 64), draw.number(30, 52) / 100, 989 * TFLOP
    right = float(scaling.training_run(6 * parameters * tokens, gpus, peak=peak, efficiency=mfu).time)
    draw.require(day < right < 365 * day)
    forward = float(scaling.training_run(2 * parameters * tokens, gpus, peak=peak, efficiency=mfu).time)
    return Question(
        f"A dense model of {fmt(parameters / 1e9, 'billion')} parameters trains on {fmt(tokens / 1e12, 'trillion')} tokens,"
        f" on {gpus:,} GPUs of {fmt(peak, 'TFLOP/s')} at an MFU of {fmt(mfu, '%')}. How long does it train?",
        right,
        "s",
        mistakes={
            "The backward pass is missing: 6 FLOPs a parameter and token, of which forward is 2.": forward,
            "That is at the full peak: the MFU is missing.": right * mfu,
            "Training is dense: a sparse peak is twice too high.": right / 2,
            "8 N D counts recomputation too, which MFU does not.": right * 8 / 6,
            "Those are GPUs already, not servers of eight: you divided them again.": right * 8,
        },
        hints=["FLOPs: 6 N D, backward included.", "FLOP/s: GPUs x peak x MFU."],
        way=f"6 N D = {6 * parameters * tokens:.3g} FLOP at {fmt(gpus * peak * mfu, 'EFLOP/s')} take {fmt(right, 's')}.",
    )


@SET.problem("Room for a model, by hand")
def room(draw: Draw) -> Estimate:
    """State over memory."""
    size, memory = draw.one_of((13, 30, 70, 120, 180, 400)), draw.one_of((40, 80, 141, 192))
    right = 18 * size / memory
    draw.require(right > 4)
    return Estimate(
        f"A dense model of {size} billion parameters trains in BF16 with FP32 gradients and Adam, in the usual mixed precision; its"
        f" state is cut evenly over GPUs of {memory} GB. How many GPUs does the state alone fill?",
        right,
        "GPUs",
        mistakes={
            "Those are the weights alone: gradients and the optimizer take most.": right / 9,
            "Bytes are counted, not bits.": 8 * right,
        },
        hints=["Bytes a parameter: 2 of weight, 4 of gradient, 12 of the optimizer."],
        way=f"18 x {size} = {18 * size:,} GB, over {memory}: about {rough(right)}.",
    )


@SET.problem("Model state")
def state(draw: Draw) -> Question:
    """Bytes a rank under ZeRO."""
    parameters, shards, zero = draw.number(7, 180) * billion, draw.one_of((8, 16, 32, 64, 128)), draw.one_of((1, 2, 3))
    right = float(parallelism.model_state(parameters, shards=shards, zero=zero).total)
    others = {
        z: float(parallelism.model_state(parameters, shards=shards, zero=z).total) for z in (0, 1, 2, 3) if z != zero
    }
    words = {0: "nothing", 1: "the optimizer state alone", 2: "optimizer state and gradients", 3: "everything"}
    return Question(
        f"{fmt(parameters / 1e9, 'billion')} parameters, BF16 weights, FP32 gradients, Adam with FP32 master weights and two"
        f" moments (2 + 4 + 12 bytes). ZeRO stage {zero} over {shards} ranks. How much model state does each rank hold?",
        right,
        "B",
        mistakes={f"That shards {words[z]}: stage {z}.": value for z, value in others.items()}
        | {
            "The FP32 master copy is a third of the optimizer's twelve bytes.": float(
                parallelism.model_state(parameters, shards=shards, zero=zero, optimizer_bytes=8).total
            )
        },
        hints=[
            "Which of the three does this stage shard?",
            "Stage 1: optimizer. Stage 2: gradients too. Stage 3: all.",
        ],
        way=f"Stage {zero} shards {words[zero]}: {fmt(right, 'GB')}.",
    )


@SET.problem("The pipeline's bubble")
def bubble(draw: Draw) -> Question:
    """Share of the time that a stage stands idle."""
    stages, chunks = draw.one_of((4, 8, 12, 16)), draw.one_of((1, 2, 4))
    microbatches = stages * draw.number(1, 8)
    over_work = float(parallelism.bubble_fraction(stages, microbatches, chunks=chunks))
    right = over_work / (1 + over_work)
    plain = float(parallelism.bubble_fraction(stages, microbatches))
    how = f"interleaved 1F1B with {chunks} chunks a stage" if chunks > 1 else "1F1B"
    return Question(
        f"{stages} equal pipeline stages, {microbatches} microbatches, {how}, hand-offs free. What share of its whole time"
        " does a stage stand idle?",
        right,
        "%",
        mistakes={
            "That is bubble over work. The share of the whole time has work and bubble below the line.": over_work,
            **(
                {"That is 1F1B without chunks: interleaving divides the bubble.": plain / (1 + plain)}
                if chunks > 1
                else {}
            ),
            "p - 1 stages' worth of waiting, not p.": (stages / microbatches / chunks)
            / (1 + stages / microbatches / chunks),
        },
        hints=["Bubble over work is (p - 1) / (v m).", "The share of the whole is x / (1 + x)."],
        way=f"({stages} - 1) / ({chunks} x {microbatches}) = {fmt(over_work, '%')} of the work, {fmt(right, '%')} of the time.",
    )


@SET.problem("Tokens that hide the gradients")
def hide(draw: Draw) -> Question:
    """Tokens a GPU between two all-reduces."""
    rate, label = draw.number(200, 900, 5) * TFLOP, draw.one_of((100, 200, 400, 800))
    port = label * GB / 8
    size = draw.one_of((2, 4))
    right = float(parallelism.data_parallel_ratio(1, rate=rate, bandwidth=port, gradient_bytes=size))
    return Question(
        f"A GPU sustains {fmt(rate, 'TFLOP/s')} on a dense model and has one port of {label} Gbit/s. Gradients of {size} bytes"
        " are all-reduced on a large ring. How many tokens must it process between two all-reduces so that they take no"
        " longer than the compute?",
        right,
        "tokens",
        mistakes={
            "Bits for bytes: the port's label counts bits.": right / 8,
            "A ring sends the buffer twice, and only one direction counts.": right / 2,
            "The backward pass is missing: 6 FLOPs a parameter and token, not 2.": 3 * right,
        },
        hints=["Compute: 6 N D / R. Exchange: 2 b N / B.", "N cancels: D = b R / (3 B)."],
        way=f"{size} x {fmt(rate, 'TFLOP/s')} / (3 x {fmt(port, 'GB/s')}) = {fmt(right)} tokens.",
    )


@SET.problem("Bytes of tensor parallelism", points=3)
def tensor(draw: Draw) -> Question:
    """What a rank sends for one microbatch through all layers."""
    model = transformer(draw.one_of(("Llama 3.1 8B", "Llama 3.1 70B", "Llama 3.1 405B", "Qwen3 32B", "GPT-3 175B")))
    tp, tokens = draw.one_of((2, 4, 8)), 1024 * draw.number(2, 16)
    size = 2 * tokens * model.hidden
    one = float(interconnect.ring_all_reduce(size, tp, bandwidth=1.0, latency=0.0).time)
    right = 4 * model.layers * one
    return Question(
        f"{model.name} ({model.layers} layers, hidden size {model.hidden:,}) trains with TP{tp} in BF16 without sequence"
        f" parallelism. A microbatch has {tokens:,} tokens. How many bytes does each GPU send in the tensor-parallel"
        " all-reduces of one forward and backward pass, on rings?",
        right,
        "B",
        mistakes={
            "That is forward alone: backward has two all-reduces a layer too.": right / 2,
            "Attention and MLP each end in an all-reduce: two a pass and layer.": right / 4,
            "A ring all-reduce sends 2 (t - 1) / t of the buffer.": 4 * model.layers * size,
            "That counts what is sent and what is received.": 2 * right,
        },
        hints=[
            "All-reduces a layer: two forward, two backward.",
            "Each sends 2 (t - 1)/t of tokens x hidden x 2 bytes.",
        ],
        way=f"4 x {model.layers} all-reduces of {fmt(size, 'MB')}, each {fmt(one, 'MB')} sent: {fmt(right, 'GB')}.",
    )


@SET.problem("A layout with a mistake", points=3)
def layout(draw: Draw) -> Flaw:
    """From replicas to the MFU."""
    size, tp, pp = draw.number(30, 400, 10) * billion, draw.one_of((2, 4, 8)), draw.one_of((4, 8, 16))
    replicas, each, share = draw.number(4, 32), pp * draw.number(1, 5), draw.number(50, 65) / 100
    gpus, peak, batch = tp * pp * replicas, 989 * TFLOP, replicas * each
    draw.require(gpus >= 128)
    return flawed(
        draw,
        f"{fmt(size / 1e9, 'billion')} parameters train on {gpus:,} GPUs of 989 TFLOP/s with TP{tp} and PP{pp}, the rest data"
        f" parallelism: {batch} sequences of 8,192 tokens a step, one a microbatch, 1F1B. A stage that works reaches"
        f" {fmt(share, '%')} of the peak; exchanges are hidden.",
        (
            Line(
                "Replicas",
                "replicas",
                lambda _: gpus / (tp * pp),
                {
                    "TP ranks share a sequence: they are no replicas.": lambda _: gpus / pp,
                    "Stages of a pipeline share a sequence: they are no replicas.": lambda _: gpus / tp,
                },
            ),
            Line("Microbatches of a pipeline", "microbatches", lambda v: batch / v[0]),
            Line(
                "Bubble over work",
                "%",
                lambda v: (pp - 1) / v[1],
                {"The bubble shrinks with microbatches, not with replicas.": lambda v: (pp - 1) / v[0]},
            ),
            Line(
                "Work of a step",
                "FLOP",
                lambda _: 6 * size * batch * 8192,
                {"The backward pass is missing.": lambda _: 2 * size * batch * 8192},
            ),
            Line(
                "Time of a step",
                "s",
                lambda v: v[3] / (gpus * peak * share) * (1 + v[2]),
                {"GPUs are counted, not servers of eight.": lambda v: 8 * v[3] / (gpus * peak * share) * (1 + v[2])},
            ),
            Line(
                "MFU",
                "%",
                lambda v: v[3] / (v[4] * gpus * peak),
                {"That is the share while a stage works; it also waits.": lambda _: share},
            ),
        ),
        ["How many GPUs make one replica?", "Bubble over work: (p - 1) / m."],
    )


@SET.design("A step that computes", "A step that waits")
def whole_step(draw: Draw) -> Step:
    """Compute time of a step, then its MFU with a bubble and what shows of the exchanges."""
    size, gpus, share = draw.number(20, 420, 5) * billion, 256 * draw.number(1, 32), draw.number(50, 65) / 100
    tokens, bubble, shows = draw.number(2, 16), draw.number(8, 35) / 100, draw.number(8, 30) / 100
    work, peak = 6 * size * tokens * 1e6, gpus * 989 * TFLOP
    compute = work / (peak * share)
    draw.require(0.5 < compute < 60)
    exposed = float(f"{shows * compute:.2g}")

    def mfu(found: float) -> float:
        return work / peak / (found * (1 + bubble) + exposed)

    right = mfu(compute)
    first = Question(
        f"{fmt(size / 1e9, 'billion')} parameters, {tokens} million tokens a step, {gpus:,} GPUs of 989 TFLOP/s (dense), which reach"
        f" {fmt(share, '%')} of that while they compute. How long would a step take if it did nothing but compute?",
        compute,
        "s",
        mistakes={
            "The backward pass is missing.": compute / 3,
            "That is at the full peak.": compute * share,
            "8 N D counts recomputation, which isn't asked for.": compute * 8 / 6,
        },
        hints=["6 N D over what the GPUs reach."],
        way=f"{work:.3g} FLOP / {fmt(peak * share, 'EFLOP/s')} = {fmt(compute, 's')}.",
    )
    second = Question(
        f"A pipeline's bubble adds {fmt(bubble, '%')} to that, and exchanges that nothing hides take {fmt(exposed, 's', 2)} a step. What is"
        " the MFU of the whole step?",
        right,
        "%",
        tolerance=0.015,
        mistakes={
            "That is while it computes; it also waits.": share,
            "The exchanges are missing.": share / (1 + bubble),
            "The bubble is missing.": work / peak / (compute + exposed),
        },
        hints=["The step is longer by both.", "MFU = 6 N D / (peak of all GPUs x time of the step)."],
        way=f"A step takes {fmt(compute * (1 + bubble) + exposed, 's')}.",
    )
    return first, second, mfu


@SET.essay(
    "A layout, defended",
    {
        "The layout multiplies out and fits in memory, with the bytes by part": 2,
        "TP stays inside the server, and the bubble is computed": 2,
        "Compared with one neighbour that is worse, with the reason": 2,
    },
)
def layout_essay(draw: Draw) -> str:
    """Open: choose and defend."""
    gpus, batch = 256 * draw.one_of((2, 4, 8, 16)), draw.one_of((4, 8, 16))
    name = draw.one_of(("Llama 3.1 70B", "Llama 3.1 405B", "GPT-3 175B"))
    return (
        f"Choose a layout for {name} on {gpus:,} H100s in servers of eight, with a batch of {batch} million tokens and"
        " sequences of 8,192. Give TP, PP, DP, the microbatch and the ZeRO stage; show that it fits into 80 GB; and say"
        " which single change you tried and rejected. `parallelism.step` and `parallelism.footprint` are your tools."
    )
