"""Roofline: peak, bandwidth, intensity, batches, experts."""

from __future__ import annotations

from clusterlab import roofline
from clusterlab.model import kv_cache_bytes, parameters, transformer
from clusterlab.units import GB, TB, TFLOP, fmt
from course.problems import Draw, ProblemSet
from explorable import Question

SET = ProblemSet("roofline", "Roofline: what one accelerator can do")


def _chip(draw: Draw):
    """A made-up accelerator: its dense 16-bit peak, its memory bandwidth and its capacity."""
    peak = draw.number(300, 2500, 20) * TFLOP
    bandwidth = draw.number(140, 800, 5) * TB / 100
    return peak, bandwidth, draw.number(64, 288, 8) * GB


@SET.problem("Where the roof bends", points=1)
def ridge(draw: Draw) -> Question:
    """A warm-up: the ridge point of a datasheet that prints sparse peaks."""
    peak, bandwidth, _ = _chip(draw)
    right = roofline.ridge_point(peak, bandwidth)
    return Question(
        f"A datasheet prints a BF16 peak of {fmt(2 * peak, 'TFLOP/s', 4)} with 2:4 sparsity, and a memory bandwidth of"
        f" {fmt(bandwidth, 'TB/s')}. Your matrices are dense. At which arithmetic intensity does the roof bend?",
        right,
        "FLOP/byte",
        mistakes={
            "That is the sparse peak. Dense matrices get half of it.": roofline.ridge_point(2 * peak, bandwidth),
            "Bits for bytes: the bandwidth counts bytes.": roofline.ridge_point(2 * peak, 8 * bandwidth),
            "That is bytes per FLOP, the ridge upside down.": 1 / right,
        },
        hints=[
            "What do dense matrices reach of a sparse peak?",
            "The roof bends where peak / bandwidth FLOPs meet a byte.",
        ],
        way=f"{fmt(peak, 'TFLOP/s', 4)} / {fmt(bandwidth, 'TB/s')} = {fmt(right, 'FLOP/byte')}.",
    )


@SET.problem("A matrix product")
def product(draw: Draw) -> Question:
    """Time of a GEMM whose side of the ridge is to be found."""
    peak, bandwidth, _ = _chip(draw)
    m, k, n = draw.one_of((8, 16, 32, 64, 128)), 1024 * draw.number(4, 16), 1024 * draw.number(4, 32)
    work = roofline.matmul(m, k, n)
    seconds = float(roofline.kernel_time(work.flops, work.bytes, peak=peak, bandwidth=bandwidth))
    memory, compute = work.bytes / bandwidth, work.flops / peak
    draw.require(max(memory, compute) > 1.5 * min(memory, compute))
    return Question(
        f"A BF16 product of a {m} x {k:,} and a {k:,} x {n:,} matrix runs on an accelerator of {fmt(peak, 'TFLOP/s', 4)}"
        f" (dense) and {fmt(bandwidth, 'TB/s')}. Each matrix crosses the memory once; compute and memory overlap"
        " perfectly. How long does it take?",
        seconds,
        "s",
        mistakes={
            "That is the time of the other limit; the longer of the two counts.": min(memory, compute),
            "Compute and memory overlap: take the longer, not the sum.": memory + compute,
            ("A multiply and an add are two FLOPs." if compute > memory else "A BF16 element has two bytes."): seconds
            / 2,
            "A BF16 element has two bytes, not four.": 2 * memory,
        },
        hints=["2 m k n FLOPs. And how many bytes?", "Bytes: 2 (m k + k n + m n). Two times; which is longer?"],
        way=f"{fmt(work.flops, 'FLOP')} take {fmt(compute, 's')}, {fmt(work.bytes, 'B')} take {fmt(memory, 's')}.",
    )


@SET.problem("Tokens for one user")
def decode(draw: Draw) -> Question:
    """The upper bound of decode at batch 1 over several GPUs."""
    model = transformer(draw.one_of(("Llama 3.1 8B", "Llama 3.1 70B", "Llama 3.1 405B", "Qwen3 32B", "Mistral 7B")))
    count, bandwidth, gpus = (parameters(model).total, draw.number(140, 800, 2) * TB / 100, draw.one_of((4, 8, 16)))
    work = roofline.decode(1, parameters=count)
    rate = gpus * bandwidth / work.bytes
    return Question(
        f"{model.name} has {fmt(count / 1e9, 'billion')} parameters in BF16, spread evenly over {gpus} GPUs with"
        f" {fmt(bandwidth, 'TB/s')} each, which read their shares side by side. At most how many tokens a second does one"
        " user get, if only the weights are read and the network costs nothing?",
        rate,
        "tokens/s",
        mistakes={
            "Two bytes a parameter in BF16, not one.": 2 * rate,
            "All GPUs read their shares at the same time.": rate / gpus,
            "Parameters are counted in bytes here, not in bits.": rate / 8,
            "FP32 has four bytes; BF16 has two.": rate / 2,
        },
        hints=[
            "What is read for one token?",
            "Time of a token: bytes of weights over the bandwidth of all GPUs together.",
        ],
        way=f"{fmt(work.bytes, 'B')} at {fmt(gpus * bandwidth, 'TB/s')} allow {fmt(rate, 'tokens/s')}.",
    )


