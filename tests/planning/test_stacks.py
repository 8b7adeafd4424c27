"""Stacks: names as people write them, what a version is, which stacks are plausible, and the mixture over them."""

import copy
import tomllib

import numpy as np
import pytest

from clusterlab.catalogue import SOFTWARE, machine, stored
from clusterlab.model import Layout, Workload, transformer
from clusterlab.parallelism import STEP_PARTS, step
from clusterlab.planning import STACKS, match_stack, mixture, mixture_interval, not_named, plausible_stacks, stack
from clusterlab.planning.stacks import read_stacks


@pytest.mark.parametrize(
    ("written", "name", "record"),
    [
        ("NeMo 25.04", "NeMo", "NeMo"),
        ("NVIDIA NeMo Framework, container 24.07", "NeMo", "NeMo"),
        ("NeMo 26.06", "NeMo", "NeMo 26.06"),
        ("Megatron-Bridge", "NeMo", "NeMo"),
        ("Megatron-Bridge 0.5", "NeMo", "NeMo 26.06"),
        ("NeMo AutoModel", "NeMo AutoModel", "2024"),
        ("Megatron-Core 0.12", "Megatron-Core", "Megatron-Core"),
        ("megatron core r0.8.0", "Megatron-Core", "2024"),
        ("mcore_r0.9", "Megatron-Core", "Megatron-Core"),
        ("MCore 0.5", "Megatron-Core", "2023"),
        ("Megatron-LM 2023", "Megatron-LM", "2023"),
        ("Megatron-LM (2021)", "Megatron-LM", "2021"),
        ("Megatron-LM v3.0.2", "Megatron-LM", "2022"),
        ("torchtitan", "torchtitan", "torchtitan"),
        ("TorchTitan 2025-06", "torchtitan", "torchtitan"),
        ("DeepSpeed 0.16", "DeepSpeed", "2024"),
        ("deepspeed v0.9.5", "DeepSpeed", "2023"),
        ("LLM Foundry", "LLM Foundry", "2023"),
        ("llm-foundry v0.7", "LLM Foundry", "2024"),
        ("MosaicML", "LLM Foundry", "2023"),
        ("MaxText", "MaxText", "MaxText"),
        ("nanotron", "nanotron", "2024"),
        ("Primus/Megatron ROCm", "Primus", "2024"),
        ("FSDP", "PyTorch FSDP", "2024"),
        ("PyTorch FSDP2 + torch.compile", "PyTorch FSDP", "2024"),
        ("PyTorch 2.1 FSDP", "PyTorch FSDP", "2023"),
        ("Megatron-DeepSpeed (a fork), PyTorch 24.10", "Megatron-DeepSpeed", "2022"),
        ("GPT-NeoX 2.0", "GPT-NeoX", "2023"),
        ("DeepSeek", "DeepSeek", "DeepSeek"),
        ("2023", "of its own", "2023"),
    ],
)
def test_a_stack_is_known_by_what_people_call_it(written, name, record):
    found = match_stack(written)
    assert (found.stack.name, found.record) == (name, record)
    assert stack(written) == SOFTWARE[record]


def test_maxtext_is_another_program_on_gpus():
    assert match_stack("MaxText", "TPU v5p").record == "MaxText"
    assert match_stack("MaxText 0.1", "H100 SXM").record == "MaxText on GPUs"


@pytest.mark.parametrize("written", ["", "unknown", "not stated", "n/a", "-"])
def test_what_names_nothing_is_nothing(written):
    assert match_stack(written) is None


@pytest.mark.parametrize(
    ("written", "near"),
    [("Megatrom-LM 2023", "Megatron-LM"), ("torchtitn", "torchtitan"), ("Deep Sped 0.16", "DeepSpeed")],
)
def test_an_unknown_name_is_refused_with_near_ones_and_all(written, near):
    with pytest.raises(ValueError, match=f"unknown software '{written}'; did you mean '{near}'") as error:
        match_stack(written)
    assert all(name in str(error.value) for name in ("NeMo", "torchtitan", "DeepSpeed", "a year alone"))
    with pytest.raises(ValueError, match="unknown software 'Caffe'; Known, "):
        match_stack("Caffe")


def test_every_name_of_the_table_is_one_stack_s_and_every_version_a_record():
    for one in STACKS.values():
        for name in one.names.split(", "):
            assert match_stack(name, "TPU v4" if one.on == "TPU" else "H100 SXM").stack.family == one.family


def test_a_stack_whose_record_is_none_is_refused():
    document = tomllib.loads(stored("stacks.toml"))
    broken = copy.deepcopy(document)
    broken["stack"]["NeMo"]["years"] = "2021: Nemo"
    with pytest.raises(ValueError, match="unknown software 'Nemo'; did you mean 'NeMo'"):
        read_stacks(broken)
    broken["stack"]["NeMo"]["years"] = 2021
    with pytest.raises(ValueError, match="years must be str"):
        read_stacks(broken)


def test_stacks_are_plausible_on_their_machines_in_their_years():
    assert plausible_stacks("TPU v6e") == ["MaxText"]
    assert plausible_stacks("V100 SXM2") == ["2021"]
    assert "NeMo" not in plausible_stacks("MI325X")
    assert {"2021", "2022"} & set(plausible_stacks("A100 80GB"))
    assert not {"2021", "2022"} & set(plausible_stacks("A100 80GB", year=2024))
    assert plausible_stacks("A100 80GB", year=2020, until=2022) == ["2021", "2022"]


# --- The mixture -----------------------------------------------------------------------------------------------------

RUN = (
    transformer("Llama 3.1 8B"),
    machine("H100 SXM"),
    Workload(sequence=8192, global_batch=64),
    Layout(dp=8, recompute="full"),
)
STEPS = [step(*RUN, software=SOFTWARE[name]) for name in plausible_stacks("H100 SXM")]


def test_a_mixture_is_the_mean_part_by_part_and_wider_than_each():
    found = mixture(STEPS)
    for name in STEP_PARTS:
        assert getattr(found, name) == pytest.approx(np.mean([getattr(one, name) for one in STEPS]))
    assert float(found.time) == pytest.approx(np.mean([one.time for one in STEPS]))
    assert found.high / found.low > max(one.high / one.low for one in STEPS)
    assert min(one.low for one in STEPS) <= found.low < found.high <= max(one.high for one in STEPS)
    assert mixture(STEPS[:1]) is STEPS[0]


def test_four_in_five_of_draws_from_a_mixture_lie_inside():
    rng = np.random.default_rng(3)
    low, high = np.array([0.9, 1.3, 1.0]), np.array([1.1, 1.6, 1.5])
    middle, deviation = np.log(low * high) / 2, np.log(high / low) / (2 * 1.2816)
    which = rng.integers(3, size=100_000)
    drawn = np.exp(rng.normal(middle[which], deviation[which]))
    least, most = mixture_interval(low, high)
    assert np.mean(drawn < least) == pytest.approx(0.1, abs=0.004)
    assert np.mean(drawn > most) == pytest.approx(0.1, abs=0.004)
    assert mixture_interval([2.0], [3.0]) == pytest.approx((2.0, 3.0))
    with_axes = mixture_interval(np.stack([low, 2 * low], axis=1), np.stack([high, 2 * high], axis=1))
    assert with_axes[0] == pytest.approx([least, 2 * least])


def test_the_sentence_says_the_width_and_the_remedy():
    assert not_named(0.87, 1.19).startswith("software not named: x0.87 to 1.19; name it (such as 'NeMo 25.04'")
