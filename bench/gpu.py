"""One GPU, measured: ``python bench/gpu.py rows.csv`` writes what the book's constants say a GPU reaches.

It needs PyTorch and a GPU, and takes two to five minutes: GEMMs, attention by kernel and length, the time of a kernel
that has nothing to do, a decoding pass, a training step with few tokens and many, its peak of memory, and watts while
each of them runs. Data are random (zeros draw less power and run faster). A time is the median of several, each of
repeated calls between two events of the GPU.
"""

import csv
import sys
import threading
import time
from contextlib import nullcontext
from pathlib import Path
from statistics import median

import torch
from torch import nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

FIELDS = ("kind", "name", "variant", "tokens", "context", "m", "n", "k", "kernels", "time", "flops", "bytes", "watts")
ON = torch.device("cuda" if torch.cuda.is_available() else "cpu")
SMALL = ON.type == "cpu"  # to try the script itself
HIDDEN, FFN, HEADS, KV_HEADS, WIDTH = (64, 128, 4, 2, 16) if SMALL else (4096, 14336, 32, 8, 128)  # of Llama 3.1 8B
LAYERS, VOCABULARY = (2, 100) if SMALL else (8, 32768)
BF16 = torch.bfloat16


class Watts:
    """The board's draw, read every 20 ms while a block runs."""

    def __init__(self):
        self.read, self.trace = None, []
        try:
            import pynvml

            pynvml.nvmlInit()
            handle = pynvml.nvmlDeviceGetHandleByIndex(0)
            self.read = lambda: pynvml.nvmlDeviceGetPowerUsage(handle) / 1000
        except Exception as reason:  # no driver, no library: watts stay empty
            print(f"no watts: {reason}", file=sys.stderr)

    def __enter__(self):
        self.trace, self.going = [], True
        self.thread = threading.Thread(target=self._follow)
        self.thread.start()
        return self

    def _follow(self):
        while self.going and self.read:
            self.trace.append((time.perf_counter(), self.read()))
            time.sleep(0.02)

    def __exit__(self, *_):
        self.going = False
        self.thread.join()

    @property
    def mean(self):
        """Mean of the second half: the sensor averages over a while."""
        late = [draw for _, draw in self.trace[len(self.trace) // 2 :]]
        return round(sum(late) / len(late), 1) if late else ""


WATTS = Watts()


def synchronize():
    """Wait until the GPU has done what it was told."""
    if not SMALL:
        torch.cuda.synchronize()


def timed(call, seconds=0.4):
    """Seconds of a call, the median of groups, and the watts meanwhile."""
    for _ in range(3):
        call()
    synchronize()
    start = time.perf_counter()
    call()
    synchronize()
    once = max(time.perf_counter() - start, 1e-6)
    repeats, groups = max(1, int(seconds / 8 / once)), []
    with WATTS:
        for _ in range(8):
            start = time.perf_counter()
            for _ in range(repeats):
                call()
            synchronize()
            groups.append((time.perf_counter() - start) / repeats)
    return median(groups), WATTS.mean


def graphed(call):
    """The same call as one CUDA graph."""
    if SMALL:
        return call
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph.replay


def kernels(call):
    """How many kernels a call launches."""
    if SMALL:
        return ""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        call()
        torch.cuda.synchronize()
    return sum(event.count for event in seen.key_averages() if event.device_type.name == "CUDA")


def random(*shape, dtype=BF16):
    """Normal random numbers on the GPU."""
    return torch.randn(*shape, device=ON, dtype=torch.float32).to(dtype)


# --- What is measured ------------------------------------------------------------------------------------------------


def gemms():
    """Square ones, and those of a layer at few rows and many, at 16 bits and at 8."""
    sizes = [(64, 64, 64)] if SMALL else [(side, side, side) for side in (2048, 4096, 8192, 16384)]
    rows = (16,) if SMALL else (1, 16, 64, 128, 256, 512, 1024, 2048, 4096, 8192)
    sizes += [(m, HIDDEN if SMALL else 8192, HIDDEN if SMALL else 8192) for m in rows]
    for m, n, k in sizes:
        many = 2 if SMALL else max(1, int(2e8 // (n * k)))  # other weights each time: none stays in the L2
        a, weights, out = random(m, k), [random(n, k) for _ in range(many)], torch.empty(m, n, device=ON, dtype=BF16)

        def products(a=a, weights=weights, out=out):
            for w in weights:
                torch.matmul(a, w.T, out=out)

        moved = 2 * (m * k + n * k + m * n)
        lasted, watts = timed(graphed(products))
        yield {"kind": "gemm", "variant": "bf16", "m": m, "n": n, "k": k, "time": lasted / many, "watts": watts,
               "flops": 2 * m * n * k, "bytes": moved}  # fmt: skip
        if SMALL or m < 16:
            continue
        one = torch.ones((), device=ON)
        a8, weights8 = a.to(torch.float8_e4m3fn), [w.to(torch.float8_e4m3fn) for w in weights]

        def products8(a8=a8, weights8=weights8, one=one):
            for w in weights8:
                torch._scaled_mm(a8, w.T, scale_a=one, scale_b=one, out_dtype=BF16, use_fast_accum=True)

        lasted, watts = timed(graphed(products8))
        yield {"kind": "gemm", "variant": "fp8", "m": m, "n": n, "k": k, "time": lasted / many, "watts": watts,
               "flops": 2 * m * n * k, "bytes": m * k + n * k + 2 * m * n}  # fmt: skip


def attentions():
    """Causal attention of 131,072 tokens in all, by length and kernel, forward and with its backward pass."""
    total = 256 if SMALL else 131072
    for length in (64,) if SMALL else (1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072):
        heads = 4 if SMALL else 8
        q, k, v = (random(total // length, heads, length, WIDTH).requires_grad_() for _ in range(3))
        flops = 4 * total * length / 2 * heads * WIDTH  # half of the scores
        for name in ("flash", "cudnn"):
            backend = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}[name]
            with nullcontext() if SMALL else sdpa_kernel(backend):
                out = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
                up = torch.randn_like(out)

                def forward(q=q, k=k, v=v):
                    with torch.no_grad():
                        functional.scaled_dot_product_attention(q, k, v, is_causal=True)

                def backward(out=out, up=up, inputs=(q, k, v)):
                    torch.autograd.grad(out, inputs, up, retain_graph=True)

                for direction, call, count in (("forward", forward, 1), ("backward", backward, 2.5)):
                    lasted, watts = timed(call, 0.3)
                    yield {"kind": "attention", "name": direction, "variant": name, "tokens": total, "time": lasted,
                           "context": length, "flops": count * flops, "watts": watts}  # fmt: skip


def launches():
    """A kernel on one element: one after another, by themselves and in a graph."""
    one, many = torch.zeros(1, device=ON), 1000

    def chain():
        for _ in range(many):
            one.add_(1)

    for variant, call in (("eager", chain), ("graph", graphed(chain))):
        lasted, _ = timed(call)
        yield {"kind": "launch", "variant": variant, "kernels": many, "time": lasted / many}


class Layer(nn.Module):
    """A layer of Llama: grouped-query attention, a gated feed-forward."""

    def __init__(self):
        super().__init__()
        size = {"bias": False, "device": ON, "dtype": BF16}
        self.before, self.between = (nn.RMSNorm(HIDDEN, device=ON, dtype=BF16) for _ in range(2))
        self.qkv = nn.Linear(HIDDEN, (HEADS + 2 * KV_HEADS) * WIDTH, **size)
        self.back, self.gate = nn.Linear(HEADS * WIDTH, HIDDEN, **size), nn.Linear(HIDDEN, 2 * FFN, **size)
        self.down = nn.Linear(FFN, HIDDEN, **size)

    def forward(self, x, turns, cache=None, at=None):
        """One layer; with ``cache``, of one token for each sequence, whose keys and values go to place ``at``."""
        batch, length, _ = x.shape
        heads = self.qkv(self.before(x)).view(batch, length, -1, WIDTH).transpose(1, 2)
        q, k, v = heads.split((HEADS, KV_HEADS, KV_HEADS), 1)
        q, k = rotated(q, turns), rotated(k, turns)
        if cache is not None:
            keys, values = cache
            keys[:, :, at : at + 1] = k
            values[:, :, at : at + 1] = v
            k, v = keys, values
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=cache is None, enable_gqa=True)
        x = x + self.back(mixed.transpose(1, 2).reshape(batch, length, -1))
        gate, up = self.gate(self.between(x)).chunk(2, -1)
        return x + self.down(functional.silu(gate) * up)


def rotated(x, turns):
    """Rotate pairs of dimensions by the position."""
    one, two = x.chunk(2, -1)
    cos, sin = turns
    return torch.cat((one * cos - two * sin, two * cos + one * sin), -1)


def turned(length):
    """Cosines and sines of every position."""
    angles = torch.outer(torch.arange(length), 500000 ** -torch.linspace(0, 1, WIDTH // 2)).to(ON)
    return angles.cos().to(BF16), angles.sin().to(BF16)


@torch.no_grad()
def decodes():
    """A token for each sequence through LAYERS layers, their caches full: how long beyond the bytes that it reads."""
    layers = [Layer() for _ in range(LAYERS)]
    weights = sum(p.numel() for layer in layers for p in layer.parameters())
    context, step = (8, turned(1)) if SMALL else (1024, turned(1))

    def passed(layers, x, caches):
        for layer, cache in zip(layers, caches, strict=True):
            x = layer(x, step, cache, context - 1)
        return x

    for batch in (2,) if SMALL else (1, 4, 16, 64, 256):
        x = random(batch, 1, HIDDEN)
        caches = [tuple(random(batch, KV_HEADS, context, WIDTH) for _ in range(2)) for _ in range(LAYERS)]
        moved = 2 * weights + LAYERS * batch * context * KV_HEADS * WIDTH * 4
        for variant in ("eager", "compiled"):
            ready = compiled(layers) if variant == "compiled" else layers

            def one(layers=ready, x=x, caches=caches):
                passed(layers, x, caches)

            one()
            count = kernels(one)
            for launched, run in ((variant, one), (f"{variant}, graph", graphed(one))):
                lasted, watts = timed(run)
                yield {"kind": "decode", "name": f"{LAYERS} layers of Llama 3.1 8B", "variant": launched,
                       "tokens": batch, "context": context, "kernels": count, "time": lasted, "bytes": moved,
                       "flops": 2 * weights * batch, "watts": watts}  # fmt: skip


def compiled(layers):
    """The same layers, each through PyTorch's compiler, as torchtitan does."""
    return layers if SMALL else [torch.compile(layer, dynamic=False) for layer in layers]


class Model(nn.Module):
    """Some layers of Llama between an embedding and its output."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, HIDDEN, device=ON, dtype=BF16)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm = nn.RMSNorm(HIDDEN, device=ON, dtype=BF16)
        self.output = nn.Linear(HIDDEN, VOCABULARY, bias=False, device=ON, dtype=BF16)

    def forward(self, tokens, turns):
        """Return the loss of predicting the tokens."""
        x = self.embedding(tokens)
        for layer in self.used:
            x = layer(x, turns)
        return functional.cross_entropy(self.output(self.norm(x)).flatten(0, 1).float(), tokens.flatten())


def trainings():
    """A step of AdamW on one sequence, short and long: what a step takes that no token explains."""
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6, fused=not SMALL, capturable=not SMALL)
    count = sum(p.numel() for p in model.parameters())
    weights = count - VOCABULARY * HIDDEN  # of GEMMs
    plain = list(model.layers)
    for variant in ("eager", "compiled"):
        model.used = compiled(plain) if variant == "compiled" else plain
        for tokens in (16,) if SMALL else (256, 1024, 2048, 4096, 8192):
            text, turns = torch.randint(VOCABULARY, (1, tokens), device=ON), turned(tokens)
            run = None  # a graph keeps its memory

            def step(text=text, turns=turns):
                optimizer.zero_grad(set_to_none=False)
                model(text, turns).backward()
                optimizer.step()

            for _ in range(2):
                step()
            if not SMALL:
                torch.cuda.reset_peak_memory_stats()
            step()
            peak = "" if SMALL else torch.cuda.max_memory_allocated()
            work = 6 * weights * tokens + 3 * 2 * LAYERS * tokens**2 * HEADS * WIDTH
            launched = kernels(step)
            for how, run in ((variant, step), (f"{variant}, graph", graphed(step))):
                lasted, watts = timed(run, 0.6)
                yield {"kind": "training", "name": f"{LAYERS} layers of Llama 3.1 8B", "variant": how, "time": lasted,
                       "tokens": tokens, "context": tokens, "kernels": launched, "flops": work, "watts": watts,
                       "bytes": peak}  # fmt: skip


def trace():
    """Watts every 20 ms of half a minute: steps of one second with a pause for what others would exchange."""
    a, b = (random(64 if SMALL else 8192, 64 if SMALL else 8192) for _ in range(2))
    with WATTS:
        for pause in (0.0, 0.25, 0.5):
            end = time.perf_counter() + (0.1 if SMALL else 8)
            while time.perf_counter() < end:
                until = time.perf_counter() + (0.01 if SMALL else 1.0 - pause)
                while time.perf_counter() < until:
                    for _ in range(20):
                        torch.matmul(a, b)
                    synchronize()
                time.sleep(0.0 if SMALL else pause)
    start = WATTS.trace[0][0] if WATTS.trace else 0.0
    for at, draw in WATTS.trace:
        yield {"kind": "trace", "time": round(at - start, 4), "watts": draw}


def main():
    """Measure, and write a row as soon as it is there."""
    out = Path(sys.argv[1] if len(sys.argv) > 1 else "rows.csv")
    with out.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, FIELDS)
        writer.writeheader()
        for measure in (launches, gemms, attentions, decodes, trace, trainings):
            start = time.perf_counter()
            try:
                for row in measure():
                    writer.writerow(row)
                    file.flush()
            except Exception as reason:  # the others are worth having
                print(f"{measure.__name__}: {type(reason).__name__}: {str(reason)[:300]}", file=sys.stderr)
            print(f"{measure.__name__} {time.perf_counter() - start:.0f} s", flush=True)
            if not SMALL:
                torch.cuda.empty_cache()
    name = "a CPU" if SMALL else torch.cuda.get_device_name()
    print(f"{out}: {name}, PyTorch {torch.__version__}, CUDA {torch.version.cuda}")


if __name__ == "__main__":
    main()
