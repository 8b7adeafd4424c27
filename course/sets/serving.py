"""Serving: batch at the ridge, shared prompts, pipelines, traffic, drafts, prices."""

from __future__ import annotations

from clusterlab import catalogue, roofline, serving
from clusterlab.model import kv_bytes_per_token, parameters, transformer
from clusterlab.units import day, fmt, hour, million
from course.problems import Draw, ProblemSet
from explorable import Question

SET = ProblemSet("serving", "Serving: users, speed and price")

_CHIPS = ("A100 80GB", "H100 SXM", "H200 SXM", "B200", "MI300X")


@SET.problem("Users at the ridge", points=1)
def ridge(draw: Draw) -> Question:
    """A warm-up: total over active."""
    chip = catalogue.accelerator(draw.one_of(_CHIPS))
    total, active = draw.number(200, 1400, 5), draw.number(15, 70)
    bend = float(roofline.ridge_point(chip.peak("bf16"), chip.hbm_bandwidth))
    right = bend * total / active
    return Question(
        f"A mixture of experts uses {active} of its {total} billion parameters for a token. Weights and GEMMs are in BF16, on"
        f" GPUs of {fmt(chip.peak('bf16'), 'TFLOP/s', 4)} dense and {fmt(chip.hbm_bandwidth, 'TB/s')}. A large batch reads all"
        " experts. With how many users at once does a decoding step reach the ridge, caches aside?",
        right,
        "users",
        mistakes={
            "A batch reads all experts, but each token multiplies with the active ones only.": bend,
            "Active over total is upside down: a sparse model needs more users, not fewer.": bend * active / total,
            "Two bytes a weight and two FLOPs a weight cancel: you counted one of them.": 2 * right,
        },
        hints=["FLOPs: 2 x active a token. Bytes: 2 x total a step.", "Users = ridge x total / active."],
        way=f"A ridge of {fmt(bend, 'FLOP/byte')}, times {total} / {active}: {right:,.0f} users.",
    )


@SET.problem("A prompt that all share")
def shared(draw: Draw) -> Question:
    """Users beside the weights, with a common beginning."""
    shape, chip = transformer("Llama 3.1 70B"), catalogue.accelerator(draw.one_of(("H100 SXM", "H200 SXM", "B200")))
    common, own = draw.number(500, 4000, 100), draw.number(1000, 8000, 100)
    each = float(kv_bytes_per_token(shape, bytes_per_element=1))
    weights = float(parameters(shape).total)
    free = 8 * chip.hbm_capacity - weights
    right = (free - common * each) / (own * each)
    return Question(
        f"Llama 3.1 70B in 8 bits (70.6 GB) on eight GPUs of {fmt(chip.hbm_capacity, 'GB', 4)}; a token's cache takes"
        f" {fmt(each, 'kB', 4)}. All users begin with the same {common:,} tokens, kept once; each has {own:,} more of its own."
        " How many users fit, if all of the memory may be used?",
        right,
        "users",
        mistakes={
            "The shared tokens are kept once, not once for each user.": free / ((common + own) * each),
            "The weights come first.": (8 * chip.hbm_capacity - common * each) / (own * each),
            "That is one GPU's memory; there are eight.": (chip.hbm_capacity - weights / 8) / (own * each),
        },
        hints=["What is left beside the weights and the shared cache?", "Over the bytes of one user's own tokens."],
        way=f"({fmt(free, 'GB', 4)} - {fmt(common * each, 'GB')}) / {fmt(own * each, 'GB')} = {right:,.0f}.",
    )


@SET.problem("A train of stages")
def train(draw: Draw) -> Question:
    """Tokens a second of one user in a pipeline."""
    stages, microbatches = draw.number(2, 8), draw.number(2, 14)
    stage, hand = draw.number(4, 40) / 1000, draw.number(2, 30) / 10_000
    draw.require(microbatches != stages)
    right = 1 / float(serving.pipelined_decode(stages, microbatches, stage_time=stage, hand_off=hand).token_time)
    return Question(
        f"A model is cut into {stages} stages. A microbatch takes {fmt(stage, 'ms')} in each, and {fmt(hand, 'ms')} from one to"
        f" the next and back to the first. {microbatches} microbatches are on their way. How many tokens a second does a user"
        " read?",
        right,
        "tokens/s",
        mistakes={
            "A microbatch passes all stages for a token, not one.": 1 / (stage + hand),
            "Look which is longer: one's way through all stages, or a stage's work for all microbatches.": 1
            / min(stages * (stage + hand), microbatches * stage),
            "Both are not waited for one after the other.": 1 / (stages * (stage + hand) + microbatches * stage),
        },
        hints=["A token's way: stages x (time + hand-off).", "A stage serves all microbatches before its next turn."],
        way=f"max({fmt(stages * (stage + hand), 'ms')}, {fmt(microbatches * stage, 'ms')}) a token.",
    )


@SET.problem("Traffic that fills it")
def traffic(draw: Draw) -> Question:
    """Little's law, in requests a day."""
    users, answer, pace = draw.number(200, 9000, 50), draw.number(200, 2000, 50), draw.number(15, 90)
    stay = answer / pace
    right = users / stay * day / million
    return Question(
        f"A replica holds {users:,} users. Each reads an answer of {answer:,} tokens at {pace} tokens a second; ignore the"
        " prompts. How many million requests a day keep it full?",
        right,
        "million requests",
        mistakes={
            "Each user stays for a whole answer, not for a token.": users * pace * day / million,
            "That is an hour.": right / 24,
            "Users times time is no rate: Little's law divides.": float(serving.little_law(users, stay))
            * day
            / million,
        },
        hints=["Little's law: users = rate x time of an answer.", "Time of an answer = tokens / pace."],
        way=f"{stay:.1f} s an answer: {users / stay:,.1f} requests a second.",
    )


