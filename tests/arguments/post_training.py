ARGUMENTS = {
    "expected_longest": {"limit": (300.0, 4000.0), "mean": (100.0, 1000.0)},
    "emptying_time": {"limit": (300.0, 4000.0), "mean": (100.0, 1000.0)},
    "weight_routes": {"ranks": (8.0, 16.0), "copies": (2.0, 4.0), "senders": (16.0, 64.0)},
}