@SET.problem("The batch at the ridge")
def batch(draw: Draw) -> Question:
    """How many sequences make decode compute-bound, if there were no cache."""
    peak, bandwidth, _ = _chip(draw)
    size, name = draw.one_of(((1, "FP8"), (2, "BF16")))
    factor = 2 if size == 1 else 1
    ridge_point = roofline.ridge_point(factor * peak, bandwidth)
    right = ridge_point * size / 2
    draw.require(right > 20)
    return Question(
        f"Weights are kept in {name} ({size} byte{'s' * (size > 1)} each), and the GEMMs of decode run at"
        f" {fmt(factor * peak, 'TFLOP/s', 4)} (dense, {name}) on {fmt(bandwidth, 'TB/s')}. Count the weights alone, no cache."
        " From which batch on is decode limited by compute?",
        right,
        "sequences",
        mistakes={
            "Each weight does a multiply and an add for each sequence: two FLOPs, not one.": 2 * right,
            "That is twice too few: check the bytes of a weight.": right / 2,
            "Bits for bytes: eight bits are one byte.": right / 8,
        },
        hints=["Intensity of decode at batch b: 2 b FLOPs for the bytes of one weight.", "Set it equal to the ridge."],
        way=f"Ridge {fmt(ridge_point, 'FLOP/byte')} times {size} / 2 = {fmt(right)} sequences.",
    )


@SET.problem("Room for the cache")
def cache(draw: Draw) -> Question:
    """How many users fit beside the weights."""
    model = transformer(draw.one_of(("Llama 3.1 8B", "Llama 3.1 70B", "Qwen3 32B", "Qwen3 14B", "Mistral 7B")))
    context, gpus = 1000 * draw.number(4, 64), draw.one_of((1, 2, 4, 8))
    capacity = draw.number(80, 288, 4) * GB
    weights = 2 * parameters(model).total
    each = float(kv_cache_bytes(model, context))
    free = gpus * capacity - weights
    draw.require(free / each > 30)
    right = free / each
    assert model.kv_heads
    ungrouped = each * model.heads / model.kv_heads
    return Question(
        f"{model.name} ({model.layers} layers, {model.heads} heads, {model.kv_heads} KV heads of {model.head_dim}) runs on"
        f" {gpus} GPU{'s' * (gpus > 1)} of {fmt(capacity, 'GB')} in BF16, weights {fmt(weights, 'GB', 4)}, cache in BF16 too."
        f" How many users with {context:,} tokens of context fit, if nothing else takes memory?",
        right,
        "users",
        tolerance=0.03,
        mistakes={
            "GQA caches the KV heads, not all heads.": free / ungrouped,
            "A factor of two is missing: keys and values, two bytes each.": 2 * free / each,
            "The weights take their share first.": gpus * capacity / each,
            "A BF16 element has two bytes, not four.": free / each / 2,
        },
        hints=["Bytes of cache a token: 2 (K and V) x layers x KV heads x head size x 2 bytes.", "Weights first."],
        way=f"{fmt(each, 'GB')} a user into {fmt(free, 'GB')}.",
    )


@SET.problem("Experts that must be read")
def experts(draw: Draw) -> Question:
    """Distinct experts touched by a small batch."""
    count, used = draw.number(32, 384, 8), draw.number(2, 8)
    tokens = draw.number(8, 48)
    right = count * float(roofline.experts_touched(tokens, experts=count, experts_per_token=used))
    draw.require(right < 0.93 * count)
    return Question(
        f"A layer has {count} experts, and every token is routed to {used} of them, evenly. Of how many experts must the"
        f" weights be read for a decode batch of {tokens} tokens, on average?",
        right,
        "experts",
        mistakes={
            "Tokens share experts: not every one of those is another.": float(tokens * used),
            "That is the traffic of one token.": float(used),
            "Those are the experts that nobody chose.": count - right,
        },
        hints=["How likely is it that one given expert is chosen by none of the tokens?", "E (1 - (1 - k/E)^b)."],
        way=f"{count} x (1 - (1 - {used}/{count})^{tokens}) = {fmt(right)}.",
    )


@SET.essay(
    "Which chip for which service",
    {
        "Computes both latencies and both throughputs from the roofline, with units": 2,
        "Says at which batch the answer turns, and why": 2,
        "Names one thing that the roofline leaves out and how it would change the answer": 1,
    },
)
def choose(draw: Draw) -> str:
    """Open: two chips, one service."""
    peak, bandwidth, _ = _chip(draw)
    other, faster = draw.number(13, 22) / 10, draw.number(13, 22) / 10
    return (
        f"Chip A has {fmt(peak, 'TFLOP/s', 4)} (dense BF16) and {fmt(bandwidth, 'TB/s')}. Chip B has {other:g} times the peak"
        f" and the same memory; chip C the same peak and {faster:g} times the bandwidth. Both cost the same. You serve a 70B"
        " model to people who chat and to a job that summarises archives overnight. Which do you buy for which, and at"
        " which batch does the answer turn? Show the numbers."
    )
