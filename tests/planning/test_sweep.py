"""Sweeps: the same atlas whatever runs it, kept as it is made, and gone on with where it was."""

import json
import math
import os
import signal
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from clusterlab.planning import CENTRAL, Site, Training, plan, sweep

FEW = {"tp": 1, "pp": 1, "cp": 1, "zero": 3, "microbatch": 1}
RUNS = [{"model": name, "tokens": 1e12, "global_batch": 512, **FEW} for name in ("Llama 3.1 8B", "Mistral 7B")]
CHIPS, SIZES = ["H100 SXM", "GB200"], [8, 64, 100, 128, 256, 512]


class Counting(Executor):
    """Runs what it is given at once, or the last first, and counts; stops after so many."""

    def __init__(self, most=math.inf, backwards=False):
        self.count, self.most, self.backwards, self.held = 0, most, backwards, []

    def submit(self, fn, /, *args):
        if self.count >= self.most:
            raise RuntimeError("the machine is gone")
        self.count += 1
        future = Future()
        future.set_result(fn(*args))
        return future


@pytest.fixture(scope="module")
def atlas():
    return sweep(RUNS, CHIPS, SIZES, draws=20)


def same(one, other):
    assert len(one.cells) == len(other.cells)
    for left, right in zip(one.cells, other.cells, strict=True):
        assert repr(left) == repr(right)


def test_an_atlas_holds_every_plan_once_and_as_plan_makes_it(atlas):
    named = [(cell.model, cell.accelerator, cell.gpus) for cell in atlas.cells]
    assert named == [(run["model"], chip, size) for run in RUNS for chip in CHIPS for size in SIZES]
    for cell in atlas.cells[1:8:3]:
        site = Site(cell.accelerator, gpus=cell.gpus, layout=FEW)
        made = plan(Training(cell.model, 1e12, global_batch=512), site, draws=20)
        time, cost = made.intervals["time"], made.intervals["cost"]
        assert (cell.time, cell.time_low, cell.time_high) == (time.value, time.low, time.high)
        assert (cell.cost, cell.cost_low, cell.cost_high) == (cost.value, cost.low, cost.high)


def test_a_cell_without_a_plan_says_why(atlas):
    hundred = [cell for cell in atlas.cells if cell.gpus == 100]
    assert hundred
    for cell in hundred:  # a hundred replicas do not share 512 sequences
        assert not cell.feasible
        assert "the nearest that does: gpus" in cell.why
        assert math.isnan(cell.time)
    assert all(cell.feasible for cell in atlas.cells if cell.gpus in (64, 512))


def test_columns_are_arrays_and_more_gpus_take_less_time(atlas):
    time, gpus = atlas.column("time"), atlas.column("gpus")
    good = (atlas.column("model") == "Llama 3.1 8B") & (atlas.column("accelerator") == "H100 SXM") & np.isfinite(time)
    assert np.all(np.diff(time[good][np.argsort(gpus[good])]) < 0)
    with pytest.raises(ValueError, match="column must be one of model"):
        atlas.column("colour")


def test_an_executor_gives_the_same_atlas_in_whatever_order_it_ends(atlas):
    counting = Counting()
    same(sweep(RUNS, CHIPS, SIZES, draws=20, executor=counting), atlas)
    assert counting.count == 2 * 2 * 2  # runs, accelerators, chunks of at most four sizes


def test_processes_give_the_same_atlas():
    one = sweep(RUNS[:1], CHIPS[:1], SIZES[:5], draws=10)
    with ProcessPoolExecutor(2) as executor:
        same(sweep(RUNS[:1], CHIPS[:1], SIZES[:5], draws=10, executor=executor), one)


def test_a_sweep_that_is_cut_short_goes_on_where_it_was(atlas, tmp_path):
    with pytest.raises(RuntimeError, match="the machine is gone"):
        sweep(RUNS, CHIPS, SIZES, draws=20, folder=tmp_path, executor=Counting(most=3))
    # What was submitted before the end may be lost; what was kept is whole.
    sweep(RUNS, CHIPS[:1], SIZES[:4], draws=20, folder=tmp_path)
    kept = len(list(tmp_path.iterdir()))
    assert kept >= 2
    left = Counting()
    same(sweep(RUNS, CHIPS, SIZES, draws=20, folder=tmp_path, executor=left), atlas)
    assert left.count == 8 - kept
    again = Counting()
    same(sweep(RUNS, CHIPS, SIZES, draws=20, folder=tmp_path, executor=again), atlas)
    assert again.count == 0
    assert not list(tmp_path.glob("*.part"))


