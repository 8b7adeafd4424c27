ARGUMENTS: dict[str, dict] = {"elastic_capacity": {"nodes": (8.0, 16.0)}}
