CHIP = {"static": (100.0, 120.0), "dynamic": (600.0, 580.0), "voltage_floor": (0.7, 0.75)}
ARGUMENTS = {"budget_fleet": CHIP | {"budget": (1e4, 1e5)}, "power_cap": CHIP | {"cap": (500.0, 200.0)}}
