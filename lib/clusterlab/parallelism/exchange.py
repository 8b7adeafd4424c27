"""Exchange: the seconds of a step's collectives on each axis, and what of them nothing hides."""

from __future__ import annotations

from typing import NamedTuple

from ..catalogue import Machine, Software
from ..checks import larger, pick, some, total
from ..interconnect import exposed_time
from ..model import Rank, Transformer
from ..quantities import Bytes, Number, Seconds, Share
from .rates import Group, Rates
from .work import Compute, Job, Weights

# --- Inside the layers -----------------------------------------------------------------------------------------------


class TensorParallel(NamedTuple):
    """Seconds of one all-reduce over the tensor-parallel ranks, what of all is exposed, and all."""

    all_reduce: Seconds
    forward: Seconds
    backward: Seconds
    recompute: Seconds
    total: Seconds

    @property
    def exposed(self) -> Seconds:
        """Seconds of all passes that nothing hides."""
        return self.forward + self.backward + self.recompute


class Communication(NamedTuple):
    """Seconds of the collectives inside the layers for one microbatch, on all stages together."""

    tensor: TensorParallel
    exposed_context: Seconds
    exposed_expert: Seconds
    expert_forward: Seconds
    total: Seconds  # exposed or not


def layer_communication(
    model: Transformer, rates: Rates, software: Software, job: Job, rank: Rank, compute: Compute
) -> Communication:
    """Return the seconds of tensor, context and expert parallelism."""
    tensor = _tensor_parallel(model, rates, software, job, rank, compute)
    ring, exposed_context = _context_parallel(model, rates, software, job, rank, compute)
    expert_forward, expert, exposed_expert = _expert_parallel(model, rates, software, job, compute)
    return Communication(tensor, exposed_context, exposed_expert, expert_forward, tensor.total + ring + expert)


def _tensor_parallel(
    model: Transformer, rates: Rates, software: Software, job: Job, rank: Rank, compute: Compute
) -> TensorParallel:
    """Each block ends in an all-reduce, which hides behind GEMMs where the software does that."""
    tp, kappa = job.tp, software.contention_scale_up
    size = 2 * job.tokens * model.hidden
    all_reduce = 2 * rates.ring(size, rates.group(tp)) * (tp > 1)
    forward = total([count * block.all_reduces(model, rank) for count, block in model.counted]) * all_reduce
    backward = forward * pick(job.sequence_parallel, 1.5, 1.0)  # the split inputs are gathered once more
    skipped: Number = 0.0
    if software.skip_last_gemm_in_recompute:
        skipped = all_reduce * sum(count for count, block in model.counted if block.feeds_forward) / 2
    recompute = job.full * (forward - skipped)
    exposed_forward, exposed_backward = forward, backward
    if software.tensor_overlap_forward:  # in pieces, of which the first cannot hide
        behind = compute.forward.gemms
        rest = exposed_time.unchecked(forward * (1 - 1 / tp), behind, contention=kappa)
        exposed_forward = forward / tp + rest
    if software.tensor_overlap_backward:  # behind the weight gradients
        exposed_backward = exposed_time.unchecked(backward, compute.backward.gemms / 2, contention=kappa)
    exposed_recompute = recompute * exposed_forward / pick(forward > 0, forward, 1.0)
    shown = exposed_forward, exposed_backward, exposed_recompute
    return TensorParallel(all_reduce, *shown, forward + backward + recompute)


def _context_parallel(
    model: Transformer, rates: Rates, software: Software, job: Job, rank: Rank, compute: Compute
) -> tuple[Seconds, Seconds]:
    """Seconds in which keys and values travel, and what of them is exposed.

    They go around the ring, and their gradients too; the first of the cp pieces is not hidden. Or they all are gathered
    first, as for Llama 3 (section 3.3.2).
    """
    cp, full = job.cp, job.full
    if not some(cp > 1):
        return 0.0, 0.0
    ring, around = rates.group(cp, job.tp), 0.0
    for count, block in model.counted:
        size = 2 * job.tokens * cp * block.context_elements(model, rank.tp)
        if some(size > 0):
            around = around + count * rates.ring(size, ring) * (cp > 1)
    forward, backward = around, 2 * around
    if software.context_overlap:
        first, rest = around / cp, 1 - 1 / cp
        forward = first + exposed_time.unchecked(around * rest, compute.forward.attention, contention=0.0)
        backward = first + exposed_time.unchecked(2 * around - first, compute.backward.attention, contention=0.0)
    return (3 + full) * around, forward * (1 + full) + backward


