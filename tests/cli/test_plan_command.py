"""The command ``plan``: what it prints and writes, and what it refuses in a line; no input is answered otherwise."""

import io
import json
import os
import re
from html.parser import HTMLParser
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterlab import planning
from clusterlab.cli import main
from clusterlab.planning import CENTRAL, PRESETS
from clusterlab.records import words

SMALL = ("plan", "--model", "Llama 3.1 8B", "--tokens", "1T", "--gpus", "64", "--accelerator", "H100 SXM")
QUICK = ("--layout", "tp=1,pp=1,cp=1,zero=3,microbatch=1", "--draws", "20")
PUBLISHED = ("plan", "--preset", "DeepSeek-V3", "--draws", "20")
DAY = ("plan", "--preset", "DeepSeek's day", "--draws", "20")
FLEET = ("plan", "--model", "Llama 3.1 8B", "--rate", "50", "--accelerator", "H100 SXM", "--draws", "20")


def objects(capsys, *arguments):
    assert main([*arguments, "--json"]) == 0
    heard = capsys.readouterr()
    assert heard.err == ""
    return json.loads(heard.out, parse_constant=pytest.fail)


class Page(HTMLParser):
    """A page in its parts: tags that are open, what may ask another host, headings and the cells of each table."""

    def __init__(self, text):
        super().__init__()
        self.open, self.asks, self.headings, self.rows = [], [], [], []
        self.feed(text)
        assert not self.open, self.open

    def handle_starttag(self, tag, attrs):
        if tag not in ("meta", "rect", "line"):
            self.open.append(tag)
        named = dict(attrs)
        self.asks += [(tag, key) for key in ("src", "srcset", "data", "action", "onload") if key in named]
        if tag in ("script", "link", "iframe", "img", "object", "embed"):
            self.asks.append((tag, ""))
        if tag == "tr":
            self.rows.append([])

    def handle_startendtag(self, tag, attrs):
        assert tag in ("rect", "line"), attrs

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] in ("h1", "h2"):
            self.headings.append(data)
        if "tr" in self.open and data.strip():
            self.rows[-1].append(data.strip())


def test_a_plan_is_printed_and_is_an_object_with_its_sums_made_again(capsys):
    assert main([*SMALL, *QUICK]) == 0
    printed = capsys.readouterr()
    assert re.search(r"^GPUs +64$", printed.out, re.MULTILINE)
    assert "joint" not in printed.out
    assert printed.err == ""
    made = objects(capsys, *SMALL, *QUICK)
    assert made["parts"]["gpus"] == {"value": 64.0, "unit": ""}
    assert all(joint["holds"] for joint in made["joints"])
    for joint in made["joints"]:
        assert joint["left"] == pytest.approx(joint["right"], rel=1e-9)
    assert sum(made["time"].values()) == pytest.approx(made["parts"]["time"]["value"])
    for one in made["intervals"].values():
        assert one["low"] <= one["value"] <= one["high"]
    assert made["assumptions"]["pue"] == CENTRAL.pue
    assert made["binding"]["name"] == "gpus"
    assert "published" not in made


def test_a_preset_stands_beside_what_was_published(capsys):
    made = objects(capsys, "plan", "--preset", "Llama 3 405B", "--draws", "20")
    assert {one["name"] for one in made["published"]} == set(PRESETS["Llama 3 405B"].published)
    for one in made["published"]:
        assert one["error"] == pytest.approx(one["planned"] / one["published"] - 1)
        assert one["source"]
        assert one["date"]


def test_a_fleet_is_planned_where_requests_are_given(capsys):
    made = objects(capsys, *FLEET)
    assert made["kind"] == "serving"
    assert made["parts"]["speed"]["value"] >= 20
    assert all(joint["holds"] for joint in made["joints"])


def test_what_is_printed_has_the_choice_the_assumptions_and_what_was_published(capsys):
    assert main([*SMALL[:5], "--accelerator", "H100 SXM", "--deadline", "30 d", *QUICK[:1], "pp=1,cp=1,zero=3"]) == 0
    out = capsys.readouterr().out
    for heading in ("What binds", "What matters most", "Plans to choose from"):
        assert f"\n{heading}" in out
    assert re.search(r"^Memory\n[\d.]+ GB \([\d.]+ to [\d.]+\) of 80 GB on an accelerator$", out, re.MULTILINE)
    assert re.search(r"^capital .*\+\d+%$", out, re.MULTILINE)
    assert main([*DAY]) == 0
    out = capsys.readouterr().out
    assert re.search(r"^busy GPUs +1,800 \(\S+ to \S+\) +1,810 +-0.8% +predicted$", out, re.MULTILINE)
    assert "\nsource: DeepSeek-V3/R1 inference system overview" in out


