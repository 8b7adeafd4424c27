ARGUMENTS = {
    "expected_wait": {"rate": (0.25, 0.5), "duration": (4.0, 2.0), "servers": (2.0, 4.0)},
    "time_to_starve": {"demand": (2.0, 4.0), "supply": (1.0, 8.0)},
    "least_tests": {"n": (4.0, 9.0), "bad": (1.0, 2.0)},
    "pair_tests": {"n": (8.0, 11.0), "bad": (1.0, 2.0)},
}
