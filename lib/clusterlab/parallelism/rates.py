"""Rates: what a machine reaches of its datasheet at a precision, and the seconds of kernels and collectives at them."""

from __future__ import annotations

from typing import NamedTuple

from ..catalogue import Machine, Software, find
from ..checks import ceiling, floor, larger, pick, smaller
from ..interconnect import crossing_slowdown, expert_all_to_all, multi_node_ring, pipelined_time
from ..model import PRECISIONS
from ..quantities import Bytes, BytesPerSecond, Flops, FlopsPerSecond, Multiple, Number, Seconds, Share
from ..roofline import kernel_time


class Group(NamedTuple):
    """Ranks of a collective: all, those in each scale-up domain, and how many times as long its bytes take outside."""

    ranks: Number
    local: Number
    slower: Multiple


class Rates(NamedTuple):
    """What a machine reaches of its datasheet at a precision: FLOP/s, bytes/s, seconds."""

    peak: FlopsPerSecond  # of the datasheet
    gemm: FlopsPerSecond
    gemm_16: FlopsPerSecond
    attention: FlopsPerSecond
    attention_most: FlopsPerSecond  # beyond it the half that the causal mask hides would count for more than the peak
    operand_bytes: float
    memory: BytesPerSecond
    overlap_loss: Share
    scale_up_ring: BytesPerSecond
    network_ring: BytesPerSecond
    scale_up_all_to_all: BytesPerSecond
    network_all_to_all: BytesPerSecond
    scale_up_latency: Seconds
    network_latency: Seconds
    dispatch_latency: Seconds
    domain: Number
    oversubscription: Number
    leaf: Number

    def kernel_time(self, flops: Flops, moved: Bytes) -> Seconds:
        """Seconds of a GEMM at the precision of the layers."""
        return kernel_time.unchecked(
            flops, moved, peak=self.gemm, bandwidth=self.memory, overlap_loss=self.overlap_loss
        )

    def kernel_time_16(self, flops: Flops, moved: Bytes) -> Seconds:
        """Seconds of a GEMM at 16 bits, whatever the layers have."""
        return self._replace(gemm=self.gemm_16).kernel_time(flops, moved)

    def group(self, ranks: Number, stride: Number = 1.0) -> Group:
        """A group whose neighbours are ``stride`` ranks apart: under each leaf, one node's next is under another."""
        local, slower = _inside(self.domain, ranks, stride), 1.0
        if self.oversubscription > 1:
            under = _inside(self.leaf, ranks, stride)
            slower = self._slower((under < ranks) * local / under)
        return Group(ranks, local, slower)

    def _slower(self, crossing: Share) -> Multiple:
        return crossing_slowdown.unchecked(smaller(crossing, 1.0), self.oversubscription)

    def ring(self, size: Bytes, group: Group, messages: Number = 1.0) -> Seconds:
        """Seconds of an all-gather or a reduce-scatter of ``size`` bytes."""
        cost = multi_node_ring.unchecked(
            size,
            group.ranks,
            node_size=group.local,
            bandwidth=self.network_ring / group.slower,
            latency=self.network_latency,
            node_bandwidth=self.scale_up_ring,
            node_latency=self.scale_up_latency,
            messages=messages,
        )
        return pipelined_time.unchecked(cost.latency, cost.transfer)

    def expert_all_to_all(
        self, size: Bytes, ranks: Number, experts_per_token: Number, node_limit: Number | None = None
    ) -> Seconds:
        """Seconds of sending ``size`` bytes of tokens from each rank to their experts, on so many nodes at most."""
        local, slower = _inside(self.domain, ranks), 1.0
        if self.oversubscription > 1:
            slower = self._slower((ranks - _inside(self.leaf, ranks)) / pick(local < ranks, ranks - local, 1.0))
        cost = expert_all_to_all.unchecked(
            size,
            ranks,
            experts_per_token=experts_per_token,
            node_size=local,
            bandwidth=self.network_all_to_all / slower,
            latency=self.network_latency,
            node_bandwidth=self.scale_up_all_to_all,
            node_latency=self.scale_up_latency,
            node_limit=node_limit,
        )
        return cost.latency + self.dispatch_latency * (local < ranks) + cost.transfer


def _inside(held: Number, ranks: Number, stride: Number = 1.0) -> Number:
    """Ranks of a group in each domain, or under each leaf, that holds so many; equal in all."""
    most = floor(held / stride)
    return ranks / ceiling(ranks / larger(pick(most < ranks, most, ranks), 1.0))


def reached(machine: Machine, precision: str, software: Software | None = None) -> Rates:
    """Return a machine's rates at a precision of :data:`~clusterlab.model.PRECISIONS`: with Megatron-LM, or others."""
    faster = 1.0 if software is None else software.gemm
    row_wise = software.row_wise_gemm if software is not None and precision == "fp8-row" else 1.0
    share, links = machine.efficiency, machine.link_efficiency
    peak_name, operand_bytes = find("precision", precision, PRECISIONS)
    peak = find("peak of the machine", peak_name, machine.peaks)
    peak_16 = machine.peaks["bf16" if "bf16" in machine.peaks else "fp16"]
    return Rates(
        peak=peak,
        gemm=faster * row_wise * (peak * {2.0: share.gemm, 1.0: share.gemm_8}.get(operand_bytes, share.gemm_4)),
        gemm_16=faster * (peak_16 * share.gemm),
        attention=peak_16 * share.attention,
        attention_most=peak_16 * 9 / 16,
        operand_bytes=operand_bytes,
        memory=share.memory * machine.hbm_bandwidth,
        overlap_loss=share.overlap_loss,
        scale_up_ring=links.scale_up_ring * machine.scale_up_bandwidth,
        network_ring=links.network_ring * machine.network_bandwidth,
        scale_up_all_to_all=links.all_to_all * machine.scale_up_bandwidth,
        network_all_to_all=links.all_to_all * machine.network_bandwidth,
        **{name: getattr(machine, name) for name in _OF_MACHINE},
    )


_OF_MACHINE = ("scale_up_latency", "network_latency", "dispatch_latency", "domain", "oversubscription", "leaf")