def test_a_plan_that_does_not_fit_says_the_nearest_and_ends_with_3(capsys):
    large = ("plan", "--model", "Llama 3.1 405B", "--tokens", "1T", "--gpus", "32", "--accelerator", "H100 SXM")
    assert main([*large, "--layout", "zero=1"]) == 3
    assert re.search(r"the nearest needs [\d.]+ GB of 72 GB: tp 8, pp 4", capsys.readouterr().err)


@pytest.mark.parametrize(
    ("written", "read"),
    [("--deadline=90 d", 90 * 86400), ("--power=0.4MW", 4e5), ("--budget=$1.5M", 1.5e6), ("--memory=64 GiB", 2**36)],
)
def test_an_input_may_be_written_as_people_write_it(written, read, capsys):
    name = written[2:].partition("=")[0]
    made = objects(capsys, *SMALL, *QUICK, written)
    assert made["asked"][name] == pytest.approx(read)


def test_the_same_seed_draws_the_same_scenarios_and_another_does_not(capsys):
    one, same, other = (objects(capsys, *SMALL, *QUICK, "--seed", seed) for seed in "112")
    assert one == same
    assert one["intervals"] != other["intervals"]
    assert one["joints"] == other["joints"]


def test_an_assumption_is_changed_and_said_to_be(capsys, tmp_path):
    page = tmp_path / "plan.html"
    told = ["--assume", "pue=1.05", "--assume", "energy-price=$0.05 per kWh", "--report", str(page)]
    made = objects(capsys, *SMALL, *QUICK, *told)
    assert made["assumptions"]["pue"] == 1.05
    usual = objects(capsys, *SMALL, *QUICK)["parts"]["site_power"]["value"]
    assert made["parts"]["site_power"]["value"] / usual == pytest.approx(1.05 / CENTRAL.pue)
    rows = {row[0]: row for row in Page(page.read_text(encoding="utf-8")).rows if row}
    assert rows["PUE"][-1] == "changed"


@pytest.mark.parametrize("arguments", [(*SMALL, *QUICK), FLEET, PUBLISHED, DAY])
def test_the_page_is_whole_asks_nobody_and_has_the_numbers_of_the_plan(arguments, tmp_path, capsys):
    path = tmp_path / "plan.html"
    assert main([*arguments, "--report", str(path), "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    text = path.read_text(encoding="utf-8")
    page = Page(text)
    assert page.asks == []
    assert "@import" not in text
    assert "url(" not in text
    assert {"What is assumed", "The plans to choose from", "The fabric"} <= set(page.headings)
    assert f"<p>{len(made['joints'])} sums made again by another law, largest difference " in text
    assert not any(joint["name"] in text for joint in made["joints"])  # a line, not a table
    rows = {row[0]: row for row in page.rows if row}
    for bar in made["tornado"]:
        assert words(bar["name"]) in rows
    for point in made["front"]:
        named = [point["accelerator"].replace(" ", "\N{NO-BREAK SPACE}"), f"{point['gpus']:,.0f}"]
        assert named in [row[:2] for row in page.rows]
    assert set(map(words, planning.ASSUMPTIONS)) <= {row[0] for row in page.rows if row}
    if "published" in made:
        assert "Beside what was published" in page.headings


@pytest.mark.parametrize("path", ["", "nowhere/plan.html"])
def test_a_page_that_cannot_be_written_is_said_in_a_line(path, tmp_path, capsys):
    assert main([*SMALL, *QUICK, "--report", str(tmp_path / path)]) == 2
    assert re.fullmatch(r"\[Errno \d+\] .*\n", capsys.readouterr().err)


def test_inputs_may_come_from_a_file_and_from_standard_input_and_options_come_first(tmp_path, capsys, monkeypatch):
    text = 'model = "Llama 3.1 8B"\ntokens = "1T"\ngpus = 32\naccelerator = "H100 SXM"\n[layout]\ntp = 1\nzero = 3\n'
    path = tmp_path / "mine.toml"
    path.write_text(text)
    assert objects(capsys, "plan", str(path), "--draws", "20")["parts"]["gpus"]["value"] == 32
    made = objects(capsys, "plan", str(path), "--gpus", "64", "--draws", "20")
    assert made["parts"]["gpus"]["value"] == 64
    assert made["asked"]["layout"]["tp"] == 1
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(text.encode())))
    assert objects(capsys, "plan", "-", "--draws", "20")["parts"]["gpus"]["value"] == 32


