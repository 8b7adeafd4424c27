"""The command: every part of it answers any input with a line and an exit status, never a traceback."""

import gzip
import io
import json
import os
import re
import signal
import subprocess
import sys
import tomllib
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterlab import catalogue
from clusterlab.cli import COMMANDS, audit, main
from clusterlab.cli.commands.audit import CATALOGUES
from clusterlab.model import entry

DATA = files("clusterlab.catalogue") / "data"
COLLECTIVES = str(files("clusterlab.evidence") / "data" / "collectives.csv")
READS = ("audit", "fit", "predict", "validate")


def run(*arguments, module="clusterlab", **options):
    command = [sys.executable, "-W", "error", "-m", module, *arguments]
    options = {"capture_output": True, "timeout": 120, "check": False} | options
    return subprocess.run(command, **options)


# --- help and version ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_an_example_and_says_what_a_program_may_read(name, capsys):
    with pytest.raises(SystemExit) as ended:
        main([name, "--help"], prog="clusterlab")
    told = capsys.readouterr().out
    assert ended.value.code == 0
    assert "--json" in told
    assert re.search(rf"examples:\n(  .*\n)*  .*clusterlab {name}", told)


@pytest.mark.parametrize("name", ["fit", "predict"])
def test_the_help_says_which_columns_of_nccl_tests_are_read(name, capsys):
    with pytest.raises(SystemExit):
        main([name, "--help"])
    assert "out-of-place columns are read" in " ".join(capsys.readouterr().out.split())


@pytest.mark.slow
def test_the_commands_and_the_version_are_told():
    done = run("--help", text=True)
    assert done.stdout.startswith("usage: python -m clusterlab ")
    assert all(re.search(rf"^    {name}( |$)", done.stdout, re.MULTILINE) for name in COMMANDS)
    assert "exit status: 0 done; 1 an audit found a gap; 2 called wrongly" in " ".join(done.stdout.split())
    assert run("--version", text=True).stdout == f"clusterlab {version('clusterlab')}\n"


@pytest.mark.parametrize("arguments", [[], ["guess"], ["fit"], ["audit", "a", "b"], ["audit", "--colour"]])
def test_a_wrong_call_exits_with_2_and_the_usage(arguments, capsys):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    heard = capsys.readouterr()
    assert (ended.value.code, heard.out) == (2, "")
    assert heard.err.startswith("usage: ")


@pytest.mark.parametrize("name", COMMANDS)
def test_no_help_doubles_a_percent_sign(name, capsys):
    with pytest.raises(SystemExit):
        main([name, "--help"], prog="clusterlab")
    assert "%%" not in capsys.readouterr().out


# --- audit -----------------------------------------------------------------------------------------------------------


def test_the_audit_counts_what_it_prints(capsys):
    assert main(["audit"]) == 0
    heard = capsys.readouterr()
    lines = heard.out.splitlines()
    facts = [line for line in lines if re.match(r"  \S+ +.* (specified|measured|derived|fitted|assumed) ", line)]
    counts = [int(re.search(r": ([\d]+) values", line)[1]) for line in lines if "every one with a source" in line]
    assert len(counts) == len(CATALOGUES)
    assert sum(counts) == len(facts) > 500
    assert heard.err == ""


