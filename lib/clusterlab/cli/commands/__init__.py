"""The subcommands: one a module, each with its ``COMMAND``."""
