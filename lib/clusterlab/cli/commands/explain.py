"""``clusterlab explain``: where the time of a run goes, and what could hide its difference from the prediction."""

from ...evidence.explain import add_arguments, run
from ..command import Command

COMMAND = Command(
    "show where a training run's time goes, and what could hide its difference from the prediction",
    "Show one run of a table as for validate: the parts of the predicted step, what is left to the measured time, "
    "and what could hide the difference, one change at a time. The other runs of its source (column group) tell "
    "suspects apart.",
    """\
    %(prog)s mine.csv --row run7
    %(prog)s --json mine.csv --row run7 | jq '.suspects[0].says'
    """,
    add_arguments,
    run,
)
