"""What the tests of plans share: questions, sites with little to search, and whether a plan adds up."""

from clusterlab.catalogue import machine
from clusterlab.model import Layout
from clusterlab.planning import CENTRAL, Serving, Training
from clusterlab.planning.recount import recount

LLAMA = Training("Llama 3.1 405B", 15.6e12, global_batch=2048)
H100 = machine("H100 SXM")
META = Layout(tp=8, pp=16, dp=128, chunks=8)
ASKED = Serving("Llama 3.1 70B", 100, 1000, 300, speed=30, precision="fp8")
FEW = {"tp": 1, "pp": 1, "cp": 1, "chunks": 1, "microbatch": 1, "zero": 3}  # for speed: nearly nothing to search
EIGHT = {"tp": 8, "cp": 1, "microbatch": 1, "zero": 1}


def adds_up(made, scenario=CENTRAL) -> bool:
    """Whether every sum of a plan is the same when another law makes it."""
    return all(one.holds for one in recount(made, scenario))