def test_the_audit_as_json_has_every_value_with_its_kind_and_its_source(capsys):
    assert main(["audit", "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert {value["file"] for value in values} == set(CATALOGUES)
    assert all(value["kind"] in catalogue.KINDS and value["source_title"] and value["source_date"] for value in values)
    h100 = {v["field"]: v["value"] for v in values if (v["table"], v["name"]) == ("accelerator", "H100 SXM")}
    assert h100["hbm_bandwidth"] == "3.35 TB/s"


@pytest.mark.parametrize("catalogue", CATALOGUES)
def test_a_file_is_audited_as_the_catalogue_whose_tables_it_has(catalogue):
    text = (DATA / catalogue).read_text(encoding="utf-8")
    assert [value.fact for value in audit(text)] == [value.fact for value in audit(text, catalogue=catalogue)]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            "",
            "no table of any catalogue: hardware.toml has accelerator, link, memory, node, rack; models.toml has model",
        ),
        ("# nothing\n", "no table of any catalogue"),
        ("[sources]\n", "no table of any catalogue"),
        ("[lynk.A]\nbandwidth = 1\n", "no table of any catalogue"),
        ("[link]\n", "there is no value in it"),
        ("[model]\n", "there is no value in it"),
        ("[link.A]\n", "link A: "),
        ("link = 3\n", "link must be a table, got 3"),
        ("[link]\nA = 3\n", "link A: must be a table, got 3"),
        ("model = []\n", "model must be a table, got []"),
        ("sources = 1\n[link]\n", "sources must be a table, got 1"),
        ("[sources]\na = 'b'\n[link]\n", "sources a: must be a table, got 'b'"),
    ],
)
def test_a_catalogue_of_no_value_or_of_the_wrong_form_is_a_gap(text, why, tmp_path, capsys):
    path = tmp_path / "mine.toml"
    path.write_text(text)
    assert main(["audit", str(path)]) == 1
    heard = capsys.readouterr()
    assert heard.out == ""
    assert heard.err.startswith(f"{path}: ")
    assert why in heard.err


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a = " + "[" * 5000 + "\n", "not a catalogue: its tables are nested too deeply"),
        ("a = 1979-05-27\n[link", "Expected ']' at the end of a table declaration"),
        ("a = " + "9" * 5000, "4300"),
    ],
)
def test_a_catalogue_that_is_no_toml_is_a_wrong_call(text, why, tmp_path, capsys):
    path = tmp_path / "mine.toml"
    path.write_text(text)
    assert main(["audit", str(path)]) == 2
    heard = capsys.readouterr()
    assert heard.out == ""
    assert heard.err.startswith(f"{path}: not TOML: ")
    assert why in heard.err


scalars = st.one_of(
    st.integers(), st.just(10**400), st.floats(), st.booleans(), st.text(max_size=3), st.dates(), st.just("1 GB/s")
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=2),
        st.dictionaries(st.sampled_from(["value", "kind", "source", "note", "title"]), inner, max_size=3),
    ),
    max_leaves=4,
)


KINDS_OF_GAPS = tuple(
    f"{kind} data:\n" for kind in ("hardware", "model", "efficiency", "economics", "planner", "stack", "signal", "loop")
)


@cache
def shipped(catalogue):
    """Some sources and two rows of each table of a catalogue."""
    whole = tomllib.loads((DATA / catalogue).read_text(encoding="utf-8"))
    return {table: dict(list(rows.items())[:2]) for table, rows in whole.items()}


@pytest.mark.slow
@pytest.mark.parametrize("catalogue", CATALOGUES)
@given(data=st.data())
@settings(max_examples=40)
def test_whatever_stands_in_a_catalogue_is_read_or_refused(catalogue, data):
    """One entry of a shipped file replaced by anything that TOML can hold, at any depth."""
    whole = shipped(catalogue)
    names = {table: data.draw(st.sampled_from(sorted(rows))) for table, rows in whole.items()}
    document = {table: dict(rows) for table, rows in whole.items()}
    table = data.draw(st.sampled_from(sorted(document)))
    row = document[table][names[table]]
    depth = data.draw(st.integers(0, 2))
    value = data.draw(values)
    if depth == 0:
        document[table] = value
    elif depth == 1:
        document[table] = document[table] | {names[table]: value}
    else:
        field = data.draw(st.sampled_from([*row, "kind", "source", "year", "parameters", "tolerance"]))
        document[table] = document[table] | {names[table]: row | {field: value}}
    try:
        CATALOGUES[catalogue](document)
    except ValueError as error:
        assert str(error).startswith(KINDS_OF_GAPS)  # noqa: PT017, some draws are sound


# --- what goes wrong -------------------------------------------------------------------------------------------------

BAD = {
    "gzip": (gzip.compress(b"a,b\n"), "is compressed (gzip)"),
    "UTF-16": ("a,b\n".encode("utf-16"), "is text in UTF-16"),
    "binary": (b"\x7fELF\x02\x01\x01\0\0", "a NUL byte"),
    "a line without end": (b"a" * 200_000, "200,000 bytes"),
}


