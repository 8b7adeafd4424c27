import numpy as np

from clusterlab.power import WATER, Coolant, load
from laws import registry

CHIP = {"static": (100.0, 120.0), "dynamic": (600.0, 580.0), "voltage_floor": (0.7, 0.75)}
ARGUMENTS = {
    "budget_fleet": CHIP | {"budget": (1e4, 1e5)},
    "power_cap": CHIP | {"cap": (500.0, 200.0)},
    "convert": {"fed": load(servers=(8, 700.0))},
    "facility": {"it": load(servers=(8, 700.0))},
    "site": {"it": load(servers=(8, 700.0))},
    "coolant_flow": {"coolant": WATER},
    "heat_removed": {"coolant": WATER},
}
SERVERS = load(servers=(8, registry.Quantity(np.array([2.0, 4.0]), "W")))
COOLANT = Coolant("any", registry.Quantity(np.full(2, 2.0), "kg/m^3"), registry.Quantity(np.full(2, 3.0), "J/kg/K"), "")
IN_UNITS = {"convert": {"fed": SERVERS}, "facility": {"it": SERVERS}, "site": {"it": SERVERS}}
IN_UNITS |= {"coolant_flow": {"coolant": COOLANT}, "heat_removed": {"coolant": COOLANT}}