@SET.problem("Guess ahead")
def drafts(draw: Draw) -> Question:
    """Speculative decoding, with its costs."""
    accept, ahead = draw.number(55, 92) / 100, draw.number(2, 7)
    cost, check = draw.number(2, 15) / 100, draw.number(100, 220, 5) / 100
    right = float(serving.speculative_speedup(accept, ahead, draft_time=cost, verify_time=check))
    return Question(
        f"A draft model guesses {ahead} tokens ahead, each at {fmt(cost, '%')} of a plain pass; the pass that verifies them"
        f" takes {check:g} plain passes. Each guess is accepted with probability {fmt(accept, '%')}, up to the first that"
        " isn't. How many times as fast do answers grow?",
        right,
        "",
        mistakes={
            "That is the tokens of a pass: drafting and verifying take time.": float(
                serving.accepted_tokens(accept, ahead)
            ),
            "After the first wrong guess the rest is lost: they don't simply add up.": (1 + ahead * accept)
            / (ahead * cost + check),
            "The verifying pass writes a token of its own, whatever is accepted.": (
                float(serving.accepted_tokens(accept, ahead)) - 1
            )
            / (ahead * cost + check),
        },
        hints=["Tokens gained: (1 - a^(g + 1)) / (1 - a).", "Over the time: g drafts and one verifying pass."],
        way=f"{float(serving.accepted_tokens(accept, ahead)):.2f} tokens in {ahead * cost + check:.2f} passes.",
    )


@SET.problem("A million tokens", points=3)
def price(draw: Draw) -> Question:
    """Dollars, with a pass that depends on the batch."""
    gpus, rent = draw.one_of((4, 8, 16, 32)), draw.number(180, 600, 10) / 100
    fixed, each = draw.number(6, 30), draw.number(2, 30) / 100
    full, share = draw.number(64, 512, 8), draw.one_of((0.2, 0.25, 0.4, 0.5, 0.6))
    batch = round(full * share)
    rate = batch / ((fixed + each * batch) / 1000)
    of_a_gpu = rent / hour
    right = million * float(serving.token_price(gpus * of_a_gpu, rate))
    at_full = full / ((fixed + each * full) / 1000)
    return Question(
        f"A replica of {gpus} GPUs at ${rent:.2f} an hour each writes a token for each of its b users in"
        f" {fixed} ms + b x {each:g} ms. It has room for {full}, and {fmt(share, '%')} of the places are taken: {batch} users."
        " What do a million tokens cost?",
        right,
        "$",
        mistakes={
            "That is the price with all places taken.": million * float(serving.token_price(gpus * of_a_gpu, at_full)),
            "That is the rent of one GPU.": right / gpus,
            "A pass gets shorter with fewer users: the price doesn't rise as their number falls.": million
            * float(serving.token_price(gpus * of_a_gpu, at_full))
            / share,
        },
        hints=[
            "How long is the pass with these users?",
            "Tokens a second = users / pass; dollars a second = GPUs x rent.",
        ],
        way=f"A pass of {fixed + each * batch:.1f} ms: {rate:,.0f} tokens/s for ${gpus * rent:.2f} an hour.",
    )


@SET.problem("Who gains from a rack", points=1)
def domain(draw: Draw) -> Question:
    """A choice: what a larger NVLink domain changes."""
    users = draw.number(1, 4)
    right = "a mixture of experts with thousands of users: its tokens travel to experts in every layer"
    return Question(
        f"You may move one workload from servers of 8 to a rack of {draw.one_of((72, 144))} GPUs of the same kind. The first"
        f" has {users} user{'s' * (users > 1)} at once, the others thousands. Which gains most tokens a second for each GPU?",
        right,
        choices={
            f"a dense 8B model with {users} at once: one token gets more memory bandwidth": "It gets more"
            " bandwidth, and more all-reduces that wait for latency. For each GPU it gets much less.",
            "a dense 70B model with long prompts: it needs the memory": "Capacity scales over any network: take"
            " more replicas. Its frontier is the same in servers and in racks.",
            right: "Right. In the rack no token leaves NVLink, where servers send most copies over ports.",
        },
        hints=["Capacity scales out over any network. What doesn't?"],
    )


@SET.essay(
    "A promise to users",
    {
        "Computes batch, layout and tokens a second of a GPU at the promised speed": 2,
        "Prices a million tokens at the mean load and at the peak": 2,
        "Says at which load the promise breaks, and how one would see it coming": 2,
        "Names the measurement that would change the decision": 1,
    },
)
def promise(draw: Draw) -> str:
    """Open: choose machines for a service."""
    model = draw.one_of(("Llama 3.1 70B", "DeepSeek-V3", "Kimi K2"))
    speed, peak = draw.one_of((20, 30, 40, 50)), draw.number(20, 200, 10)
    tokens, room = draw.number(1000, 8000, 500), draw.number(60, 900, 10)
    return (
        f"You serve {model} in 8 bits: {peak} requests a second at the peak, half of it on average, {tokens:,} tokens in and"
        f" 500 out. You promise {speed} tokens a second to 99 users in 100. You may rent H100s in servers of 8 at $2.95 an"
        f" hour, or GB200s in racks of 72 at $5.50; {fmt(room * 1e3, 'kW')} are yours. Which do you take, how many, and why?"
    )
