"""The pages for teachers and new colleagues hold what the library says."""

import re
from itertools import pairwise

import nbformat
import pytest
from course.problems import SETS

import reading
from building import ROOT

# The chapter of each set, and where a set has two pages, both.
PAGES = {
    "interconnect": ["interconnect", "ports", "fabrics", "contention"],
    "parallelism": ["sharding", "parallelism", "pipeline", "layouts", "mix", "step"],
    "serving": ["serving", "rack", "fleet", "post_training"],
    "operations": ["operations", "queue", "on_call", "symptoms"],
    "power": ["power", "hall"],
    "scaling": ["scaling", "cost"],
    "capstone": [],
}
CHAPTERS = [page for name in SETS for page in PAGES.get(name, [name])]


def cells_of(name):
    return nbformat.read(ROOT / "book" / f"{name}.ipynb", 4).cells


@pytest.fixture(scope="module")
def minutes():
    """Of each chapter, and of each of its sections, the minutes that it takes to read."""
    found = {}
    for name in CHAPTERS:
        sections = reading.sections(cells_of(name))
        found |= {(name, heading): took for heading, took in sections.items()} | {(name, ""): sum(sections.values())}
        found[name, "*"] = reading.second(cells_of(name))
    return found


# What a page says of its time: the first path, all of it where some is for a second reading, and with the exercises.
TIME = re.compile(r"\*Time:\* about (\d+) minutes, (?:(\d+) with the second reading, )?\D*(\d+)")


def close(stated, counted):
    """Whether a page says what the rule says: to five minutes, and a paragraph more or less."""
    return abs(int(stated) - counted) <= max(4, 0.1 * counted)


@pytest.mark.parametrize("name", CHAPTERS)
def test_a_chapter_states_the_minutes_that_the_rule_counts(name, minutes):
    cells = cells_of(name)
    (line,) = [cell.source for cell in cells if "*Time:*" in cell.source]
    read, second, whole = TIME.search(line).groups()
    counted, later = minutes[name, ""], minutes[name, "*"]
    with_exercises = counted + reading.EXERCISE * len(exercises(cells))
    assert close(read, counted - later), f"{name} states {read} minutes, the rule {reading.stated(counted - later)}"
    assert bool(second) == bool(later), f"{name}: a second reading of {reading.stated(later)} minutes"
    assert close(second or counted, counted), (
        f"{name} states {second} minutes in all, the rule {reading.stated(counted)}"
    )
    assert close(whole, with_exercises), f"{name} states {whole} minutes, the rule {reading.stated(with_exercises)}"


def test_the_index_states_the_minutes_of_each_chapter_their_sum_and_their_rule():
    text = "\n".join(cell.source for cell in cells_of("index"))
    listed = re.findall(r"\]\((\w+)\.ipynb\) \| (\d+) \|", text)
    assert [name for name, _ in listed] == ["cluster", *CHAPTERS]
    assert any(f"*Time:* about {listed[0][1]} minutes" in cell.source for cell in cells_of("cluster"))
    second = whole = 0
    listed = listed[1:]
    for name, minutes in listed:
        (line,) = [cell.source for cell in cells_of(name) if "*Time:*" in cell.source]
        assert f"*Time:* about {minutes} minutes, " in line
        second += int(TIME.search(line)[2] or minutes)
        whole += int(TIME.search(line)[3])
    first = sum(int(minutes) for _, minutes in listed)
    assert [round(minutes / 60) for minutes in (first, second, whole)] == [15, 19, 32]
    assert "some fifteen hours, nineteen with what folds under *Second reading*" in text
    assert "thirty-two with the exercises" in text
    assert (reading.FIGURE, reading.DRAWING, reading.CHECK, reading.EXERCISE) == (1, 0.5, 1.5, 7)
    rule = (
        f"{reading.WORDS} words a minute, {60 * reading.LINE:.0f} seconds a line of code, a minute a figure that moves"
    )
    assert f"{rule} and half a minute one that doesn't, a minute and a half a check, seven an exercise" in text


