"""clusterlab: the laws of GPU clusters as small NumPy functions.

>>> import clusterlab as cl
>>> h100 = cl.accelerator("H100 SXM")
>>> cl.fmt(cl.ridge_point(h100.peak("bf16"), h100.hbm_bandwidth), "FLOP/byte", digits=4)
'295.2 FLOP/byte'

A law lives in the room of the chapter that teaches it, and what one types most is here too. The rooms, in the order in
which they build on one another:

- ``units``, ``checks``, ``records``: SI constants and their formatter, what every law asks of its input, results that
  explain themselves.
- ``catalogue``: accelerators, links, servers and racks, software, prices, each number with its source.
- ``model``: a transformer, how it is laid out over accelerators, its parameters, FLOPs and caches.
- ``own``: what is on your disk in their place: a model's ``config.json``, hardware in a TOML.
- ``roofline``: one accelerator, FLOPs against bytes.
- ``interconnect``: collectives and the fabrics that they run on.
- ``contention``: flows that meet on the links of a fabric, and jobs that share it.
- ``parallelism``: what each axis sends, the memory of a rank, the time of a step, the search for a layout.
- ``serving``: passes of a replica, users and queues, the price of a token.
- ``post_training``: answers that are generated, scored and learned from; pools, and weights that travel.
- ``failures``: how often, checkpoints, spares, goodput.
- ``operations``: schedulers, storage, stragglers, alarms.
- ``power``: watts, heat, energy, carbon.
- ``scaling``: what more accelerators bring, bills, the ledger of compute.
- ``planning``: a whole cluster for a question.
- ``evidence``: published measurements held against all of them; none looks at it. It is loaded when first asked for.

``dir(clusterlab.power)`` lists what a room has, ``help(clusterlab.power)`` explains it, ``help(clusterlab.step)`` a
law. Wherever one takes a model, a machine, an accelerator, a link, a stack of software or a price list, its name
does: ``cl.step("Llama 3.1 70B", "H100", ...)``. What is no such record is refused by the argument's name. A result is a
record: print it, or take ``as_dict()``, or ``to_frame()`` for pandas.

**The core**, which the chapters on one accelerator, interconnect, parallelism, failures and power need, and a reader
first: units, catalogue, model, roofline, interconnect, parallelism, failures, power.
"""

from difflib import get_close_matches
from types import ModuleType

from . import catalogue as _catalogue
from . import (
    contention,
    failures,
    interconnect,
    model,
    operations,
    own,
    parallelism,
    planning,
    post_training,
    power,
    roofline,
    scaling,
    serving,
)
from .catalogue import accelerator, link, machine, node, price_list, rack
from .failures import Job, goodput, optimal_interval, spare_pool, system_mtbf
from .interconnect import best_all_reduce, fat_tree, hierarchical_all_reduce, ring_all_reduce
from .model import Layout, Transformer, Workload, forward_flops, kv_cache_bytes, parameters, training_flops, transformer
from .operations import expected_wait, slowest
from .parallelism import bubble_fraction, footprint, model_state, search, step
from .planning import InfeasibleError, Serving, Site, Training, plan, serve, sweep
from .power import cluster_load, energy_footprint, facility
from .quantities import NAMED as _NAMED
from .quantities import guard as _guard
from .roofline import attainable, decode, kernel_time, lower_bound, matmul, ridge_point
from .scaling import amdahl_speedup, annuity, chain, compute_optimal
from .serving import Formats, Replica, Requests, continuous_batch, forward_pass, frontier
from .units import fmt, parse

__version__ = "0.1.0"

__all__ = [
    "Formats", "InfeasibleError", "Job", "Layout", "Replica", "Requests", "Serving", "Site", "Training", "Transformer",
    "Workload", "accelerator", "amdahl_speedup", "annuity", "attainable", "best_all_reduce", "bubble_fraction", "chain",
    "cluster_load", "compute_optimal", "continuous_batch", "decode", "energy_footprint", "expected_wait", "facility",
    "fat_tree", "fmt", "footprint", "forward_flops", "forward_pass", "frontier", "goodput", "hierarchical_all_reduce",
    "kernel_time", "kv_cache_bytes", "link", "lower_bound", "machine", "matmul", "model_state", "node",
    "optimal_interval", "parameters", "parse", "plan", "price_list", "rack", "ridge_point", "ring_all_reduce", "search",
    "serve", "slowest", "spare_pool", "step", "sweep", "system_mtbf", "training_flops", "transformer",
]  # fmt: skip

_ROOMS = (
    _catalogue,
    model,
    own,
    roofline,
    interconnect,
    contention,
    parallelism,
    serving,
    post_training,
    failures,
    operations,
    power,
    scaling,
    planning,
)


def _machine(name: str) -> _catalogue.Machine:
    """A machine by the name of its accelerator, as people write it."""
    return machine(own.accelerator_of(name).name)


# A record may be given by its name wherever a public function or record takes it.
_NAMED |= {
    Transformer: own.model_of,
    _catalogue.Machine: _machine,
    _catalogue.Accelerator: own.accelerator_of,
    _catalogue.Link: link,
    _catalogue.Software: planning.stack,
    _catalogue.ServingSoftware: own.serving_software_of,
    _catalogue.PriceList: price_list,
    _catalogue.ScalingLaw: lambda name: _catalogue.find("scaling law", name, _catalogue.SCALING_LAWS),
}

for _room in _ROOMS:
    _guard(_room)
    globals().update({_name: getattr(_room, _name) for _name in __all__ if hasattr(_room, _name)})


def __getattr__(name: str) -> ModuleType:
    """Load a room that the others do not need: ``evidence``."""
    if name == "evidence":
        import clusterlab.evidence as room

        return room
    near = get_close_matches(name, __dir__(), n=3, cutoff=0.5)
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    raise AttributeError(f"module 'clusterlab' has no attribute {name!r}{hint}")


def __dir__() -> list[str]:
    """What a reader may type behind the dot: what is listed, and the rooms."""
    return sorted({*__all__, "__version__", "evidence", "units", *(room.__name__.partition(".")[2] for room in _ROOMS)})
