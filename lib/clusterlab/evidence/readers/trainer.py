"""Hugging Face Trainer: what a run came to; and LLaMA-Factory's log of it, step by step.

The line ``{'train_runtime': 371992.2, 'train_samples_per_second': 0.749, 'train_steps_per_second': 0.023, ...}`` at the
end of a log, or ``train_results.json``, ``all_results.json`` with the same. Start and warm-up are within: the rate is a
little below that of a steady step. Source: huggingface/transformers, ``trainer_utils.py`` (``speed_metrics``).

``trainer_log.jsonl`` has a line for some steps, ``{"current_steps": 5, "total_steps": 8712, ..., "elapsed_time":
"0:03:29"}``, in whole seconds. Source: hiyouga/LLaMA-Factory, ``src/llamafactory/train/callbacks.py``
(``LogCallback``).
"""

from __future__ import annotations

import re

from .reading import TRAINING, WARM_UP, Reading, cells

_LINE = re.compile(r'"current_steps": (\d+), .*"elapsed_time": "(?:(\d+) days?, )?(\d+):(\d\d):(\d\d)"')
_VALUE = r"['\"]{}['\"]\s*:\s*['\"]?([\d.eE+-]+)"


def reads(text: str) -> bool:
    """Whether the text is such a log."""
    return bool(_LINE.search(text)) or bool(_found("train_runtime", text) and _found("train_samples_per_second", text))


def read(text: str) -> Reading:
    """The run: its samples a second, and its batch, which is samples over steps."""
    if _LINE.search(text):
        return _by_steps(text)
    runtime, samples, steps = (
        _found(name, text) for name in ("train_runtime", "train_samples_per_second", "train_steps_per_second")
    )
    if not (runtime and samples):
        raise ValueError("it has no train_runtime or train_samples_per_second")
    said = [f"samples/s of the job: {samples:g}, over all {runtime:,.0f} s, start and warm-up within"]
    batch = _batch(text, samples, steps, said)
    tokens = _found("train_tokens_per_second", text)
    row = cells(
        samples_per_s=samples, global_batch=batch, software="PyTorch FSDP" if "fsdp" in text.casefold() else None
    )
    if tokens:
        said.append(f"train_tokens_per_second {tokens:g} is that of the job's first process: not read")
    return Reading("the summary of a Hugging Face Trainer", TRAINING, (row,), tuple(said))


def _by_steps(text: str) -> Reading:
    """The step, from the times of LLaMA-Factory's lines; of a run that was resumed, since then."""
    points = []
    for step, *clock in _LINE.findall(text):
        days, hours, minutes, seconds = (int(part or 0) for part in clock)
        points.append((int(step), ((days * 24 + hours) * 60 + minutes) * 60 + seconds))
    begins = max([i for i in range(1, len(points)) if points[i][1] < points[i - 1][1]], default=0)
    kept = [(step, at) for step, at in points[begins:] if step >= points[begins][0] + WARM_UP] or points[begins:]
    (first, since), (last, until) = kept[0], kept[-1]
    if last <= first or until <= since:
        raise ValueError("its lines tell no time of a step: there must be two, of more than one step and second")
    said = (f"step: the mean of steps {first + 1:,} to {last:,}, evaluations and checkpoints within",)
    row = cells(step_time_s=(until - since) / (last - first))
    return Reading("a log of LLaMA-Factory", TRAINING, (row,), said)


def _batch(text: str, samples: float, steps: float | None, said: list[str]) -> int | None:
    """The batch: printed, or samples over steps where their digits tell one whole number from the next."""
    if found := re.search(r"Total train batch size.*?=\s*([\d,]+)", text):
        return int(found[1].replace(",", ""))
    runtime, made = _found("train_runtime", text), _found("global_step", text)
    if runtime and made:  # a trainer_state.json counts its steps: of all its samples, the last ones of an epoch too
        return round(samples * runtime / made)
    if not steps:
        return None
    ratio, loose = samples / steps, 0.0005 / steps + 0.0005 / samples  # three decimals
    if ratio * loose < 0.5:
        return round(ratio)
    said.append(
        f"its batch can't be told from {samples:g} samples and {steps:g} steps a second: give --set global_batch=N"
    )
    return None


def _found(name: str, text: str) -> float | None:
    found = re.findall(_VALUE.format(name), text)
    return float(found[-1]) if found else None