def test_the_first_page_takes_the_fifteen_minutes_of_its_title():
    cells = cells_of("cluster")
    (line,) = [cell.source for cell in cells if "*Time:*" in cell.source]
    assert "*Time:* about 15 minutes." in line
    assert reading.stated(sum(reading.sections(cells).values())) == 15
    (doors,) = [cell.source for cell in cells_of("index") if "[**Learn**](cluster.ipynb)" in cell.source]
    assert "A cluster in fifteen minutes" in doors


@pytest.mark.parametrize("name", CHAPTERS)
def test_a_chapter_has_a_checkpoint_about_every_ten_minutes(name, minutes):
    at, now = [0.0], 0.0
    for _, took, cell in reading.passages(cells_of(name)):
        now += took
        at += [now] if cell.cell_type == "code" and "Check(" in cell.source else []
    assert len(at) - 1 >= reading.stated(now) / 10
    assert max(b - a for a, b in pairwise(at)) <= 13


def exercises(cells):
    """Of a chapter's exercises, by number: the cells of each, its text first."""
    text = [
        re.sub(r"^(\*\*|### )(?:Exercise )?(\d)[.: ]", r"\1Exercise \2.", cell.source, flags=re.M) for cell in cells
    ]
    start = next(i for i, source in enumerate(text) if re.search(r"^## Exercises", source, re.MULTILINE))
    found, number = {}, None
    for cell, source in zip(cells[start:], text[start:], strict=True):
        if cell.cell_type == "markdown" and (
            heading := re.search(r"^(?:\*\*|### )Exercise (\d)", source, re.MULTILINE)
        ):
            number = int(heading[1])
        found.setdefault(number, []).append(cell)
    found.pop(None, None)
    return found


@pytest.mark.parametrize("name", CHAPTERS)
def test_every_exercise_has_somewhere_to_type_and_a_check_that_judges(name):
    found = exercises(cells_of(name))
    assert list(found) == list(range(1, len(found) + 1))
    assert len(found) >= 3
    for number, cells in found.items():
        code = [cell.source for cell in cells if cell.cell_type == "code"]
        typed = [i for i, source in enumerate(code) if re.search(r"\bNone\b", source)]
        checks = [i for i, source in enumerate(code) if re.search(rf'Question\(\s*f?"Exercise {number}: ', source)]
        solved = next(i for i, cell in enumerate(cells) if "hide-cell" in cell.metadata.get("tags", ()))
        solution = code.index(cells[solved].source)
        assert typed, f"{name} {number}: nowhere to type"
        assert typed[0] < solution, f"{name} {number}: the solution comes before the place to type"
        assert checks, f"{name} {number}: no check"
        assert typed[0] < checks[0] < solution, f"{name} {number}: the solution comes before the check"


def asked(name):
    """The checks of a notebook as its stored outputs name them: one text each."""
    outputs = [output for cell in cells_of(name) for output in cell.get("outputs", []) if "data" in output]
    return [text for output in outputs if (text := output.data.get("text/plain", "")).startswith("Check: ")]


@pytest.mark.parametrize("name", CHAPTERS)
def test_a_check_knows_mistakes_and_has_hints(name):
    found = asked(name)
    assert len(found) >= 8
    for text in found:
        assert "no hints" not in text, text
        known = re.search(r"(\d+|no) known mistake", text)
        assert known or text.count(" | ") >= 2, text
        assert not known or known[1] != "no", text


