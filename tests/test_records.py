"""Records: what they are as a dict and as a frame, and what the package shows of itself."""

import inspect
import json
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import clusterlab as cl
from clusterlab.planning import Atlas, Cell
from clusterlab.records import tabulate


class Frame(dict):
    """What pandas' frame is made of: columns of one length."""

    def __init__(self, columns):
        super().__init__(columns)
        assert len({len(one) for one in columns.values()}) == 1


@pytest.fixture
def pandas(monkeypatch):
    """A stand-in, so that this runs without it."""
    monkeypatch.setitem(sys.modules, "pandas", SimpleNamespace(DataFrame=Frame))


def step(**layout):
    return cl.step("Llama 3.1 8B", "H100", cl.Workload(8192, 64), cl.Layout(**layout))


def test_a_record_is_a_dict_of_its_fields_and_of_what_follows():
    one = step(dp=8)
    found = one.as_dict()
    assert found["time"] == one.time
    assert found["mfu"] == one.mfu
    assert found["low"] < found["time"] < found["high"]
    assert set(cl.parallelism.STEP_PARTS) <= set(found)
    assert json.loads(json.dumps(found)) == found


def test_records_within_a_record_are_dicts_within_a_dict():
    found = cl.Replica("Llama 3.1 8B", "H100").as_dict()
    assert found["machine"]["name"] == "H100 SXM"
    assert found["layout"]["tp"] == 1.0


def test_a_plan_is_a_dict_without_what_it_only_works_out_when_asked():
    made = cl.plan(cl.Training("Llama 3.1 8B", 1e11, global_batch=64), cl.Site("H100 SXM", gpus=8), draws=10)
    found = made.as_dict()
    assert found["training"]["model"]["name"] == "Llama 3.1 8B"
    assert found["design"]["spares"] == 0
    assert not {"weigh", "rank", "front", "tornado"} & set(found)


def test_a_frame_has_a_row_for_each_element(pandas):
    many = step(dp=8, tp=[1, 2], pp=[1, 2])
    frame = many.to_frame()
    np.testing.assert_array_equal(frame["time"], many.time)
    assert len(frame["gpus"]) == 2
    assert len(step(dp=8).to_frame()["time"]) == 1
    found = cl.search("Llama 3.1 8B", "H100", cl.Workload(8192, 64), gpus=8)
    frame = found.to_frame()
    np.testing.assert_array_equal(frame["step.time"], found.step.time)
    np.testing.assert_array_equal(frame["layouts.tp"], np.broadcast_to(found.layouts.tp, found.memory.shape))


def test_tables_and_atlases_are_frames_row_by_row(pandas):
    table = tabulate({"ranks": [2, 8], "sent": [1e9, 2e9]}, units={"sent": "B"}).to_frame()
    assert table["sent"].tolist() == ["1 GB", "2 GB"]
    cells = Cell("m", "H100 SXM", 8, time=3.0), Cell("m", "H100 SXM", 16, why="too small")
    frame = Atlas(cells).to_frame()
    assert frame["gpus"].tolist() == [8, 16]
    assert frame["why"].tolist() == ["", "too small"]


def test_without_pandas_a_frame_is_refused_in_words(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="to_frame needs pandas: install it, or take as_dict"):
        step(dp=8).to_frame()


# --- The package -----------------------------------------------------------------------------------------------------

ROOMS = "catalogue evidence failures interconnect model operations parallelism planning power roofline scaling serving"


def test_rooms_are_completed_loaded_and_named_in_the_help():
    assert set(ROOMS.split()) <= set(dir(cl))
    assert set(cl.__all__) <= set(dir(cl))
    code = "import clusterlab, sys; before = 'clusterlab.evidence' in sys.modules; clusterlab.evidence.published_runs"
    done = subprocess.run([sys.executable, "-c", f"{code}; print(before)"], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
    for room in ROOMS.split():
        assert f"``{room}``" in cl.__doc__
    with pytest.raises(AttributeError, match="module 'clusterlab' has no attribute 'training'; did you mean Training"):
        cl.training  # noqa: B018


@pytest.mark.parametrize("room", ROOMS.split())
def test_every_public_name_has_help_and_types(room):
    """From ``help(clusterlab)`` to the room, and from its help to each of its names."""
    module = getattr(cl, room)
    listed = getattr(module, "__all__", None) or [name for name in vars(module) if name[0] != "_"]
    for name in listed:
        one = getattr(module, name)
        if inspect.isfunction(one) and one.__module__.startswith(module.__name__):
            assert inspect.getdoc(one)
            signature = inspect.signature(one)
            assert signature.return_annotation is not signature.empty
            assert all(p.annotation is not p.empty for p in signature.parameters.values())
