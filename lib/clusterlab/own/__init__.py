"""Own: what a reader has on disk instead of the catalogue, a model's ``config.json`` or hardware in a TOML."""

from .config import read_config, read_config_file
from .hardware import use_hardware, use_hardware_of_environment
from .names import find_model, is_path, match_accelerator, model_of, nickname, spellings

__all__ = [
    "find_model", "is_path", "match_accelerator", "model_of", "nickname", "read_config", "read_config_file",
    "spellings", "use_hardware", "use_hardware_of_environment",
]  # fmt: skip

use_hardware_of_environment()  # once, for this process
