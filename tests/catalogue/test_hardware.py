"""Hardware: every number has a source, the audit fails where one has not, and the records make physical sense."""

import dataclasses
import subprocess
import sys
import tomllib
from dataclasses import FrozenInstanceError
from importlib.resources import files

import pytest

from clusterlab import catalogue
from clusterlab.catalogue import hardware
from clusterlab.cli import main
from clusterlab.own import match_accelerator
from clusterlab.units import parse

DATA = files("clusterlab.catalogue") / "data" / "hardware.toml"
TABLES = {
    "accelerator": (catalogue.accelerator, catalogue.accelerators),
    "memory": (catalogue.memory, catalogue.memories),
    "link": (catalogue.link, catalogue.links),
    "node": (catalogue.node, catalogue.nodes),
    "rack": (catalogue.rack, catalogue.racks),
}


def every(table):
    """Parametrize over all records of a table, by name."""
    return pytest.mark.parametrize("part", TABLES[table][1](), ids=lambda part: part.name)


# --- the audit -------------------------------------------------------------------------------------------------------


def test_the_audit_passes_on_the_shipped_data_and_prints_every_number():
    command = [sys.executable, "-m", "clusterlab", "audit"]
    audit = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (audit.returncode, audit.stderr) == (0, "")
    printed = {block.strip().splitlines()[0]: block for block in audit.stdout.split("\n\n")}
    document = tomllib.loads(DATA.read_text(encoding="utf-8"))
    for table in TABLES:
        for name, row in document[table].items():
            block = printed[f"{table} {name}"]
            for key, entry in row.items():
                value = entry["value"] if isinstance(entry, dict) else entry
                assert key in ("source", "kind", "trap", "aliases") or f"  {key:<20} {value!s:<16} " in block


GOOD_LINK = """
[link."Planted"]
source = "stas-network"
kind = "specified"
bandwidth = "1 GB/s"
"""
GOOD_ACCELERATOR = """
[accelerator."Planted"]
source = "stas-accelerators"
kind = "specified"
vendor = "Nobody"
year = 2026
peak_bf16 = "1 TFLOP/s"
hbm_capacity = "1 GB"
hbm_bandwidth = "1 GB/s"
scale_up_link = "NVLink 5"
"""
GOOD_SOURCE = """
[sources.planted]
title = "A document"
document = "A document on paper"
date = "2026"
checked = "read"
"""
# What is planted: the sound row, what is replaced in it and by what, and what the message must say.
FAULTS = {
    "a number without a source": (
        GOOD_LINK,
        'source = "stas-network"\n',
        "",
        "link Planted: bandwidth has no listed source",
    ),
    "an unknown source": (GOOD_LINK, "stas-network", "hearsay", "link Planted: bandwidth", "'hearsay'"),
    "a wrong kind": (GOOD_LINK, '"specified"', '"guessed"', "link Planted: bandwidth has kind 'guessed'"),
    "a number without a kind": (GOOD_LINK, 'kind = "specified"\n', "", "link Planted: bandwidth has kind None"),
    "a missing value": (GOOD_LINK, '"1 GB/s"', '{ note = "soon" }', "link Planted: bandwidth has no value"),
    "an unknown entry": (GOOD_LINK, '"1 GB/s"', '{ value = "1 GB/s", vaule = 1 }', "link Planted: bandwidth", "vaule"),
    "an unreadable unit": (GOOD_LINK, "1 GB/s", "1 GBps", "link Planted: bandwidth", "'1 GBps'"),
    "a bare number": (GOOD_LINK, '"1 GB/s"', "1", "link Planted: bandwidth"),
    "a number in quotes without a unit": (GOOD_LINK, "1 GB/s", "1", "link Planted: bandwidth"),
    "the unit of another quantity": (GOOD_LINK, "1 GB/s", "1 GB", "link Planted: bandwidth"),
    "a negative number": (GOOD_LINK, "1 GB/s", "-1 GB/s", "link Planted: bandwidth must be positive"),
    "half a year": (
        GOOD_ACCELERATOR,
        "year = 2026",
        "year = 2026.5",
        "accelerator Planted: year must be a whole number",
    ),
    "an empty name": (GOOD_ACCELERATOR, '"Nobody"', '""', "accelerator Planted: vendor must be text"),
    "a misspelled field": (GOOD_LINK, "bandwidth =", "bandwith =", "link Planted: ", "bandwith"),
    "a missing field": (GOOD_ACCELERATOR, 'hbm_bandwidth = "1 GB/s"\n', "", "accelerator Planted: ", "hbm_bandwidth"),
    "a dangling link": (GOOD_ACCELERATOR, "NVLink 5", "NVLink 99", "accelerator Planted: scale_up_link 'NVLink 99'"),
    "a misspelled table": (GOOD_LINK, "[link.", "[lynk.", "lynk"),
    "a source that is nowhere": (GOOD_SOURCE, 'document = "A document on paper"\n', "", "source planted: has neither"),
    "a source nobody checked": (GOOD_SOURCE, '"read"', '"never"', "source planted: checked must be one of"),
    "a citation without its text": (GOOD_SOURCE, '"read"', '"cited"', "source planted: checked", "names its via"),
    "a source without a date": (GOOD_SOURCE, 'date = "2026"\n', "", "source planted: ", "date"),
    "a source whose title is a number": (GOOD_SOURCE, '"A document"', "7", "source planted: title must be text, got 7"),
    "a source that is no text": (GOOD_LINK, '"stas-network"', "[1]", "link Planted: bandwidth has no listed source"),
    "a row that is no table": ("[link]\nPlanted = 7\n", "", "", "link Planted: must be a table, got 7"),
    "a source with an empty date": (GOOD_SOURCE, '"2026"', '""', "source planted: ", "date"),
}