def _expert_parallel(
    model: Transformer, rates: Rates, software: Software, job: Job, compute: Compute
) -> tuple[Seconds, Seconds, Seconds]:
    """Seconds of the all-to-alls of experts: of a forward pass, of all passes, and what of those is exposed."""
    ep, forward = job.ep, 0.0
    if not model.routings:
        return 0.0, 0.0, 0.0
    for count, routing in model.routings:
        size = 2 * job.tokens * routing.per_token * routing.width / job.tp
        crossing = routing.per_token if software.tokens_cross_once else 1  # a copy each is as many tokens of one expert
        each = rates.expert_all_to_all(size, ep, crossing, routing.node_limit)
        forward = forward + 2 * count * each * (ep > 1)
    total = forward * (2 + job.full)
    if not software.expert_overlap:
        return forward, total, total
    kappa = _contention(software, rates.group(ep))
    behind = (job.microbatches > 1) * compute.time  # another microbatch, if there is one
    return forward, total, exposed_time.unchecked(total, behind, contention=kappa)


def stage_transfers(
    model: Transformer, machine: Machine, rates: Rates, software: Software, job: Job
) -> tuple[Seconds, Seconds]:
    """Return the seconds of transfers between pipeline stages: those that are exposed, and all."""
    pp, stages = job.pp, rates.group(job.pp, job.tp * job.cp * job.dp)
    local = job.tp * job.cp * job.dp * pp <= machine.domain
    rate = pick(local, rates.scale_up_ring, rates.network_ring / stages.slower)
    latency = pick(local, rates.scale_up_latency, rates.network_latency)
    hop = (2 * job.tokens * model.hidden * model.streams / job.tp / rate + latency) * (pp > 1)
    fill, steady = 2 * (pp - 1) * hop, 2 * job.chunks * job.microbatches * hop
    return fill + pick((job.chunks > 1) & software.stage_overlap, 0.0, steady), fill + steady


# --- Data parallelism ------------------------------------------------------------------------------------------------


class Shards(NamedTuple):
    """Parameters of a rank on the stage with the output layer, and the groups that share them out.

    Its layers are an average stage's. ``messages``: collectives of a group that carry them, one after the other.
    """

    dense_params: Number
    expert_params: Number
    group: Group
    expert_group: Group

    def collective(self, rates: Rates, bytes_per_parameter: Bytes, messages: Number = 1.0) -> Seconds:
        """Return the seconds to gather or reduce-scatter so many bytes of each parameter, once."""
        time: Seconds = 0.0
        dense, experts = self.group.ranks > 1, self.expert_group.ranks > 1
        if some(dense):
            time = rates.ring(bytes_per_parameter * self.dense_params, self.group, messages) * dense
        if some(experts):
            time = time + rates.ring(bytes_per_parameter * self.expert_params, self.expert_group, messages) * experts
        return time

    def updated(self, zero: Number) -> Number:
        """Return the parameters that the optimizer of a rank updates."""
        dense = self.dense_params / pick(zero >= 1, self.group.ranks, 1.0)
        return dense + self.expert_params / pick(zero >= 1, self.expert_group.ranks, 1.0)


def shards_of(model: Transformer, rates: Rates, job: Job, weights: Weights) -> Shards:
    """Return what of the weights a rank has, and who shares it."""
    tp, pp, ranks = job.tp, job.pp, job.sharding_ranks
    ends = model.vocab * model.hidden / tp * (1 + (pp == 1) * (not model.tied))
    experts = Group(1.0, 1.0, 1.0)
    if some(weights.routed):
        stride = job.ep * job.expert_tp
        experts = rates.group(larger(tp * ranks / stride, 1.0), stride)
    return Shards(weights.dense / pp + ends, weights.routed / pp, rates.group(ranks, tp), experts)


class Windows(NamedTuple):
    """Seconds of one microbatch on a stage that gradients and sharded weights may hide behind."""

    forward: Seconds
    backward: Seconds
    recompute: Seconds


def windows_of(software: Software, job: Job, compute: Compute, comm: Communication) -> Windows:
    """Return what there is to hide behind."""
    pp, full = job.pp, job.full
    free = 1.0 * ((job.cp == 1) | (not software.context_overlap))  # attention that hides keys and values hides no more
    forward, backward = compute.forward, compute.backward
    in_forward = forward.gemms + free * forward.attention + forward.memory + comm.tensor.forward
    in_backward = backward.gemms + free * backward.attention + backward.memory + comm.tensor.backward
    again = compute.recompute_time - full * (1 - free) * forward.attention + comm.tensor.recompute
    return Windows(
        forward=(in_forward + comm.expert_forward) / pp,
        backward=(in_backward + comm.expert_forward) / pp,
        recompute=(again + full * comm.expert_forward) / pp,
    )


