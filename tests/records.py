"""What tests of training, memory and search share: a workload and a layout from one set of settings."""

from clusterlab.model import Layout, Workload

_OF_WORKLOAD = ("sequence", "global_batch", "precision")


def records(**settings) -> tuple[Workload, Layout]:
    """Sort settings into the two records: a test varies them together."""
    workload = {name: settings.pop(name) for name in _OF_WORKLOAD if name in settings}
    return Workload(**workload), Layout(**settings)