def test_an_interval_never_passes_what_can_be(capsys):
    """A PUE of 1.02 has no tenth below 0.93, nor a draw of 98 % one above its rating."""
    made = objects(capsys, *SMALL, *QUICK, "--assume", "pue=1.02", "--assume", "draw=0.98")
    bars = {bar["name"]: bar for bar in made["tornado"]}
    assert (bars["pue"]["low"], bars["draw"]["high"]) == (1, 1)


def test_progress_is_for_those_who_watch(capsys, monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    assert main([*SMALL[:5], "--deadline", "30d", "--accelerator", "H100 SXM", *QUICK]) == 0
    heard = capsys.readouterr()
    assert "H100 SXM" in heard.err
    assert heard.err.endswith("\r\033[K")
    assert "\r" not in heard.out


REFUSED = [
    ((), "model must be given"),
    (("--model", "Llama 3.1 8B"), "tokens must be given"),
    (("--model", "Lama 3.1 8B", "--tokens", "1T", "--gpus", "8"), "unknown model 'Lama 3.1 8B'; did you mean"),
    (("--model", "Llama 3.1 8B", "--tokens", "1T"), "give at least one of gpus, deadline, budget, power and racks"),
    (("--model", "Llama 3.1 8B", "--tokens", "many", "--gpus", "8"), "tokens: cannot read 'many'"),
    (("--model", "Llama 3.1 8B", "--tokens", "1T", "--gpus", "8.5"), "gpus must be a whole number"),
    (("--model", "Llama 3.1 8B", "--tokens", "1T", "--power", "30 parsecs"), "power: cannot read '30 parsecs'"),
    (("--model", "Llama 3.1 8B", "--tokens", "1T", "--accelerator", "H1000"), "unknown accelerator 'H1000'"),
    ((*SMALL[1:], "--deadline", "60 days"), "deadline: cannot read '60 days'; write it as 60d or 12h"),
    ((*SMALL[1:], "--deadline", "10MW"), "deadline: cannot read '10MW'; write it as 60d or 12h"),
    ((*SMALL[1:], "--power", "30d"), "power: cannot read '30d'; write it as 30MW"),
    ((*SMALL[1:], "--budget", "5 GB"), "budget: cannot read '5 GB'; write it as $10M"),
    ((*SMALL[1:], "--memory", "80 GB/s"), "memory: cannot read '80 GB/s'; write it as 90GB"),
    ((*SMALL[1:], "--storage-bandwidth", "2TB"), "storage_bandwidth: cannot read '2TB'; write it as 2TB/s"),
    ((*SMALL[1:], "--layout", "tp=8 GPUs"), "tp: cannot read '8 GPUs'; write it as 16384 or 15.6T"),
    ((*FLEET[1:], "--cached", "2"), "cached must be at most 1, got 2"),
    ((*SMALL[1:], "--layout", "tp"), "layout must be AXIS=NUMBER, got 'tp'"),
    ((*SMALL[1:], "--layout", "tq=8"), "unknown input 'tq'"),
    ((*SMALL[1:], "--layout", "recompute=some"), "recompute must be one of none, selective, alternate, full"),
    ((*SMALL[1:], "--assume", "pue"), "assume must be NAME=VALUE, got 'pue'"),
    ((*SMALL[1:], "--assume", "luck=2"), "unknown assumption 'luck'"),
    ((*SMALL[1:], "--assume", "pue=0"), "pue must be positive"),
    ((*SMALL[1:], "--draws", "0"), "draws must be a whole number"),
    ((*SMALL[1:], "--draws", "$5M"), "draws must be a whole number"),
    ((*SMALL[1:], "--draws", "30d"), "draws must be a whole number"),
    ((*SMALL[1:], "--draws", "5M"), "from 1 to 100,000, got 5M"),
    ((*SMALL[1:], "--gpus", "$64"), "gpus: cannot read '$64'"),
    ((*SMALL[1:], "--seed", "0.5"), "seed must be a whole number from 0 to"),
    (("--preset", "Llama 9"), "unknown preset 'Llama 9'"),
    (("--preset", "DeepSeek-V3", "--gpus", "8"), "a preset says everything itself; leave out gpus"),
    ((*FLEET[1:], "--tokens", "1T"), "tokens is not for a fleet that serves; leave it out"),
    (("--rate", "5"), "model must be given"),
]


@pytest.mark.parametrize(("arguments", "why"), REFUSED)
def test_what_cannot_be_planned_is_said_in_a_line(arguments, why, capsys):
    assert main(["plan", *arguments]) == 2
    heard = capsys.readouterr()
    assert heard.out == ""
    assert why in heard.err
    assert heard.err.count("\n") == 1


def test_limits_that_nothing_keeps_have_a_status_of_their_own(capsys):
    impossible = ["--model", "Llama 3.1 405B", "--tokens", "15T", "--gpus", "8", "--accelerator", "H100 SXM"]
    assert main(["plan", *impossible]) == 3
    heard = capsys.readouterr()
    assert (heard.out, heard.err.count("\n")) == ("", 1)
    assert "the nearest that does" in heard.err


FILES = [
    ("gpus = [1, 2]", "gpus: cannot read [1, 2]"),
    ("model = 3\n[layout]\ntp = 'x'", "tp: cannot read 'x'"),
    ("layout = 8", "layout must be a table, got 8"),
    ("colour = 'red'\nmodel = 'Llama 3.1 8B'\ntokens = 1", "unknown input 'colour'"),
    ("models = 'Llama 3.1 8B'", "unknown input 'models'; did you mean 'model'"),
    ("power = true", "power: cannot read True; write it as 30MW"),
    ("colour = 1\nmodel = 'Llama 3.1 8B'\ntokens = 1", "unknown input 'colour'"),
    ("model = true", "model must be text, got True"),
    ("a = ", "Invalid value"),
]


@pytest.mark.parametrize(("text", "why"), FILES)
def test_a_file_of_inputs_that_cannot_be_used_is_said_in_a_line(text, why, tmp_path, capsys):
    path = tmp_path / "mine.toml"
    path.write_text(text)
    assert main(["plan", str(path)]) == 2
    heard = capsys.readouterr()
    assert (heard.out, heard.err.count("\n")) == ("", 1)
    assert why in heard.err


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")  # noqa: PTH110, it is no file
def test_a_full_disk_is_said_in_a_line(capsys):
    assert main([*SMALL, *QUICK, "--report", "/dev/full"]) == 2
    assert "No space left on device" in capsys.readouterr().err


typed = st.sampled_from(
    ["", "8", "64", "1e400", "nan", "-1", "0", "Llama 3.1 8B", "H100 SXM", "15T", "30d", "tp=1", "$5M"]
)
options = st.sampled_from(
    [
        *("--model", "--tokens", "--gpus", "--accelerator", "--rate", "--sequence", "--global-batch", "--precision"),
        *("--rent", "--layout", "--assume", "--draws", "--prompt", "--output", "--speed", "--network", "--rack-power"),
    ]
)


@given(said=st.lists(st.tuples(options, typed), max_size=4))
@settings(max_examples=60, deadline=None)
def test_whatever_is_asked_is_planned_or_refused(said):
    arguments = [*SMALL, "--layout", "tp=1,pp=1,cp=1,zero=3,microbatch=1,chunks=1", "--draws", "5", "--spares", "0"]
    for option, word in said:
        arguments += [f"{option}={word}"]
    assert main(arguments) in (0, 2, 3)


@given(text=st.text(st.characters(codec="utf-8"), max_size=200))
@settings(max_examples=40)
def test_whatever_a_file_of_inputs_says_it_is_planned_or_refused(text, tmp_path_factory):
    path = tmp_path_factory.mktemp("any") / "mine.toml"
    path.write_text(text, encoding="utf-8", newline="")
    assert main(["plan", str(path)]) == 2


# --- Refused for what it is ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (["--assume", "availability=2"], "availability must be above 0 and at most 1, got 2"),
        (["--assume", "utilisation=1.5"], "utilisation must be above 0 and at most 1, got 1.5"),
        (["--server-power", "1e-9"], "server_power must be at least half of what H100 SXM alone is rated, 700 W"),
        (["--oversubscription", "1e308"], "oversubscription must be at most 1e+60 in size"),
        (["--oversubscription", "1e30"], "oversubscription must be from 1 to 63, got 1e+30"),
        (["--servers-per-rack", "1e9"], "servers_per_rack must be from 1 to 100, got 1e+09"),
        (["--gpus", "1e12"], "gpus must be from 1 to 10,000,000, got 1e+12"),
        (["--spares", "1e12"], "spares must be from 0 to 1,000,000, got 1e+12"),
        (["--layout", "tp=8,tp=4"], "layout has tp twice: 8 and 4"),
        (["--layout", "zero=9"], "zero must be from 0 to 3, got 9"),
        (["--layout", "tp=0"], "tp must be from 1 to 1,000,000, got 0"),
        (["--layout", "tp=1e308"], "tp must be from 1 to 1,000,000, got 1e+308"),
        (["--report", ""], "--report must name a file, got an empty text"),
        (["--memory", "-1GB"], "memory must be positive and finite, got -1e+09"),
        (["--memory", "2TB"], "memory must be at most the 80 GB of H100 SXM, got 2e+12"),
        (["--deadline", "90"], "deadline: cannot read '90'; write it as 60d or 12h or 30s, with its unit"),
        (["--tokens", "1e308"], "tokens must be at most 1e+60 in size"),
        (["--tokens", "1e50"], "tokens must be at most 1e+18, got 1e+50"),
        (["--draws", "1e9"], "draws must be a whole number from 1 to 100,000, got 1e9"),
        (["--draws", "nan"], "draws must be a whole number from 1 to 100,000, got nan"),
        (["--seed", "abc"], "seed must be a whole number from 0"),
    ],
)
def test_what_no_machine_has_is_refused_in_a_line_by_its_name(more, why, capsys):
    """The last of an option counts; warnings are errors here, so none is let through."""
    assert main([*SMALL, *QUICK, *more]) == 2
    heard = capsys.readouterr()
    assert heard.out == ""
    assert heard.err.startswith(why)
    assert heard.err.count("\n") == 1


