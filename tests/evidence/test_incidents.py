"""A log of incidents as people keep it: what is read, what is named, what it does to a plan."""

import json
import math
from dataclasses import replace
from datetime import datetime, timedelta

import numpy as np
import pytest

from clusterlab.cli import main
from clusterlab.evidence import is_incidents, learn_incidents, parse_incidents
from clusterlab.evidence.own_failures import prior_weight
from clusterlab.failures import posterior_mttf
from clusterlab.planning import ASSUMPTIONS, CENTRAL, Site, Training, plan, restarted
from clusterlab.units import day, hour, minute

KNOWN = {"gpus": 1024, "days": 60}


def read(text, **known):
    return parse_incidents(text, "log.csv", **(known or KNOWN))


def a_log(n=200, gpus=4096, days=100, seed=1, lost=0.5):
    """A log as text: incidents at random times, of a few causes, each with its hours."""
    random, start = np.random.default_rng(seed), datetime(2026, 1, 1)
    rows = []
    for _ in range(n):
        when = start + timedelta(days=float(random.uniform(0, days)))
        cause = random.choice(["Xid 79", "IB link flap", "host reboot", "gremlins"])
        rows.append(f"{when.isoformat(' ', 'seconds')},{cause},{random.lognormal(math.log(lost), 0.5):.3f}")
    text = "time,cause,lost_hours\n" + "\n".join(rows) + "\n"
    return parse_incidents(text, "log.csv", gpus=gpus, days=days)


# --- reading ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "hours"),
    [
        ("2026-03-01 06:00", 0),
        ("2026-03-01T07:30:00Z", 1.5),
        ("2026-03-01T09:00:00+02:00", 1),
        ("2026/03/01 08:00", 2),
        ("01.03.2026 08:00", 2),
        ("Mar 1, 2026 8:00 AM", 2),
        ("1 Mar 2026 08:00:00", 2),
        ("1772352000", 2),
        ("1772352000000", 2),
    ],
)
def test_times_are_read_as_people_write_them(written, hours):
    log = read(f'time,cause\n2026-03-01 06:00,first\n"{written}",second\n')
    assert max(log.times) - min(log.times) == pytest.approx(hours * hour)


@pytest.mark.parametrize(("other", "days"), [("13/02/2026", 10), ("02/13/2026", 30)])
def test_a_date_with_slashes_is_read_as_the_others_of_its_file(other, days):
    log = read(f"date,cause\n{other},a\n03/02/2026,b\n")
    first, second = sorted(log.times)
    whole = {"13/02/2026": 10, "02/13/2026": 17}[other]
    assert second - first == pytest.approx(whole * day), days


def test_a_date_with_slashes_that_may_be_either_is_named():
    log = read("date,cause\n2026-03-01,a\n03/04/2026,b\n")
    assert len(log.times) == 1
    assert log.unread == ("line 3 is not counted: '03/04/2026' may be either of two days; write 2026-MM-DD",)


@pytest.mark.parametrize(
    ("heading", "cell", "seconds"),
    [
        ("lost_hours", "1.5", 1.5 * hour),
        ("Lost hours", "1,5", 1.5 * hour),
        ("Downtime (min)", "90", 1.5 * hour),
        ("downtime_s", "90", 90),
        ("downtime", "90 min", 1.5 * hour),
        ("duration", "1:30", 1.5 * hour),
        ("outage", "0:01:30", 90),
        ("recovered", "2026-03-01 02:15", 2.25 * hour),
        ("End time", "2026-03-01T01:00", hour),
        ("lost_hours", "0", 0),
    ],
)
def test_what_an_incident_cost_is_read_with_its_unit(heading, cell, seconds):
    log = read(f"date;{heading}\n2026-03-01;{cell}\n2026-03-02;\n".replace(";;", ";"))
    assert log.lost[0] == pytest.approx(seconds)
    assert math.isnan(log.lost[1])
    assert not log.unread


