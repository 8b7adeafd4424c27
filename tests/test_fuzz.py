"""Fuzz: bad calls of every public function, and of the command, are refused by name; nothing leaks or is silent."""

import inspect
import pickle
from collections import Counter
from functools import cache

import numpy as np
import pytest

import clusterlab as cl
from clusterlab import planning, serving
from clusterlab.evidence.outputs import read_output
from fuzzing import ROOMS, answer, broken_files, calls, counted, outcome, typed

RUN, EIGHT = cl.Training("Llama 3.1 8B", 1e9), cl.Site("H100 SXM", gpus=8)


@cache
def found(seed):
    return counted(seed, of_each=2)


@pytest.mark.parametrize("seed", [0, 1])
def test_a_bad_call_of_a_public_function_is_refused_and_never_leaks(seed):
    counts, wrong = found(seed)
    assert wrong == {}
    assert sum(counts.values()) > 1500
    assert counts["named"] > 0.8 * sum(counts.values())
    assert counts["named"] + counts["another"] > 0.9 * sum(counts.values())


def test_without_the_guard_the_same_calls_leak():
    """The test above can fail: the functions themselves raise what is none of ours, hundreds of times."""
    bare: Counter[str] = Counter()
    for _, function, argument, given in calls(0, 3):
        if function.__module__.startswith(("clusterlab.model", "clusterlab.parallelism", "clusterlab.serving")):
            bare[outcome(function.__wrapped__, argument, given).split()[0]] += 1
    assert bare["leaked"] > 100


def test_names_are_taken_wherever_records_are():
    work, layout = cl.Workload(8192, 64), cl.Layout(tp=8)
    named = cl.step("Llama 3.1 70B", "H100", work, layout, software="NeMo 25.04")
    same = cl.step(
        cl.transformer("Llama 3.1 70B"), cl.machine("H100 SXM"), work, layout, software=planning.stack("NeMo 25.04")
    )
    assert repr(named) == repr(same)
    assert cl.parameters("Llama 3.1 70B").total == cl.parameters(cl.transformer("Llama 3.1 70B")).total
    assert cl.Replica("Llama 3.1 8B", "H200").machine == cl.machine("H200 SXM")
    assert cl.Replica("Llama 3.1 8B", "H200", software="vllm").software.name == "vLLM"
    assert cl.parameters("meta-llama/Llama-3.1-70B-Instruct") == cl.parameters("Llama 3.1 70B")
    assert serving.violations(model="Llama 3.1 8B", layout=layout).valid


@pytest.mark.parametrize(
    ("why", "call"),
    [
        ("unknown model 'Lama 3 8B'; did you mean 'Llama 3 8B'", lambda: cl.parameters("Lama 3 8B")),
        ("unknown accelerator 'H1000'; did you mean", lambda: cl.Replica("Llama 3.1 8B", "H1000")),
        ("unknown serving software 'vllmm'; did you mean", lambda: cl.Replica("GPT-2 8B", "H100", software="vllmm")),
        ("model must be Transformer or the name of one, got 3", lambda: cl.parameters(3)),
        ("workload must be Workload, got a Layout", lambda: cl.footprint("Llama 3.1 8B", cl.Layout(), cl.Layout())),
        ("machine must be Machine or the name of one, got None", lambda: cl.Replica("Llama 3.1 8B", None)),
        ("job must be Job, got 3", lambda: cl.goodput(3)),
        ("k must be at most 1e+60 in size; got 1e+308", lambda: cl.matmul(1, 1e308, 1)),
        ("progress must be a function or None, got 3", lambda: cl.plan(RUN, EIGHT, progress=3)),
        ("low must be a number, got nan", lambda: cl.parallelism.wider(float("nan"), 1.1, 0)),
        ("draws must be one number here, got an array", lambda: cl.plan(RUN, EIGHT, draws=np.ones(2))),
    ],
)  # fmt: skip
def test_a_wrong_argument_is_named(why, call):
    with pytest.raises(ValueError, match="^" + why.replace("(", r"\(").replace("+", r"\+")):
        call()


def test_a_wrong_call_is_pythons_own_to_refuse():
    with pytest.raises(TypeError, match="missing 2 required positional arguments: 'workload' and 'layout'"):
        cl.step("Llama 3.1 8B", "H100")


def test_every_room_is_guarded_and_its_functions_are_found_where_they_say():
    for room in ROOMS:
        module = getattr(cl, room)
        for name in getattr(module, "__all__", ()):
            one = getattr(module, name)
            if inspect.isfunction(one):
                assert one.guarded
                assert pickle.loads(pickle.dumps(one)) is one
                assert inspect.getdoc(one)
    assert cl.step is cl.parallelism.step


@pytest.mark.slow
def test_a_bad_value_of_any_option_is_answered_in_words():
    """Nothing leaks from the command either, and nothing is taken that ends in no number."""
    answers = Counter(answer(arguments).split()[0] for _, arguments in typed(0, 1))
    assert set(answers) <= {"named", "another", "accepted"}
    assert sum(answers.values()) > 100
    assert answers["named"] > 0.7 * sum(answers.values())


def test_a_file_that_broke_is_refused_by_its_name_or_read():
    """No reader leaks what Python or csv say, and the refusal says which file it is of."""
    ends = Counter()
    for name, text in broken_files(0):
        try:
            found = read_output(text, name)
        except ValueError as why:
            ends["refused" if str(why).startswith(f"{name}: not read (") else str(why)] += 1
            continue
        ends["none of ours" if found is None else "read"] += 1
    assert set(ends) == {"refused", "none of ours", "read"}
    assert min(ends.values()) > 20
