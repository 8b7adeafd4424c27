ARGUMENTS = {
    "attention": {"queries": (1.0, 2.0), "context": (8.0, 16.0), "heads": (8.0, 8.0), "kv_heads": (2.0, 4.0)},
    "decode": {"parameters": (16.0, 32.0), "active_parameters": (8.0, 8.0)},
    "experts_touched": {"experts": (8.0, 16.0)},
}
