"""What a number of GPUs takes, draws, loses and costs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from clusterlab.catalogue import node, price_list
from clusterlab.failures import (
    BURSTS,
    Job,
    checkpoint,
    checkpoint_interval,
    checkpoint_size,
    goodput,
    spares_for,
    system_mtbf,
)
from clusterlab.interconnect import fat_tree
from clusterlab.model import parameters, transformer
from clusterlab.planning import CENTRAL, SWITCHES, yearly_cost
from clusterlab.power import facility, load
from clusterlab.records import with_interval
from clusterlab.units import TB, day, fmt, hour, minute, year

# How many GPUs a reader looks at: what each level holds is among them.
SIZES = (
    1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 512, 1024, 2048, 4096, 8192, 16_384, 32_768, 65_536,
    100_000,
)  # fmt: skip
GPUS_OF = {"GPU": 1, "server": 8, "rack": 32, "fabric": 256}  # the most GPUs of a level
_SPARED = 1024  # GPUs from which a run keeps servers on standby
_STORAGE = 2 * TB  # bytes a second, of Meta's file system


@dataclass(frozen=True)
class Size:
    """What a number of H100s takes, draws, loses and costs: the laws of the book, as a plan uses them.

    ``lost`` is the share of the time that goes to failures and to saving against them, ``price`` is dollars a second;
    each is the number with the ends of its 80 % interval.
    """

    gpus: int
    servers: int
    spares: int
    racks: int
    switches: int
    tiers: int
    power: float
    mtbf: float
    lost: tuple[float, float, float]
    price: tuple[float, float, float]

    @property
    def level(self) -> str:
        """What it is: a GPU, a server, a rack, a fabric of racks, or a site."""
        return next((level for level, most in GPUS_OF.items() if self.gpus <= most), "site")

    @property
    def readouts(self) -> dict[str, str]:
        """What is told beside the drawing."""
        standby = f" + {self.spares:,} spare" if self.spares else ""
        return {
            "Servers": f"{self.servers:,}{standby}",
            "Network": _TIERS[self.tiers],
            "Electricity, at most": fmt(self.power, "W"),
            "A failure every": span(self.mtbf),
            "Time lost to failures": with_interval(*self.lost, "%", 2) if self.lost[0] >= 0.01 else "under 1%",
            "An hour costs": with_interval(*_hourly(self.price), "$", 3),
        }


def span(seconds: float) -> str:
    """A time in words: years, days, hours or minutes, whichever are more than one and a half.

    Examples
    --------
    >>> [span(time) for time in (180e6, 900e3, 11e3, 1800)]
    ['5.7 years', '10 days', '3.1 hours', '30 minutes']
    """
    for name, unit in (("years", year), ("days", day), ("hours", hour)):
        if seconds > 1.5 * unit:
            return f"{fmt(seconds / unit, digits=2)} {name}"
    return f"{seconds / minute:.0f} minutes"


_TIERS = "none", "one switch", "two tiers", "three tiers"


def _hourly(rate: tuple[float, float, float]) -> tuple[float, float, float]:
    """A number and its ends, of a second, as of an hour."""
    value, low, high = rate
    return hour * value, hour * low, hour * high


def server_power() -> float:
    """Watts that a server of eight H100s is rated at."""
    return float(node("DGX H100").power or 0)


@cache
def size(gpus: int) -> Size:
    """What so many H100s take, draw, lose and cost, with the assumptions of a plan.

    A job that must go on keeps servers on standby, from 1,024 GPUs on. Eight GPUs and fewer need no network.

    Examples
    --------
    >>> size(16_384).readouts["A failure every"]
    '3.1 hours'
    """
    servers = -(-gpus // 8)
    spares = 0
    if gpus >= _SPARED:
        fleet = {"node_mtbf": CENTRAL.gpu_mttf / 8, "repair": CENTRAL.repair, "dispersion": BURSTS}
        spares = int(spares_for(1 - CENTRAL.spare_risk, nodes=servers, **fleet).spares)
    hosts = 8 * (servers + spares)
    switches, tiers, fed = 0, 0, 0.0
    if servers > 1:
        # The switch that a plan takes for this network; a rack alone needs but one.
        kind = next(one for one in SWITCHES.values() if one.link == "RoCE")
        tree = fat_tree(hosts, kind.ports)
        tiers = 1 if servers <= 4 else 3 if tree.cores else 2
        switches = 1 if tiers == 1 else int(tree.switches)
        fed = switches * kind.power
    each = server_power() / 8
    it = load(servers=(min(gpus, 8) if servers == 1 else hosts, each), **({"switches": fed} if fed else {}))
    power = float(facility(it, CENTRAL.pue).total)
    mtbf = float(system_mtbf(CENTRAL.gpu_mttf, gpus))
    saved_bytes = checkpoint_size(parameters(transformer("Llama 3.1 405B")).total)
    saved = checkpoint(saved_bytes, storage_bandwidth=_STORAGE, writers=gpus, local_bandwidth=CENTRAL.local_bandwidth)
    interval = checkpoint_interval(saved.stall, mtbf, lag=saved.lag, share=CENTRAL.storage_share)
    costs = {"detection": CENTRAL.detection, "restart": CENTRAL.restart + saved.lag}
    job = Job(interval=interval, write=saved.stall, lag=saved.lag, mtbf=mtbf, **costs)
    kept = goodput(job)
    bill = yearly_cost(hosts if servers > 1 else gpus, power, price_list("H100 SXM"))
    return Size(
        gpus=gpus,
        servers=servers,
        spares=spares,
        racks=-(-(servers + spares) // 4),
        switches=switches,
        tiers=tiers,
        power=power,
        mtbf=mtbf,
        lost=(1 - float(kept.useful), 1 - float(kept.high), 1 - float(kept.low)),
        price=(bill.value / year, bill.low / year, bill.high / year),
    )