@pytest.mark.parametrize("good", [GOOD_LINK, GOOD_ACCELERATOR, GOOD_SOURCE], ids=["link", "accelerator", "source"])
def test_the_audit_passes_on_a_copy_with_a_sound_row_added(good, tmp_path):
    copy = tmp_path / "hardware.toml"
    copy.write_text(DATA.read_text(encoding="utf-8") + good, encoding="utf-8")
    assert main(["audit", str(copy)]) == 0


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_the_audit_fails_and_names_the_row_and_the_field_of(fault, tmp_path, capsys):
    good, old, new, *said = FAULTS[fault]
    copy = tmp_path / "hardware.toml"
    text = DATA.read_text(encoding="utf-8")
    if good.startswith("[link]\n"):  # TOML has a table before the tables in it
        text, good = good + text, ""
    copy.write_text(text + good.replace(old, new), encoding="utf-8")
    assert main(["audit", str(copy)]) == 1
    message = capsys.readouterr().err
    for words in said:
        assert words in message


@pytest.mark.parametrize("document", [{"link": 7}, {"sources": [1]}, {"accelerator": "text"}, {"sources": {"a": 3}}])
def test_a_table_that_is_none_is_refused_by_its_name(document):
    with pytest.raises(ValueError, match=f"{next(iter(document))}.* must be a table, got"):
        hardware.read_hardware(document)


@pytest.mark.parametrize("text", [None, "[link"], ids=["no file", "not TOML"])
def test_the_audit_fails_on_a_file_that_cannot_be_read(text, tmp_path, capsys):
    copy = tmp_path / "hardware.toml"
    if text:
        copy.write_text(text, encoding="utf-8")
    assert main(["audit", str(copy)]) == 2
    assert capsys.readouterr().err


# --- what is there ---------------------------------------------------------------------------------------------------

NVIDIA = ["V100 SXM2", "A100 40GB", "A100 80GB", "H100 SXM", "H100 PCIe", "H200 SXM", "B200", "GB200", "B300", "GB300"]
OTHERS = ["MI250X", "MI300X", "MI325X", "MI355X", "TPU v4", "TPU v5e", "TPU v5p", "TPU v6e", "Gaudi 3", "Trainium2"]
SCALE_UP = ["NVLink 3", "NVLink 4", "NVLink 5", "PCIe 4.0 x16", "PCIe 5.0 x16", "PCIe 6.0 x16"]
INFINIBAND = ["InfiniBand HDR", "InfiniBand NDR", "InfiniBand XDR"]
ETHERNET = ["RoCE 100 GbE", "RoCE 200 GbE", "RoCE 400 GbE", "RoCE 800 GbE", "TCP 100 GbE", "Cross-data-centre"]


@pytest.mark.parametrize("name", [*NVIDIA, *OTHERS])
def test_the_accelerators_of_the_book_are_there(name):
    assert catalogue.accelerator(name).hbm_bandwidth > 0


