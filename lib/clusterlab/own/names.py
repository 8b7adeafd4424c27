"""Names as people write them: of models, also as Hugging Face has them or a ``config.json``, and of what runs them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from ..catalogue import SERVING, Accelerator, ServingSoftware, accelerator, find
from ..catalogue.hardware import aliases
from ..model import Entry, Transformer, entry, match_model, normalize_name, parameters
from .config import read_config_file

# Words around the name of a model that do not change its shape.
_AROUND = re.compile(
    r"PTD-P|ZeRO-3|\b(meta|nvidia|google|instruct|base|chat|thinking|hf|it|pt|llm|pre-?train(ing)?|dense|maxtext|model|moe|"
    r"fp8|nvfp4|mxfp4|fp4|bf16|awq|gptq|w4a16|w8a8|int4|int8|quantized|dynamic|original)\b|-v\d\.\d|-\d{4}\b",
    re.IGNORECASE,
)
_NICKNAMES = {
    "nemotron 15b": "Nemotron-4 15B",
    "nemotron 340b": "Nemotron-4 340B",
    "nemotron 8b": "Nemotron-3 8B",
    "nemotron 22b": "Nemotron-3 22B",
    "gpt-neox": "GPT-NeoX-20B",
    "llama 3.3 70b": "Llama 3.1 70B",
    "deepseek r1": "DeepSeek-V3",
    "deepseek v3.1": "DeepSeek-V3",
    "deepseek2 16b": "DeepSeek-V2-Lite 16B",
    "deepseek-v2-lite": "DeepSeek-V2-Lite 16B",
    "deepseek2 236b": "DeepSeek-V2 236B",
    "deepseek3 671b": "DeepSeek-V3",
    "deepseek v3 671b": "DeepSeek-V3",
    "qwen3.6 35b a3b": "Qwen3.5 35B-A3B",
    "minimax m2.7": "MiniMax M2.5",
    "llama 30b": "LLaMA 33B",
    "llama4 17b 16e": "Llama 4 Scout",
    "llama 4 scout 17b 16e": "Llama 4 Scout",
    "llama4 17b 128e": "Llama 4 Maverick",
    "llama 4 maverick 17b 128e": "Llama 4 Maverick",
    "palm": "PaLM 540B",
    "mt-nlg": "MT-NLG 530B",
    "deepseek-v2": "DeepSeek-V2 236B",
    "bloom": "BLOOM 176B",
    "gpt-3": "GPT-3 175B",
}
_OTHER_NAMES = {normalize_name(name): known for name, known in _NICKNAMES.items()}


def spellings(written: str) -> list[str]:
    """Return what a text may name: as it is, without its owner, without brackets and words that change no shape.

    Examples
    --------
    >>> spellings("meta-llama/Llama-3.1-70B-Instruct")[-1]
    'Llama-3.1-70B'
    """
    whole = written.split("/")[-1] if written.count("/") == 1 and " " not in written else written
    short = re.sub(r"\(.*?\)", "", whole).strip()
    bare = [re.sub(r"[\s_-]{2,}", " ", _AROUND.sub("", name)).strip(" -_") for name in (short, whole)]
    return [*dict.fromkeys([written, short, whole, *bare])]


def called(names: Sequence[str]) -> list[str]:
    """Return names of the catalogue that some names may stand for: themselves, what they're short for, with a maker."""
    short = [known for name in names if (known := _OTHER_NAMES.get(normalize_name(name)))]
    return [*names, *short, *(f"{name} (Megatron-Core)" for name in names), *(f"MaxText {name}" for name in names)]


def sized(name: str) -> tuple[str, float | None]:
    """Return a name without the size behind it, and that size in billions; or the name and None.

    Examples
    --------
    >>> sized("Grok-1 314B"), sized("Grok-1")
    (('Grok-1', 314.0), ('Grok-1', None))
    """
    found = re.fullmatch(r"(.*?)[ _-]+(\d+(?:\.\d+)?)B", name, re.IGNORECASE)
    return (found[1], float(found[2])) if found else (name, None)


def near_size(shape: Transformer, size: float) -> bool:
    """Return whether a shape has that many billion parameters, within a quarter."""
    return bool(0.75 < parameters(shape).total / (size * 1e9) < 1.25)


def find_model(written: str) -> Entry | None:
    """Return the entry of the model that a text names, as people or Hugging Face write it; None where there is none.

    Examples
    --------
    >>> for text in ("meta-llama/Llama-3.1-70B-Instruct", "Qwen/Qwen3-30B-A3B-FP8", "deepseek-ai/DeepSeek-R1"):
    ...     print(find_model(text).name)
    Llama 3.1 70B
    Qwen3 30B-A3B
    DeepSeek-V3
    >>> find_model("Grok-1 314B").name, find_model("Grok-1 31B")
    ('Grok-1', None)
    """
    names = spellings(str(written))
    if found := next(filter(None, map(match_model, called(names))), None):
        return found
    name, size = sized(names[-1])
    near = (found for found in map(match_model, called([name])) if found and size and near_size(found.shape, size))
    return next(near, None)


