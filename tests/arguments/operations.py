ARGUMENTS = {
    "expected_wait": {"rate": (0.25, 0.5), "duration": (4.0, 2.0), "servers": (2.0, 4.0)},
}
