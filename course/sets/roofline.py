"""Roofline: peak, bandwidth, intensity, batches, experts."""

from __future__ import annotations

from clusterlab import roofline
from clusterlab.model import kv_cache_bytes, parameters, transformer
from clusterlab.units import GB, PFLOP, TB, TFLOP, billion, fmt
from course.kinds import Estimate, Flaw, Line, flawed, rough
from course.problems import Draw, ProblemSet, Step
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


@SET.problem("A prompt, by hand")
def prompt(draw: Draw) -> Estimate:
    """FLOPs over what the GPUs do, with round numbers."""
    size, tokens = draw.one_of((8, 32, 70, 120, 400)), 1000 * draw.number(2, 30)
    gpus, peak, share = draw.one_of((8, 16)), draw.one_of((1, 2, 2.5)), draw.number(35, 60, 5) / 100
    work, rate = 2 * size * billion * tokens, gpus * peak * PFLOP * share
    right = work / rate
    return Estimate(
        f"A dense model of {size} billion parameters reads a prompt of {tokens:,} tokens on {gpus} GPUs of {peak:g} PFLOP/s"
        f" (dense) each, at {fmt(share, '%')} of that. How long does it take?",
        right,
        "s",
        mistakes={
            "That is training: to read a token takes 2 FLOPs a parameter, not 6.": 3 * right,
            "All GPUs work on it at the same time.": gpus * right,
            "That is one token; the prompt has thousands.": right / tokens,
        },
        hints=["2 FLOPs a parameter and token."],
        way=f"2 x {size:g}e9 x {tokens:,} is about {rough(work)} FLOP; {gpus} x {peak:g}e15 x {share:g} is about {rough(rate)} a second.",
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


@SET.problem("A replica with a mistake", points=3)
def replica(draw: Draw) -> Flaw:
    """From the bytes of the weights to tokens a second."""
    model = transformer(draw.one_of(("Llama 3.1 8B", "Llama 3.1 70B", "Qwen3 32B", "Qwen3 14B", "Mistral 7B")))
    gpus, memory = draw.one_of((2, 4, 8)), draw.number(80, 288, 4) * GB
    bandwidth, context = draw.number(140, 800, 5) * TB / 100, 1000 * draw.number(4, 40)
    count, each = float(parameters(model).total), float(kv_cache_bytes(model, context))
    draw.require(gpus * memory > 2 * count + 40 * each)
    grouped = model.heads / (model.kv_heads or model.heads)
    return flawed(
        draw,
        f"{model.name} ({fmt(count / 1e9, 'billion')} parameters, {model.layers} layers, {model.heads} heads, {model.kv_heads} KV"
        f" heads of {model.head_dim}) decodes in BF16, cache too, on {gpus} GPUs of {fmt(memory, 'GB')} and"
        f" {fmt(bandwidth, 'TB/s')} each. Users have {context:,} tokens of context.",
        (
            Line("Weights", "B", lambda _: 2 * count, {"BF16 has two bytes.": lambda _: count}),
            Line(
                "Room for caches",
                "B",
                lambda v: gpus * memory - v[0],
                {"The weights take their share of the memory first.": lambda _: gpus * memory},
            ),
            Line(
                "Cache of a user",
                "B",
                lambda _: each,
                {
                    "Keys and values are two.": lambda _: each / 2,
                    "GQA caches the KV heads, not all heads.": lambda _: grouped * each,
                },
            ),
            Line("Users at once", "users", lambda v: v[1] / v[2]),
            Line(
                "A decoding step, which reads weights and caches",
                "s",
                lambda v: (v[0] + v[3] * v[2]) / (gpus * bandwidth),
                {
                    "The caches are read too.": lambda v: v[0] / (gpus * bandwidth),
                    "All GPUs read their shares at the same time.": lambda v: (v[0] + v[3] * v[2]) / bandwidth,
                },
            ),
            Line("All users together", "tokens/s", lambda v: v[3] / v[4]),
        ),
        ["Do each line again from the ones before it: bytes first, then their quotients."],
    )


@SET.design("A crowd to remember", "The pace that it gets")
def crowd(draw: Draw) -> Step:
    """Bytes of weights and caches, then the tokens a second that they allow."""
    model = transformer(draw.one_of(("Llama 3.1 8B", "Llama 3.1 70B", "Qwen3 32B", "Qwen3 14B")))
    users, context, gpus = draw.number(16, 160, 4), 500 * draw.number(4, 40), draw.one_of((4, 8, 16))
    bandwidth = draw.number(200, 800, 10) * TB / 100
    weights, cache = 2 * float(parameters(model).total), users * float(kv_cache_bytes(model, context))
    draw.require(0.2 < cache / weights < 10)
    held = weights + cache
    pace = gpus * bandwidth / held
    assert model.kv_heads
    first = Question(
        f"{model.name} ({fmt(weights / 2e9, 'billion')} parameters, {model.layers} layers, {model.heads} heads, {model.kv_heads} KV"
        f" heads of {model.head_dim}) serves {users} users with {context:,} tokens of context each; weights and cache are in"
        " BF16. How many bytes do weights and caches take together?",
        held,
        "B",
        mistakes={
            "That is the weights alone.": weights,
            "That is the caches alone.": cache,
            "GQA caches the KV heads, not all heads.": weights + cache * model.heads / model.kv_heads,
            "Keys and values are two.": weights + cache / 2,
        },
        hints=["A token's cache: 2 x layers x KV heads x head size x 2 bytes."],
        way=f"{fmt(weights, 'GB')} of weights and {fmt(cache, 'GB')} of caches.",
    )
    second = Question(
        f"All of that is read for each token, from {gpus} GPUs of {fmt(bandwidth, 'TB/s')} that read at the same time; nothing else"
        " takes time. How many tokens a second does each user get?",
        pace,
        "tokens/s",
        mistakes={
            "That is for all users together.": users * pace,
            "All GPUs read at the same time.": pace / gpus,
            "Each user needs a step, not a turn: they share it.": pace / users,
        },
        hints=["A step reads it all once, and gives each user a token."],
        way=f"{fmt(gpus * bandwidth, 'TB/s')} / {fmt(held, 'GB')} = {fmt(pace, 'tokens/s')}.",
    )
    return first, second, lambda found: gpus * bandwidth / found


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
