"""One run has one set of numbers: every page that speaks of a published run or site says what its plan says."""

import json
import re
from functools import cache
from pathlib import Path

import pytest

from clusterlab.catalogue import price_list
from clusterlab.evidence import stated_bills, stated_hours
from clusterlab.failures import BURSTS, checkpoint_interval, spares_for, system_mtbf
from clusterlab.planning import CENTRAL, Site, preset, run_of
from clusterlab.scaling import capital, yearly_bill
from clusterlab.units import GW, day, fmt

BOOK = Path(__file__).parents[2] / "book"


@cache
def page(name):
    """The prose of a page and what its cells print, as it is committed; nbval holds that they print it."""
    told = []
    for cell in json.loads((BOOK / f"{name}.ipynb").read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "markdown":
            told.append("".join(cell["source"]))
        outputs = cell.get("outputs", ())
        told += ["".join(one.get("text", "") or one.get("data", {}).get("text/plain", "")) for one in outputs]
    return "\n".join(told).replace("\N{NO-BREAK SPACE}", " ")


@pytest.fixture(scope="module")
def llama():
    return preset("Llama 3 405B")


def numbers(made):
    """What is said of a run, as pages print it."""
    done, days, hours = made.outcome, float(made.outcome.time) / day, made.parts["gpu_hours"]
    return {
        "step": fmt(made.parts["step_time"], "s"),
        "days": fmt(done.time, "d"),
        "days in words": f"{days:.0f}",
        "GPU-hours": f"{hours / 1e6:.3g} million",
        "GPU-hours in full": f"{round(hours, -5):,.0f}" if hours > 1e7 else f"{round(hours, -4):,.0f}",
        "effective time": fmt(done.run.goodput, "%"),
        "effective time spaced": fmt(done.run.goodput, "%").replace("%", " %"),
        "spares": f"{made.design.spares:.0f}",
        "interval": fmt(made.design.interval, "s"),
        "cost": fmt(done.cost, "$"),
    }


# On each page: what stands around a number of the run, and which number it is.
LLAMA = [
    ("plan", r"^step time +(\S+ \S+) \(", "step"),
    ("plan", r"^time +(\S+ \S+) \(", "days"),
    ("plan", r"^GPU hours +(\S+) \(", "GPU-hours in full"),
    ("plan", r"^effective time +(\S+) \(", "effective time"),
    ("plan", r"^spare servers +(\S+)$", "spares"),
    ("plan", r"^a save every +(\S+ \S+)$", "interval"),
    ("plan", r"^Llama 3 405B +GPU hours +(\S+) \(", "GPU-hours in full"),
    ("plan", r"^Llama 3 405B +effective time +(\S+) \(", "effective time"),
    ("plan", r"The run takes (\d+) days, and", "days in words"),
    ("plan", r"are missing on average, and (\d+) in a bad month", "spares"),
    ("plan", r"^(\d+) spare servers, 28.5 MW", "spares"),  # of the twenty lines
    ("plan", r"first: .*|last: .*Llama 3.1 405B on 16,384 H100 SXM: (\S+ d) \(", "days"),
    ("plan", r"^16,384 H100 +(\S+ d) \(", "days"),
    ("plan", r"\(The plan, (\d+) days and", "days in words"),
    ("index", r"'A step takes': '(\S+ s) \(", "step"),
    ("plan", r"^Llama 3.1 405B +(\S+ million) \(.*\) +30.8 million", "GPU-hours"),
    ("scaling", r"^16,384 +(\S+ s) +14%", "step"),
    ("scaling", r"where Meta's run takes (\d+) by \[a plan\]", "days in words"),
    ("evidence", r"^Llama 3.1 405B +30.8 million +(\S+ million) \(", "GPU-hours"),
    ("failures", r"^a plan, and the first chapter .* (\S+)$", "effective time"),
    ("failures", r"why a plan makes (\S+ %) of it", "effective time spaced"),
    ("failures", r"as (\d+) spares stand by", "spares"),
    ("failures", r"^spares +(\d+)$", "spares"),
]


@pytest.mark.parametrize(("where", "around", "what"), LLAMA)
def test_llama_3_has_the_numbers_of_its_plan_on_every_page(where, around, what, llama):
    found = [one for one in re.findall(around, page(where), re.MULTILINE) if one]
    assert found, around
    assert set(found) == {numbers(llama)[what]}, where


@pytest.mark.parametrize(
    ("row", "where", "around"),
    [
        ("symptoms", "levers", r"Save every 18 minutes, not every 2 hours .* (\S+%) kept .* untested"),
        ("evidence, its plan", "evidence", r"^Llama 3 405B +automatic +90% +(\S+%) \("),
    ],
)
def test_the_table_of_goodputs_says_what_the_other_pages_say(row, where, around):
    (here,) = re.findall(rf"^{row} .* (\S+%)$", page("failures"), re.MULTILINE)
    assert {one for one in re.findall(around, page(where), re.MULTILINE) if one} == {here}


def test_the_law_of_the_step_says_the_same_on_the_chapter_that_teaches_it(llama):
    """There the network is InfiniBand, at the same rate: half a per cent."""
    (step,) = set(re.findall(r"^TP8, PP16, 8 chunks +(\S+) s \(", page("step"), re.MULTILINE))
    assert float(step) == pytest.approx(llama.parts["step_time"], rel=0.01)


def test_one_function_says_what_a_published_run_is(llama):
    run, site = run_of("Llama 3.1 405B", Site("H100 SXM", gpus=16384))
    assert (run, site) == (llama.training, llama.site)
    elsewhere, there = run_of("Llama 3.1 405B", Site("GB200", gpus=8192))
    assert (elsewhere, there) == (run, Site("GB200", gpus=8192))
    assert run_of("DeepSeek-V3", Site("H800 SXM", gpus=2048))[0] == preset("DeepSeek-V3", draws=2).training
    with pytest.raises(ValueError, match=r"tokens must be given: no preset has a run of Llama 3\.1 8B"):
        run_of("Llama 3.1 8B", Site("H100 SXM", gpus=64))


def test_one_law_and_one_default_say_how_often_to_save_and_how_many_stand_by(llama):
    made = llama.design
    mtbf = system_mtbf(CENTRAL.gpu_mttf, made.gpus)
    assert made.interval == checkpoint_interval(made.checkpoint.stall, mtbf, lag=made.checkpoint.lag)
    pool = spares_for(0.99, nodes=2048, node_mtbf=CENTRAL.gpu_mttf / 8, repair=CENTRAL.repair, dispersion=BURSTS)
    assert made.spares == pool.spares


def test_the_hours_of_runs_are_those_of_their_plans_on_every_page(llama):
    claims = {claim.name: claim for claim in stated_hours()}
    deepseek = preset("DeepSeek-V3")
    for name, made in (("Llama 3.1 405B", llama), ("DeepSeek-V3", deepseek)):
        sure = made.intervals["gpu_hours"]
        assert (claims[name].computed, claims[name].low, claims[name].high) == (sure.value, sure.low, sure.high)
    said = numbers(deepseek)
    assert re.findall(r"^DeepSeek-V3 +2.66 million +(\S+ million) \(", page("evidence"), re.M) == [said["GPU-hours"]]
    assert re.findall(r"^DeepSeek-V3 +(\S+ million) \(.*\) +2.66 million", page("plan"), re.M) == [said["GPU-hours"]]
    assert re.findall(r"^DeepSeek-V3 +GPU hours +(\S+) \(", page("plan"), re.M) == [said["GPU-hours in full"]]


def test_colossus_has_the_watts_of_its_plan_on_both_pages():
    made = preset("100,000 H100", draws=100)
    rated, drawn = (fmt(made.parts[name], "W") for name in ("site_power", "mean_power"))
    for name, watts in (("site power", rated), ("mean power", drawn)):
        assert re.findall(rf"^100,000 H100 +{name} +(\S+ MW) \(", page("plan"), re.MULTILINE) == [watts]
    assert f"{rated} rated, {drawn.removesuffix(' MW')} drawn" in page("scaling")


def test_deepseeks_day_has_the_servers_of_its_plan_in_table_and_prose():
    made = preset("DeepSeek's day")
    busy = fmt(made.parts["busy_gpus"])
    assert re.findall(r"^DeepSeek's day +busy GPUs +(\S+) \(", page("plan"), re.MULTILINE) == [busy]
    assert f"what the load keeps busy is {busy} GPUs by our laws" in page("plan")


def test_the_gigawatt_costs_the_same_on_every_page():
    nvl72, gpus = price_list("GB200 NVL72"), 72 * 5932
    built, yearly = capital(gpus, GW, nvl72).total, yearly_bill(gpus, GW, nvl72, rate=0.08).total
    claims = {claim.name: claim for claim in stated_bills()}
    assert (claims["1 GW, Epoch AI"].computed, claims["1 GW a year, Epoch AI"].computed) == (built, yearly)
    for where in ("cost", "evidence"):
        assert re.findall(r"^1 GW, Epoch AI +\$38B +(\S+) ", page(where), re.MULTILINE) == [fmt(built, "$")]
        assert re.findall(r"^1 GW a year, Epoch AI +\$8.5B +(\S+) ", page(where), re.MULTILINE) == [fmt(yearly, "$")]
    assert f"A gigawatt costs \\{fmt(yearly, '$', 2)} a year" in page("cost")
