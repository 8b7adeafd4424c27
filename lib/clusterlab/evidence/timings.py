"""Timings: one timed collective, the operation whose law it follows, and the rate that nccl-tests would print."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ..checks import whole
from ..interconnect import bus_factor

# --- Timed collectives -----------------------------------------------------------------------------------------------

# The operation whose law a name of nccl-tests or of our data follows, without case, spaces, dashes and number formats.
# One port bounds what a broadcast sends, as it bounds a single message.
_OPERATIONS = {
    "allreduce": "all-reduce",
    "allgather": "all-gather",
    "reducescatter": "reduce-scatter",
    "alltoall": "all-to-all",
    "alltoallv": "all-to-all",
    "broadcast": "broadcast",
    "reduce": "broadcast",
    "sendrecv": "send-receive",
    "p2pwrite": "send-receive",
}

EXPERTS = "expert all-to-all"  # the kernels that send tokens to their experts, and back
_EXPERT_KERNEL = re.compile(r"(?:moe|expert|ep)(?:dispatch|combine)")
TESTS = "all_reduce, all_gather, reduce_scatter, alltoall, broadcast, reduce, sendrecv"
_MOST_GPUS = 10_000_000
MOST_ROWS = 20_000  # of a file, which takes seconds: a sweep has some thirty
AGREE = 0.05  # by how much a printed time and a printed rate may differ, beyond rounding: they are often of two runs


@dataclass(frozen=True)
class Timing:
    """One timed collective and the wires that it crossed. Bytes, seconds, bytes/s per direction."""

    source: str
    row: str  # its name in a message
    operation: str
    size: float  # infinite for a plateau: only the bandwidth of a long message is published
    seconds: float  # of a plateau: seconds for each byte
    ranks: int
    nodes: int = 1  # or NVLink domains, where these are wider than a host
    scale_up: float | None = None  # one GPU's NVLink or PCIe
    scale_up_latency: float | None = None
    nvlink: str = ""  # that joins a node, by its generation: "NVLink 5"
    network: float | None = None  # the ports of one node that its GPUs use, together
    tcp: bool = False
    fabric: str = ""  # of the network: a row of clusterlab.catalogue.FABRICS, if the row says it
    mesh: int = 0  # links of one GPU to as many others, which share the rate ``scale_up``; 0: switches join them all
    logical: bool = False  # whether the bytes counted include those that stay with the rank's own node
    experts: int = 0  # experts that a token is sent to
    host: bool = False  # whether the host launches collectives one by one, and nothing hides that
    in_switch: bool | None = False  # whether NVLink switches reduce (NVLS); None: where that is faster
    switch: float | None = None  # rate of one GPU's link into switches that reduce
    network_adds: bool = False  # whether the switches between nodes reduce, too (SHARP)
    algorithm: str = ""  # "ring" or "tree", where the run forced it
    quality: str = "A"  # of the source: C is good for the shape of a curve, not for a rate
    machine: str = ""  # the publication and the GPU; rows of one machine are not independent
    generation: str = ""  # of the GPU

    @property
    def publication(self) -> str:
        """Who published it."""
        return self.machine.rpartition(", ")[0] or self.machine or self.source

    @property
    def fold(self) -> tuple[str, str]:
        """The generation of its GPUs and the fabric between their nodes, or that there is none."""
        return self.generation or self.machine, self.fabric if self.nodes > 1 else "inside"

    @property
    def payload(self) -> float:
        """Bytes that ``seconds`` are for: the size, or one byte for a plateau."""
        return self.size if np.isfinite(self.size) else 1.0

    @property
    def bus_bandwidth(self) -> float:
        """Bytes/s as nccl-tests prints them under busbw."""
        return bus_factor_of(self.operation, self.ranks) * self.payload / self.seconds


@lru_cache(maxsize=1024)
def bus_factor_of(operation: str, ranks: int) -> float:
    """What nccl-tests multiply the algorithm bandwidth by."""
    return 1.0 if operation == EXPERTS else float(bus_factor(operation, ranks))


def operation_of(name: str) -> str | None:
    """The operation whose law a collective of this name follows."""
    folded = re.sub(r"[^a-z0-9]", "", name.casefold())
    if _EXPERT_KERNEL.match(folded):
        return EXPERTS
    return _OPERATIONS.get(re.sub(r"(fp8|bf16|fp16)?$", "", folded))


def whole_count(**count: float) -> int:
    """A number of GPUs or of nodes, checked; :func:`clusterlab.checks.whole` is slow for thousands of rows."""
    ((name, value),) = count.items()
    if value > _MOST_GPUS:
        raise ValueError(f"{name} must be at most {_MOST_GPUS:,}, got {value}")
    return int(value) if value >= 1 and value % 1 == 0 else int(whole(**count)[0])


def is_data(line: str) -> bool:
    """Whether a line is neither empty nor a comment."""
    return bool(line.strip()) and not line.lstrip().startswith("#")


def by_source(timings: Iterable[Timing]) -> dict[str, list[Timing]]:
    """The rows of each source, in order."""
    sources: dict[str, list[Timing]] = {}
    for row in timings:
        sources.setdefault(row.source, []).append(row)
    return sources
