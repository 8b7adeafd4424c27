"""The command ``clusterlab serve``: what it prints, as one object too, and how it refuses."""

import json
import re

import pytest

from clusterlab.cli import main

ASKED = ["serve", "--model", "Llama 3.1 8B", "--accelerator", "H100 SXM", "--rate", "200", "--software", "vllm"]


def test_both_ways_are_counted_with_intervals_and_the_cheaper_is_said(capsys):
    assert main(ASKED) == 0
    out = capsys.readouterr().out
    counts = re.findall(r"^(together|apart) +([\d,]+) +\(([\d,]+) to ([\d,]+)\)", out, re.MULTILINE)
    assert [way for way, *_ in counts] == ["together", "apart"]
    for _, *numbers in counts:
        now, low, high = (int(text.replace(",", "")) for text in numbers)
        assert low <= now <= high
    assert re.search(r"^(apart|together) is [\d.]+% less: |^as many either way: ", out, re.MULTILINE)
    assert "assumed: fp8 GEMMs, software vLLM, mean lengths" in out


def test_one_object(capsys):
    assert main([*ASKED, "--json", "--prompt", "4k", "--first-token", "500ms"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert list(found) == ["together", "apart"]
    for one in found.values():
        assert one["low"] <= one["gpus"]
        assert one["high"] is None or one["gpus"] <= one["high"]  # None: if all is slow it cannot be kept
        assert one["binds"] in ("first token", "time per token", "places")
    assert found["together"]["prefill_layout"] is None
    assert 0 < found["apart"]["prefill_replicas"] < found["apart"]["replicas"]


def test_a_mixture_is_tried_rank_by_rank_too(capsys):
    asked = ["serve", "--model", "gpt-oss-20b", "--accelerator", "H200", "--rate", "20", "--json"]
    assert main(asked) == 0
    assert json.loads(capsys.readouterr().out)["together"]["gpus"] >= 1


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--model", "Lama 3.1 8B"], "did you mean 'Llama 3.1 8B'"),
        (["--accelerator", "H1000"], "unknown accelerator 'H1000'"),
        (["--software", "vllmm"], "unknown serving software 'vllmm'; did you mean 'vLLM'"),
        (["--rate", "many"], "rate: cannot read 'many'"),
        (["--rate", "-3"], "rate must be positive"),
        (["--first-token", "200"], "first_token: cannot read '200'; write it as 60d or 12h or 30s, with its unit"),
        (["--share", "1.5"], "share must be"),
        (["--precision", "fp5"], "compute must be one of"),
    ],
)
def test_what_is_wrong_is_said(capsys, more, said):
    assert main([*ASKED, *more]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--speed", "100000"], "not even one request alone is served as promised: time per token is longer"),
        (["--model", "Llama 3.1 405B", "--accelerator", "A100 40GB", "--precision", "bf16"], "no layout fits"),
    ],
)
def test_what_cannot_be_served_is_said_as_json_too(capsys, more, said):
    assert main([*ASKED, *more, "--json"]) == 3
    heard = capsys.readouterr()
    assert said in heard.err
    assert said in json.loads(heard.out)["infeasible"]


def test_a_promise_that_nobody_makes_is_said_to_be_unlikely(capsys):
    assert main([*ASKED, "--first-token", "200s"]) == 0
    assert capsys.readouterr().err == "unlikely: first-token is usually from 50ms to 60s\n"