def data_parallel(
    model: Transformer, rates: Rates, software: Software, job: Job, shards: Shards, windows: Windows
) -> tuple[Seconds, Seconds]:
    """Return the seconds of gradients and sharded weights in a step: what is exposed, and all."""
    exposed, total = _replicated_weights(rates, software, job, shards, windows)
    if some(job.zero >= 3):
        exposed_3, total_3 = _sharded_weights(model, rates, software, job, shards, windows)
        exposed, total = pick(job.zero >= 3, exposed_3, exposed), pick(job.zero >= 3, total_3, total)
    groups = job.dp * job.cp / shards.group.ranks
    if some(groups > 1):
        exposed_groups, total_groups = _between_groups(rates, software, job, shards, windows, groups)
        exposed, total = exposed + exposed_groups, total + total_groups
    return exposed, total


def _contention(software: Software, group: Group) -> Share:
    return pick(group.local < group.ranks, software.contention_network, software.contention_scale_up)


def _replicated_weights(
    rates: Rates, software: Software, job: Job, shards: Shards, windows: Windows
) -> tuple[Seconds, Seconds]:
    """ZeRO 0 to 2. Gradients leave once a step, or after every microbatch where no rank keeps them whole (stage 2).

    Then the updated weights are gathered; without ZeRO this second half of an all-reduce carries gradients.
    """
    gather, scatter = shards.collective(rates, 2.0), shards.collective(rates, software.gradient_bytes)
    second, times = pick(job.zero >= 1, gather, scatter), pick(job.zero == 2, job.microbatches, 1.0)
    total = times * scatter + second
    if not software.data_overlap:
        return total, total
    kappa = _contention(software, shards.group)
    backward = windows.backward + windows.recompute
    exposed_second = exposed_time.unchecked(second, windows.forward, contention=kappa)
    sharded = times * exposed_time.unchecked(scatter, backward, contention=kappa) + exposed_second
    return pick(job.zero >= 1, sharded, exposed_time.unchecked(total, backward, contention=kappa)), total


def _sharded_weights(
    model: Transformer, rates: Rates, software: Software, job: Job, shards: Shards, windows: Windows
) -> tuple[Seconds, Seconds]:
    """ZeRO 3: weights and gradients travel for every microbatch, a layer at a time, the first of them exposed."""
    kappa = _contention(software, shards.group)
    pieces, backward = larger(model.layers / job.pp, 1.0), windows.backward + windows.recompute
    if software.zero3_gather_rate is None:
        gather = shards.collective(rates, 2.0, pieces)
        scatter = shards.collective(rates, software.gradient_bytes, pieces)
        each, but_first = 2 * gather + scatter, 1 - 1 / pieces
        exposed = exposed_time.unchecked(gather, windows.forward * but_first, contention=kappa)
        exposed = exposed + exposed_time.unchecked(gather + scatter, backward * but_first, contention=kappa)
    else:
        size = 2 * (shards.dense_params + shards.expert_params)
        waits = rates.ring(0.0, shards.group, pieces)
        gather = (size / software.zero3_gather_rate + waits) * (shards.group.ranks > 1)
        each = (3 + job.full) * gather  # once more for recomputation, and the gradients, which nothing hides
        exposed = gather + exposed_time.unchecked(gather, windows.forward, contention=kappa)
        exposed = exposed + exposed_time.unchecked(gather, windows.backward, contention=kappa)
        exposed = exposed + job.full * exposed_time.unchecked(gather, windows.recompute, contention=kappa)
    return job.microbatches * exposed, job.microbatches * each


def _between_groups(
    rates: Rates, software: Software, job: Job, shards: Shards, windows: Windows, groups: Number
) -> tuple[Seconds, Seconds]:
    """Hybrid sharding: each rank sums its shard of the gradients with the other groups, once a step."""
    shard = shards.dense_params / shards.group.ranks + shards.expert_params / shards.expert_group.ranks
    group = rates.group(groups, job.tp * shards.group.ranks)
    total = 2 * rates.ring(software.gradient_bytes * shard, group) * (groups > 1)
    if not software.data_overlap:
        return total, total
    kappa = _contention(software, group)
    return exposed_time.unchecked(total, windows.backward + windows.recompute, contention=kappa), total