def test_what_is_unlikely_is_said_beside_the_plan(capsys):
    assert main([*SMALL, *QUICK, "--tokens", "1000T"]) == 0
    assert capsys.readouterr().err == "unlikely: tokens is usually from 1B to 100T\n"


def test_where_nothing_fits_json_is_json(capsys):
    assert (
        main(
            [
                "plan",
                "--model",
                "Llama 3.1 405B",
                "--tokens",
                "1T",
                "--gpus",
                "8",
                "--accelerator",
                "H100 SXM",
                "--json",
            ]
        )
        == 3
    )
    heard = capsys.readouterr()
    found = json.loads(heard.out)
    assert found["nearest"]["gpus"] > 8
    assert found["infeasible"] == heard.err.strip()


def test_a_single_server_buys_no_spare_unless_asked():
    run = planning.Training("Llama 3.1 8B", 1e11, global_batch=512)
    few = {"tp": 1, "pp": 1, "cp": 1, "zero": 3}
    alone, asked, two = (
        planning.plan(run, planning.Site("H100 SXM", layout=few, **more), draws=10).design.spares
        for more in ({"gpus": 8}, {"gpus": 8, "spares": 1}, {"gpus": 16})
    )
    assert (alone, asked) == (0, 1)
    assert two > 0


def test_a_plan_says_where_nobody_has_timed_its_accelerator(capsys):
    asked = [*SMALL, *QUICK, "--layout", "pp=1,cp=1"]
    assert main([*asked, "--accelerator", "MI300X"]) == 0
    assert "MI300X: no published training run timed it" in capsys.readouterr().out
    assert main(asked) == 0
    assert "timed it" not in capsys.readouterr().out


