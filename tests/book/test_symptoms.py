"""Symptoms and levers: every row leads to its law and to a section with a figure, and the logs are those of files."""

import csv
import json
import re
from itertools import groupby

import pytest
from bs4 import BeautifulSoup

from building import ROOT
from replay import executed

CHAPTER, TABLE = (ROOT / "book" / f"{name}.ipynb" for name in ("symptoms", "levers"))
FILES = ROOT / "tests" / "evidence" / "files"
TABLES = {"guess-ahead", "worked-example-2-048-gpus-for-three-teams"}  # show their cases in a table
HEAPS = ("GEMMs", "other", "NCCL", "idle")
SYMPTOMS = [
    "low-mfu", "a-slow-all-reduce", "a-job-that-stands-still", "jitter", "a-step-that-got-slower", "out-of-memory",
    "a-loss-that-jumps", "a-slow-first-token", "tokens-that-stutter", "low-goodput", "a-full-queue", "throttling",
    "an-expensive-token",
]  # fmt: skip


@pytest.fixture(scope="module")
def page(site):
    return parsed(site / "book/levers.html")


def parsed(path):
    """A page without what fills its formulas, pictures and listings: most of its elements, and no test here asks."""
    inside = re.compile(r"(<(math|pre|script|style|svg)\b[^>]*>).*?(</\2>)", re.DOTALL)
    return BeautifulSoup(inside.sub(r"\1\3", path.read_text("utf-8")), "html.parser")


@pytest.mark.parametrize("symptom", SYMPTOMS)
def test_every_symptom_has_suspects_each_with_a_measurement_a_law_and_a_lever_that_was_tried(page, symptom):
    rows = page.find(id=symptom).select("div.cell_output table tbody tr")
    assert len(rows) >= 4
    for row in rows:
        measured, suspect, lever, size, hours, known = (cell.get_text(" ", strip=True) for cell in row.find_all("td"))
        assert all((measured, suspect, lever))
        assert row.td.select(".how code"), measured  # a command, a counter, a flag or a line of a log
        how = row.td.select_one(".how").get_text(" ", strip=True)
        assert re.fullmatch(r"[A-Z0-9].*\.", measured.removesuffix(how).strip()), measured  # a sentence
        assert how.partition(" Healthy: ")[0].endswith((".", ".)")), how
        pasted = [code.get_text() for code in row.select("code")]
        assert not [one for one in pasted if re.search(r"[\u2013\u2014\u2018-\u201d]", one)], pasted
        gain = re.fullmatch(r"\S.* → \S.*?(?: ([\d.]+)\stimes(?: \(([\d.]+) to [\d.]+\))?)?", size)
        says = re.fullmatch(r"(?:computed|simulated|measured)(?:, (borrowed|untested))?(, may be nothing)?", known)
        assert (gain[1] is None) == (says[1] == "untested"), size  # no factor where nobody has tested it
        assert gain[1] is None or float(gain[1]) > 1
        assert bool(says[2]) == (gain[2] is not None and float(gain[2]) <= 1)
        assert not (hours and says[1] == "untested"), hours  # nor hours
        assert not hours or abs(float(hours) - 100 * (1 - 1 / float(gain[1]))) < 1
        assert all(len(re.sub(r"\D", "", one).strip("0")) <= 3 for one in re.findall(r"\d[\d.,]*", size)), size
        assert len(row.select("a")) == 2


def test_the_first_table_leads_to_every_symptom(page):
    (index,) = (table for table in page.select("table") if table.th.get_text(strip=True) == "You see")
    assert [a["href"] for a in index.select("a")] == [f"#{symptom}" for symptom in SYMPTOMS]


def test_every_row_leads_to_a_section_with_a_figure_and_to_its_law(page, site):
    """In it or in the section around it."""
    pages, texts, wrong = {}, {}, []
    rows = page.select(", ".join(f"#{symptom} div.cell_output table tbody tr" for symptom in SYMPTOMS))
    assert len(rows) >= 4 * len(SYMPTOMS)
    for row in rows:
        at, law = (a["href"] for a in row.select("a"))
        name, _, anchor = at.partition("#")
        pages[name] = pages.get(name) or parsed(site / "book" / name)
        section = pages[name].find(id=anchor)
        if section is None:
            wrong.append(f"{at} is not there")
            continue
        around = section.find_parent("section")
        near = [section] + [around] * (around is not None and around.find("h1", recursive=False) is None)
        if anchor not in TABLES and not any(one.select(".cl-explorer, .widget-host, img") for one in near):
            wrong.append(f"{at} has no figure")
        name, _, anchor = law.partition("#")
        texts[name] = texts.get(name) or (site / "book" / name).read_text("utf-8")
        if f' id="{anchor}"' not in texts[name]:
            wrong.append(f"{law} is not there")
    assert wrong == []


def test_every_number_of_a_lever_is_computed(site):
    """A row's cells are what a cell printed: none is typed into the page."""
    shown = [
        output.data["text/markdown"]
        for cell in executed(site, TABLE).cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if "text/markdown" in output.get("data", {})
    ]
    assert len(shown) == len(SYMPTOMS)


@pytest.fixture(scope="module")
def text():
    return "\n".join("".join(cell["source"]) for cell in json.loads(CHAPTER.read_text("utf-8"))["cells"])