@pytest.mark.parametrize("name", ["audit", "fit", "predict"])
@pytest.mark.parametrize("kind", BAD)
def test_what_is_no_text_is_refused_for_what_it_is(name, kind, tmp_path, capsys):
    data, why = BAD[kind]
    (tmp_path / "mine").write_bytes(data)
    assert main([name, str(tmp_path / "mine")]) == 2
    heard = capsys.readouterr()
    assert heard.out == ""
    assert heard.err.startswith(str(tmp_path / "mine"))
    assert why in heard.err


@pytest.mark.parametrize("name", READS)
def test_what_is_no_file_is_said_in_a_line(name, tmp_path, capsys):
    locked = tmp_path / "locked"
    locked.write_text("a")
    locked.chmod(0)
    for path in (tmp_path, tmp_path / "absent", *([locked] if os.geteuid() else [])):
        assert main([name, str(path)]) == 2
        heard = capsys.readouterr()
        assert heard.out == ""
        assert re.fullmatch(rf"\[Errno \d+\] .*{path}'\n", heard.err)


@pytest.mark.parametrize("name", READS)
def test_a_heading_beyond_what_csv_reads_is_said_in_a_line(name, tmp_path, capsys):
    path = tmp_path / "mine.csv"
    path.write_text('"' + ("a" * 50_000 + "\n") * 4 + '",b\n1,2\n')
    assert main([name, str(path)]) == 2
    assert capsys.readouterr().err.count("\n") <= 2


@pytest.mark.slow
@pytest.mark.parametrize("name", ["fit", "predict"])
def test_a_file_may_come_from_standard_input(name, capsys, monkeypatch):
    assert main([name, COLLECTIVES, "--json"]) == 0
    expected = capsys.readouterr().out
    with Path(COLLECTIVES).open("rb") as stream:
        monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=stream))
        assert main([name, "-", "--json"]) == 0
    assert capsys.readouterr().out == expected
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(b"group,collective,n_gpus\nlab,gather,8\n")))
    assert main([name, "-"]) == 2
    assert capsys.readouterr().err.startswith("standard input: no timing that can be used\nline 2: skipped, no law for")


