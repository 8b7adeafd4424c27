"""Serving: batch at the ridge, shared prompts, pipelines, traffic, drafts, prices."""

from __future__ import annotations

from clusterlab import catalogue, post_training, roofline, serving
from clusterlab.model import kv_bytes_per_token, parameters, transformer
from clusterlab.units import day, fmt, hour, million
from course.kinds import Estimate, Flaw, Line, flawed, rough
from course.problems import Draw, ProblemSet, Step
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


@SET.problem("Users at once, by hand")
def online(draw: Draw) -> Estimate:
    """Little's law for a product."""
    people, asks = draw.one_of((1, 2, 5, 10, 20, 50)), draw.number(2, 12)
    answer, pace = draw.number(300, 900, 50), draw.one_of((20, 25, 30, 40, 50))
    rate, stay = people * million * asks / day, answer / pace
    draw.require(stay >= 8)
    right = rate * stay
    return Estimate(
        f"{people} million people ask {asks} questions a day each, and read answers of {answer} tokens at {pace} tokens a second. How many"
        " of them are being answered at any moment, on average?",
        right,
        "users",
        mistakes={
            "Those are requests a second; each stays for a whole answer.": rate,
            "A day has 86,400 seconds, not 3,600.": 24 * right,
        },
        hints=["Users = requests a second x seconds that an answer takes."],
        way=f"{people * asks} million a day is about {rough(rate)} a second; an answer takes about {rough(stay)} s.",
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


@SET.problem("A fleet with a mistake", points=3)
def fleet(draw: Draw) -> Flaw:
    """From requests to the price of a token."""
    rate, answer, pace = draw.number(50, 600, 5), draw.number(200, 900, 50), draw.one_of((20, 25, 40, 50))
    batch, gpus, load = draw.number(60, 300, 10), draw.one_of((4, 8, 16)), draw.number(55, 75, 5) / 100
    rent, mean = draw.number(180, 500, 10) / 100, draw.number(40, 70, 5) / 100
    tokens = mean * rate * answer * day / million
    return flawed(
        draw,
        f"At the peak {rate} requests come a second, on average {fmt(mean, '%')} of that. Answers have {answer} tokens and are read at"
        f" {pace} a second. A replica of {gpus} GPUs holds {batch} users and is filled to {fmt(load, '%')}; a GPU costs ${rent:.2f} an"
        " hour. The fleet is built for the peak.",
        (
            Line("Time of an answer", "s", lambda _: answer / pace),
            Line(
                "Users at the peak",
                "users",
                lambda v: rate * v[0],
                {"The fleet is built for the peak, not for the mean.": lambda v: mean * rate * v[0]},
            ),
            Line(
                "Replicas, before rounding up",
                "replicas",
                lambda v: v[1] / (batch * load),
                {"Filled to less than the last place, it takes more of them.": lambda v: v[1] / batch},
            ),
            Line("GPUs", "GPUs", lambda v: v[2] * gpus, {f"A replica has {gpus} GPUs.": lambda v: v[2]}),
            Line(
                "A day of them",
                "$",
                lambda v: v[3] * rent * 24,
                {"GPUs built for the peak are paid all day.": lambda v: v[3] * rent * 24 * mean},
            ),
            Line(
                "A million tokens",
                "$",
                lambda v: v[4] / tokens,
                {"The peak doesn't last all day: fewer tokens share the bill.": lambda v: v[4] / (tokens / mean)},
            ),
        ),
        ["Users = rate x time: Little's law.", "Which of the numbers belong to the peak, and which to the mean?"],
    )


@SET.design("The longest attempt", "The round that waits for it")
def longest(draw: Draw) -> Step:
    """Post-training: the longest of many answers, and the time of a batch that waits for it."""
    samples, mean = 2 ** draw.number(6, 12), draw.number(500, 4000, 100)
    spread, floor = draw.number(50, 100, 5) / 100, draw.number(60, 300, 5) / 10
    most = float(post_training.expected_longest(mean, spread, samples=samples))
    draw.require(most > 2.5 * mean)
    time = most * floor / 1000
    first = Question(
        f"A round of reinforcement learning writes {samples:,} attempts. Their lengths are lognormal, {mean:,} tokens on average, with a"
        f" standard deviation of {spread:g} of the logarithm. How long is the longest, on average?",
        most,
        "tokens",
        tolerance=0.03,
        mistakes={
            "That is the mean attempt, not the longest.": float(mean),
            "Those are the tokens of all attempts.": float(samples * mean),
            "One standard deviation above is a common attempt, not the longest of many.": mean * 2.718281828**spread,
        },
        hints=["`post_training.expected_longest`.", "About m e^(s sqrt(2 ln n) - s²/2), from above."],
        way=f"{most / mean:.3g} times the mean.",
    )
    second = Question(
        f"All attempts start together, a pass adds a token to each, and takes {floor:g} ms whatever it holds. How long does the round"
        " write?",
        time,
        "s",
        tolerance=0.03,
        mistakes={
            "That is the mean attempt: the batch waits for the longest.": mean * floor / 1000,
            "A pass adds a token to all of them, not to one.": samples * mean * floor / 1000,
        },
        hints=["A pass for each token of the longest."],
        way=f"{most:,.0f} passes of {floor:g} ms: {fmt(time, 's')}.",
    )
    return first, second, lambda found: found * floor / 1000


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