@pytest.mark.parametrize("text", ["", "[", "[]", '[{"a": 1}]', "null", '[{"accelerator": "H100 SXM", "gpus": 8}]'])
def test_a_chunk_that_is_not_whole_is_made_again(text, tmp_path):
    few = (RUNS[:1], CHIPS[:1], SIZES[:2])
    first = sweep(*few, draws=10, folder=tmp_path)
    (path,) = tmp_path.iterdir()
    path.write_text(text)
    counting = Counting()
    same(sweep(*few, draws=10, folder=tmp_path, executor=counting), first)
    assert counting.count == 1
    assert len(json.loads(path.read_text())) == 2


def test_what_changes_a_plan_is_never_read_from_another(tmp_path):
    few = (RUNS[:1], CHIPS[:1], SIZES[:2])
    for changed in (
        {},
        {"draws": 11},
        {"scenario": replace(CENTRAL, pue=1.5)},
        {"runs": [RUNS[0] | {"tokens": 2e12}]},
        {"sizes": [8, 32]},
    ):
        runs, sizes = changed.pop("runs", few[0]), changed.pop("sizes", few[2])
        counting = Counting()
        sweep(runs, few[1], sizes, **{"draws": 10} | changed, folder=tmp_path, executor=counting)
        assert counting.count == 1


def test_progress_rises_to_all():
    told = []
    sweep(RUNS[:1], CHIPS, SIZES[:2], draws=10, progress=lambda *said: told.append(said[0]))
    assert told == [0, 0.5, 1]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (([], CHIPS, SIZES), "a sweep needs at least one run, one accelerator and one size"),
        ((RUNS, [], SIZES), "a sweep needs at least one run"),
        ((RUNS, CHIPS, []), "sizes must be a whole number"),
        ((RUNS, CHIPS, [8.5]), "sizes must be a whole number"),
        ((RUNS, ["H1000"], SIZES), "unknown accelerator 'H1000'"),
        (([{"model": "Lama"}], CHIPS, SIZES), "tokens must be given"),
        (([{"model": "Llama 3.1 8B", "rate": 5}, *RUNS], CHIPS, SIZES), "rate must be given for every run of a sweep"),
        (([{"model": "Lama", "tokens": 1e12}], CHIPS, SIZES), "unknown model 'Lama'"),
    ],
)
def test_what_cannot_be_swept_is_refused_before_anything_runs(arguments, why):
    counting = Counting()
    with pytest.raises(ValueError, match=why):
        sweep(*arguments, executor=counting)
    assert counting.count == 0


@pytest.mark.filterwarnings("default")  # what Dask itself warns of is its own
def test_a_dask_cluster_gives_the_same_atlas(tmp_path):
    distributed = pytest.importorskip("distributed", reason="Dask is not installed: pip install 'clusterlab[dask]'")
    few = (RUNS[:1], CHIPS, SIZES)
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        with client.get_executor() as executor:
            same(sweep(*few, draws=20, executor=executor, folder=tmp_path), sweep(*few, draws=20))
        assert len(list(tmp_path.iterdir())) == 4


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_a_worker_that_is_killed_half_way_loses_nothing(tmp_path):
    distributed = pytest.importorskip("distributed", reason="Dask is not installed: pip install 'clusterlab[dask]'")
    wanted, killed, shares = sweep(RUNS[:1], CHIPS, SIZES, draws=20), [], []
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
        client.get_executor() as executor,
    ):
        pids = client.run(os.getpid)

        def kill_one(share, _):
            shares.append(share)
            if share and not killed:
                killed.append(next(iter(pids.values())))
                os.kill(killed[0], signal.SIGKILL)

        found = sweep(RUNS[:1], CHIPS, SIZES, draws=20, executor=executor, folder=tmp_path, progress=kill_one)
    assert killed
    same(found, wanted)
    assert shares == sorted(shares)
    assert shares[-1] == 1
    same(sweep(RUNS[:1], CHIPS, SIZES, draws=20, folder=tmp_path), wanted)
