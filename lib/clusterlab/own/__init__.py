"""Own: what a reader has on disk instead of the catalogue, and the names that people write for what is in it."""

from .config import read_config, read_config_file
from .hardware import use_hardware, use_hardware_of_environment
from .names import (
    accelerator_of,
    called,
    find_model,
    is_path,
    match_accelerator,
    model_of,
    near_size,
    serving_software_of,
    sized,
    spellings,
)

__all__ = [
    "accelerator_of", "called", "find_model", "is_path", "match_accelerator", "model_of", "near_size", "read_config",
    "read_config_file", "serving_software_of", "sized", "spellings", "use_hardware", "use_hardware_of_environment",
]  # fmt: skip

use_hardware_of_environment()  # once, for this process