def test_the_heaps_of_the_worked_example_are_those_of_the_profile(text):
    """Each microsecond belongs to the first heap that has something running in it."""
    rows = list(csv.DictReader((FILES / "kineto_step.csv").read_text("utf-8").splitlines()))
    step, *ran = (row for row in rows if row["step"] == "5")
    whole, names = int(step["length_us"]), dict(zip(("gemm", "other", "nccl"), HEAPS, strict=False))
    does = [HEAPS.index("idle")] * whole
    for row in ran:
        start, heap = int(row["start_us"]), HEAPS.index(names[row["kind"]])
        for at in range(start, min(start + int(row["length_us"]), whole)):
            does[at] = min(does[at], heap)
    found = {name: does.count(i) / 1e3 for i, name in enumerate(HEAPS)}
    assert f"STEP_5 = {json.dumps(found)}" in text
    gaps = [len(list(run)) for heap, run in groupby(does) if HEAPS[heap] == "idle"]
    short, long = ([gap for gap in gaps if low <= gap < high] for low, high in ((50, 1000), (5000, whole)))
    hold = f"hold {sum(short) / 1e3:.0f} of the {sum(gaps) / 1e3:.0f} ms."
    assert f"Here there are {len(gaps):,}, and {len(short)} short ones of 50 µs to 1 ms {hold}" in text
    assert f"Four gaps of more than 5 ms, {sum(long) / 1e3:.0f} ms in all" in text
    assert len(long) == 4
    held, elsewhere = sum(short), sum(gaps) - sum(long) - sum(short)  # a long gap isn't launches
    most, more = (whole / (whole - one) for one in (held, held + elsewhere))
    launches, all_of_it = (round(one / 1e3) for one in (held, whole))
    assert f"for at most {all_of_it} / ({all_of_it} \u2212 {launches}) = {most:.1f} times" in text
    assert f"if the {elsewhere / 1e3:.0f} ms in gaps of other lengths are launches too, for {more:.1f}." in text
    starts = [at for at in range(whole) if does[at] == HEAPS.index("idle") and does[at - 1 : at] != [does[at]]]
    early = [at for at, gap in zip(starts, gaps, strict=True) if gap >= 5000 and at + gap < 37_000]
    assert len(early) == 3
    assert "three lie in the step's first 37 ms" in text
    end, ends_a_gap = 0, []
    for row in sorted(ran, key=lambda row: int(row["start_us"])):
        start = int(row["start_us"])
        if 50 <= start - end < 1000:
            ends_a_gap.append(row["after_launch_us"])
        end = max(end, start + int(row["length_us"]))
    after = [int(one) for one in ends_a_gap if one]
    assert (len(short) - len(ends_a_gap), round(len(after) / len(short), 2)) == (1, 0.74)  # the step's end ends one
    assert f"each began within {max(after)} µs of it" in text
    assert f"each of the {len(ran):,} kernels" in text
    five, six = ([int(r["length_us"]) for r in rows if r["step"] == n and r["kind"] == "nccl"] for n in "56")
    grown = [(a, b) for a, b in zip(five, six, strict=True) if b > 2 * a]
    assert [f"{sum(ends) / len(ends) / 1e3:.0f}" for ends in zip(*grown, strict=True)] == ["3", "6"]
    assert (len(grown), round(sum(six) / 1e3 - sum(five) / 1e3)) == (3, 10)


def test_the_published_logs_are_those_of_their_files(text):
    pair = list(csv.DictReader((FILES / "kineto_pair.csv").read_text("utf-8").splitlines()))
    for rank, start, length in (("0", 1_067_035, 36_158), ("1", 1_089_363, 13_838)):
        assert {"rank": rank, "start_us": str(start), "length_us": str(length)} in pair
        shown = f"rank {rank}   {start / 1e3:.1f} ms  {(start + length) / 1e3:.1f} ms  {length / 1e3:.1f} ms"
        assert shown in text
    for line in (FILES / "nccl_pair.log").read_text("utf-8").splitlines():
        if re.match(r" +(33554432|134217728) ", line):
            size, *_, time, algbw, busbw = line.split()[:8]
            assert re.search(rf"{size} +{time} +{algbw} +{busbw}\n", text), line
    said = json.loads((FILES / "vllm_bench.json").read_text("utf-8"))
    for name in ("num_prompts", "duration", "mean_ttft_ms", "std_ttft_ms", "mean_tpot_ms", "p99_itl_ms"):
        assert re.search(rf"{name} +{said[name]:.3g}\b", text), name
    for name in ("total_input_tokens", "total_output_tokens"):
        assert re.search(rf"{name} +{said[name]}\n| {said[name]} ", text), name
    steps = [line.split() for line in (FILES / "loader_slip.log").read_text("utf-8").splitlines()]
    for n, (data, step) in list(enumerate(steps, 1))[8:]:
        assert f"{n:4}  {float(data):9.3f} s {float(step):9.3f} s\n" in text, n
    times = json.dumps([round(float(step), 3) for _, step in steps[8:16]])
    assert times in re.sub(r"\b(0\.\d\d)0\b", r"\1", text)  # as Python prints them
    starts = re.findall(r"\| +(\d+) +\| +([\d.]+) +\|", (FILES / "deepspeed_starts.log").read_text("utf-8"))
    ranks, took = zip(*starts, strict=True)
    assert re.search("ranks +" + " +".join(ranks) + "\n", text)
    assert re.search("took +" + " +".join(f"{float(one):.1f} s" for one in took), text)
