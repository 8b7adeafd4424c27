"""A second opinion on failures: one run of a job, event by event in simpy, written without the laws of the library."""

import numpy as np
import simpy


class Job:
    """A job that runs, is struck, and starts again. Seconds of each part, and how often it was struck, are summed."""

    def __init__(self, seed, work, *, interval, write, mtbf, lag=0, detection=0, repair=0, restart=0, spares=None):
        self.env = simpy.Environment()
        self.random = np.random.default_rng(seed)
        self.write, self.lag, self.detection, self.repair, self.restart = write, lag, detection, repair, restart
        self.pieces = [interval] * int(work // interval) + [work % interval] * (work % interval > 0)
        self.safe = 0
        self.spent = dict.fromkeys(("running", "restart", "detection", "repair", "failures"), 0)
        self.pool = None if spares is None else simpy.Container(self.env, init=spares)
        self.vulnerable = False
        self.main = self.env.process(self.life())
        for mean, machines in mtbf.values() if isinstance(mtbf, dict) else [(mtbf, 1)]:
            self.env.process(self.strikes(mean, machines))
        self.env.run(self.main)

    def strikes(self, mean, machines):
        """Lightning of one kind, at any time; it hurts only a job that is up."""
        while True:
            yield self.env.timeout(self.random.exponential(mean))
            if self.vulnerable:
                self.vulnerable = False
                self.main.interrupt(machines)

    def life(self):
        while True:
            begun = self.env.now
            self.vulnerable, self.drains, part = True, [], "restart"
            try:
                if self.spent["failures"]:
                    yield self.env.timeout(self.restart)
                self.spent["restart"] += self.env.now - begun
                begun, part = self.env.now, "running"
                yield from self.train()
            except simpy.Interrupt as strike:
                self.spent[part] += self.env.now - begun
                self.spent["failures"] += 1
                for drain in self.drains:
                    if drain.is_alive:
                        drain.interrupt()
                yield from self.down(strike.cause)
            else:
                self.spent["running"] += self.env.now - begun
                return

    def train(self):
        for piece in range(self.safe, len(self.pieces)):
            yield self.env.timeout(self.pieces[piece])
            yield self.env.timeout(self.write)
            self.drains.append(self.env.process(self.drain(piece + 1)))
        yield self.drains[-1]

    def drain(self, piece):
        try:
            yield self.env.timeout(self.lag)
            self.safe = piece
        except simpy.Interrupt:
            pass

    def down(self, machines):
        if self.pool is not None:
            self.env.process(self.mend(machines))
        yield self.env.timeout(self.detection)
        self.spent["detection"] += self.detection
        begun = self.env.now
        yield self.env.timeout(self.repair) if self.pool is None else self.pool.get(machines)
        self.spent["repair"] += self.env.now - begun

    def mend(self, machines):
        yield self.env.timeout(self.random.exponential(self.repair))
        yield self.pool.put(machines)

    @property
    def parts(self):
        kept = sum(self.pieces), len(self.pieces) * self.write + self.lag
        down = {name: self.spent[name] for name in ("detection", "restart", "repair")}
        return {"useful": kept[0], "checkpoint": kept[1], "rework": self.spent["running"] - sum(kept)} | down
