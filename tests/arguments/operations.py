import numpy as np

from clusterlab.operations import file_system
from laws import registry


def files(rate=1.0, size=1.0):
    return file_system(
        2, drives=8, drive_read=7 * rate, drive_write=4 * rate, drive_capacity=9 * size, network=50 * rate, copies=3
    )


ARGUMENTS = {
    "expected_wait": {"rate": (0.25, 0.5), "duration": (4.0, 2.0), "servers": (2.0, 4.0)},
    "time_to_starve": {"demand": (2.0, 4.0), "supply": (1.0, 8.0)},
    "least_tests": {"n": (4.0, 9.0), "bad": (1.0, 2.0)},
    "pair_tests": {"n": (8.0, 11.0), "bad": (1.0, 2.0)},
    "servers_needed": {"one": files()},
    "best_burn_in": {"mtbf": (2.0, 4.0)},
    "k_of_n": {"k": (1.0, 2.0), "n": (2.0, 4.0)},
}
UNITS = (registry.Quantity(np.ones(2), unit) for unit in ("octet/s", "octet"))
IN_UNITS = {"servers_needed": {"one": files(*UNITS)}}