def test_draws_are_bounded_before_they_fill_the_memory():
    with pytest.raises(ValueError, match="draws must be at most 1,000,000: more would not fit in memory"):
        planning.samples(CENTRAL, 10**9)


def test_every_option_says_its_unit_and_what_is_usual(capsys):
    with pytest.raises(SystemExit):
        main(["plan", "--help"])
    told = " ".join(capsys.readouterr().out.split())
    for said in ("--tokens N tokens to train on; 1B to 100T", "--deadline TIME done within; 1d to 1yr"):
        assert said in told
    assert "--rent $ of a GPU-hour (bought, where it is not given); $0.5 to $15" in told


def test_a_clock_is_shown_where_somebody_watches_and_it_takes_longer(monkeypatch, capsys):
    from clusterlab.cli import command

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    terminal = Terminal()
    monkeypatch.setattr(command.sys, "stderr", terminal)
    monkeypatch.setattr(command.Waiting, "first", 0.01)
    with command.Waiting("fits"):
        command.threading.Event().wait(0.1)
    assert "s  fits" in terminal.getvalue()
    assert terminal.getvalue().endswith("\r\033[K")
    quiet = io.StringIO()
    monkeypatch.setattr(command.sys, "stderr", quiet)
    with command.Waiting("fits"):
        command.threading.Event().wait(0.05)
    assert quiet.getvalue() == ""
