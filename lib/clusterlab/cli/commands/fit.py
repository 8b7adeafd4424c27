"""``clusterlab fit``: alpha and beta of timed collectives."""

from ...evidence.link_fit import FIT_HELP, add_arguments, run
from ..command import Command

COMMAND = Command(*FIT_HELP, add_arguments, run)