def test_date_and_time_of_day_may_be_two_columns_and_tabs_separate_too():
    log = read("Date\tTime\tReason\n2026-03-01\t06:00\tECC\n2026-03-01\t18:30\tECC\n")
    assert max(log.times) - min(log.times) == 12.5 * hour


def test_a_line_that_cannot_be_read_is_named_and_what_nobody_asked_for_is_listed():
    log = read(
        "when,reason,downtime,restart,ticket,owner\n"
        "2026-03-01,ECC,30 min,automatic,1,me\n"
        "soon,ECC,30 min,automatic,2,me\n"
        "2026-03-02,ECC,30,by hand,3,me\n"
        "2026-03-03,ECC,a while,manual,4,me\n"
        "2026-03-04,ECC,2 h,by magic,5,me\n"
    )
    assert log.ignored == ("ticket", "owner")
    assert len(log.times) == 4
    assert log.by_hand == (False, True, True, None)
    said = " ".join(log.unread)
    assert "line 3 is not counted: cannot read 'soon' as a time; write it as 2026-03-01" in said
    assert "line 4: lost time '30' has no unit; write '90 min', or call the column lost_hours" in said
    assert "line 5: cannot read lost time 'a while'" in said
    assert "line 6: restart must be automatic or by hand, got 'by magic'" in said


@pytest.mark.parametrize(
    ("text", "known", "why"),
    [
        ("time,cause\n2026-03-01,a\n", {"days": 3}, "of how many GPUs is the log\\? Say --incident-gpus"),
        ("time,cause\n2026-03-01,a\n", {"gpus": 8}, "how long was watched\\? Say --incident-days"),
        ("time,cause\n", KNOWN, "a log needs a heading and a line for each incident"),
        ("cause,lost_hours\na,1\n", KNOWN, "no column says when; it needs time or date, and has cause, lost_hours"),
        ("time,start,cause\n1,2,a\n", KNOWN, "columns 'time' and 'start' both say time; keep one"),
        ("time,cause\nsoon,a\nlater,b\n", KNOWN, "no line could be read"),
        ("time,cause\n2026-01-01,a\n2026-05-01,b\n", KNOWN, "runs over 120 days, but 60 are said to be observed"),
        ("time,gpus\n2026-01-01,8\n2026-01-02,16\n", {"days": 9}, "gpus must be the same on every line, got 8 and 16"),
        ("time,gpus\n2026-01-01,many\n", {"days": 9}, "gpus must be a number, got 'many'"),
        (
            "time,observed_from,observed_to\n2026-01-05,2026-02-01,2026-01-01\n",
            {"gpus": 8},
            "observed_to must be after observed_from",
        ),
        (
            "time,observed_from,observed_to\n2026-03-05,2026-01-01,2026-02-01\n",
            {"gpus": 8},
            "every incident is outside the observation",
        ),
    ],
)
def test_what_is_no_log_is_refused_with_what_is_allowed(text, known, why):
    with pytest.raises(ValueError, match=why):
        read(text, **known)


def test_the_gpus_and_the_observation_may_stand_in_the_file():
    text = "time,n_gpus,observed_from,observed_to\n2026-01-05,512,2026-01-01,2026-02-01\n2026-03-05,512,,\n"
    log = parse_incidents(text, "log.csv")
    assert (log.gpus, log.observed, log.times) == (512, 31 * day, (4 * day,))
    assert log.unread == ("line 3 is not counted: 2026-03-05 00:00 is outside the observation",)


def test_lines_in_any_order_are_the_same_log():
    lines = [f"2026-03-{d:02},{c},{h}" for d, c, h in ((1, "a", 1), (1, "a", 2), (9, "b", ""), (4, "c", 3))]
    logs = [read("date,cause,lost_hours\n" + "\n".join(order) + "\n") for order in (lines, lines[::-1])]
    one, other = (learn_incidents(log) for log in logs)
    assert str(one) == str(other)
    assert str(one.by_cause) == str(other.by_cause)
    assert one.scenario() == other.scenario()


