"""A second opinion on schedules: jobs as simpy processes, nodes as plain counts, written without the library's laws."""

import simpy


class Floor:
    """Free GPUs of each node, and the rules by which a job gets its own."""

    def __init__(self, racks, rack, node_size, placement):
        self.free = [[node_size] * rack for _ in range(racks)]
        self.node_size, self.placement = node_size, placement

    def copy(self):
        other = Floor(0, 0, self.node_size, self.placement)
        other.free = [list(nodes) for nodes in self.free]
        return other

    def nodes(self):
        return [(r, n) for r, nodes in enumerate(self.free) for n in range(len(nodes))]

    def empty(self, rack):
        return [n for n, left in enumerate(self.free[rack]) if left == self.node_size]

    def find(self, size):
        """{(rack, node): GPUs} for a job, or None; nothing is taken."""
        trial, found = self.copy(), {}

        def take(place, count):
            found[place] = count
            trial.free[place[0]][place[1]] -= count

        if self.placement == "anywhere":
            if sum(map(sum, self.free)) < size:
                return None
            for place in sorted(self.nodes(), key=lambda p: self.free[p[0]][p[1]]):
                left = min(self.free[place[0]][place[1]], size)
                if left:
                    take(place, left)
                    size -= left
            return found
        while size >= self.node_size:
            spaces = {rack: len(trial.empty(rack)) for rack in range(len(self.free))}
            whole = size // self.node_size
            if not any(spaces.values()):
                return None
            just = [rack for rack in spaces if spaces[rack] >= whole]
            if self.placement == "pack" and just:
                rack = min(just, key=lambda r: spaces[r])
            else:
                rack = max(spaces, key=lambda r: spaces[r])
            for node in trial.empty(rack)[: whole if self.placement == "pack" else 1]:
                take((rack, node), self.node_size)
                size -= self.node_size
        if size:
            holds = [p for p in trial.nodes() if trial.free[p[0]][p[1]] >= size]
            if not holds:
                return None
            if self.placement == "pack":
                best = min(holds, key=lambda p: (trial.free[p[0]][p[1]], len(trial.empty(p[0]))))
            else:
                best = max(holds, key=lambda p: trial.free[p[0]][p[1]])
            take(best, size)
        return found

    def change(self, places, sign):
        for (rack, node), count in places.items():
            self.free[rack][node] += sign * count