# What readers get wrong, as the chapter puts it, and the check that asks for it: the beginnings of both.
MISCONCEPTIONS = {
    "roofline": {
        "Twice the FLOP/s, twice the tokens": "An A100 has 312 TFLOP/s",
        "The datasheet says 1,979": "A datasheet prints 3,958",
        "100 % utilisation": "The monitor shows 100 %",
    },
    "interconnect": {
        "NVLink 5 is 1.8 TB/s": "A datasheet says that NVLink 5 carries 1.8 TB/s",
        "Twice the GPUs, twice the all-reduce": "A ring all-reduces 10 GB over 64",
        "A tree has fewer steps": "Sixteen ranks, each with a port",
    },
    "ports": {
        "Stages send only sums": "64 GPUs in servers of eight all-reduce",
        "Ports of twice the rate": "In an all-reduce in chunks",
        "480 GB/s of busbw": "nccl-tests prints 400 GB/s of busbw",
    },
    "fabrics": {
        "Twice the GPUs, twice the switches": "At full bisection 2,048 GPUs take 96",
        "An all-to-all sends an eighth": "128 GPUs exchange an all-to-all",
        "A torus of six links": "A torus of 8 x 8 x 8",
    },
    "contention": {
        "More uplinks would help": "A leaf has 32 uplinks, and 16 flows",
        "2:1 makes everything": "128 GPUs, eight under each leaf",
        "Two jobs on one cable": "Three equal jobs share an uplink",
    },
    "sharding": {
        "Eight GPUs, so an eighth": "Sixteen GPUs on one NVLink network",
        "A bigger batch hides every exchange": "On your cluster a gather of weights takes",
        "A pending sum can wait": "X is cut along D, and W1",
    },
    "parallelism": {
        "The network is only nine times slower": "TP8 fills a server. You double it",
        "A bigger batch hides every exchange": "On your cluster neither the gradients",
        "ZeRO 3 sends what ZeRO 1 sends": "A step has four microbatches",
    },
    "pipeline": {
        "A pipeline divides the memory": "A 1F1B pipeline with many microbatches",
        "1F1B has the smaller bubble": "A pipeline of eight stages has 64",
        "Equal layers, equal work": "A model has 30 layers",
    },
    "layouts": {
        "The state fits, so the layout fits": "18 bytes x 70.6 billion parameters over 32",
        "Gradients are the most bytes": "Four GPUs share a feed-forward block",
        "ZeRO 3 grows with the cluster": "You get four more servers, so 64 GPUs",
    },
    "mix": {
        "More tokens want more TP": "64 GPUs on one NVLink network send least",
        "Context parallelism divides the memory": "Two GPUs share each sequence, where each",
        "A bigger batch hides the experts' trips": "Over ports the experts' trips of your mixture",
    },
    "step": {
        "What hides is free": "An exchange of 0.5 s runs beside",
        "Higher HFU": "A dense model of 70 billion",
        "Twice the GPUs, half the time": "32,768 GPUs train with 2,048 sequences",
    },
    "serving": {
        "Faster memory makes every": "A model has 40 layers of 12 kernels",
        "The mean is what a reader": "A batch of 40 users, answers of 400",
        "Twice the users, twice": "A replica has places for 50 users",
    },
    "rack": {
        "A trillion parameters need a rack": "A trillion parameters in 8 bits fit",
        "Twice the speed costs twice": "A pass takes 10 ms, and 0.1 ms more",
        "A bigger machine makes every user faster": "A dense 70B model, and 64 GPUs",
    },
    "fleet": {
        "Output tokens cost more": "On the rack, a token out costs",
        "Half the traffic, half": "A pass takes 10 ms, and 0.02 ms more",
        "A cache of prompts": "A prompt of 8,000 tokens, of which",
    },
    "post_training": {
        "RL is slow because": "A round writes for 180 s",
        "More GPUs make the rollout": "A pass takes 10 ms, and 0.05 ms more",
        "Asynchronous training overlaps": "Writing a batch takes 40 s",
    },
    "failures": {
        "5.7 years each": "640 servers of eight GPUs",
        "An MTBF of three hours": "A job with an MTBF of five hours",
        "To be safe, checkpoint every two minutes": "To be safe you checkpoint",
    },
    "operations": {
        "90 % utilised": "A dashboard counts GPUs as used",
        "More prefetch fixes": "Each batch takes 1.25 steps to read",
        "A shorter timeout": "Pauses of 30 s on average",
    },
    "queue": {
        "At 90 % a tenth": "Jobs of four hours, exponential",
        "Free GPUs should run": "A job of 256 GPUs waits at the head",
        "Some block will": "A rack has four servers",
    },
    "on_call": {
        "An Xid is a broken": "The log shows Xid 63",
        "Three days without": "The contract promises one failure a day",
        "A canary of four": "Ten servers run a new firmware",
    },
    "symptoms": {
        "The rank with the longest": "Ranks 0, 1 and 3 spend",
        "NCCL's heap has grown threefold": "A sum of gradients takes 1.1 s",
        "MFU fell, so": "MFU fell from 40",
    },
    "power": {
        "TDP is what it draws": "4,096 H100s in DGX servers",
        "Our PUE is better": "You take the fans out",
        "Run the chip as slowly": "Cap that chip at 350 W",
    },
    "hall": {
        "Twice the heat": "The fans of a box",
        "Colder water": "A rack accepts water of 40",
        "The whole site falls": "20,000 GPUs wait at once",
    },
    "scaling": {
        "Twice the GPUs, half the time": "Twice the GPUs, the same batch",
        "Amdahl's law says": "3 % of a fixed job",
        "MFU times scaling efficiency": "2,048 H100s run at an MFU",
    },
    "cost": {
        "Energy is what AI costs": "A GPU with its share of server",
        "Owning is cheaper": "A GPU of your own costs",
        "2N is safer": "Ten generators of 99.5 %",
    },
    "plan": {
        "More GPUs are always faster": "A run keeps its batch",
        "The interval is for statisticians": "The plan says 71 days",
        "A plan that adds up": "All joints of a plan hold",
    },
}


