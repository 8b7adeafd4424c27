"""Making room: jobs are evicted for the head of the queue, or shrink for it, and grow where nobody waits."""

from __future__ import annotations

import numpy as np

from .state import State


def make_room(state: State, now: float, head: int) -> bool:
    """Shrink others, or else evict some, until the head of the queue fits; say whether it does."""
    if state.rules.settled < np.inf and _shrink(state, now, head):
        return True
    return state.rules.protected < np.inf and _evict(state, now, head)


def _evict(state: State, now: float, head: int) -> bool:
    """Evict jobs of lower priority, the lowest and the latest first, if that lets the head start with all its GPUs."""
    below = [job for job in state.running if state.priority[job] < state.priority[head]]
    ready = [job for job in below if now - state.running[job].begin >= state.rules.protected]
    ready.sort(key=lambda job: (state.priority[job], -state.running[job].begin, -job))
    freed = state.free + np.cumsum(state.held[ready], axis=0, dtype=np.int32)
    enough = state.fits(freed, state.gpus[head])
    if not enough.any():
        times = [state.running[job].begin + state.rules.protected for job in below]
        if soon := [time for time in times if time > now]:
            state.look_again(min(soon), head)
        return False
    last = int(enough.argmax())
    free, out = freed[last], [ready[last]]
    for job in reversed(ready[:last]):
        if state.fits(free - state.held[job], state.gpus[head]):
            free = free - state.held[job]  # who need not go stays
        else:
            out.append(job)
    for job in out:
        state.leave(now, job, state.rules.restart, evicted=True)
        state.wait(job)
    return True


def _shrink(state: State, now: float, head: int) -> bool:
    """Halve jobs that can do with less, one after the other and where they lie, until the head can start."""
    free, kept = state.free.copy(), {}
    for job in _settled(state, now):
        if state.priority[job] > state.priority[head]:
            break
        taken = state.held[job]
        size = int(taken.sum())
        while size // 2 >= state.least[job]:
            size //= 2
            less = np.diff(np.minimum(np.cumsum(taken), size), prepend=0)
            free += taken - less
            kept[job] = taken = less
            if state.fits(free, state.least[head]):
                for one, places in kept.items():
                    _resize(state, now, one, places)
                return True
    return False


def grow(state: State, now: float) -> None:
    """Nobody waits: give what is free to jobs that can do with more, the most important and the oldest first."""
    grown = True
    while grown:
        grown = False
        for job in reversed(_settled(state, now)):
            size, has, room = state.gpus[job], state.running[job].size, state.free + state.held[job]
            while size > has and not state.fits(room, size):
                size //= 2
            if size > has:
                _resize(state, now, job, state.place(room, size))
                grown = True


def _resize(state: State, now: float, job: int, places: np.ndarray) -> None:
    state.leave(now, job, state.rules.resize_time)
    state.begin(now, job, places)


def _settled(state: State, now: float) -> list[int]:
    """Jobs that may change their size now: the least important and the latest start first."""
    settled = [job for job, stay in state.running.items() if now >= stay.begin + state.rules.settled]
    return sorted(settled, key=lambda job: (state.priority[job], -state.running[job].begin, -job))
