"""Sharding: ranks that hold real arrays and exchange them around a ring, every value that they send counted.

A rank's array is an element of a list, so code that runs on n ranks is NumPy with a loop over the list. What it
computes can be put together again and compared with the unsharded product, and what it sends with the laws of
:mod:`clusterlab.interconnect`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..checks import whole


class Sent(NamedTuple):
    """One exchange: its name, and how many values the rank that sends most has sent."""

    collective: str
    values: int


class Ranks:
    """Ranks in a ring, each of which holds arrays.

    A list holds one array for each rank. A method takes such a list, passes arrays from neighbour to neighbour, and
    returns the list of what each rank then holds.

    Parameters
    ----------
    n : int
        How many ranks there are.

    Attributes
    ----------
    sent : list of Sent
        Every exchange so far.

    Raises
    ------
    ValueError
        A list is not of n arrays, or an axis cannot be cut into n equal parts.

    Examples
    --------
    A matrix product whose weights are cut by rows: each rank has a partial sum, and an all-reduce completes it.

    >>> x, w = np.arange(8.0).reshape(2, 4), np.ones((4, 2))
    >>> ranks = Ranks(4)
    >>> parts = [a @ b for a, b in zip(ranks.split(x, axis=1), ranks.split(w))]
    >>> bool(np.all(ranks.all_reduce(parts)[0] == x @ w)), ranks.sent
    (True, [Sent(collective='all-reduce', values=6)])
    """

    def __init__(self, n: int) -> None:
        self.n = int(whole(n=n)[0])
        self.sent: list[Sent] = []

    def split(self, array: np.ndarray, axis: int = 0) -> list[np.ndarray]:
        """Cut an array into n equal shards, one for each rank; nothing is sent."""
        if np.shape(array)[axis] % self.n:
            raise ValueError(f"axis {axis} of shape {np.shape(array)} cannot be cut into {self.n} equal parts")
        return np.split(array, self.n, axis)

    def reduce_scatter(self, parts: Sequence[np.ndarray], axis: int = 0) -> list[np.ndarray]:
        """Sum the n arrays, and leave each rank one shard of the sum: n - 1 steps around the ring."""
        sums, values = self._reduce_scatter([self.split(part, axis) for part in self._all(parts)])
        self.sent.append(Sent("reduce-scatter", values))
        return sums

    def all_gather(self, shards: Sequence[np.ndarray], axis: int = 0) -> list[np.ndarray]:
        """Give every rank all shards, put together along an axis: n - 1 steps around the ring."""
        held, values = self._all_gather(self._all(shards))
        self.sent.append(Sent("all-gather", values))
        return [np.concatenate(chunks, axis) for chunks in held]

    def all_reduce(self, parts: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Sum the n arrays on every rank: a reduce-scatter, and then an all-gather."""
        shape = np.shape(self._all(parts)[0])
        shards, scattered = self._reduce_scatter([np.array_split(np.ravel(part), self.n) for part in parts])
        held, gathered = self._all_gather(shards)
        self.sent.append(Sent("all-reduce", scattered + gathered))
        return [np.concatenate(chunks).reshape(shape) for chunks in held]

    def all_to_all(self, blocks: Sequence[Sequence[np.ndarray]]) -> list[list[np.ndarray]]:
        """Give rank j the block ``blocks[i][j]`` of every rank i; a rank's block for itself stays where it is."""
        for row in self._all(blocks):
            self._all(row)
        values = max(sum(np.size(block) for j, block in enumerate(row) if j != i) for i, row in enumerate(blocks))
        self.sent.append(Sent("all-to-all", values))
        return [list(column) for column in zip(*blocks, strict=True)]

    def send(self, array: np.ndarray) -> np.ndarray:
        """Hand an array from one rank to another."""
        self.sent.append(Sent("send", np.size(array)))
        return array

    def _all(self, arrays: Sequence) -> Sequence:
        if len(arrays) != self.n:
            raise ValueError(f"{self.n} ranks hold {self.n} arrays, got {len(arrays)}")
        return arrays

    def _reduce_scatter(self, chunks: list[list[np.ndarray]]) -> tuple[list[np.ndarray], int]:
        """Chunk c of the sum ends on rank c; and what the busiest rank sent."""
        sums, sent = [list(mine) for mine in chunks], np.zeros(self.n, int)
        for step in range(self.n - 1):
            for rank in range(self.n):
                c, after = (rank - step - 1) % self.n, (rank + 1) % self.n
                sums[after][c] = sums[after][c] + sums[rank][c]
                sent[rank] += np.size(sums[rank][c])
        return [sums[rank][rank] for rank in range(self.n)], int(sent.max())

    def _all_gather(self, shards: Sequence[np.ndarray]) -> tuple[list[list[np.ndarray]], int]:
        """All chunks on every rank, in order; and what the busiest rank sent."""
        held, sent = [{rank: shard} for rank, shard in enumerate(shards)], np.zeros(self.n, int)
        for step in range(self.n - 1):
            for rank in range(self.n):
                c = (rank - step) % self.n
                held[(rank + 1) % self.n][c] = held[rank][c]
                sent[rank] += np.size(held[rank][c])
        return [[mine[c] for c in range(self.n)] for mine in held], int(sent.max())
