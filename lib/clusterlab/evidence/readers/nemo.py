"""NeMo: a line a step, or a bar that is drawn again.

``Training epoch 0, iteration 3/99 | lr: ... | global_batch_size: 128 | global_step: 3 | reduced_train_loss: 1.28 |
train_step_timing in s: 5.24`` (NeMo 2), or ``Epoch 0: ... global_step=99.00, ..., train_step_timing in s=3.130``
(NeMo 1, PyTorch Lightning's bar). Source: NVIDIA/NeMo, ``nemo/lightning/pytorch/callbacks/progress_printer.py`` and
``nemo/collections/nlp/modules/common/megatron``.
"""

from __future__ import annotations

import re

from .reading import TRAINING, Reading, cells, steady

_TIME = re.compile(r"train_step_timing in s\s*[:=]\s*([\d.]+)")
_STEP = re.compile(r"global_step\s*[:=]\s*(\d+)")
_BATCH = re.compile(r"global_batch_size\s*[:=]\s*(\d+)")
# Settings as NeMo's YAML and its command line write them.
_SETTINGS = {
    "seq": r"(?:encoder_seq_length|seq[_-]length)",
    "micro_batch": r"micro[_-]batch[_-]size",
    "tp": r"tensor_model_parallel_size",
    "pp": r"pipeline_model_parallel_size",
    "cp": r"context_parallel_size",
    "ep": r"expert_model_parallel_size",
}


def reads(text: str) -> bool:
    """Whether the text is such a log."""
    return bool(_TIME.search(text) and _STEP.search(text))


def read(text: str) -> Reading:
    """The run that a log is of."""
    steps: list[tuple[int, float]] = []
    batch = None
    for line in re.split(r"[\r\n]+", text):
        if (time := _TIME.search(line)) and (step := _STEP.search(line)):
            steps.append((int(step[1]), float(time[1])))
            batch = found[1] if (found := _BATCH.search(line)) else batch
    seconds, sentence = steady(steps)
    row = cells(global_batch=batch, step_time_s=seconds, software="NeMo")
    row |= {name: found[1] for name, form in _SETTINGS.items() if (found := _setting(form, text))}
    return Reading("a log of NeMo", TRAINING, (row,), (f"step: {sentence}",))


def _setting(form: str, text: str) -> re.Match[str] | None:
    return re.search(rf"(?:--|\b){form}['\"]?\s*[:= ]\s*(\d+)", text)
