"""Decoding: a pipeline that runs, chances added up, phases that keep pace."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterlab.serving import (
    Batch,
    Formats,
    Replica,
    accepted_tokens,
    disaggregate,
    forward_pass,
    pipelined_decode,
    speculative_speedup,
    token_price,
)
from serving_cases import BARE, H100, SMALL


def run_train(stages, microbatches, stage_time, hand_off, tokens=200):
    """Each microbatch goes round; a stage serves whoever comes first."""
    free, ready, done = np.zeros(stages), np.zeros(microbatches), []
    for _ in range(tokens):
        for m in range(microbatches):
            at = ready[m]
            for s in range(stages):
                start = max(at, free[s])
                free[s] = start + stage_time
                at = free[s] + hand_off
            ready[m] = at
        done.append(ready[0])
    return (done[-1] - done[len(done) // 2]) / (len(done) - 1 - len(done) // 2)


@pytest.mark.parametrize(
    ("stages", "microbatches", "hand_off"), [(4, 1, 0), (4, 4, 0), (4, 4, 0.3), (4, 6, 0.3), (3, 8, 0.1)]
)
def test_the_train_is_what_microbatches_that_go_round_take(stages, microbatches, hand_off):
    law = pipelined_decode(stages, microbatches, stage_time=1.0, hand_off=hand_off)
    assert law.token_time == pytest.approx(run_train(stages, microbatches, 1.0, hand_off))
    assert law.busy == pytest.approx(microbatches / law.token_time)
    full = pipelined_decode(stages, law.microbatches_to_fill, stage_time=1.0, hand_off=hand_off)
    assert full.busy == 1
    if law.microbatches_to_fill > 1:
        assert pipelined_decode(stages, law.microbatches_to_fill - 1, stage_time=1.0, hand_off=hand_off).busy < 1


@given(st.floats(0, 1), st.integers(0, 8))
def test_accepted_tokens_are_a_sum_of_chances(acceptance, drafted):
    assert accepted_tokens(acceptance, drafted) == pytest.approx(
        sum(acceptance**i for i in range(drafted + 1)), rel=1e-6
    )


def test_speculation_pays_while_reading_is_the_limit():
    assert speculative_speedup(0.0, 4, draft_time=0.0) == 1
    assert speculative_speedup(1.0, 4, draft_time=0.0) == 5
    assert speculative_speedup(0.6, 5, draft_time=0.02) == pytest.approx(2.38 / 1.1, rel=0.01)
    replica = Replica(SMALL, H100, formats=Formats("fp8"), software=BARE)
    gains = []
    for sequences in (1, 2000):
        plain, checked = (
            forward_pass(replica, Batch(sequences=sequences, context=500, verified=n)).time for n in (1, 5)
        )
        gains.append(speculative_speedup(0.8, 4, draft_time=0.05, verify_time=checked / plain))
    assert gains[0] > 2.5
    assert gains[1] < 1.3


def test_deepseek_accepts_1_8_tokens_a_pass():
    """The V3 report, section 5.4.3: 85 to 90 % of the second token, 1.8 times the tokens a second."""
    assert 1.8 <= accepted_tokens(0.85, 1) <= accepted_tokens(0.9, 1) <= 1.9


@given(st.floats(1e-3, 1e3), st.floats(1e-3, 1e3))
def test_both_kinds_of_gpus_keep_pace(prefill, decode):
    split = disaggregate(prefill, decode)
    assert split.prefill_share * prefill == pytest.approx((1 - split.prefill_share) * decode)
    assert split.requests_per_second == pytest.approx(split.prefill_share * prefill)


def test_a_price_is_that_of_the_time():
    assert token_price(2 / 3600, 2000) * 2000 * 3600 == pytest.approx(2)