@pytest.mark.parametrize("name", [*SCALE_UP, *INFINIBAND, *ETHERNET])
def test_the_links_of_the_book_are_there_with_their_latency(name):
    assert 1e-7 < catalogue.link(name).latency < 1


@pytest.mark.parametrize(
    ("table", "name"), [(table, part.name) for table, (_, rows) in TABLES.items() for part in rows()]
)
def test_a_slip_in_a_name_is_answered_with_the_right_one(table, name):
    at = next(i for i in range(1, len(name)) if name[i : i + 2].isalnum() and name[i] != name[i + 1])
    slip = f"{name[:at]}{name[at + 1]}{name[at]}{name[at + 2 :].lower()}"
    with pytest.raises(ValueError, match=f"unknown {table} ") as refusal:
        TABLES[table][0](slip)
    assert f"{slip!r}; did you mean" in str(refusal.value)
    assert repr(name) in str(refusal.value)


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("name", ["", "abacus", None])
def test_a_name_like_none_is_answered_with_all_that_there_are(table, name):
    find, rows = TABLES[table]
    with pytest.raises(ValueError, match=f"unknown {table} ") as refusal:
        find(name)
    assert all(part.name in str(refusal.value) for part in rows())


@every("accelerator")
def test_a_precision_that_is_not_there_is_answered_with_those_that_are(part):
    with pytest.raises(ValueError, match=f"{part.name} has no 'fp3' peak; it has: {', '.join(part.peaks)}$"):
        part.peak("fp3")


def test_records_are_frozen():
    h100 = catalogue.accelerator("H100 SXM")
    with pytest.raises(FrozenInstanceError):
        h100.hbm_bandwidth = 1.0
    with pytest.raises(TypeError):
        h100.peaks["bf16"] = 1.0
    with pytest.raises(TypeError):
        h100.facts["tdp"] = None


# --- names as people write them --------------------------------------------------------------------------------------

WRITTEN = {
    "V100 SXM2": ["V100", "Tesla V100-SXM2-16GB", "V100-SXM3-32GB (DGX-2H)"],
    "A100 40GB": ["A100 40GB", "A100-SXM-40GB", "NVIDIA A100-SXM4-40GB", "A100_SXM4_40G"],
    "A100 80GB": ["A100", "A100-SXM", "A100-SXM-80GB (p4de)", "A100 DGX", "8x A100 (40Gb/s network)"],
    "H100 SXM": [
        "NVIDIA H100 80GB HBM3",
        "H100-SXM-80GB",
        "DGX H100",
        "8xH100",
        "h100",
        "8 H100s",
        "H100SXM5",
        "HGXH100",
    ],
    "H100 PCIe": ["NVIDIA H100 PCIe", "H100PCIe", "H100-PCIE-80GB"],
    "H200 SXM": ["H200", "NVIDIA H200", "H200-SXM"],
    "GH200": ["NVIDIA GH200 480GB", "GH200 96GB", "GH200 120GB"],
    "H800 SXM": ["NVIDIA H800", "H800-SXM"],
    "B200": ["B200 (p6-b200.48xlarge)", "NVIDIA B200", "DGX B200"],
    "GB200": ["GB200 NVL72 (NVLS)", "NVIDIA GB200", "GB200 NVL", "GB200 (4-GPU tray)"],
    "B300": ["B300", "8xB300"],
    "GB300": ["NVIDIA GB300", "GB300NVL72"],
    "RTX PRO 6000": ["RTX 6000 Pro Blackwell SE", "NVIDIA RTX PRO 6000 Blackwell Server Edition", "RTX-PRO-6000"],
    "H100 NVL": ["H100NVL", "NVIDIA H100 NVL"],
    "A100 PCIe": ["A100-PCIE-80GB", "NVIDIA A100 80GB PCIe"],
    "H20": ["NVIDIA H20", "8xH20"],
    "L40S": ["NVIDIA L40S", "4x L40S"],
    "GeForce RTX 4090": ["NVIDIA GeForce RTX 4090", "RTX4090", "rtx-4090"],
    "GeForce RTX 5090": ["NVIDIA GeForce RTX 5090", "RTX5090", "rtx-5090"],
    "Rubin": ["Vera Rubin NVL72", "VR200"],
    "MI250X": ["AMD Instinct MI250X"],
    "MI300X": ["MI300X", "AMD Instinct MI300X", "8x MI300"],
    "MI325X": ["MI325X"],
    "MI350X": ["AMD Instinct MI350X", "MI350"],
    "MI355X": ["mi355x"],
    "TPU v4": ["TPU v4", "v4-128", "TPUv4"],
    "TPU v5e": ["2x v5e-256", "TPU v5 lite", "v5litepod-16"],
    "TPU v5p": ["TPU v5p", "v5p-1024"],
    "TPU v6e": ["v6e-256", "Trillium"],
    "TPU v7": ["TPU v7 (Ironwood)", "TPU7x"],
    "Gaudi 3": ["Gaudi3", "Intel Gaudi 3"],
    "Trainium2": ["trn2.48xlarge", "Trainium 2"],
}
LACKING = ["RTX A1000", "XH100", "H1000", "H200 NVL", "B200 PCIe", "GH100", "A100-PCIE-40GB", "L40", "RTX 4080"]
LACKING += ["V100-PCIE", "Tesla V100-PCIE-16GB", "A100X", "A800"]
LACKING += [
    "MI250",
    "MI300A",
    "TPU v4i",
    "Gaudi 2",
    "SM90",
    "any",
    "",
    "2x200Gb per node",
    "PCIe Gen5",
    "cv5e",
    "A1000",
]


