"""A second opinion on failures: one run of a job, event by event in simpy, written without the laws of the library."""

from functools import partial

import numpy as np
import simpy


class EventDrivenRun:
    """One run of a job: it trains, fails and restarts. Seconds of each part, and the failures, are summed.

    ``kinds`` maps each kind of failure to (its mean time between failures, the machines it takes); without it, every
    failure takes one machine.
    """

    def __init__(self, seed, work, job, *, spares=None, kinds=None):
        self.env = simpy.Environment()
        self.random = np.random.default_rng(seed)
        self.job = job
        self.segments = [job.interval] * int(work // job.interval)
        self.segments += [work % job.interval] * (work % job.interval > 0)
        self.safe = 0
        self.spent = dict.fromkeys(("running", "restart", "detection", "repair", "failures"), 0)
        self.pool = None if spares is None else simpy.Container(self.env, init=spares)
        self.vulnerable = False
        self.main = self.env.process(self.run())
        for mtbf, machines in kinds.values() if kinds else [(job.mtbf, 1)]:
            self.env.process(self.failures(mtbf, machines))
        self.env.run(self.main)

    def failures(self, mtbf, machines):
        """Failures of one kind come at any time; they affect only a job that is up."""
        while True:
            yield self.env.timeout(self.random.exponential(mtbf))
            if self.vulnerable:
                self.vulnerable = False
                self.main.interrupt(machines)

    def run(self):
        while True:
            start = self.env.now
            self.vulnerable, part = True, "restart"
            try:
                if self.spent["failures"]:
                    yield self.env.timeout(self.job.restart)
                self.spent["restart"] += self.env.now - start
                start, part = self.env.now, "running"
                yield from self.train()
            except simpy.Interrupt as failure:
                self.spent[part] += self.env.now - start
                self.spent["failures"] += 1
                yield from self.recover(failure.cause)
            else:
                self.spent["running"] += self.env.now - start
                return

    def train(self):
        for segment in range(self.safe, len(self.segments)):
            yield self.env.timeout(self.segments[segment] + self.job.write)
            drained = self.env.timeout(self.job.lag)
            drained.callbacks.append(partial(self.make_safe, segment + 1, self.spent["failures"]))
        yield drained

    def make_safe(self, segments, failures, _event):
        """The drain of a checkpoint has ended; a failure since it began has destroyed it."""
        if failures == self.spent["failures"]:
            self.safe = segments

    def recover(self, machines):
        if self.pool is not None:
            self.env.process(self.mend(machines))
        yield self.env.timeout(self.job.detection)
        self.spent["detection"] += self.job.detection
        start = self.env.now
        yield self.env.timeout(self.job.repair) if self.pool is None else self.pool.get(machines)
        self.spent["repair"] += self.env.now - start

    def mend(self, machines):
        yield self.env.timeout(self.random.exponential(self.job.repair))
        yield self.pool.put(machines)

    @property
    def parts(self):
        kept = sum(self.segments), len(self.segments) * self.job.write + self.job.lag
        down = {name: self.spent[name] for name in ("detection", "restart", "repair")}
        return {"useful": kept[0], "checkpoint": kept[1], "rework": self.spent["running"] - sum(kept)} | down