def is_path(written: str) -> bool:
    """Whether a name is meant as the path of a ``config.json``, or of the folder that has it.

    A folder without a slash is one where the catalogue has no model of its name.

    Examples
    --------
    >>> is_path("mine/config.json"), is_path("Qwen/Qwen3-32B")
    (True, False)
    """
    if written.endswith(".json") or not (Path(written) / "config.json").is_file():
        return written.endswith(".json")
    return "/" in written or "\\" in written or find_model(written) is None


def model_of(written: str) -> Transformer:
    """Return the shape of a model by its name, by its Hugging Face id, or by the path of its ``config.json``.

    Raises
    ------
    OSError
        There is no such file.
    ValueError
        The catalogue has no such name; the message says the nearest. Or as
        :func:`~clusterlab.own.read_config`.

    Examples
    --------
    >>> model_of("deepseek-ai/DeepSeek-V3").experts
    256
    """
    if is_path(str(written)):
        return read_config_file(written)
    found = find_model(str(written))
    return found.shape if found else entry(written).shape  # which says the nearest names


# --- Accelerators ----------------------------------------------------------------------------------------------------

# No letter or figure stands before or after ("XH100", "RTX A1000"), but for counts and boards ("8xH100", "H100SXM").
_BEFORE, _AFTER = r"(?:(?<![a-z0-9])|(?<=\dx)|(?<=[dh]gx))", r"(?=[^a-z0-9]|$|sxm|pcie|nvl|x\d|s(?![a-z0-9]))"


@lru_cache(maxsize=2)
def _written(called: tuple[tuple[str, tuple[str, ...]], ...]) -> dict[str, re.Pattern[str]]:
    """What people call each accelerator, anywhere in a text, the longer before the shorter."""
    found = {}
    for name, others in called:
        every = [*others, re.escape(name.casefold()).replace("\\ ", " ")]
        forms = sorted((one.replace(" ", "[ -]?") for one in every), key=len, reverse=True)
        found[name] = re.compile(f"{_BEFORE}(?:{'|'.join(forms)}){_AFTER}")
    return found


_CARD = re.compile(r"pcie|nvl(?![a-z0-9])")  # boards whose NVLink, if any, is a bridge; "NVL72" is a rack


def match_accelerator(text: str) -> Accelerator | None:
    """Return the accelerator that a text names, written as people write it; None where the catalogue lacks it.

    A name without its board is the usual one: SXM, and 80 GB of an A100. A text that names several is the first.

    Examples
    --------
    >>> for text in ("NVIDIA H100 80GB HBM3", "8xH100", "A100-SXM4-40GB", "2x v5e-256", "H100 PCIe"):
    ...     print(match_accelerator(text).name)
    H100 SXM
    H100 SXM
    A100 40GB
    TPU v5e
    H100 PCIe
    >>> print(match_accelerator("NVIDIA H100 NVL").name, match_accelerator("RTX A1000"))
    H100 NVL None
    """
    text = str(text).casefold()
    hits = {
        name: found.span() for name, form in _written(aliases("accelerator")).items() if (found := form.search(text))
    }
    if not hits:
        return None
    name = min(hits, key=lambda name: (hits[name][0], -hits[name][1]))
    if name.startswith(("A100", "B", "H", "V")) and "sxm" not in text and (card := _CARD.search(text)):
        name = f"{name.split()[0]} {'PCIe' if card[0] == 'pcie' else 'NVL'}"
    if name.startswith("A100") and re.search(r"(?<![a-z0-9.])40 ?gb?(?![a-z0-9/])", text):
        name = "" if "PCIe" in name else "A100 40GB"
    return accelerator(name) if name in dict(aliases("accelerator")) else None


def accelerator_of(written: str) -> Accelerator:
    """Return the accelerator that a text names, as people write it; else a ValueError that says the nearest names.

    Examples
    --------
    >>> accelerator_of("NVIDIA H100 80GB HBM3").name
    'H100 SXM'
    """
    return match_accelerator(written) or accelerator(written)


def serving_software_of(written: str) -> ServingSoftware:
    """Return the serving software of that name in any case; else a ValueError that says the nearest names.

    Examples
    --------
    >>> serving_software_of("vllm").name
    'vLLM'
    """
    known = {name.casefold(): name for name in SERVING}
    return find("serving software", known.get(str(written).casefold(), written), SERVING)