@pytest.mark.parametrize("name", WRITTEN)
def test_an_accelerator_is_known_by_what_people_call_it(name):
    assert [match_accelerator(text).name for text in (name, *WRITTEN[name])] == [name] * (len(WRITTEN[name]) + 1)


def test_every_accelerator_has_a_spelling():
    assert {part.name for part in catalogue.accelerators()} == set(WRITTEN)


@pytest.mark.parametrize("text", LACKING)
def test_an_accelerator_that_the_catalogue_lacks_is_not_taken_for_another(text):
    assert match_accelerator(text) is None


def test_of_several_accelerators_the_first_is_meant_and_sxm_overrules_a_pcie_host():
    assert match_accelerator("H200 (8x H100 before)").name == "H200 SXM"
    assert match_accelerator("H100 SXM, hosts with PCIe 5").name == "H100 SXM"


@pytest.mark.parametrize(
    ("find", "written", "name"),
    [
        (catalogue.accelerator, "H200", "H200 SXM"),
        (catalogue.accelerator, "h100 sxm", "H100 SXM"),
        (catalogue.accelerator, "mi300", "MI300X"),
        (catalogue.link, "nvlink4", "NVLink 4"),
        (catalogue.link, "infiniband NDR", "InfiniBand NDR"),
        (catalogue.link, "IB HDR", "InfiniBand HDR"),
        (catalogue.node, "dgx h100", "DGX H100"),
        (catalogue.rack, "gb200-nvl72", "GB200 NVL72"),
    ],
)
def test_a_record_is_found_in_any_case_and_by_what_people_call_it(find, written, name):
    assert find(written).name == name


def test_no_two_accelerators_are_called_the_same():
    called = [hardware.folded(one) for table in ("accelerator", "link") for one in _called(table)]
    assert len(called) == len(set(called))


def _called(table):
    rows = tomllib.loads(catalogue.stored("hardware.toml"))[table]
    return [one for row in rows.values() for one in row.get("aliases", "").split(",") if one.strip()]


# --- physics ---------------------------------------------------------------------------------------------------------


@every("accelerator")
def test_a_narrower_format_is_never_slower(part):
    rates = [part.peaks[p] for p in ("fp64", "tf32", "bf16", "fp8", "fp4") if p in part.peaks]
    assert rates == sorted(rates)


@every("accelerator")
def test_the_ridge_of_a_machine_lies_where_matrix_engines_have_it(part):
    """30 FLOP/byte is below every matrix engine, an H20's 37 too, 1,500 above every one: else a unit was misread."""
    half_precision = part.peaks.get("bf16") or part.peaks["fp16"]
    assert 30 < half_precision / part.hbm_bandwidth < 1500


@every("accelerator")
def test_an_accelerator_and_its_link_agree_on_the_bandwidth(part):
    assert part.scale_up_bandwidth == catalogue.link(part.scale_up_link).bandwidth
    assert part.scale_up_bandwidth < part.hbm_bandwidth
    assert part.scale_up_domain >= 2


@every("link")
def test_the_figure_of_the_brochure_is_both_directions_added(part):
    assert part.bandwidth_both_ways == part.bandwidth + part.bandwidth