class EventDriven:
    """Jobs (dicts of arrival, gpus, duration, priority, least, limit) through a cluster; ``stays`` is what happened."""

    def __init__(
        self, jobs, racks, rack, node_size, *, policy, placement, order="arrival", preemption=None, elastic=None
    ):
        self.env = simpy.Environment()
        self.floor = Floor(racks, rack, node_size, placement)
        self.rack, self.policy, self.by, self.preemption, self.elastic = rack, policy, order, preemption, elastic
        self.jobs = [dict(job, name=i, work=job["gpus"] * job["duration"], extra=0.0) for i, job in enumerate(jobs)]
        for job in self.jobs:
            job["asked"] = job["gpus"] * job["limit"]
            job["evicted"] = False
        self.queue, self.running, self.stays = [], [], []
        self.due = False
        for job in self.jobs:
            job["process"] = self.env.process(self.live(job))
        self.env.run()

    def look(self):
        """Look at the queue once everything of this moment has happened."""
        if not self.due:
            self.due = True
            self.env.process(self.later())

    def later(self):
        for _ in range(5):  # after every end and arrival of the same time, and what they lead to
            yield self.env.timeout(0)
        self.due = False
        self.scan()

    def live(self, job):
        yield self.env.timeout(job["arrival"])
        job["done"], job["resized"] = False, False
        while not job["done"]:
            if not job["resized"]:
                job["go"] = self.env.event()
                self.queue.append(job)
                self.look()
                yield job["go"]
            job["begun"] = begin = self.env.now
            extra, places = job["extra"], job["places"]
            size = sum(places.values())
            job["promised"] = begin + extra + job["asked"] / size
            job["resized"] = job["evicted"] = False
            if self.elastic and job["least"] < job["gpus"]:
                self.env.process(self.wake(self.elastic[1]))
            try:
                yield self.env.timeout(extra + job["work"] / size)
                job["done"] = True
                self.free(job)
            except simpy.Interrupt:
                pass
            spent = self.env.now - begin
            restart = min(extra, spent)
            job["work"] -= (spent - restart) * size
            job["asked"] -= (spent - restart) * size
            if job["resized"]:
                job["extra"] = self.elastic[0]
            elif self.preemption:
                job["extra"] = self.preemption[0]
            where = tuple(sorted((r * self.rack + n, c) for (r, n), c in places.items()))
            self.stays.append((job["name"], begin, self.env.now, restart, where, job["evicted"]))
            self.look()

    def free(self, job):
        self.running.remove(job)
        self.floor.change(job["places"], +1)

    def order(self):
        def turn(job):
            return -job["priority"], job["gpus"] * job["limit"] * (self.by == "shortest"), job["name"]

        return sorted(self.queue, key=turn)

    def sizes(self, job):
        size = job["gpus"]
        while size >= job["least"]:
            yield size
            size //= 2

    def try_to_start(self, job, allowed=lambda _places, _end: True):
        for size in self.sizes(job):
            places = self.floor.find(size)
            if places is not None:
                end = self.env.now + job["extra"] + job["asked"] / size
                if not allowed(places, end):
                    return False
                self.floor.change(places, -1)
                job |= {"places": places, "promised": end, "begun": self.env.now}
                self.queue.remove(job)
                self.running.append(job)
                job["go"].succeed()
                return True
        return False

    def scan(self):
        if self.policy == "conservative":
            head = next(iter(self.order()), None)
            if head and all(self.floor.find(size) is None for size in self.sizes(head)) and self.make_room(head):
                return
            self.plan()
        else:
            for job in self.order():
                if not self.try_to_start(job):
                    break
        if not self.queue:
            if self.elastic:
                self.grow()
            return
        if self.policy == "conservative":
            return
        head = self.order()[0]
        if self.make_room(head):
            return
        if self.policy == "greedy":
            for job in self.order()[1:]:
                self.try_to_start(job)
        if self.policy == "backfill":
            self.backfill(head)

    def make_room(self, head):
        return bool((self.elastic and self.shrink(head)) or (self.preemption and self.evict(head)))

    def settled(self):
        old = [job for job in self.running if self.env.now >= job["begun"] + self.elastic[1]]
        return sorted(old, key=lambda job: (job["priority"], -job["begun"], -job["name"]))

    def resize(self, job, places):
        job |= {"places": places, "resized": True}
        job["process"].interrupt()

    def shrink(self, head):
        trial, smaller = self.floor.copy(), []
        for job in self.settled():
            if job["priority"] > head["priority"]:
                break
            places = dict(job["places"])
            while sum(places.values()) // 2 >= job["least"]:
                size = left = sum(places.values()) // 2
                trial.change(places, +1)
                places = {p: places[p] for p in sorted(places)}
                for place, count in places.items():
                    places[place] = min(count, left)
                    left -= places[place]
                places = {p: count for p, count in places.items() if count}
                assert sum(places.values()) == size
                trial.change(places, -1)
                if (job, places) not in smaller:
                    smaller = [(other, was) for other, was in smaller if other is not job] + [(job, places)]
                if trial.find(head["least"]) is not None:
                    self.floor = trial
                    for other, now in smaller:
                        self.resize(other, now)
                    return True
        return False

    def grow(self):
        for job in reversed(self.settled()):
            trial = self.floor.copy()
            trial.change(job["places"], +1)
            for size in self.sizes(job):
                if size > sum(job["places"].values()) and (places := trial.find(size)) is not None:
                    trial.change(places, -1)
                    self.floor = trial
                    self.resize(job, places)
                    break

    def plan(self):
        """Reservations as a list of who holds what from when to when; free is what nobody holds."""
        held = [(job["places"], self.env.now, job["promised"]) for job in self.running]
        whole = self.floor.copy()
        for job in self.running:
            whole.change(job["places"], +1)

        def room(start, stop):
            """A floor with the fewest GPUs that are free on each node at any time between two."""
            least = None
            for moment in [start] + [begin for _, begin, _ in held if start < begin < stop]:
                floor = whole.copy()
                for places, begin, end in held:
                    if begin <= moment < end:
                        floor.change(places, -1)
                if least is None:
                    least = floor
                else:
                    least.free = [list(map(min, a, b)) for a, b in zip(least.free, floor.free, strict=True)]
            return least

        def earliest(job, size):
            for start in sorted({self.env.now} | {end for _, _, end in held} | {begin for _, begin, _ in held}):
                stop = start + job["extra"] + job["asked"] / size
                places = room(start, stop).find(size)
                if places is not None:
                    return start, stop, places
            raise AssertionError

        for job in self.order():
            for size in self.sizes(job):
                start, stop, places = earliest(job, size)
                if start == self.env.now:
                    break
            held.append((places, start, stop))
            if start == self.env.now:
                self.floor.change(places, -1)
                job |= {"places": places, "promised": stop, "begun": start}
                self.queue.remove(job)
                self.running.append(job)
                job["go"].succeed()

    def evict(self, head):
        weaker = [job for job in self.running if job["priority"] < head["priority"]]
        old = [job for job in weaker if self.env.now - job["begun"] >= self.preemption[1]]
        old.sort(key=lambda job: (job["priority"], -job["begun"], -job["name"]))
        trial = self.floor.copy()
        out = []
        for job in old:
            trial.change(job["places"], +1)
            out.append(job)
            if trial.find(head["gpus"]) is not None:
                break
        else:
            waits = [job["begun"] + self.preemption[1] - self.env.now for job in weaker]
            if waits := [w for w in waits if w > 0]:
                self.env.process(self.wake(min(waits)))
            return False
        for job in reversed(out[:-1]):
            trial.change(job["places"], -1)
            if trial.find(head["gpus"]) is not None:
                out.remove(job)
            else:
                trial.change(job["places"], +1)
        for job in out:
            self.free(job)
            job["evicted"] = True
            job["process"].interrupt()
        return True

    def wake(self, time):
        yield self.env.timeout(time)
        self.look()

    def backfill(self, head):
        trial, ends = self.floor.copy(), sorted(self.running, key=lambda job: job["promised"])
        promised = self.env.now
        while trial.find(head["least"]) is None:
            promised = ends[0]["promised"]
            while ends and ends[0]["promised"] == promised:
                trial.change(ends.pop(0)["places"], +1)

        def allowed(places, end):
            if end <= promised:
                return True
            trial.change(places, -1)
            if trial.find(head["least"]) is not None:
                return True
            trial.change(places, +1)
            return False

        for job in self.order()[1:]:
            self.try_to_start(job, allowed)
