"""What tests of serving share: models, a bare software, the roofline of a kernel, replicas and batches drawn."""

from dataclasses import replace

from hypothesis import strategies as st

from clusterlab.catalogue import SERVING, machine
from clusterlab.model import Layout, transformer
from clusterlab.roofline import kernel_time
from clusterlab.serving import Batch, Formats, Replica

H100 = machine("H100 SXM")
SMALL, LARGE, MIXTURE, DEEPSEEK = (
    transformer(name) for name in ("Llama 3.1 8B", "Llama 3.1 70B", "Mixtral 8x7B", "DeepSeek-V3")
)
HYBRID, HYBRID_MIXTURE = transformer("Nemotron-H 8B"), transformer("Nemotron 3 Super")
# Nothing but the kernels: no launches, no host, experts all alike.
BARE = replace(SERVING["usual"], pass_time=0.0, kernel_time=0.0, sequence_time=0.0, expert_skew=0.0)


def seconds(flops, read, moved, software, peak):
    return kernel_time(
        flops,
        read + moved,
        peak=peak,
        bandwidth=software.memory * H100.hbm_bandwidth,
        overlap_loss=software.overlap_loss,
    )


def gemm_rate(formats, software):
    name, share = {"bf16": ("bf16", "gemm"), "fp8": ("fp8", "gemm_8")}[formats.compute]
    return H100.peaks[name] * getattr(H100.efficiency, share) * software.gemm


@st.composite
def replicas(draw):
    shape = draw(st.sampled_from([SMALL, MIXTURE, DEEPSEEK, transformer("gpt-oss 120B"), HYBRID, HYBRID_MIXTURE]))
    tp, pp, dp = (draw(st.sampled_from(values)) for values in ((1, 2, 8), (1, 3, 4), (1, 2, 16)))
    ep = draw(st.sampled_from([1, tp * dp])) if shape.experts else 1
    redundant = -shape.experts % ep if shape.experts else 0
    layout = Layout(tp=tp, pp=pp, dp=dp, ep=ep)
    chip = machine(draw(st.sampled_from(["H100 SXM", "GB200", "A100 80GB"])))
    formats = Formats("bf16", cache_bytes=draw(st.sampled_from([1, 2])))
    return Replica(shape, chip, layout, formats, draw(st.booleans()), redundant)


@st.composite
def batches(draw):
    number = st.floats(0.5, 1e5)
    decoding, reading = draw(st.sampled_from([(1, 0), (0, 1), (1, 1)]))
    return Batch(
        sequences=decoding * draw(number),
        context=draw(st.floats(1, 1e5)),
        verified=draw(st.floats(1, 5)),
        prompt_tokens=reading * draw(number),
        chunk=draw(st.floats(1, 1e4)),
        cached=draw(st.floats(0, 1e5)),
    )
