"""Drawings of incidents: what is drawn is what the laws say, and every text has its room."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from clusterlab.failures import Job, checkpoint, checkpoint_size, first_order_goodput, goodput, spare_pool, system_mtbf
from clusterlab.units import GB, day, fmt, hour, minute, year
from drawings import failures as incidents
from explorable import Arrow, Band, Box, Label

LIFE = 50_000 * hour
SIZE = checkpoint_size(405e9)
JOB = Job(interval=1080, write=56.7, mtbf=system_mtbf(LIFE, 16_384), detection=2 * minute, restart=5 * minute)
WAIT = spare_pool(24, nodes=2048, node_mtbf=LIFE / 8, repair=2 * day).wait
SHARES = goodput(replace(JOB, repair=WAIT, maintenance=0.01))
FAILURES = [[1 * year, 6 * year], [2.5 * year], [], [9 * year]]
WAYS = {"one rank": {"rate": 50 * GB}, "sharded": {"rate": 100 * GB}, "two levels": {"rate": 100 * GB, "local": 5 * GB}}


def saved(way):
    local = {"local_bandwidth": WAYS[way]["local"]} if "local" in WAYS[way] else {}
    writers = 1 if way == "one rank" else 16_384
    return checkpoint(SIZE, storage_bandwidth=WAYS[way]["rate"], writers=writers, **local)


SCENES = {
    "ledger": incidents.ledger(SHARES, 54 * day, "54 days on 16,384 GPUs"),
    "series": incidents.series(FAILURES, 10 * year),
    **{f"setback {step}": incidents.setback(JOB, step) for step in range(1, incidents.STEPS + 1)},
    "intervals": incidents.interval_rows([replace(JOB, interval=t * minute) for t in (2, 18, 90)]),
    **{way: incidents.checkpoint_path(saved(way), 16_384, way, **rates) for way, rates in WAYS.items()},
}


def boxes(scene, kind=None, solid=None):
    return [
        p for p in scene.parts if isinstance(p, Box) and kind in (None, p.kind) and (solid is None or p.solid == solid)
    ]


def labels(scene):
    return [part.text for part in scene.parts if isinstance(part, Label)]


def test_the_ledger_has_a_band_as_wide_as_every_share():
    scene = SCENES["ledger"]
    bands = [part for part in scene.parts if isinstance(part, Band)]
    drawn = {band.kind: band.width0 / sum(b.width0 for b in bands) for band in bands}
    for name, share in SHARES.parts.items():
        assert drawn[incidents.PARTS[name][1]] == pytest.approx(share)
    assert all(band.width0 == band.width1 for band in bands)
    for name in ("rework", "restart"):
        share = SHARES.parts[name]
        assert f"{fmt(share * 54 * day, 'd', 2)} {incidents.PARTS[name][0]}" in labels(scene)
    assert f"46 d training, {SHARES.with_interval}; 8 d lost" in scene.alt
    assert f"80 % interval of what trains: {fmt(SHARES.low, '%')} to {fmt(SHARES.high, '%')}" in labels(scene)
    scale, band, here = (box for box in boxes(scene) if box.y > max(b.y1 for b in bands))
    assert (band.x - scale.x) / scale.width == pytest.approx(float(SHARES.low))
    assert (band.x + band.width - scale.x) / scale.width == pytest.approx(float(SHARES.high))
    assert (here.x + here.width / 2 - scale.x) / scale.width == pytest.approx(float(SHARES.useful))
    without = incidents.ledger(goodput(JOB), 54 * day, "54 days")
    assert not [text for text in labels(without) if "maintenance" in text]


def test_the_job_s_line_has_every_failure_of_its_parts_where_they_are():
    scene = SCENES["series"]
    line = max(boxes(scene, "compute"), key=lambda box: box.y)
    marks = [box for box in boxes(scene, "lost") if box.y < line.y + line.height < box.y + box.height]
    own = [box for box in boxes(scene, "lost") if box not in marks]
    times = np.sort(np.concatenate(FAILURES))
    for found in (marks, own):
        at = np.sort([(box.x + box.width / 2 - line.x) / line.width for box in found])
        np.testing.assert_allclose(at, times / (10 * year))
    assert "has all 4" in scene.alt


def test_a_setback_costs_what_the_first_order_says():
    per_failure = (1 - JOB.write / JOB.interval - first_order_goodput(JOB)) * JOB.mtbf
    assert f"The failure cost {fmt(per_failure, 'min', 2)}." in labels(incidents.setback(JOB))
    assert not [text for text in labels(incidents.setback(JOB, 6)) if "cost" in text]


def test_the_bars_of_a_setback_are_as_long_as_its_pieces_last():
    bars = [box for box in boxes(incidents.setback(JOB)) if box.height == 38]
    seconds = [
        JOB.interval,
        JOB.write,
        JOB.interval / 2,
        JOB.detection,
        JOB.restart,
        JOB.interval / 2,
        JOB.interval / 2,
        JOB.write,
    ]
    np.testing.assert_allclose([bar.width / bars[0].width for bar in bars], np.array(seconds) / JOB.interval)
    assert all(a.x + a.width == pytest.approx(b.x) for a, b in itertools.pairwise(bars))


def test_progress_falls_by_what_is_lost_and_comes_back():
    curve = [part for part in incidents.setback(JOB).parts if isinstance(part, Arrow) and not part.heads]
    curve = [part for part in curve if part.kind != "ink"]
    assert all((a.x1, a.y1) == pytest.approx((b.x0, b.y0)) for a, b in itertools.pairwise(curve))
    whole = curve[0].y0 - curve[0].y1  # an interval of work
    fall = next(part for part in curve if part.x0 == part.x1)
    assert (fall.y1 - fall.y0) / whole == pytest.approx(0.5)
    assert (curve[0].y0 - curve[-1].y1) / whole == pytest.approx(2)


def test_an_interval_s_line_has_its_writes_and_loses_half_an_interval():
    for minutes in (2, 18, 90):
        job = replace(JOB, interval=minutes * minute)
        scene = incidents.interval_rows([job])
        line = boxes(scene, "compute")[0]
        writes = [box for box in boxes(scene, "memory") if box.height == line.height]
        lost = next(box for box in boxes(scene, "lost") if box.height == line.height)
        assert lost.width / line.width == pytest.approx(job.interval / (2 * job.mtbf))
        assert lost.x + lost.width == pytest.approx(line.x + line.width)
        assert len(writes) == pytest.approx(job.mtbf / job.period, abs=1)
        assert writes[0].width / line.width == pytest.approx(job.write / job.mtbf)
        assert writes[0].x + writes[0].width == pytest.approx(lost.x)
        assert f"{len(writes)} writes" in scene.alt


def test_a_checkpoint_is_cut_into_a_shard_for_every_rank():
    for way in WAYS:
        found = saved(way)
        scene = SCENES[way]
        assert fmt(found.size / 16_384, "B") in boxes(scene, "weights")[0].text
        assert [box.text for box in boxes(scene, "memory", solid=True)] == [fmt(found.size, "B")]
        assert scene.alt.endswith(f"training stops for {fmt(found.stall, 's')}.")
        assert any(fmt(WAYS[way]["rate"], "B/s") in part.text for part in scene.parts if not isinstance(part, Band))
    assert len(boxes(SCENES["two levels"], "memory", solid=False)) == 3
    assert not boxes(SCENES["sharded"], "memory", solid=False)
    with pytest.raises(ValueError, match="way must be one of one rank, sharded, two levels; got 'twice'"):
        incidents.checkpoint_path(saved("sharded"), 16_384, "twice", rate=1)
