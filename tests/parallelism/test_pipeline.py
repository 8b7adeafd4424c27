"""Pipelines: schedules executed by two other machines, closed forms, published figures, limits, refusals."""

import itertools

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterlab.parallelism import (
    SCHEDULES,
    bubble_fraction,
    critical_stage,
    dualpipe_bubble,
    in_flight,
    simulate_dualpipe,
    simulate_pipeline,
    stage_layers,
)
from explorable import Picture
from laws import assert_equals_a_loop

close = {"rel": 1e-9, "abs": 1e-9}
EQUAL = {"forward": 1.0, "backward": 2.0}


@st.composite
def pipelines(draw, most=5, shortest=0):
    """A schedule with any stages, microbatches and chunks, and whole seconds for each pass of each piece."""
    schedule = draw(st.sampled_from(SCHEDULES))
    p, m = draw(st.integers(1, most)), draw(st.integers(1, 2 * most))
    v = draw(st.integers(1, 3)) if schedule == "interleaved" else 1
    times = st.integers(shortest, 4)
    grid = st.lists(st.lists(times, min_size=v, max_size=v), min_size=p, max_size=p).map(np.array)
    setting = {"stages": p, "microbatches": m, "chunks": v, "forward": draw(grid), "backward": draw(grid)}
    setting["forward"][0, 0] += not setting["forward"].any()  # some pass takes time
    if schedule.startswith("zb"):
        setting["weight"] = np.minimum(draw(grid), setting["backward"])
    return schedule, setting | {"communication": float(draw(st.integers(0, 3)))}


def passes(line):
    return list(zip(line.kind, line.stage, line.chunk, line.microbatch, line.start, line.end, strict=True))


def source(kind, piece, microbatch, pieces, *, split):
    """The pass whose result a pass needs."""
    if kind == "F":
        return ("F", piece - 1, microbatch) if piece else None
    if kind == "W":
        return ("B", piece, microbatch)
    return ("B", piece + 1, microbatch) if piece < pieces - 1 else ("F", piece, microbatch)


# --- what any timeline must be ---------------------------------------------------------------------------------------


@settings(max_examples=150, deadline=None)
@given(pipelines())
def test_every_pass_runs_once_after_its_input_and_never_two_at_once(case):
    schedule, setting = case
    line = simulate_pipeline(schedule, **setting)
    p, m, v = line.stages, setting["microbatches"], line.chunks
    split, hop = schedule.startswith("zb"), setting["communication"]
    ends = {(k, chunk * p + stage, mb): (end, stage) for k, stage, chunk, mb, _, end in passes(line)}
    kinds = "FBW" if split else "FB"
    assert len(ends) == len(line.kind)
    assert set(ends) == set(itertools.product(kinds, range(p * v), range(m)))
    for kind, stage, chunk, microbatch, start, end in passes(line):
        needed = source(kind, chunk * p + stage, microbatch, p * v, split=split)
        if needed:
            ready, where = ends[needed]
            assert start >= ready + hop * (where != stage) - 1e-9
        seconds = setting["forward" if kind == "F" else "backward"][stage, chunk]
        if split:
            weight = setting["weight"][stage, chunk]
            seconds = {"F": seconds, "B": seconds - weight, "W": weight}[kind]
        assert end - start == pytest.approx(seconds, **close)
    for stage in range(p):
        mine = line.stage == stage
        assert np.all(line.start[mine][1:] >= line.end[mine][:-1] - 1e-9)
    assert line.start.min() == 0
    np.testing.assert_allclose(line.busy + line.idle, line.time)
    work = m * (setting["forward"] + setting["backward"]).sum(axis=1)
    np.testing.assert_allclose(line.busy, work)
    assert work.max() <= line.span <= line.time + 1e-9
    assert np.all(line.idle >= -1e-9)
    assert np.all((line.in_flight > 0) & (line.in_flight <= m))


def orders(line):
    """Each stage's passes in the order in which it ran them."""
    per_stage = {stage: [] for stage in range(line.stages)}
    for kind, stage, chunk, microbatch, *_ in passes(line):
        per_stage[stage].append((kind, chunk * line.stages + stage, microbatch))
    return per_stage


