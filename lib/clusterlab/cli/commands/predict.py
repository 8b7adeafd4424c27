"""``clusterlab predict``: timed collectives from the datasheets of their links."""

from ...evidence.link_fit import PREDICT_HELP, add_arguments, run
from ..command import Command

COMMAND = Command(*PREDICT_HELP, add_arguments, run)
