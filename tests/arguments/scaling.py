from dataclasses import replace

import numpy as np

from clusterlab.catalogue import price_list
from clusterlab.scaling import bill
from clusterlab.units import year
from laws import registry

PRICES = price_list("GB200 NVL72")
LIVES = (4 * year, 5 * year)

ARGUMENTS: dict[str, dict] = {
    "capital": {"prices": PRICES},
    "yearly_bill": {"prices": PRICES, "life": LIVES, "site_life": LIVES},
    "waiting_bill": {"a_year": bill(servers=2.0, energy=3.0)},
    "annuity": {"life": LIVES},
    "break_even_revenue": {"wait": (year, 2 * year), "life": LIVES},
    "required_rent": {"life": LIVES},
    "loss": {"parameters": (7e9, 70e9), "tokens": (1e12, 2e13)},
    "compute_optimal": {"flops": (1e21, 1e24)},
    "lifetime_optimal": {"target": (2.2, 2.5), "served_tokens": (1e12, 1e14)},
    "redundancy": {"availability": (0.9, 0.99)},
    "logarithmic_efficiency": {"drop": (0.02, 0.1)},
    "marginal_return": {"rule": lambda n: 1 / (1 + n)},
    "training_run": {"efficiency": 0.4},
    "gpus_needed": {"efficiency": 0.4, "most": (2.0**20, 2.0**24)},
}

BY_THE_WATT = ("substation", "generators", "electrical", "cooling", "building", "staff", "operations")
BY_THE_WATT += ("energy", "water")  # of a year, which is a plain number of seconds
IN_DOLLARS = {name: registry.Quantity(np.full(2, 2.0), "dollar") for name in ("gpus", "servers", "network", "storage")}
IN_DOLLARS |= {name: registry.Quantity(np.full(2, 2.0), "dollar/W") for name in BY_THE_WATT}
IN_UNITS = {name: {"prices": replace(PRICES, **IN_DOLLARS)} for name in ("capital", "yearly_bill")}
IN_UNITS["waiting_bill"] = {"a_year": bill(servers=registry.Quantity(np.full(2, 2.0), "dollar"))}