@settings(max_examples=100, deadline=None)
@given(pipelines())
def test_the_time_is_the_longest_path_through_the_passes(case):
    """Another machine: a graph whose nodes are passes, and whose longest path is the time (networkx)."""
    schedule, setting = case
    line = simulate_pipeline(schedule, **setting)
    p, pieces = line.stages, line.stages * line.chunks
    graph = nx.DiGraph()
    seconds = {(k, c * p + s, m): end - start for k, s, c, m, start, end in passes(line)}
    split = schedule.startswith("zb")
    for order in orders(line).values():
        nx.add_path(graph, order, weight=0)
    for node in seconds:
        if needed := source(*node, pieces, split=split):
            hop = setting["communication"] * (needed[1] % p != node[1] % p)
            graph.add_edge(needed, node, weight=hop)
    for a, b in graph.edges:  # the weight of an edge: the pass it leaves, and the way
        graph.edges[a, b]["weight"] += seconds[a]
    last = {node: seconds[node] for node in graph}
    for node, end in last.items():
        graph.add_edge(node, "end", weight=end)
    assert line.time == pytest.approx(nx.dag_longest_path_length(graph, weight="weight"), **close)


@settings(max_examples=60, deadline=None)
@given(pipelines(most=4, shortest=1))
def test_the_time_is_that_of_a_clock_that_ticks(case):
    """A third machine: at every whole second, each idle stage looks whether the next pass on its list has its input."""
    schedule, setting = case
    line = simulate_pipeline(schedule, **setting)
    p, pieces, split = line.stages, line.stages * line.chunks, schedule.startswith("zb")
    if split and np.any(setting["weight"] == setting["backward"]):
        return  # a pass of no time does not fit between two ticks
    todo = orders(line)
    ends, until, now = {}, [0] * p, 0
    while any(todo.values()):
        for stage in range(p):
            if until[stage] <= now and todo[stage]:
                kind, piece, microbatch = todo[stage][0]
                needed = source(kind, piece, microbatch, pieces, split=split)
                hop = setting["communication"] * (bool(needed) and needed[1] % p != stage)
                if needed is None or ends.get(needed, np.inf) + hop <= now:
                    seconds = setting["forward" if kind == "F" else "backward"][stage, piece // p]
                    if split:
                        weight = setting["weight"][stage, piece // p]
                        seconds = {"F": seconds, "B": seconds - weight, "W": weight}[kind]
                    until[stage] = ends[todo[stage].pop(0)] = now + seconds
        now += 1
    assert line.time == max(ends.values())


# --- closed forms ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_bubble_and_memory_are_those_of_the_closed_forms(schedule):
    """Zero bubble: for enough microbatches and weight gradients that are no longer than the other passes."""
    enough = {"zb-h1": 1, "zb-h2": 2}.get(schedule, 0)
    seconds = [(1, 2, 1), (1, 2, 0.7), (2, 3, 1), (1, 1, 0.5), (1, 3, 1), (2, 2, 0.5)]
    for p, m in itertools.product(range(1, 6), range(1, 13)):
        for v, (f, b, w) in itertools.product((1, 2, 3) if schedule == "interleaved" else (1,), seconds):
            times = {"forward": f, "backward": b, "weight": w}
            line = simulate_pipeline(schedule, stages=p, microbatches=m, chunks=v, **times)
            held = in_flight(p, m, np.arange(p), schedule=schedule, chunks=v)
            np.testing.assert_allclose(np.broadcast_to(held, (p,)), line.in_flight)
            expected = bubble_fraction(p, m, schedule=schedule, chunks=v, **times)
            if m >= enough * p - (enough == 2):
                assert line.bubble_fraction == pytest.approx(expected, **close)
            else:
                assert line.bubble_fraction >= expected - 1e-9


def test_with_fewer_microbatches_than_stages_both_laws_of_the_bubble_are_what_the_schedule_takes():
    for p, m, v in itertools.product((2, 3, 4, 6), range(1, 8), (1, 2, 4)):
        found = simulate_pipeline("interleaved", stages=p, microbatches=m, chunks=v, **EQUAL).bubble_fraction
        even = {"embedding_time": 0, "output_time": 0, "stages": p, "microbatches": m, "chunks": v}
        bubble = critical_stage(2 * p * v, layer_time=3 / (2 * v), **even).bubble
        assert bubble_fraction(p, m, chunks=v) == pytest.approx(found, **close)
        assert bubble / (3 * m) == pytest.approx(found, **close)


# --- DualPipe --------------------------------------------------------------------------------------------------------

TWO_WAY = [(2, 4), (4, 8), (4, 14), (6, 12), (8, 20)]


@pytest.mark.parametrize(("p", "m"), TWO_WAY)
@pytest.mark.parametrize("hop", [0.0, 0.25])
def test_dualpipe_runs_every_pass_once_in_both_directions_after_its_input(p, m, hop):
    line = simulate_dualpipe(p, m, forward=1.0, backward=2.2, weight=0.9, paired=2.5, communication=hop)
    ends, whole = {}, {}
    for kind, stage, way, microbatch, start, end in passes(line):
        piece = p - 1 - stage if way else stage
        assert (kind, piece, way, microbatch) not in ends
        ends[kind, piece, way, microbatch] = end
        whole[kind, piece, way, microbatch] = (start, stage)
    assert set(ends) == set(itertools.product("FBW", range(p), (0, 1), range(m // 2)))
    for (kind, piece, way, microbatch), (start, stage) in whole.items():
        before = {"F": ("F", piece - 1), "B": ("B", piece + 1), "W": ("B", piece)}[kind]
        before = ("F", piece) if before == ("B", p) else before
        if before[1] >= 0:  # in a pair the backward pass is drawn behind the forward pass, but began with it
            at = ends[*before, way, microbatch] + hop * (kind != "W" and before[1] != piece)
            assert start >= at - 1e-9, (kind, stage)
    for stage in range(p):
        mine = line.stage == stage
        assert np.all(line.start[mine][1:] >= line.end[mine][:-1] - 1e-9)
    np.testing.assert_allclose(line.in_flight * 2, p + 1)  # table 2: PP + 1 of a piece


@pytest.mark.parametrize(("p", "m"), TWO_WAY)
@pytest.mark.parametrize("pair", [3.0, 2.5])
def test_dualpipe_waits_as_long_as_deepseek_s_table_says(p, m, pair):
    """Where all three passes take as long as one another; with a shorter weight gradient no longer than that."""
    thirds = {"forward": 1.0, "backward": 2.0, "weight": 1.0, "paired": pair}
    line, law = simulate_dualpipe(p, m, **thirds), dualpipe_bubble(p, **thirds)
    assert line.idle.max() == pytest.approx(law, **close)
    assert law == pytest.approx((p / 2 - 1) * (pair + 2 - 3))
    quick = thirds | {"weight": 0.6}
    idle = simulate_dualpipe(p, m, **quick).idle.max()
    assert idle <= dualpipe_bubble(p, **quick) + 1e-9
    assert idle >= 0.8 * dualpipe_bubble(p, **quick)
    one_way = simulate_pipeline("1f1b", stages=p, microbatches=m, forward=1.0, backward=2.0)
    assert one_way.idle.max() == pytest.approx((p - 1) * 3)
    assert one_way.idle.max() > line.idle.max()


def test_dualpipe_refuses_what_it_cannot_run():
    for counts in ((3, 12), (4, 6), (4, 9)):
        with pytest.raises(ValueError, match="stages and microbatches must be even"):
            simulate_dualpipe(*counts)
    with pytest.raises(ValueError, match="stages must be even"):
        dualpipe_bubble([4, 3])
    for law in (dualpipe_bubble, lambda p, **times: simulate_dualpipe(p, 8, **times)):
        with pytest.raises(ValueError, match="weight must be at most backward"):
            law(4, backward=1.0, weight=2.0)
        with pytest.raises(ValueError, match="paired must be"):
            law(4, paired=0.0)
    found = dualpipe_bubble(np.array([2, 4, 8]), weight=[0.5, 1.0, 2.0])
    np.testing.assert_allclose(found, [0, 2, 0])


@given(st.integers(1, 6), st.integers(1, 10), st.floats(0, 5), st.data())
def test_gpipe_with_any_times_is_a_flow_shop_there_and_back(p, m, hop, data):
    """The first microbatch goes through all stages, then the slowest sets the pace; and the same on the way back."""
    stage = st.lists(st.floats(0.1, 5), min_size=p, max_size=p).map(np.array)
    f, b = data.draw(stage), data.draw(stage)
    line = simulate_pipeline("gpipe", stages=p, microbatches=m, forward=f, backward=b, communication=hop)
    expected = f.sum() + b.sum() + (m - 1) * (f.max() + b.max()) + 2 * (p - 1) * hop
    assert line.time == pytest.approx(expected, **close)


@given(pipelines(), st.integers(1, 3))
def test_a_faster_link_or_stage_never_slows_a_pipeline(case, factor):
    schedule, setting = case
    line = simulate_pipeline(schedule, **setting)
    slower_link = simulate_pipeline(schedule, **setting | {"communication": factor * setting["communication"]})
    slower_passes = simulate_pipeline(schedule, **setting | {"forward": factor * setting["forward"]})
    assert slower_link.time >= line.time - 1e-9
    assert slower_passes.time >= line.time - 1e-9


@given(pipelines(), st.sampled_from([1e-3, 2.0, 1e3]))
def test_all_times_scale_together(case, factor):
    schedule, setting = case
    timed = [name for name in ("forward", "backward", "weight", "communication") if name in setting]
    line = simulate_pipeline(schedule, **setting)
    scaled = simulate_pipeline(schedule, **setting | {name: factor * setting[name] for name in timed})
    np.testing.assert_allclose(scaled.end, factor * line.end, rtol=1e-9, atol=1e-12)


@given(st.integers(2, 8), st.integers(1, 64), st.integers(1, 8))
def test_more_microbatches_and_more_chunks_never_make_a_bubble_larger(p, m, v):
    assert bubble_fraction(p, m + 1, chunks=v) <= bubble_fraction(p, m, chunks=v)
    assert bubble_fraction(p, m, chunks=v + 1) <= bubble_fraction(p, m, chunks=v) + 1e-12
    assert bubble_fraction(1, m, chunks=v) == 0
    assert in_flight(p, m, chunks=v) <= min(m, p + (p - 1) / v + max(m - p, 0))


def test_interleaving_holds_more_and_1f1b_less_than_all():
    """Korthikanti et al. 2022, section 4.2.3: L (1 + (p - 1)/(p v)) layers on the first stage, instead of L."""
    p, v = 8, 3
    assert in_flight(p, 64, chunks=v) / p == pytest.approx(1 + (p - 1) / (p * v), **close)
    assert in_flight(p, 64) == p
    assert in_flight(p, 64, schedule="gpipe") == 64
    assert [in_flight(p, 64, i) for i in range(p)] == list(range(p, 0, -1))


# --- uneven stages ---------------------------------------------------------------------------------------------------


def pieces(layers, stages, chunks):
    """Layers of each piece, shape (stages, chunks), laid out one by one: the ends are short, the last first."""
    size = -(-layers // (stages * chunks))
    held = np.full(stages * chunks, size)
    for k in range(size * stages * chunks - layers):
        held[-1 - k // 2 if k % 2 == 0 else k // 2] -= 1
    return held.reshape(chunks, stages).T


@given(st.integers(1, 130), st.integers(1, 20), st.integers(1, 6))
def test_stages_share_out_all_layers_evenly(layers, stages, chunks):
    if stages * chunks > layers + 2:
        with pytest.raises(ValueError, match="stages times chunks must be at most layers"):
            stage_layers(layers, stages, chunks=chunks)
        return
    found = stage_layers(layers, stages, np.arange(stages), chunks=chunks)
    np.testing.assert_array_equal(found, pieces(layers, stages, chunks).sum(axis=1))
    assert found.sum() == layers


@st.composite
def uneven(draw, most=6):
    """Layers dealt out to stages, and whole seconds of a layer, of the embedding and of the output layer."""
    p, v = draw(st.integers(1, most)), draw(st.integers(1, 3))
    v = v if p > 1 else 1
    layers = draw(st.integers(max(p * v - 2, 1), 3 * p * v))
    times = {"layer_time": draw(st.integers(1, 6)), "embedding_time": draw(st.integers(0, 9))}
    times["output_time"] = draw(st.integers(0, 30))
    return layers, times, {"stages": p, "microbatches": draw(st.integers(1, 24)), "chunks": v}


def critical(case):
    """What the law says, and what a pipeline of such pieces does: layers and seconds of each piece, and the run."""
    layers, times, setting = case
    held = pieces(layers, setting["stages"], setting["chunks"])
    seconds = held * float(times["layer_time"])
    seconds[0, 0] += times["embedding_time"]
    seconds[-1, -1] += times["output_time"]
    line = simulate_pipeline("interleaved", **setting, forward=seconds / 3, backward=seconds * 2 / 3)
    return critical_stage(layers, **times, **setting), held, seconds.sum(axis=1), line


@settings(max_examples=200)
@given(uneven())
def test_the_critical_stage_is_the_slowest_of_all_and_its_step_that_of_a_pipeline_that_runs(case):
    slow, held, stages, line = critical(case)
    p, m, v = case[2].values()
    layers = held.sum(axis=1)
    assert slow.time == stages.max()
    # It is one of the slowest, and says what it holds.
    ends = {(layers[i], i == 0, i == p - 1) for i in range(p) if stages[i] == stages.max()}
    assert (slow.layers, slow.has_embedding, slow.has_output) in ends
    assert slow.bubble >= 0
    step = m * slow.time + slow.bubble
    if m == 1 or p == 1 or (v == 1 and slow.has_output):
        assert step == pytest.approx(line.time, rel=1e-9)
    elif v == 1:  # a stage before the last fills part of its wait with forward passes ahead
        assert line.time * (1 - 1e-9) <= step <= 1.3 * line.time
    else:  # with few layers to a piece, heavy ends weigh more than the closed form of even pieces knows
        assert 0.6 * line.time <= step <= 1.2 * line.time


def test_the_critical_stage_is_found_where_the_middle_one_is_short():
    """61 layers on 4 stages of 2 pieces: 15, 16, 15 and 15 layers."""
    times = {"layer_time": 1, "embedding_time": 0, "output_time": 0}
    slow, _, stages, _ = critical((61, times, {"stages": 4, "microbatches": 8, "chunks": 2}))
    assert stages.tolist() == [15, 16, 15, 15]
    assert slow.time == 16


@given(st.integers(1, 12), st.integers(1, 6), st.integers(1, 200))
def test_no_stage_between_the_ends_holds_more_than_the_critical_one(p, v, layers):
    layers = max(layers, p * v - 2)
    slow = critical_stage(layers, layer_time=1, embedding_time=0, output_time=0, stages=p, microbatches=4, chunks=v)
    assert slow.time == stage_layers(layers, p, np.arange(p), chunks=v).max()


@given(st.integers(1, 8), st.integers(1, 64), st.integers(1, 4), st.integers(1, 5))
def test_even_stages_have_the_bubble_of_the_closed_form(p, m, v, size):
    v = v if p > 1 else 1
    times = {"layer_time": 2.0, "embedding_time": 0, "output_time": 0}
    slow = critical_stage(p * v * size, **times, stages=p, microbatches=m, chunks=v)
    assert slow.time == 2 * v * size
    assert slow.bubble == pytest.approx(m * slow.time * bubble_fraction(p, m, chunks=v), **close)


@given(uneven(), st.integers(1, 5))
def test_more_work_never_makes_a_pipeline_faster(case, more):
    layers, times, setting = case

    def step(**change):
        slow = critical_stage(layers, **times | change, **setting)
        return setting["microbatches"] * slow.time + slow.bubble

    for name in times:
        assert step(**{name: times[name] + more}) >= step() * (1 - 1e-12)


# --- published figures -----------------------------------------------------------------------------------------------


def test_the_interleaved_schedule_of_sc21_figure_4():
    """Narayanan et al. 2021 (SC21), figure 4, bottom: 4 devices, 8 microbatches, 2 chunks. The first device runs 1 to 4
    of its first chunk, 1 to 4 of its second, 5, 6 and 7 of its first, then the first backward pass, of its second."""
    line = simulate_pipeline("interleaved", stages=4, microbatches=8, chunks=2, **EQUAL)
    first = [(k, c, m + 1) for k, s, c, m, *_ in passes(line) if s == 0]
    ahead = [("F", 0, m) for m in (1, 2, 3, 4)] + [("F", 1, m) for m in (1, 2, 3, 4)] + [("F", 0, m) for m in (5, 6, 7)]
    assert first[:12] == [*ahead, ("B", 1, 1)]


@pytest.mark.parametrize(("p", "v"), [(2, 2), (4, 2), (4, 3), (8, 4)])
def test_the_warm_up_of_an_interleaved_stage_is_that_of_megatron(p, v):
    """NVIDIA/Megatron-LM, pipeline_parallel/schedules.py: 2 (p - rank - 1) + (v - 1) group forward passes first, and
    then a forward before each backward."""
    line = simulate_pipeline("interleaved", stages=p, microbatches=4 * p, chunks=v, **EQUAL)
    for rank, order in orders(line).items():
        warm_up = [kind for kind, *_ in order].index("B") - 1
        assert warm_up == 2 * (p - rank - 1) + (v - 1) * p


def test_zero_bubble_cuts_the_bubble_to_a_third_and_then_to_none():
    """Qi et al. 2024, table 2 with T_F = T_B = T_W: 1F1B 3(p - 1), ZB-H1 p - 1, ZB-H2 0; microbatches p, p, 2p - 1."""
    p, m = 4, 12
    lines = {s: simulate_pipeline(s, stages=p, microbatches=m, **EQUAL) for s in ("1f1b", "zb-h1", "zb-h2")}
    assert [line.span - 3 * m for line in lines.values()] == pytest.approx([9, 3, 0])
    assert [line.in_flight.max() for line in lines.values()] == [p, p, 2 * p - 1]
    # The stages of ZB-H2 finish one after another, and only a loop that does not wait for the last has no bubble.
    assert lines["zb-h2"].time - 3 * m == p - 1


def test_the_bubble_of_llama_3():
    """The Llama 3 Herd of Models, section 3.3.2: the bubble is (PP - 1)/(V M). With 16 stages and 16 microbatches, as
    in its table 4 (16 sequences a pipeline), 1F1B would lose 94 %, eight chunks 12 %."""
    assert bubble_fraction(16, 16) == pytest.approx(15 / 16)
    assert bubble_fraction(16, 16, chunks=8) == pytest.approx(15 / 128)


def test_a_train_of_microbatches_fills_the_racks():
    """Four racks, 20 ms a microbatch, forward only: three intervals with idle racks, then every rack is busy."""
    line = simulate_pipeline("gpipe", stages=4, microbatches=10, forward=20e-3, backward=0)
    forward = line.kind == "F"
    busy = [np.sum((line.start[forward] <= t) & (t < line.end[forward])) for t in np.arange(7) * 20e-3 + 10e-3]
    assert busy == [1, 2, 3, 4, 4, 4, 4]


def test_a_slow_link_costs_1f1b_more_than_gpipe():
    """1F1B keeps few microbatches in flight, so each waits for the way there and back; GPipe pays the way once."""
    there_and_back = 2 * 3 * 0.5
    gpipe, one_f_one_b = (
        simulate_pipeline(s, stages=4, microbatches=32, communication=0.5, **EQUAL).time for s in ("gpipe", "1f1b")
    )
    assert gpipe == pytest.approx(3 * (32 + 3) + there_and_back)
    assert one_f_one_b > gpipe + 5 * there_and_back


# --- for a picture, arrays, refusals ---------------------------------------------------------------------------------


def test_spans_are_what_a_picture_takes():
    line = simulate_pipeline("zb-h1", stages=2, microbatches=3, **EQUAL)
    spans = line.spans()
    assert {name: len(found) for name, found in spans.items()} == {"forward": 6, "backward": 6, "weight gradient": 6}
    assert spans["forward"][0] == (0, 0.0, 1.0, "1")
    assert Picture(spans=spans).spans is spans
    assert "in flight" in repr(line)


def test_arrays_are_a_loop():
    p, m, v = np.array([1, 4, 8, 8]), np.array([3, 2, 32, 9]), np.array([1, 3, 2, 1])
    s = np.array(["gpipe", "interleaved", "zb-h1", "zb-h2"])
    f, b, w = np.array([1.0, 2, 1, 1]), np.array([2.0, 4, 3, 2]), np.array([1.0, 2, 1, 0.5])
    each = list(zip(p, m, s, v, f, b, w, strict=True))
    assert_equals_a_loop(
        bubble_fraction(p, m, schedule=s, chunks=v, forward=f, backward=b, weight=w),
        [
            bubble_fraction(p, m, schedule=str(s), chunks=v, forward=f, backward=b, weight=w)
            for p, m, s, v, f, b, w in each
        ],
    )
    assert_equals_a_loop(
        in_flight(p, m, p - 1, schedule=s, chunks=v),
        [in_flight(p, m, p - 1, schedule=str(s), chunks=v) for p, m, s, v, *_ in each],
    )

    n, t, e, o = (
        np.array([8, 16, 126, 30]),
        np.array([1.0, 2, 3, 1]),
        np.array([0.0, 1, 2, 0]),
        np.array([0, 5, 1, 9.0]),
    )
    loop = zip(n, t, e, o, p, m, v, strict=True)
    assert_equals_a_loop(
        critical_stage(n, layer_time=t, embedding_time=e, output_time=o, stages=p, microbatches=m, chunks=v),
        [
            critical_stage(n, layer_time=t, embedding_time=e, output_time=o, stages=p, microbatches=m, chunks=v)
            for n, t, e, o, p, m, v in loop
        ],
    )
    assert_equals_a_loop(
        stage_layers(n, p, p - 1, chunks=v),
        [stage_layers(n, p, p - 1, chunks=v) for n, p, v in zip(n, p, v, strict=True)],
    )


GOOD = {"stages": 2, "microbatches": 4}
UNEVEN = {"layer_time": 1.0, "embedding_time": 0.0, "output_time": 3.0}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: simulate_pipeline("2f2b", **GOOD),
            "schedule must be one of gpipe, 1f1b, interleaved, zb-h1, zb-h2; got '2f2b'",
        ),
        (lambda: simulate_pipeline(["1f1b"], **GOOD), "schedule must be one of"),
        (lambda: simulate_pipeline("1f1b", stages=0, microbatches=4), "stages must be a whole number"),
        (lambda: simulate_pipeline("1f1b", stages=[2, 4], microbatches=4), "stages must be one whole number"),
        (lambda: simulate_pipeline("1f1b", stages=2, microbatches=1.5), "microbatches must be a whole number"),
        (lambda: simulate_pipeline("1f1b", **GOOD, chunks=2), "chunks must be 1 under 1f1b, got 2"),
        (lambda: simulate_pipeline("1f1b", **GOOD, forward=-1), "forward must be zero or more"),
        (lambda: simulate_pipeline("1f1b", **GOOD, backward=[1, 2, 3]), "backward must be one number, one a stage"),
        (
            lambda: simulate_pipeline("1f1b", **GOOD, communication=float("inf")),
            "communication must be zero or more and finite",
        ),
        (
            lambda: simulate_pipeline("1f1b", **GOOD, forward=0, backward=0),
            "forward and backward must not both be zero",
        ),
        (lambda: simulate_pipeline("zb-h1", **GOOD, weight=3), "weight must be at most backward, got 3"),
        (lambda: bubble_fraction(4, 4, schedule="dualpipe"), "schedule must be one of"),
        (lambda: bubble_fraction(4, 4, weight=5), "weight must be at most backward"),
        (lambda: in_flight(4, 4, 4), "stage must be a whole number from 0 to stages - 1, got 4 of 4"),
        (lambda: in_flight(4, 4, 0.5), "stage must be a whole number"),
        (lambda: stage_layers(1, 4), r"stages times chunks must be at most layers \+ 2, got 4 and 1"),
        (lambda: stage_layers(8, 4, 4), "stage must be a whole number from 0 to stages - 1, got 4 of 4"),
        (lambda: critical_stage(1, **UNEVEN, **GOOD, chunks=2), "stages times chunks must be at most layers"),
        (lambda: in_flight(4, 4, schedule="1b1f"), "schedule must be one of"),
    ],
)
def test_nonsense_is_refused_by_name(call, message):
    with pytest.raises(ValueError, match=message):
        call()