@pytest.mark.parametrize("part", [*catalogue.nodes(), *catalogue.racks()], ids=lambda part: part.name)
def test_a_machine_is_rated_above_its_accelerators_and_shares_out_evenly(part):
    chip = catalogue.accelerator(part.accelerator)
    if part.power and chip.tdp:
        assert part.accelerators * chip.tdp < part.power < 3 * part.accelerators * chip.tdp
    assert part.accelerators % (getattr(part, "nodes", None) or 1) == 0


@pytest.mark.parametrize("part", [p for _, rows in TABLES.values() for p in rows()], ids=lambda part: part.name)
def test_a_record_holds_what_its_facts_print(part):
    for key, fact in part.facts.items():
        held = part.peaks[key.removeprefix("peak_")] if key.startswith("peak_") else getattr(part, key)
        assert held in (fact.printed, parse(fact.printed) if isinstance(held, float) else None)
        assert fact.source.title
        assert fact.source.title in repr(part)


# --- published numbers that texts often get wrong --------------------------------------------------------------------


def test_nvlink_5_is_900_gigabytes_per_second_each_way():
    """NVIDIA prints 1.8 TB/s for a Blackwell GPU, both directions together."""
    assert catalogue.link("NVLink 5").bandwidth == 900e9
    assert catalogue.link("NVLink 5").bandwidth_both_ways == 1.8e12


def test_nvlink_4_is_nine_times_an_ndr_port():
    """MLSysBook, Fleet Foundations: the ratio is right per direction (450 to 50), or both ways (900 to 100)."""
    nvlink, port = catalogue.link("NVLink 4"), catalogue.link("InfiniBand NDR")
    assert nvlink.bandwidth / port.bandwidth == 9
    assert nvlink.bandwidth_both_ways / port.bandwidth_both_ways == 9


def test_a_blackwell_rack_offers_13_4_terabytes():
    """NVIDIA's GB200 NVL72 page; the 13.8 TB of other texts are the 192 GB in each package."""
    rack = catalogue.rack("GB200 NVL72")
    assert rack.accelerators * catalogue.accelerator(rack.accelerator).hbm_capacity == pytest.approx(13.4e12, rel=0.005)


def test_a_what_if_does_not_borrow_the_source_of_the_number_it_replaced():
    faster = dataclasses.replace(catalogue.accelerator("H100 SXM"), hbm_bandwidth=8e12)
    (line,) = (line for line in repr(faster).splitlines() if line.startswith("hbm bandwidth"))
    assert line.split() == ["hbm", "bandwidth", "8e+12", "changed"]
    assert hash(faster) != hash(catalogue.accelerator("H100 SXM"))


@pytest.mark.parametrize(
    ("chip", "fact", "told"),
    [
        ("B300", "tdp", "other HGX B300 documents give 1,100 W"),
        ("H100 SXM", "hbm_latency", "on a GH200, whose H100 die is the same"),
        ("TPU v5p", "peak_fp8", "no faster FP8"),
        ("TPU v6e", "peak_fp8", "no faster FP8"),
        ("TPU v5e", "hbm_capacity", "GiB"),
        ("TPU v5p", "hbm_capacity", "print 95 GB"),
        ("TPU v6e", "hbm_capacity", "32 GiB on the TPU7x page"),
    ],
)
def test_where_sources_differ_the_fact_says_so(chip, fact, told):
    assert told in catalogue.accelerator(chip).facts[fact].note


def test_sources_disagree_on_the_dense_fp4_rate_of_a_b300():
    chip = catalogue.accelerator("B300")
    assert chip.peak("fp4") == 13.125e15
    assert "FP4 is printed as anything from 12.6 to 15 PFLOP/s" in chip.trap
    assert catalogue.accelerator("GB300").peak("fp4") == 15e15


def test_a_trillium_chip_sends_400_gigabytes_per_second_each_way():
    """Google Cloud documentation, TPU v6e: 800 GB/s per chip, bidirectional."""
    assert catalogue.accelerator("TPU v6e").scale_up_bandwidth == 800e9 / 2


def test_a_dgx_h100_is_rated_1_275_watts_for_each_accelerator():
    """NVIDIA DGX H100/H200 user guide: 10.2 kW for eight."""
    node = catalogue.node("DGX H100")
    assert node.power / node.accelerators == 1275