@pytest.mark.parametrize("name", CHAPTERS)
def test_three_misconceptions_of_a_chapter_are_asked_before_they_are_refuted(name):
    said = "\n".join(cell.source for cell in cells_of(name) if cell.cell_type == "markdown")
    said = said[re.search(r"^##+ .*Misconceptions", said, re.MULTILINE).start() :]
    checks = [text.removeprefix("Check: ") for text in asked(name)]
    assert len(MISCONCEPTIONS[name]) == 3
    for wrong, question in MISCONCEPTIONS[name].items():
        assert f'**"{wrong}' in said
        assert any(text.startswith(question) for text in checks), question


ROUTES = {"oncall": 60, "capacity": 120, "training": 240, "facilities": 60, "serving": 120}


@pytest.mark.parametrize("route", ROUTES)
def test_the_minutes_of_a_route_are_those_of_its_sections_and_sum_to_its_heading(route, minutes):
    cells = cells_of(f"onboarding_{route}")
    rows = re.findall(r"^\| (.+?) \| (\d+) \|$", cells[0].source, re.MULTILINE)
    assert sum(int(minutes) for _, minutes in rows) == ROUTES[route]
    chapter, off = "", []
    for what, stated in rows:
        chapter = (re.search(r"\((\w+)\.ipynb\)", what) or ["", chapter])[1]
        linked = re.findall(r"\*\[(.+?)\]\((\w+)\.ipynb#([\w-]+)\)\*", what)
        sections = [section for section, _, _ in linked]
        assert len(sections) == what.count("*") / 2, f"{what} has a section without a link"
        for section, page, anchor in linked:
            assert (page, anchor) == (chapter, re.sub(r"[^\w-]", "", section.lower().replace(" ", "-")))
        if chapter in CHAPTERS and (sections or "exercises" in what) and "the fleet" not in what:
            honest = sum(minutes[chapter, section] for section in sections or [""])
            off += [(what, honest)] if abs(int(stated) - honest) > max(2, 0.2 * honest) else []
    assert off == []
    assert sum("Check(" in cell.source for cell in cells) >= 2
    assert cells[-1].source.startswith("## Your task")


def test_the_overview_links_each_route_with_its_time():
    said = (ROOT / "book" / "onboarding.md").read_text()
    assert re.findall(r"\(onboarding_(\w+)\.ipynb\)", said) == list(ROUTES)
