"""``clusterlab validate``: predicted runs beside measured ones."""

from ...evidence.inference_validation import run
from ...evidence.validation import add_arguments
from ..command import Command

COMMAND = Command(
    "predict training or inference runs and compare with their measured times",
    "Predict published training or inference runs, or your own, and compare source by source. The columns say "
    "which: those of inference have isl, osl or context_len.",
    """\
    %(prog)s --template > mine.csv
    %(prog)s mine.csv
    %(prog)s --json - < mine.csv
    %(prog)s planned.csv --calibrate mine.csv
    """,
    add_arguments,
    run,
)