def test_a_log_is_told_from_tables_of_runs():
    assert is_incidents(["timestamp", "category"])
    assert not is_incidents(["model", "gpu", "n_gpus", "step_time_s"])
    assert not is_incidents(["model", "gpu", "time", "error"])
    assert not is_incidents(["ticket", "cause"])


# --- learning --------------------------------------------------------------------------------------------------------


def test_the_prior_weighs_as_much_as_its_interval_says():
    one = ASSUMPTIONS["gpu_mttf"]
    weight = prior_weight(one.high / one.low)
    found = posterior_mttf(0, 0, prior=one.value, weight=weight)
    assert found.high / found.low == pytest.approx(one.high / one.low)
    assert learn_incidents(a_log()).weight == pytest.approx(weight)


def test_more_of_a_log_narrows_and_its_rate_is_the_log_s():
    found = {n: learn_incidents(a_log(n=n, days=n / 4)) for n in (20, 200, 2000)}
    widths = [one.mttf.high / one.mttf.low for one in found.values()]
    assert widths[0] > widths[1] > widths[2]
    assert found[2000].mttf.value == pytest.approx(4096 * 24 / 4 * hour, rel=0.05)
    losses = [one.lost.high / one.lost.low for one in found.values()]
    assert losses[0] > losses[1] > losses[2]
    assert found[2000].lost.value == pytest.approx(np.nanmean(found[2000].log.lost), rel=0.02)


def test_causes_add_up_and_a_rare_one_is_widest():
    own = learn_incidents(a_log())
    assert sum(one.incidents for one in own.causes) == len(own.log.times) == 200
    assert [one.incidents for one in own.causes] == sorted((one.incidents for one in own.causes), reverse=True)
    rates = sum(1 / one.mttf.value for one in own.causes)
    assert rates == pytest.approx(1 / own.mttf.value, rel=0.1)
    assert own.causes[-1].mttf.high / own.causes[-1].mttf.low > own.mttf.high / own.mttf.low


def test_bursts_make_a_log_worth_less():
    calm = a_log(n=400)
    crowd = replace(calm, times=tuple(day * 10 * (i % 4) + i * 60 for i in range(400)))
    one, other = learn_incidents(calm), learn_incidents(crowd)
    assert other.bursts.index > 3 * one.bursts.index
    assert other.mttf.high / other.mttf.low > one.mttf.high / one.mttf.low


def test_without_hours_lost_time_stays_the_published_one():
    log = read("date,cause\n2026-03-01,a\n2026-03-09,b\n")
    own = learn_incidents(log)
    there = own.scenario()
    assert own.lost is None
    assert (there.detection, there.restart) == (CENTRAL.detection, CENTRAL.restart)
    assert [name for name, *_ in there.own] == ["gpu_mttf"]


def test_a_log_stands_in_place_of_the_published_rate_and_narrows_a_plan():
    run, site = Training("Llama 3.1 8B", 1e12, global_batch=512), Site("H100 SXM", gpus=64, layout={"tp": 1, "pp": 1})
    own = learn_incidents(a_log(n=1000, gpus=4096, days=100, lost=0.2))
    there = own.scenario(CENTRAL)
    assert there.gpu_mttf == pytest.approx(own.mttf.value)
    assert there.detection + there.restart == pytest.approx(own.lost.value)
    assert there.detection / there.restart == pytest.approx(CENTRAL.detection / CENTRAL.restart)
    plain, mine = (plan(run, site, scenario=one, draws=400).intervals["effective_time"] for one in (CENTRAL, there))
    wide, narrow = (np.log((1 / one.low - 1) / (1 / one.high - 1)) for one in (plain, mine))  # in odds of lost time
    assert narrow < wide / 2
    both = restarted(there, "by hand")
    assert {name: high for name, _, high in both.own}["lost_time"] != there.own[1][2]
    assert "gpu_mttf" in [name for name, *_ in both.own]


