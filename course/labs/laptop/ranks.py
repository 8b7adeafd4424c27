"""Processes as ranks: a ring all-reduce over sockets, and a training step that uses it. NumPy alone.

``python ranks.py`` times both on two ranks and writes ``all_reduce.txt``, which ``clusterlab fit`` reads.
"""

from __future__ import annotations

import multiprocessing
import os
import socket
import threading
import time
from collections.abc import Callable, Sequence
from multiprocessing.queues import SimpleQueue
from pathlib import Path

for setting in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"):
    os.environ.setdefault(setting, "1")  # a rank has one core: set before NumPy is loaded

import numpy as np  # noqa: E402

SIZES = [2**power for power in range(10, 25, 2)]  # 1 KiB to 16 MiB


class Ring:
    """What a rank has: a socket to the next rank, and one from the rank before."""

    def __init__(self, rank: int, ports: Sequence[int], server: socket.socket) -> None:
        self.rank, self.n = rank, len(ports)
        self.next = socket.create_connection(("127.0.0.1", ports[(rank + 1) % self.n]))
        self.before, _ = server.accept()
        for wire in (self.next, self.before):
            wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def exchange(self, out: np.ndarray, into: np.ndarray) -> None:
        """Send one piece on while another comes in: both directions at once."""
        sender = threading.Thread(target=self.next.sendall, args=(out.data.cast("B"),))
        sender.start()
        view, got = into.data.cast("B"), 0
        while got < len(view):
            got += self.before.recv_into(view[got:])
        sender.join()

    def all_reduce(self, buffer: np.ndarray) -> None:
        """Add up the buffers of all ranks, in place: n - 1 rounds that add, and n - 1 that copy."""
        pieces = np.array_split(buffer, self.n)
        into = np.empty_like(pieces[0])
        for turn in range(self.n - 1):
            mine, other = (self.rank - turn) % self.n, (self.rank - turn - 1) % self.n
            arriving = into[: len(pieces[other])]
            self.exchange(pieces[mine], arriving)
            pieces[other] += arriving
        for turn in range(self.n - 1):
            mine, other = (self.rank - turn + 1) % self.n, (self.rank - turn) % self.n
            self.exchange(pieces[mine], pieces[other])


def _time_all_reduces(ring: Ring, sizes: Sequence[int]) -> list[float]:
    times = []
    for size in sizes:
        buffer = np.ones(size // 4, dtype=np.float32)
        ring.all_reduce(buffer)
        assert buffer[0] == buffer[-1] == ring.n, "the sum is wrong"
        tries = []
        for _ in range(15):
            start = time.perf_counter()
            ring.all_reduce(buffer)
            tries.append(time.perf_counter() - start)
        times.append(min(tries))
    return times


def _time_steps(ring: Ring, width: int, tokens: Sequence[int]) -> list[float]:
    """A layer of one matrix: forward, backward for the input and for the weights, then the gradients' all-reduce."""
    generator = np.random.default_rng(ring.rank)
    weights = generator.standard_normal((width, width), dtype=np.float32)
    times = []
    for count in tokens:
        inputs = generator.standard_normal((count, width), dtype=np.float32)
        tries = []
        for _ in range(5):
            ring.all_reduce(np.zeros(ring.n, dtype=np.float32))  # a barrier
            start = time.perf_counter()
            outputs = inputs @ weights
            outputs @ weights.T  # the gradient of the input
            gradient = inputs.T @ outputs
            if ring.n > 1:
                ring.all_reduce(gradient.reshape(-1))
            tries.append(time.perf_counter() - start)
        times.append(min(tries))
    return times


def _rank(
    rank: int, ports: list[int], server: socket.socket, what: Callable, given: tuple, answers: SimpleQueue
) -> None:
    times = what(Ring(rank, ports, server), *given)
    if rank == 0:
        answers.put(times)


def run(ranks: int, what: Callable[..., list[float]], *given: object) -> list[float]:
    """Start so many processes, join them to a ring, and return what rank 0 has timed."""
    servers = [socket.create_server(("127.0.0.1", 0)) for _ in range(ranks)]
    ports = [server.getsockname()[1] for server in servers]
    spawn = multiprocessing.get_context("spawn")
    answers = spawn.SimpleQueue()
    workers = [spawn.Process(target=_rank, args=(r, ports, servers[r], what, given, answers)) for r in range(ranks)]
    for worker in workers:
        worker.start()
    times = answers.get()
    for worker, server in zip(workers, servers, strict=True):
        worker.join()
        server.close()
    return times


def all_reduce_times(ranks: int = 2, sizes: Sequence[int] = SIZES) -> list[float]:
    """Seconds of an all-reduce of each size, the best of fifteen."""
    return run(ranks, _time_all_reduces, list(sizes))


def step_times(ranks: int, width: int = 1024, tokens: Sequence[int] = (32, 128, 512, 2048)) -> list[float]:
    """Seconds of a training step of one layer, by the tokens of a rank, the best of five."""
    return run(ranks, _time_steps, width, list(tokens))


def as_nccl_tests(ranks: int, sizes: Sequence[int], seconds: Sequence[float]) -> str:
    """The times as nccl-tests prints them: ``clusterlab fit`` and every other tool for its logs read that."""
    lines = ["# size(B) count type redop root time(us) algbw(GB/s) busbw(GB/s) #wrong time algbw busbw #wrong"]
    for size, t in zip(sizes, seconds, strict=True):
        rate = size / t / 1e9
        half = f"{t * 1e6:12.1f} {rate:8.3f} {rate * 2 * (ranks - 1) / ranks:8.3f} 0"
        lines.append(f"{size:12} {size // 4:12} float sum -1 {half} {half}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    text = as_nccl_tests(2, SIZES, all_reduce_times())
    Path("all_reduce.txt").write_text(text)
    print(text)
    for ranks in (1, 2):
        print(f"ranks {ranks}, seconds of a step:", *(f"{t:.5f}" for t in step_times(ranks)))
