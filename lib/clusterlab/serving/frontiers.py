"""Frontiers: every layout and batch of a replica, and those that nothing beats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from ..checks import Numeric, positive, whole
from ..model import Layout
from ..quantities import PerSecond
from ..records import Explained, Rows
from .batches import NO_DRAFTS, Drafts, Service, continuous_batch, saturation
from .replica import Replica, Requests


@dataclass(frozen=True, repr=False)
class Frontier(Explained):
    """Every layout and batch that fits: what a GPU yields against how fast a user reads.

    ``layouts``, ``two_batch_overlap`` and ``service`` go together, element by element.
    """

    considered: int
    layouts: Layout
    two_batch_overlap: np.ndarray
    service: Service

    @property
    def front(self) -> np.ndarray:
        """Indices of the Pareto front: nothing else yields more a GPU and is as fast for a user. Fastest first."""
        speed, yields = self.service.speed, self.service.tokens_per_second_per_gpu
        order = np.lexsort((-yields, -speed))
        most = np.maximum.accumulate(yields[order])
        return order[np.concatenate([[True], yields[order][1:] > most[:-1]])] if order.size else order

    def best(self, *, speed: PerSecond) -> int:
        """Return the index of the most tokens a second and GPU where each user gets ``speed`` tokens a second at least.

        Raises
        ------
        ValueError
            Nothing is as fast.
        """
        (least,) = positive(speed=speed)
        fast = self.service.speed >= least
        if not np.any(fast):
            fastest = np.max(self.service.speed, initial=0.0)
            raise ValueError(f"speed must be at most {fastest:.3g} tokens/s, the fastest of all; got {least:g}")
        return int(np.argmax(np.where(fast, self.service.tokens_per_second_per_gpu, -1.0)))

    def _rows(self) -> Rows:
        rows = [("", "value"), ("considered", f"{self.considered:,}"), ("fit", f"{self.two_batch_overlap.size:,}")]
        if self.two_batch_overlap.size:
            service = self.service
            rows += [("speed of a user", service.say("speed")), ("on the front", f"{self.front.size:,}")]
            rows += [("tokens per second per gpu", service.with_interval)]
        return rows


def frontier(
    replica: Replica,
    requests: Requests,
    *,
    gpus: int | Sequence[int],
    batches: Sequence[float] | None = None,
    chunk: float | None = None,
    drafts: Drafts = NO_DRAFTS,
) -> Frontier:
    """Serve requests under every layout of so many GPUs and every batch.

    Parameters
    ----------
    replica : Replica
        Model, machine, formats and software. Its layout is not looked at.
    requests : Requests
        One kind of request.
    gpus : int or sequence of int
        GPUs of a replica. All powers of two that divide them are tried as tp and pp (and what is left of a size that is
        no power); dp follows. Experts are whole and shared by all GPUs of a stage, or split by tp and all there. Copies
        of experts fill the ranks evenly; with whole experts two-batch overlap is tried too.
    batches : sequence, optional
        Sequences for each GPU; by default from 1/64 to 4096 in steps of a quarter of an octave.
    chunk : float, optional
        As in :func:`continuous_batch`.
    drafts : Drafts
        Likewise: small batches gain most, for their passes read more than they compute.

    Returns
    -------
    Frontier

    Raises
    ------
    ValueError
        Nothing fits.

    Examples
    --------
    >>> from clusterlab.catalogue import machine
    >>> from clusterlab.model import transformer
    >>> from clusterlab.serving import Formats
    >>> replica = Replica(transformer("Llama 3.1 70B"), machine("H100 SXM"), Layout(tp=8), Formats("fp8"))
    >>> found = frontier(replica, Requests(1000, 1000), gpus=8)
    >>> float(found.layouts[found.front[0]].tp)  # the fastest
    8.0
    """
    sizes = np.unique(whole(gpus=gpus)[0])
    some = 2.0 ** np.arange(-6, 12.25, 0.25) if batches is None else np.atleast_1d(positive(batches=batches)[0])
    candidates = _every_layout(replica, sizes)
    sequences = candidates.gpus[:, None] * some
    room = np.broadcast_to(saturation(candidates, requests)[:, None], sequences.shape)
    which, batch = np.nonzero((sequences <= room) & (sequences >= 1))
    if not which.size:
        counts = ", ".join(f"{size:g}" for size in sizes)
        raise ValueError(f"nothing fits: {replica.model.name} on {counts} of {replica.machine.name}")
    blocks = []
    for i in range(0, which.size, _BLOCK):
        now = which[i : i + _BLOCK]
        chosen = _taken(candidates, now)
        some_of = {"sequences": sequences[now, batch[i : i + _BLOCK]], "chunk": chunk, "drafts": drafts}
        blocks.append(continuous_batch(chosen, requests, **some_of))
    columns: Numeric = (np.concatenate([getattr(block, f.name) for block in blocks]) for f in fields(Service))
    return Frontier(sequences.size, candidates.layout[which], candidates.two_batch_overlap[which], Service(*columns))


_BLOCK = 16384  # layouts and batches at a time: their intermediate results stay in the cache of one core


def _taken(replicas: Replica, which: np.ndarray) -> Replica:
    """Some of a record of replicas, one dimension of them."""
    layout = replicas.layout[which]
    return replace(
        replicas,
        layout=layout,
        redundant=replicas.redundant[which],
        two_batch_overlap=replicas.two_batch_overlap[which],
    )


def _every_layout(replica: Replica, sizes: np.ndarray) -> Replica:
    """Every layout of so many GPUs, as :func:`frontier` says, in one record."""
    model, experts = replica.model, max(replica.model.experts, 1)
    axes = np.unique(np.concatenate([_divisors(size) for size in sizes]))
    shared = [False, True] if model.experts else [False]
    grid = np.meshgrid(sizes, axes, axes, shared, shared, indexing="ij")
    size, tp, pp, ep_all, overlapped = (axis.ravel() for axis in grid)
    dp = size / (tp * pp)
    ep = np.where(ep_all, size / pp, 1.0)
    sound = (dp >= 1) & (dp % 1 == 0) & (model.heads % tp == 0) & (pp <= model.layers) & (tp <= replica.machine.domain)
    for limits in (block.limits(model) for block in model.blocks):
        sound &= limits["tp"][1] % tp == 0 if "tp" in limits else True
    sound &= ((ep > 1) == ep_all) & (ep_all | ~overlapped)
    tp, pp, dp, ep, overlapped = (column[sound] for column in (tp, pp, dp, ep, overlapped))
    etp: Numeric = np.where(ep > 1, 1.0, tp)
    layout = Layout(tp=tp, pp=pp, dp=dp, ep=ep, etp=etp)
    redundant = np.where(ep > 1, -experts % ep, 0.0)
    return replace(replica, layout=layout, redundant=redundant, two_batch_overlap=overlapped)


def _divisors(size: float) -> np.ndarray:
    """Powers of two that divide a number, each alone and with the rest of it."""
    powers = 2.0 ** np.arange(int(np.log2(size)) + 1)
    powers = powers[size % powers == 0]
    return np.concatenate([powers, size / powers])