def test_a_plan_by_hand_takes_hours_a_failure_and_says_how_unsure_that_is():
    with pytest.raises(ValueError, match="restarts must be one of automatic, by hand; got 'never'"):
        restarted(CENTRAL, "never")
    assert restarted(CENTRAL, "automatic") is CENTRAL
    run, site = Training("Llama 3.1 8B", 1e12, global_batch=512), Site("H100 SXM", gpus=512, layout={"tp": 1, "pp": 1})
    soft, hand = (
        plan(run, site, scenario=restarted(CENTRAL, how), draws=400).intervals["effective_time"]
        for how in ("automatic", "by hand")
    )
    assert hand.value < soft.value
    assert hand.low < soft.low


# --- on the command line ---------------------------------------------------------------------------------------------

LOG = "date,cause,downtime_min,ticket\n2026-03-01,Xid,45,T1\n2026-03-20,flap,30,T2\nsoon,flap,30,T3\n"
PLAN = [
    "plan",
    "--model",
    "Llama 3.1 8B",
    "--tokens",
    "1T",
    "--gpus",
    "64",
    "--accelerator",
    "H100 SXM",
    "--draws",
    "50",
]
OPTIONS = ["--incident-gpus", "512", "--incident-days", "40"]


@pytest.fixture
def path(tmp_path):
    found = tmp_path / "log.csv"
    found.write_text(LOG)
    return str(found)


def test_validate_shows_what_a_log_teaches(path, capsys):
    assert main(["validate", path, *OPTIONS]) == 0
    told = capsys.readouterr().out
    assert told.startswith("2 incidents in 40 days of 512 GPUs: MTTF of a GPU ")
    assert "the published 50,000 h weigh as 7 incidents" in told
    assert "columns that were not used: ticket" in told
    assert "line 4 is not counted: cannot read 'soon'" in told
    assert main(["validate", path, *OPTIONS, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    value, low, high = found["mttf"]
    assert low < value < high
    assert found["incidents"] == 2
    assert {one["cause"] for one in found["causes"]} == {"Xid", "flap"}


def test_a_plan_says_what_its_log_taught(path, capsys):
    assert main([*PLAN, "--incidents", path, *OPTIONS]) == 0
    assert "2 incidents in 40 days of 512 GPUs" in capsys.readouterr().out
    assert main([*PLAN, "--incidents", path, *OPTIONS, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["assumptions"]["gpu_mttf"] == pytest.approx(found["incidents"]["mttf"][0])
    assert {name for name, *_ in found["assumptions"]["own"]} == {"gpu_mttf", "lost_time"}
    assert main([*PLAN, "--restarts", "by hand", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["assumptions"]["detection"] == 7 * hour


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ([*PLAN, "--incident-gpus", "8"], "give it as --incidents LOG"),
        ([*PLAN, "--restarts", "never"], "restarts must be one of automatic, by hand; got 'never'"),
        ([*PLAN, "--incidents", "PATH"], "of how many GPUs is the log?"),
        ([*PLAN, "--incidents", "PATH", "--incident-gpus", "1.5"], "incident-gpus must be a whole number"),
        (["validate", "PATH"], "of how many GPUs is the log?"),
        (["validate", "PATH", "--leave-one-out"], "take training runs; plan --incidents uses a log"),
    ],
)
def test_a_wrong_call_says_what_is_allowed(arguments, why, path, capsys):
    assert main([path if one == "PATH" else one for one in arguments]) == 2
    assert why in capsys.readouterr().err


def test_a_page_of_a_plan_names_its_own_records(path, tmp_path, capsys):
    report = tmp_path / "plan.html"
    assert main([*PLAN, "--incidents", path, *OPTIONS, "--report", str(report)]) == 0
    capsys.readouterr()
    assert "own records" in report.read_text()


def test_minutes_and_hours_of_a_log_are_one_thing():
    hours, minutes = (read(f"date,{name}\n2026-03-01,{n}\n") for name, n in (("lost_hours", 2), ("lost_min", 120)))
    assert hours.lost == minutes.lost == (120 * minute,)
