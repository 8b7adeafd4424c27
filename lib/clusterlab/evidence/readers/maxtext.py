"""MaxText: a line a step.

``completed step: 9, seconds: 5.667, TFLOP/s/device: 134.924, Tokens/s/device: 8672.758, total_weights: 196608, loss:
10.374``; before, ``Config param per_device_batch_size: 24.0`` and the like, and ``Num_devices: 4``. The first two steps
compile, and do not wait for one another. Source: AI-Hypercomputer/maxtext,
``docs/guides/monitoring_and_debugging/understand_logs_and_metrics.md``.
"""

from __future__ import annotations

import re

from .reading import TRAINING, Reading, cells, steady

_LINE = re.compile(r"completed step: (\d+), seconds: ([\d.]+)")
_RATE = re.compile(r"completed step: (\d+), .*?Tokens/s/device: ([\d.]+)")
_MESH = {"ici_tensor_parallelism": "tp", "ici_pipeline_parallelism": "pp", "ici_context_parallelism": "cp"}


def reads(text: str) -> bool:
    """Whether the text is such a log."""
    return bool(_LINE.search(text))


def read(text: str) -> Reading:
    """The run that a log is of."""
    seconds, sentence = steady([(int(step), float(time)) for step, time in _LINE.findall(text)])
    config = dict(re.findall(r"Config param (\w+): (.*?)\s*$", text, re.MULTILINE))
    devices = found[1] if (found := re.search(r"Num_devices: (\d+)", text)) else None
    batch = None
    if devices and (each := config.get("per_device_batch_size")):
        repeats = float(config.get("gradient_accumulation_steps", "1"))
        batch = float(each) * float(devices) * repeats
    named = config.get("model_name") or (found[1] if (found := re.search(r"Running Model: (\S+)", text)) else None)
    row = cells(
        model=named,
        n_gpus=devices,
        seq=config.get("max_target_length"),
        global_batch=batch,
        step_time_s=seconds,
        software="MaxText",
    )
    said = f"step: {sentence}"
    if not batch and (rates := _RATE.findall(text)):  # of which the batch follows, and nobody has to say it
        rate, sentence = steady([(int(step), float(one)) for step, one in rates], "tokens/s")
        row = {name: cell for name, cell in row.items() if name != "step_time_s"} | cells(tokens_per_s_per_gpu=rate)
        said = f"tokens/s of a device: {sentence}"
    row |= {
        axis: config[key]
        for key, axis in _MESH.items()
        if config.get(key, "1").isdecimal() and config.get(key, "1") != "1"
    }
    return Reading("a log of MaxText", TRAINING, (row,), (said,))
