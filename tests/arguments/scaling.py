from clusterlab.units import year

LIVES = (4 * year, 5 * year)

ARGUMENTS: dict[str, dict] = {
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