def test_an_audit_may_come_from_standard_input(capsys, monkeypatch):
    text = (DATA / "models.toml").read_bytes()
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(text)))
    assert main(["audit", "-"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("standard input: ")


@pytest.mark.slow
def test_a_reader_who_has_seen_enough_is_no_error():
    command = f"set -o pipefail; {sys.executable} -m clusterlab audit | head -1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
def test_a_full_disk_is_said_in_a_line():
    if not os.path.exists("/dev/full"):  # noqa: PTH110, it is no file
        pytest.skip("no /dev/full")
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m clusterlab audit > /dev/full"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (2, "[Errno 28] No space left on device\n")


@pytest.mark.slow
def test_a_terminal_without_unicode_gets_the_letters_that_it_has(capsys):
    plain = run("fit", COLLECTIVES, env=os.environ | {"PYTHONIOENCODING": "ascii"})
    assert main(["fit", COLLECTIVES]) == plain.returncode == 0
    rich = capsys.readouterr().out
    assert "µs" in rich
    assert plain.stdout.decode("ascii") == rich.replace("µ", "u")


def test_an_interruption_is_said_in_a_word():
    # A process started in the background ignores interruptions unless it says otherwise.
    code = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    code += "import time, clusterlab.cli as m; from clusterlab.cli.commands import audit\n"
    code += "audit.read_text = lambda p: (print('on', flush=True), time.sleep(60))\n"
    code += "raise SystemExit(m.main(['audit', 'x']))"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as waiting:
        assert waiting.stdout.readline() == b"on\n"
        waiting.send_signal(signal.SIGINT)
        assert waiting.communicate(timeout=30) == (b"", b"interrupted\n")
    assert waiting.returncode == 130


@given(text=st.text(st.characters(codec="utf-8"), max_size=400), heading=st.booleans())
@settings(max_examples=60)
def test_whatever_a_file_says_it_is_read_or_refused(text, heading, tmp_path_factory):
    path = tmp_path_factory.mktemp("any") / "mine.csv"
    start = "group,collective,n_gpus,n_nodes,gpus_per_node,gpu,scale_up,scale_out,size_bytes,time_us,busbw_GBps\n"
    path.write_text(start * heading + text, encoding="utf-8", newline="")
    assert main(["fit", str(path)]) in (0, 2)


cells = {
    "group": st.sampled_from(["lab", ""]),
    "collective": st.sampled_from(["all_reduce", "alltoall", "sendrecv", "broadcast", "gather"]),
    "n_gpus": st.sampled_from(["8", "2", "16", "1e300", "72", "3", "9999991", "1e17"]),
    "n_nodes": st.sampled_from(["", "1", "2", "8", "1e300"]),
    "gpus_per_node": st.sampled_from(["", "1", "8", "1e300"]),
    "gpu": st.sampled_from(["", "H100", "GB200 NVL72", "NVL99999999", "H100 NVL"]),
    "scale_up": st.sampled_from(["", "NVLink4", "PCIe5", "9999999999x9TB/s", "NVLink4 0GB/s", "NVLink5 1e9GB/s"]),
    "scale_out": st.sampled_from(["", "8x400Gb", "0x400Gb", "NVLink5", "0Gb/s", "NDR", "99999999999999999999x NDR0"]),
    "size_bytes": st.sampled_from(["", "1e6", "1e-300", "1e308", "8"]),
    "time_us": st.sampled_from(["", "50", "1e-300", "1e308"]),
    "busbw_GBps": st.sampled_from(["", "35", "1e-300", "1e300"]),
}


@given(rows=st.lists(st.fixed_dictionaries(cells), min_size=1, max_size=4), name=st.sampled_from(["fit", "predict"]))
@settings(max_examples=60)
def test_whatever_the_cells_say_they_are_fitted_or_refused(rows, name, tmp_path_factory):
    path = tmp_path_factory.mktemp("any") / "mine.csv"
    path.write_text("\n".join([",".join(cells), *(",".join(row.values()) for row in rows)]))
    assert main([name, str(path)]) in (0, 2)


# --- the other ways to call it ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_python_runs_the_same_commands(tmp_path, capsys):
    path = tmp_path / "mine.csv"
    path.write_text("group,collective,n_gpus,busbw_GBps,scale_up\nlab,all_gather,8,370,NVLink4\nlab,gather,8,1,\n")
    alone = run("fit", str(path), "--json", text=True)
    assert main(["fit", str(path), "--json"]) == 0
    named = capsys.readouterr()
    assert (alone.returncode, alone.stdout, alone.stderr) == (0, named.out, named.err)
    assert json.loads(named.out)[0]["bandwidth_bytes_per_second"] == pytest.approx(370e9)
    assert named.err.startswith("line 3: skipped, no law for 'gather'")


def test_models_that_do_not_add_up_are_gaps(tmp_path, capsys):
    path = tmp_path / "models.toml"
    text = (DATA / "models.toml").read_text(encoding="utf-8")
    llama = entry("Llama 3.1 405B")
    path.write_text(text.replace(f"layers = {llama.shape.layers}\n", "layers = 1\n"), encoding="utf-8")
    assert main(["audit", str(path)]) == 1
    assert "model Llama 3.1 405B: " in capsys.readouterr().err


def test_a_rate_beyond_all_peaks_is_skipped_with_its_reason(tmp_path, capsys):
    heading = "row_id,model,gpu,n_gpus,precision,isl,osl,output_tok_s_total,framework"
    rows = "a,Llama 3.1 8B,H100,1,fp8,1000,1000,15220,vLLM", "b,Llama 3.1 8B,H100,1,fp8,1000,1000,1e11,vLLM"
    (tmp_path / "mine.csv").write_text("\n".join([heading, *rows]))
    assert main(["validate", str(tmp_path / "mine.csv")]) == 0
    assert "skipped b (runs): 100,000,000,000 tokens/s of a replica are more than its GPUs" in capsys.readouterr().out
