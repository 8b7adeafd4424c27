"""Timings: what nccl-tests and people's CSV files look like, read row by row; what is not read is named by its line."""

import csv
import re
from importlib.resources import files

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterlab import catalogue
from clusterlab.evidence import Timing, nccl_tests, published_timings, read_timings, timing_tables
from clusterlab.evidence.timings import EXPERTS
from clusterlab.interconnect import bus_factor

close = {"rel": 1e-12}


@pytest.fixture
def reading(tmp_path):
    """Write text to a file and read it: ``reading(text, **known)``."""

    def read_text(text, **known):
        path = tmp_path / "run.txt"
        path.write_text(text, encoding="utf-8")
        return read_timings(path, **known)

    return read_text


def refusal(reading, text, **known):
    """The message with which the text is refused, less the file's name, which it must begin with."""
    with pytest.raises(ValueError, match=r"run\.txt") as error:
        reading(text, **known)
    where, _, message = str(error.value).partition("run.txt")
    assert where.endswith("/")
    return message.lstrip(",: ")


def reason(reading, text, **known):
    """Why the only table of a log was not read."""
    first, line = refusal(reading, text, **known).splitlines()
    assert first == "no timing that can be used"
    where, _, why = line.partition(": not read, nor the rest of its table: ")
    assert re.fullmatch(r"line \d+", where)
    return why


# --- nccl-tests: excerpts of published logs, as they were posted -----------------------------------------------------

COLUMNS = """\
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
"""
END = """\
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 419.001
#
"""


def hosts(counts, gpu="NVIDIA H100 80GB HBM3", hash_sign="#"):
    """Heading lines as nccl-tests prints them for so many GPUs on each host."""
    ranks = [(host, device) for host, count in counts.items() for device in range(count)]
    lines = [
        f"{hash_sign}  Rank {rank:2d} Group  0 Pid {295203 + rank} on {host:>10s} device {device:2d} [0x18] {gpu}"
        for rank, (host, device) in enumerate(ranks)
    ]
    return "\n".join([f"{hash_sign} Using devices", *lines, hash_sign, ""])


# NVIDIA/nccl-tests, issue 290: one node, all threads in a process.
ONE_NODE = f"""\
# nThread 1 nGpus 8 minBytes 134217728 maxBytes 4294967296 step: 2(factor) warmup iters: 5 iters: 2
#
{hosts({"node005": 8})}\
{COLUMNS}\
   134217728      33554432     float     sum      -1    613.3  218.85  382.99      0    610.6  219.81  384.67      0
   268435456      67108864     float     sum      -1   1139.2  235.63  412.35      0   1138.5  235.78  412.62      0
  4294967296    1073741824     float     sum      -1    15870  270.63  473.60      0    15866  270.70  473.73      0
{END}"""
# SkyPilot, Nebius example: two nodes.
TWO_NODES = f"""\
{hosts({"worker-1": 8, "worker-0": 8})}\
NCCL version 2.23.4+cuda12.4
{COLUMNS}\
   536870912     134217728     float     sum      -1   2432.7  220.69  413.79      0   2382.4  225.35  422.53      0
  8589934592    2147483648     float     sum      -1    34468  249.21  467.28      0    34525  248.80  466.51      0
{END}"""
# NVIDIA/deepops, Slurm guide: version of 2019, without a column for the root.
OF_2019 = """\
#                                                     out-of-place                       in-place
#       size         count    type   redop     time   algbw   busbw  error     time   algbw   busbw  error
#        (B)    (elements)                     (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
    1048576        262144   float     sum    192.4    5.45   10.22  5e-07    193.6    5.42   10.16  5e-07
   16777216       4194304   float     sum    865.2   19.39   36.36  5e-07    868.4   19.32   36.22  5e-07
   67108864      16777216   float     sum   2717.0   24.70   46.31  5e-07   2711.3   24.75   46.41  5e-07
"""
# NVIDIA/nccl-tests, issue 78: 8 nodes of 8 GPUs; the all-to-all of 2021 leaves the cell of the reduction blank.
ALL_TO_ALL_OF_2021 = """\
#       size         count      type   redop     time   algbw   busbw  error     time   algbw   busbw  error
   268435456       1048576     float           520935    0.52    0.51  0e+00   519562    0.52    0.51  1e+00
   536870912       2097152     float          1041974    0.52    0.51  0e+00  1041299    0.52    0.51  1e+00
"""
# ROCm/rccl, pull request 2075: a broadcast.
BROADCAST = """\
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
      262144         65536     float    none       0    43.00    6.10    6.10      0    42.86    6.12    6.12      0
    33554432       8388608     float    none       0   4691.4    7.15    7.15      0   4692.0    7.15    7.15      0
"""
# NVIDIA/nccl-tests, issue 82: a broadcast of 2021, with a column for the root and none for the reduction.
BROADCAST_OF_2021 = """\
#   Rank  0 Pid  14926 on v100-gpu-1 device  0 [0x00] Tesla V100-PCIE-16GB
#   Rank  1 Pid   9210 on v100-gpu-5 device  0 [0x00] Tesla V100-PCIE-16GB
v100-gpu-1:14926:14926 [0] misc/ibvwrap.cc:63 NCCL WARN Failed to open libibverbs.so[.1]
#       size         count    type    root     time   algbw   busbw  error     time   algbw   busbw  error
           8             2   float       0    45.82    0.00    0.00    N/A    38.17    0.00    0.00    N/A
"""
# NVIDIA/nccl-tests, issue 214: send and receive between two nodes.
SENDRECV = f"""\
#  Rank  0 Group  0 Pid 1478709 on      gpu23 device  0 [0x31] NVIDIA A40
#  Rank  1 Group  0 Pid 1171742 on      gpu24 device  0 [0x31] NVIDIA A40
{COLUMNS}\
         256            64     float     sum      -1    34.24    0.01    0.01      0    33.65    0.01    0.01    N/A
        4096          1024     float     sum      -1    30.74    0.13    0.13      0    30.69    0.13    0.13    N/A
        8192          2048     float     sum      -1    31.76    0.26    0.26      0    31.59    0.26    0.26    N/A
"""
# NVIDIA/nccl-tests, issue 128: a reduce-scatter of 8 ranks, whose smallest sizes are nothing for each.
REDUCE_SCATTER = f"""\
{COLUMNS}\
           0             0     float     sum      -1     5.70    0.00    0.00      0     5.54    0.00    0.00      0
           0             0     float     sum      -1     5.92    0.00    0.00      0     5.51    0.00    0.00      0
         128             4     float     sum      -1    32.31    0.00    0.00      0    25.35    0.01    0.00      0
     4194304        131072     float     sum      -1    252.5   16.61   14.54      0    251.6   16.67   14.58      0
   134217728       4194304     float     sum      -1   6913.0   19.42   16.99      0   6917.1   19.40   16.98      0
"""
# A log of version 2.18.3 as mpirun left it: a banner with lines that begin with a digit, and wide columns of "#wrong".
BANNER = f"""\
Authorization required, but no authorization protocol specified
--------------------------------------------------------------------------
Two mutually-exclusive MCA variables were specified.  This can result
  1st MCA variable: btl_tcp_if_include
    Source of value: environment
  2nd MCA variable: btl_tcp_if_exclude
--------------------------------------------------------------------------
2026-04-19 03:13:05 INFO starting
# nccl-tests version 2.18.3 nccl-headers=23003 nccl-library=23003
# Collective test starting: alltoall_perf
{hosts({"R6KD-CX8aaS-GPU-11": 8, "R6KD-CX8aaS-GPU-12": 8}, "NVIDIA RTX 6000D")}\
NCCL version 2.30.3+cuda13.0
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
[R6KD-CX8aaS-GPU-11:02943] 15 more processes have sent help message help-mca-var.txt / mutually-exclusive-vars
        1024            16     float    none      -1    55.66    0.02    0.02       0    29.21    0.04    0.03    N/A
R6KD:33958:34012 [1] NCCL INFO NCCL_IB_GID_INDEX set by environment to 3.
     1048576         16384     float    none      -1    72.16   14.53   13.62       0    73.72   14.22   13.34    N/A
    16777216        262144     float    none      -1  10642.5    1.58    1.48       0  29073.1    0.58    0.54    N/A
  2147483648      33554432     float    none      -1   120020   17.89   16.77       0   113043   19.00   17.81    N/A
# Collective test concluded: alltoall_perf
"""
# Google Cloud's guide: every line with the rank that srun --label puts before it.
LABELLED = """\
0: #       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
0:            0             0     float    none       0     0.15    0.00    0.00      0     0.14    0.00    0.00      0
0:      8388608        131072     float    none       0    374.1   22.42   21.02      0    361.5   23.20   21.75      0
0:   2147483648      33554432     float    none       0    25421   84.48   79.20      0    25283   84.94   79.63      0
"""
# What mpirun --tag-output, its later version, pdsh, and two log collectors put before a line.
LABELS = [
    "[1,0]<stdout>:",
    "[prterun-host-1@1,0]<stdout>: ",
    "[1,0]<stdout>[node0]:",
    "node0: ",
    "2025-06-01T12:00:00.123Z ",
    "Jun  1 12:00:00 ",
]


def test_a_node_is_read_with_its_hosts_gpus_links_and_out_of_place_times(reading):
    rows, skipped = reading(ONE_NODE)
    assert skipped == []
    assert [row.size for row in rows] == [134217728, 268435456, 4294967296]
    assert [row.seconds for row in rows] == pytest.approx([613.3e-6, 1139.2e-6, 15870e-6], **close)
    assert [row.row for row in rows] == ["line 16", "line 17", "line 18"]
    link = catalogue.link("NVLink 4")
    for row in rows:
        assert (row.source, row.operation, row.ranks, row.nodes) == ("run", "all-reduce", 8, 1)
        assert (row.scale_up, row.scale_up_latency) == (link.bandwidth, link.latency)
        assert (row.network, row.tcp, row.in_switch, row.machine) == (None, False, None, "run")


@pytest.mark.parametrize(
    ("text", "known", "operation", "ranks", "busbw"),
    [
        (ONE_NODE, {}, "all-reduce", 8, 473.60),
        (TWO_NODES, {}, "all-reduce", 16, 467.28),
        (OF_2019, {}, "all-reduce", 16, 46.31),
        (ALL_TO_ALL_OF_2021, {"collective": "alltoall", "ranks": 64}, "all-to-all", 64, 0.51),
        (BROADCAST, {"collective": "broadcast", "ranks": 2}, "broadcast", 2, 7.15),
        (BROADCAST_OF_2021, {"collective": "broadcast"}, "broadcast", 2, 0.00),
        (SENDRECV, {"collective": "sendrecv"}, "send-receive", 2, 0.26),
        (REDUCE_SCATTER, {}, "reduce-scatter", 8, 16.99),
        (BANNER, {}, "all-to-all", 16, 16.77),
        (LABELLED, {"collective": "all_gather"}, "all-gather", 16, 79.20),
        *((LABELLED.replace("0: ", label), {}, "all-gather", 16, 79.20) for label in LABELS),
    ],
)
def test_every_layout_gives_the_collective_the_ranks_and_the_printed_bus_bandwidth(
    reading, text, known, operation, ranks, busbw
):
    rows, _ = reading(text, **known)
    assert {(row.operation, row.ranks) for row in rows} == {(operation, ranks)}
    assert rows[-1].bus_bandwidth / 1e9 == pytest.approx(busbw, abs=0.006, rel=1e-4)


def test_text_that_lost_its_hash_signs_on_a_web_page_reads_the_same(reading):
    kept, _ = reading(ONE_NODE)
    lost, skipped = reading(ONE_NODE.replace("#wrong", "@wrong").replace("#", "").replace("@", "#"))
    assert lost == kept
    assert skipped == []


def test_noise_is_silent_and_rows_are_read_through_it(reading):
    rows, problems = reading(BANNER)
    assert [row.size for row in rows] == [1024, 1048576, 16777216, 2147483648]
    assert problems == []
    assert reading("2025-06-01 12:00:00 dtype float starting\n" + ONE_NODE)[1] == []
    info = "node005:123:456 [0] NCCL INFO Channel 00/08 : 0 1 2 3\n"
    noisy = "".join(line + "\n" + info for line in ONE_NODE.splitlines())
    assert [row.seconds for row in reading(noisy)[0]] == [row.seconds for row in reading(ONE_NODE)[0]]
    assert reading(noisy)[1] == []


def test_a_row_with_wrong_results_is_not_used_and_said(reading):
    text = ONE_NODE.replace("382.99      0", "382.99     96")
    rows, problems = reading(text)
    assert rows == reading(ONE_NODE)[0][1:]
    assert problems == ["line 16: not used, 96 of its results are wrong (#wrong): what moved is no collective"]


def test_labels_of_mpirun_are_read_over_wherever_they_stand(reading):
    labelled = "\n".join(f"[1,0]<stdout>:{line}" for line in ONE_NODE.splitlines())
    within = labelled.replace("     -1  ", "     -1[1,0]<stdout>:  ")
    assert within != labelled
    assert [(row.size, row.seconds) for row in reading(within)[0]] == [
        (r.size, r.seconds) for r in reading(ONE_NODE)[0]
    ]


DEVICE = "#  Rank {:2} Group  0 Pid   9 on node{} device  {} [0x1b] NVIDIA H100 80GB HBM3"
ABRIDGED = """\
# Collective test starting: all_reduce_perf
# nThread 1 nGpus 1 minBytes 8 maxBytes 16 step: 2(factor) warmup iters: 5 iters: 20
# Using devices
{}
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
   536870912     134217728     float     sum      -1   5202.3  103.20  193.50      0   5377.7   99.83  187.19      0
"""


def test_a_list_of_devices_from_which_lines_were_cut_does_not_say_how_many(reading):
    kept = [DEVICE.format(rank, rank // 8, rank % 8) for rank in (0, 1, 2, 15)]
    text = ABRIDGED.format("\n".join([*kept[:3], "#  ...", kept[3]]))
    assert "4 lines, and the last is of rank 15: lines were cut; say --ranks and --nodes" in refusal(reading, text)
    rows, problems = reading(text, ranks=16, nodes=2)
    assert ([(row.ranks) for row in rows], problems) == ([16], [])
    whole = ABRIDGED.format("\n".join(DEVICE.format(rank, rank // 8, rank % 8) for rank in range(16)))
    assert [row.ranks for row in reading(whole)[0]] == [16]


def test_processor_times_are_no_times(reading):
    text = ONE_NODE.replace(" time ", "cputime ")
    why = "line 14: not read, its table has CPU times (-C), not those of the GPUs"
    assert refusal(reading, text) == f"no timing that can be used\n{why}"
    rows, problems = reading(text + ONE_NODE)
    assert (len(rows), problems) == (3, [why])


@pytest.mark.parametrize("rest", ["  8589934592    21474", "  8589934592    2147483648     float     sum      -1"])
def test_a_log_that_is_cut_off_is_read_up_to_there(reading, rest):
    whole, cut = ONE_NODE.split("# Out of bounds")[0], ONE_NODE.split("# Out of bounds")[0] + rest
    rows, (problem,) = reading(cut)
    assert rows == reading(whole)[0]
    assert problem.startswith("line 19: not read, not a row of nccl-tests: '8589934592")


def test_rows_of_no_bytes_are_skipped_by_line(reading):
    rows, skipped = reading(REDUCE_SCATTER)
    assert [row.size for row in rows] == [128, 4194304, 134217728]
    assert skipped == [f"line {line}: skipped, nothing was sent or timed" for line in (4, 5)]


def test_a_table_without_any_heading_is_of_the_usual_layout(reading):
    table = "".join(line + "\n" for line in ONE_NODE.splitlines() if line.startswith(" "))
    rows, _ = reading(table)
    assert [row.seconds for row in rows] == pytest.approx([613.3e-6, 1139.2e-6, 15870e-6], **close)
    assert {(row.operation, row.ranks) for row in rows} == {("all-reduce", 8)}
    assert rows[0].scale_up is None


@pytest.mark.parametrize(
    ("gpu", "link", "adds"),
    [
        ("Tesla V100-SXM2-16GB", "NVLink 2", False),
        ("NVIDIA A100-SXM4-80GB", "NVLink 3", False),
        ("NVIDIA H100 80GB HBM3", "NVLink 4", None),
        ("NVIDIA H200", "NVLink 4", None),
        ("NVIDIA H800", "NVLink 4 (H800)", None),
        ("NVIDIA B200", "NVLink 5", None),
        ("NVIDIA GB300", "NVLink 5", None),
        ("Tesla V100-PCIE-16GB", None, False),
        ("NVIDIA A100 80GB PCIe", None, False),
        ("NVIDIA H100 PCIe", None, False),
        ("NVIDIA H200 NVL", None, False),
        ("NVIDIA H100 NVL", None, False),
        ("NVIDIA B200 PCIe", None, False),
        ("NVIDIA RTX A1000", None, False),
        ("NVIDIA XH100", None, False),
        ("NVIDIA H1000", None, False),
        ("AMD Instinct MI300X", None, False),
        ("NVIDIA GH200 120GB", None, False),
        ("NVIDIA RTX 6000D", None, False),
    ],
)
def test_the_name_of_a_gpu_tells_its_link_where_the_name_is_of_one_board_alone(reading, gpu, link, adds):
    rows, _ = reading(ONE_NODE.replace("NVIDIA H100 80GB HBM3", gpu))
    assert rows[0].scale_up == (catalogue.link(link).bandwidth if link else None)
    assert rows[0].in_switch is adds
    assert (rows[0].switch is None) == (adds is False)


@pytest.mark.parametrize(("says", "host"), [("1 nGpus 1", False), ("1 nGpus 8", True), ("4 nGpus 2", True)])
def test_one_process_for_several_gpus_launches_on_one_after_the_other(reading, says, host):
    bare = "".join(line + "\n" for line in ONE_NODE.splitlines() if "nThread" not in line)
    assert {row.host for row in reading(f"# nThread {says} minBytes 8\n{bare}")[0]} == {host}
    for cells in ({"lib": "torch all_reduce_bench"}, {"note": "one process for all GPUs"}):
        assert reading(table(cells))[0][0].host
    assert not reading(table({"lib": "nccl-tests"}))[0][0].host


def test_switches_do_not_add_behind_a_bridge(reading):
    rows, _ = reading(ONE_NODE, scale_up="NVLink 4 bridge (H100 PCIe)")
    assert (rows[0].scale_up, rows[0].in_switch, rows[0].switch) == (300e9, False, None)


def test_the_links_that_a_heading_does_not_tell_can_be_said(reading):
    (row, _), _ = reading(TWO_NODES, network="InfiniBand NDR")
    assert (row.ranks, row.nodes, row.network, row.fabric, row.tcp) == (16, 2, 8 * 50e9, "InfiniBand", False)
    assert row.scale_up == 450e9
    (row, _), _ = reading(TWO_NODES, network="TCP 100 GbE", scale_up="NVLink 3")
    assert (row.scale_up, row.network, row.fabric, row.tcp) == (300e9, 8 * 12.5e9, "TCP", True)
    table = "".join(line + "\n" for line in TWO_NODES.splitlines() if "Rank" not in line)
    (row, _), _ = reading(table, ranks=16, nodes=4, network="InfiniBand NDR")
    assert (row.nodes, row.network) == (4, 4 * 50e9)
    (row, _), _ = reading(TWO_NODES, nodes=1)
    assert (row.nodes, row.scale_up, row.network) == (1, 450e9, None)


def test_nodes_of_a_log_are_nvlink_domains_unless_it_is_told_otherwise(reading):
    trays = {f"tray{k}": 4 for k in range(32)}
    row, size, seconds = "{0} {1} float sum -1 {2:.1f} {3:.2f} {4:.2f} 0", 2**34, 46170e-6
    for gpus, nodes in ((8, 1), (72, 1), (128, 2)):
        rate = size / seconds / 1e9
        line = row.format(size, size // 4, seconds * 1e6, rate, rate * 2 * (gpus - 1) / gpus)
        text = hosts(dict(list(trays.items())[: gpus // 4]), "NVIDIA GB300") + COLUMNS + line
        ((found,), _) = reading(text, network="InfiniBand XDR")
        network = gpus // 2 * 100e9 if nodes == 2 else None
        assert (found.ranks, found.nodes, found.scale_up, found.network) == (gpus, nodes, 900e9, network)
        ((found,), _) = reading(text, nodes=gpus // 4, network="InfiniBand XDR")
        assert (found.nodes, found.network) == (gpus // 4, 4 * 100e9)


ROWS_OF_16 = f"""{COLUMNS}\
   536870912     134217728     float     sum      -1   5202.3  103.20  193.50      0   5377.7   99.83  187.19      0
"""


def test_several_nodes_without_their_network_leave_the_wires_open(reading):
    rows, _ = reading(TWO_NODES)
    assert {(row.scale_up, row.network, row.in_switch) for row in rows} == {(None, None, False)}


def test_links_that_nobody_says_may_be_assumed_and_are_said(reading):
    """Of reference servers: NDR for H100, the mesh of an MI300X; a link that is said is not assumed."""
    text = f"{hosts({'one': 8, 'two': 8})}{ROWS_OF_16}"
    (row, *_), problems = reading(text, assume=True)
    assert (row.nodes, row.network, row.fabric) == (2, 8 * 50e9, "InfiniBand")
    assert [line.partition(": ")[2] for line in problems] == [
        "assumed, as in reference servers of H100 SXM: InfiniBand NDR between nodes, a port for each GPU "
        "(--network says another)"
    ]
    (row, *_), problems = reading(text, assume=True, network="RoCE 200 GbE")
    assert (row.network, problems) == (8 * 25e9, [])
    (row, *_), problems = reading(text.replace("NVIDIA H100 80GB HBM3", "AMD Instinct MI300X"), assume=True)
    assert (row.mesh, row.scale_up, row.network) == (7, 448e9, 8 * 50e9)
    assert sum("as in reference servers of MI300X" in line for line in problems) == 2


@pytest.mark.parametrize(
    ("known", "message"),
    [
        ({"ranks": 0}, "ranks must be a whole number of at least 1, got 0"),
        ({"ranks": 10**400}, "ranks must be at most 10,000,000"),
        ({"nodes": -1}, "nodes must be a whole number of at least 1, got -1"),
        ({"collective": "gather"}, "--collective must be one of all_reduce, all_gather, reduce_scatter, alltoall"),
        ({"scale_up": "NVLink 4.0"}, "unknown link 'NVLink 4.0'; did you mean 'NVLink 4'"),
        ({"network": "NDT"}, "unknown link 'NDT'"),
        ({"network": "NVLink 4"}, "--network must be a link between nodes, such as 'InfiniBand NDR', got 'NVLink 4'"),
        ({"network": "PCIe 5.0 x16"}, "--network must be a link between nodes"),
        ({"network": "ICI (TPU v4)"}, "--network must be a link between nodes"),
        ({"scale_up": "InfiniBand NDR"}, "--scale-up must be a link inside a node, such as 'NVLink 4', got 'Infini"),
    ],
)
def test_an_argument_that_has_no_such_value_is_refused(reading, known, message):
    assert refusal(reading, TWO_NODES, **known).startswith(message)


def test_what_is_said_and_does_not_fit_the_table_is_refused(reading):
    assert reason(reading, TWO_NODES, nodes=3) == "--nodes must divide --ranks, got 3 and 16"
    assert reason(reading, TWO_NODES, nodes=8) == "the heading names 2 hosts, and --nodes says 8"
    assert reason(reading, ONE_NODE, nodes=8) == "the heading names 1 host, and --nodes says 8"
    heading = "# Collective test starting: all_reduce_perf\n"
    said = reason(reading, heading + TWO_NODES, collective="all_gather")
    assert said == "the heading says all_reduce, and --collective says all_gather"
    for known, factor in (
        ({"ranks": 8}, "1.750 for all-reduce on 8"),
        ({"collective": "all_gather"}, "0.938 for all-"),
    ):
        lines = refusal(reading, TWO_NODES, **known).splitlines()[1:]
        assert [line.split(":")[0] for line in lines] == ["line 23", "line 24"]
        assert all(f"not read, busbw / algbw is 1.875, not {factor}" in line for line in lines)
        assert all(line.endswith("; say --collective, --ranks") for line in lines)


def test_one_rank_alone_is_refused(reading):
    alone = ONE_NODE.replace(hosts({"node005": 8}), hosts({"node005": 1}))
    assert reason(reading, alone) == "one rank alone sends nothing"


@given(
    ranks=st.integers(2, 1024),
    operation=st.sampled_from(["all-reduce", "all-gather", "reduce-scatter"]),
    rate=st.floats(0.05, 900),
)
def test_ranks_are_derived_right_or_not_at_all(tmp_path_factory, ranks, operation, rate):
    """Bandwidths have two decimals, from which a small number of ranks follows and a large one does not."""
    size, factor = 2**30, float(bus_factor(operation, ranks))
    reduction = "none" if operation == "all-gather" else "sum"
    time = size / (rate * 1e3)
    row = f"{size:12d} {size // 4:12d} float {reduction} -1 {time:9.2f} {rate:7.2f} {rate * factor:7.2f} 0"
    path = tmp_path_factory.mktemp("ranks") / "run.txt"
    path.write_text(COLUMNS + row)
    try:
        ((found,), _) = read_timings(path)
    except ValueError as error:
        assert ranks > 3 or rate < 1 or (operation, ranks) == ("all-reduce", 2)
        assert "say --" in str(error)  # noqa: PT017, some draws are read and some refused
    else:
        assert (found.operation, found.ranks) == (operation, ranks)


def test_eight_ranks_follow_from_two_decimals_and_a_thousand_do_not(reading):
    rate, row = 467.28, "{0} {1} float sum -1 {2:.1f} {3:.2f} {4:.2f} 0"
    for ranks in (3, 8, 16, 72, 128, 1024):
        algbw = rate / float(bus_factor("all-reduce", ranks))
        text = COLUMNS + row.format(2**34, 2**32, 2**34 / (algbw * 1e3), algbw, rate)
        if ranks > 500:
            assert reason(reading, text) == "the number of ranks cannot be told from the file: say --ranks"
            assert reading(text, ranks=ranks)[0][0].ranks == ranks
        else:
            assert reading(text)[0][0].ranks == ranks


SLOW = f"""\
{COLUMNS}\
           8             2     float     sum      -1    28.93    0.00    0.00      0    28.40    0.00    0.00      0
         512           128     float     sum      -1    37.47    0.01    0.02      0    37.28    0.01    0.02      0
"""


def test_a_sweep_of_small_messages_needs_to_be_told_what_it_is(reading):
    assert reason(reading, SLOW).startswith("busbw / algbw leaves the collective open")
    shorter = "".join(line + "\n" for line in SLOW.splitlines()[:-1])
    assert reason(reading, shorter).startswith("no row is long enough")
    rows, _ = reading(SLOW, collective="all_reduce", ranks=8)
    assert [row.seconds for row in rows] == pytest.approx([28.93e-6, 37.47e-6], **close)


def test_the_collective_stays_open_where_the_bus_bandwidth_is_the_algorithm_bandwidth(reading):
    assert reason(reading, BROADCAST).startswith("busbw / algbw leaves the collective open")
    heading = "# Collective test starting: broadcast_perf\n"
    assert reason(reading, heading + BROADCAST) == "the number of ranks cannot be told from the file: say --ranks"
    assert reading(heading + BROADCAST, ranks=16)[0][0].operation == "broadcast"
    two = BROADCAST.replace("none       0", " sum      -1")
    assert reading(two, ranks=2)[0][0].operation == "all-reduce"


def test_a_test_without_a_law_is_refused_by_its_name(reading):
    heading = "# Collective test starting: scatter_perf\n"
    text = "".join(line + "\n" for line in LABELLED.splitlines() if ":            0 " not in line)
    assert reason(reading, heading + text).startswith("no law for 'scatter'; there are: all_reduce, all_gather,")


def test_each_table_of_a_file_is_a_source_of_its_own(reading):
    """As a script leaves them that runs one test after the other."""
    banner = BANNER.replace("# Collective test starting: alltoall_perf", "# Collective test starting: alltoall_perf\n#")
    rows, problems = reading(ONE_NODE + banner + ONE_NODE)
    alone = [reading(text)[0] for text in (ONE_NODE, banner, ONE_NODE)]
    assert [row.seconds for row in rows] == [row.seconds for rows in alone for row in rows]
    found = dict.fromkeys((row.source, row.operation, row.ranks, row.nodes, row.scale_up, row.machine) for row in rows)
    assert list(found) == [
        ("run all-reduce", "all-reduce", 8, 1, 450e9, "run"),
        ("run all-to-all", "all-to-all", 16, 1, None, "run"),
        ("run all-reduce 2", "all-reduce", 8, 1, 450e9, "run"),
    ]
    assert problems == []


def test_a_second_table_without_a_heading_has_the_hosts_of_the_first(reading):
    second = "".join(line + "\n" for line in REDUCE_SCATTER.splitlines()[-2:])
    rows, _ = reading(ONE_NODE + second)
    found = [("all-reduce", 8)] * 3 + [("reduce-scatter", 8)] * 2
    assert [(row.operation, row.ranks) for row in rows] == found
    assert {row.source for row in rows} == {"run all-reduce", "run reduce-scatter"}
    assert {row.scale_up for row in rows} == {450e9}


def test_a_table_that_cannot_be_read_does_not_take_the_others_with_it(reading):
    rows, (problem,) = reading(BROADCAST + ONE_NODE)
    assert (len(rows), {row.source for row in rows}) == (3, {"run"})
    assert problem.startswith("line 2: not read, nor the rest of its table: busbw / algbw leaves the collective open")


@pytest.mark.parametrize(
    ("sound", "broken", "message"),
    [
        ("134217728  ", "1342x7728  ", "not a row of nccl-tests: '1342x7728"),
        (" 613.3", " 61z.3", "not a row of nccl-tests: '134217728 33554432 float sum -1 61z.3"),
        (" 613.3", " -13.3", "1.34218e+08 B in -13.3 us are"),
        (" 613.3", "   inf", "1.34218e+08 B in inf us are 0.00 GB/s, and it says 218.85"),
        (" 613.3  218.85", " 618.3  258.85", "1.34218e+08 B in 618.3 us are 217.08 GB/s, and it says 258.85"),
        ("382.99", "328.99", "busbw / algbw is 1.503, not 1.750 for all-reduce on 8 ranks"),
        (" 613.3  218.85  382.99      0    610.6  219.81  384.67      0", "613.3", "not a row of nccl-tests:"),
        ("33554432     float     sum      -1    613.3  218.85", "", "not a row of nccl-tests:"),
    ],
)
def test_a_row_that_does_not_add_up_is_named_by_its_line_and_the_others_are_read(reading, sound, broken, message):
    assert ONE_NODE.count(sound) == 1
    rows, (problem,) = reading(ONE_NODE.replace(sound, broken))
    assert rows == reading(ONE_NODE)[0][1:]
    assert problem.startswith(f"line 16: not read, {message}")


def test_the_algorithm_bandwidth_of_2019_that_leaves_out_the_own_piece_is_not_read(reading):
    """NVIDIA/nccl-tests, issue 44: that version counted S (n - 1) / n bytes for an all-gather, and printed S."""
    text = """\
#       size         count    type     time   algbw   busbw  error     time   algbw   busbw  error
    33554432       4194304   float    817.8   20.51   20.51  0e+00    785.1   21.37   21.37  0e+00
"""
    why = "line 2: not read, 3.35544e+07 B in 817.8 us are 41.03 GB/s, and it says 20.51"
    assert refusal(reading, text, ranks=2) == f"no timing that can be used\n{why}"


@pytest.mark.parametrize("text", ["", " \n\n"])
def test_an_empty_file_is_refused_as_empty(reading, text):
    assert refusal(reading, text) == "the file is empty"


def test_a_heading_alone_is_refused(reading):
    assert refusal(reading, COLUMNS) == "no timing that can be used\nthere are no rows below the heading"
    assert refusal(reading, "mpirun was unable to launch\n" + COLUMNS).startswith("no timing that can be used")


def test_a_file_that_is_not_there_is_an_os_error(tmp_path):
    with pytest.raises(OSError, match="absent"):
        read_timings(tmp_path / "absent.txt")


# --- CSV -------------------------------------------------------------------------------------------------------------

SHIPPED = (files("clusterlab.evidence") / "data" / "collectives.csv").read_text(encoding="utf-8")
CELLS = list(csv.DictReader(SHIPPED.splitlines()))
COLUMN = [*SHIPPED.splitlines()[0].split(",")[:15], "lib", "note", "scale_up_domain", "quality"]
A_ROW = {
    "row_id": "R7",
    "group": "mine",
    "collective": "all_reduce",
    "size_bytes": "1000000",
    "n_gpus": "8",
    "scale_up": "NVLink4",
    "time_us": "50",
}


def table(*rows):
    """A CSV of rows that differ from a sound one in the cells given."""
    lines = [[(A_ROW | row).get(name, "") for name in COLUMN] for row in rows]
    quoted = [[f'"{cell}"' if ", " in cell else cell for cell in line] for line in lines]
    return "\n".join(",".join(line) for line in (COLUMN, *quoted))


def test_the_shipped_rows_are_read_or_skipped_by_name(reading):
    rows, skipped = reading(SHIPPED)
    assert tuple(rows) == published_timings()
    named = {line.split("row ")[1].split(":")[0] for line in skipped}
    assert [cells["row_id"] for cells in CELLS if cells["row_id"] not in named] == [row.row for row in rows]
    assert len(rows) + len(skipped) == len(CELLS)
    assert len(named) == 2
    for line in skipped:
        assert line.startswith("line ")
        assert "skipped, PCIe is a tree of switches" in line


def test_every_shipped_row_carries_its_source_and_how_it_was_checked():
    assert len({cells["row_id"] for cells in CELLS}) == len(CELLS)
    for cells in CELLS:
        for column in ("group", "source", "source_loc", "source_check", "quality"):
            assert cells[column].strip(), (cells["row_id"], column)
        assert cells["source_check"].startswith("read"), cells["row_id"]


def test_the_shipped_rows_mean_what_their_cells_say():
    """Size, time and both bandwidths follow from each other by the definitions of nccl-tests, without our reader."""
    read_as = {row.row: row for row in published_timings()}
    for cells in CELLS:
        check(cells, read_as.get(cells["row_id"]))


def check(cells, row):
    n = int(cells["n_gpus"])
    others = (n - 1) / n
    factors = {"all_reduce": 2 * others, "all_gather": others, "reduce_scatter": others}
    factors |= {"all_to_all": others, "alltoall": others}
    factor = factors.get(cells["collective"], 1.0)
    size, time, algbw, busbw = (
        float(cells[name] or "nan") for name in ("size_bytes", "time_us", "algbw_GBps", "busbw_GBps")
    )
    assert np.isfinite([busbw, size * time]).any()
    if algbw > 0:
        assert size / time / 1e3 == pytest.approx(algbw, abs=0.011, rel=0.005)
    if busbw > 0 and np.isfinite(time):
        assert factor * size / time / 1e3 == pytest.approx(busbw, abs=0.011, rel=0.005)
    if row is not None:
        assert (row.source, row.ranks) == (cells["group"], n)
        assert row.size == (size if np.isfinite(size) else np.inf)
        assert row.bus_bandwidth == pytest.approx((factor * size / time if time > 0 else busbw * 1e3) * 1e6, **close)
        if np.isfinite(size):
            assert row.seconds == pytest.approx(time * 1e-6 if time > 0 else factor * size / busbw / 1e9, **close)


@pytest.mark.parametrize(
    ("text", "rate", "latency_of", "adds"),
    [
        ("NVLink4 450GB/s/dir", 450e9, "NVLink 4", None),
        ("NVLink4", 450e9, "NVLink 4", None),
        ("NVLink 5", 900e9, "NVLink 5", None),
        ("NVLink3", 300e9, "NVLink 3", False),
        ("NVLink2", 150e9, "NVLink 2", False),
        ("NVLink4 200GB/s", 200e9, "NVLink 4", None),
        ("NVLink ~160GB/s", 160e9, "NVLink 4", False),
        ("PCIe5", 63e9, "PCIe 5.0 x16", False),
        ("PCIe Gen4", 31.5e9, "PCIe 4.0 x16", False),
    ],
)
def test_the_text_of_a_link_inside_a_node(reading, text, rate, latency_of, adds):
    ((row,), _) = reading(table({"scale_up": text}))
    assert row.scale_up == rate
    assert row.scale_up_latency == catalogue.link(latency_of).latency
    assert row.in_switch is adds
    assert (row.nodes, row.network) == (1, None)


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("nvlink 4", 450e9),
        ("NVLink Gen4", 450e9),
        ("NVLink4 18x25GB/s", 450e9),
        ("NVLink4 900GB/s bidirectional", 450e9),
        ("NVLink5 1.8TB/s", 900e9),
        ("NVLink", 450e9),
        ("", 450e9),
    ],
)
def test_a_link_may_be_written_otherwise_or_left_to_the_name_of_the_gpu(reading, text, rate):
    ((row,), _) = reading(table({"scale_up": text, "gpu": "8xH100 SXM5"}))
    assert row.scale_up == rate
    assert row.switch == pytest.approx((0.85 if rate == 450e9 else 0.74) * rate, **close)


EIGHT = 400e9  # eight ports of 400 Gbit/s


@pytest.mark.parametrize(
    ("text", "rate", "fabric"),
    [
        ("8x400Gb RDMA", EIGHT, ""),
        ("IB 8x400Gb/s", EIGHT, "InfiniBand"),
        ("2x200Gb RDMA", 50e9, ""),
        ("IB 100Gb/s per node", 12.5e9, "InfiniBand"),
        ("RoCE 8 x 400 Gb/s", EIGHT, "RoCE"),
        ("RoCE v2 8\N{MULTIPLICATION SIGN}400Gb/s", EIGHT, "RoCE"),
        ("400Gb/s x8", EIGHT, ""),
        ("400 Gbps, 8 ports", EIGHT, ""),
        ("8 ports of 400Gb/s", EIGHT, ""),
        ("8x400G IB", EIGHT, "InfiniBand"),
        ("EFAv2 32x100Gb/s", EIGHT, "EFA"),
        ("EFA 3.2Tb/s", EIGHT, "EFA v1"),
        ("EFA 3.2 Tbps", EIGHT, "EFA v1"),
        ("EFA 3200 Gb/s", EIGHT, "EFA v1"),
        ("CX7 400Gb/s per GPU", EIGHT, ""),
        ("8x400Gb/s, one per GPU", EIGHT, ""),
        ("50GB/s/GPU RoCE", EIGHT, "RoCE"),
        ("8x IB HDR 200Gb/s", 200e9, "InfiniBand"),
        ("8x NDR", EIGHT, "InfiniBand"),
        ("NDR, 8 NICs", EIGHT, "InfiniBand"),
        ("IB XDR per GPU", 800e9, "InfiniBand"),
        ("8x HDR100", 100e9, "InfiniBand"),
        ("2x EDR", 25e9, "InfiniBand"),
        # A port for each GPU, unless the row says otherwise.
        ("IB NDR", EIGHT, "InfiniBand"),
        ("CX7 IB 400Gb/s", EIGHT, "InfiniBand"),
        ("CX7 RDMA", EIGHT, ""),
        ("ConnectX-6 RoCE", 200e9, "RoCE"),
        ("RoCE 400Gb/s, one NIC", 50e9, "RoCE"),
        ("RoCE 400GbE per host", 50e9, "RoCE"),
        ("EFA 4x100Gb/s per node", 50e9, "EFA v1"),
        ("GPUDirect-TCPXO 8x200Gb/s", 200e9, "TCPXO"),
        ("FasTrak (TCP) 8x200Gb/s", 200e9, "TCPXO"),
        ("GPUDirect-TCPX 4x200Gb/s", 100e9, "TCPX"),
        ("100GbE TCP sockets", 12.5e9, "TCP"),
        # By the names of products, and in any case.
        ("infiniband ndr", EIGHT, "InfiniBand"),
        ("Quantum-2 IB", EIGHT, "InfiniBand"),
        ("Quantum-X800", 800e9, "InfiniBand"),
        ("BlueField-3, Spectrum-X", EIGHT, "RoCE"),
        ("Slingshot-11", 200e9, "Slingshot"),
        ("Slingshot", 200e9, "Slingshot"),
        ("Slingshot-10", 100e9, "Slingshot"),
        ("Slingshot-11 2x200Gb/s per node", 50e9, "Slingshot"),
    ],
)
def test_the_text_of_a_network(reading, text, rate, fabric):
    ((row,), _) = reading(table({"n_gpus": "16", "scale_out": text}))
    assert (row.nodes, row.network, row.fabric, row.tcp) == (2, rate, fabric, fabric in ("TCP", "TCPX"))
    ((row,), _) = reading(
        table({"n_gpus": "16", "gpus_per_node": "4", "scale_out": text, "scale_out_GBps_per_gpu": "12.5"})
    )
    assert (row.nodes, row.network) == (4, 50e9)


@pytest.mark.parametrize(
    ("gpu", "text", "hosts", "port", "name"),
    [
        ("GB200 NVL72", "IB between racks", ("144", "36", "4"), 72 * 50e9, "InfiniBand NDR"),
        ("B300", "InfiniBand across", ("16", "2", "8"), 8 * 100e9, "InfiniBand XDR"),
        ("H100", "IB", ("16", "2", "8"), 8 * 50e9, "InfiniBand NDR"),
        ("A100", "RoCE v2", ("16", "2", "8"), 8 * 25e9, "RoCE 200 GbE"),
    ],
)
def test_a_network_without_a_rate_has_the_ports_of_the_reference_servers_and_a_line_says_so(
    reading, gpu, text, hosts, port, name
):
    cells = dict(zip(("n_gpus", "n_nodes", "gpus_per_node"), hosts, strict=True)) | {"gpu": gpu, "scale_out": text}
    ((row,), (line,)) = reading(table(cells | {"scale_up": ""}))
    assert (row.nodes, row.network) == (2, port)
    assert line.endswith(f"read, with a port of {name} for each GPU: '{text}' has no rate")
    ((_,), problems) = reading(table(cells | {"scale_up": "", "scale_out_GBps_per_gpu": "25"}))
    assert problems == []


@pytest.mark.parametrize(
    ("cells", "network"),
    [
        ({"n_gpus": "2", "n_nodes": "2", "gpus_per_node": "8", "scale_out": "IB 8x400Gb/s"}, 50e9),
        ({"n_gpus": "2", "n_nodes": "2", "scale_out": "IB 8x400Gb/s"}, 50e9),
        ({"n_gpus": "8", "n_nodes": "2", "gpus_per_node": "8", "scale_out": "RoCE 8x400Gb/s"}, 4 * 50e9),
        ({"n_gpus": "2", "n_nodes": "2", "gpus_per_node": "8", "scale_out": "EFAv2 32x100Gb/s"}, 4 * 12.5e9),
        ({"n_gpus": "2", "n_nodes": "2", "gpus_per_node": "8", "scale_out": "EFAv2 3.2Tb/s"}, 50e9),
        ({"n_gpus": "2", "n_nodes": "2", "gpus_per_node": "8", "scale_out": "EFA 4x100Gb/s"}, 12.5e9),
        ({"n_gpus": "8", "n_nodes": "2", "gpus_per_node": "8", "scale_out": "RoCE 2x100Gb/s"}, 2 * 12.5e9),
        ({"n_gpus": "8", "n_nodes": "2", "gpus_per_node": "4", "scale_out": "RoCE 8x400Gb/s"}, 8 * 50e9),
        ({"n_gpus": "2", "n_nodes": "2", "gpus_per_node": "8", "scale_out": "100GbE TCP sockets"}, 12.5e9),
    ],
)
def test_a_job_of_fewer_gpus_than_the_node_holds_uses_their_ports(reading, cells, network):
    ((row,), _) = reading(table(cells))
    assert row.network == network


@pytest.mark.parametrize("text", ["", "CX7 RDMA", "IB NDR"])
def test_the_rate_of_a_gpu_goes_first(reading, text):
    ((row,), _) = reading(table({"n_gpus": "16", "n_nodes": "2", "scale_out": text, "scale_out_GBps_per_gpu": "25"}))
    assert (row.nodes, row.network) == (2, 200e9)
    ((row,), _) = reading(table({"n_gpus": "16", "scale_out": "200Gb RDMA", "scale_out_GBps_per_gpu": "25"}))
    assert (row.nodes, row.network) == (2, 200e9)
    alone = {"n_gpus": "16", "scale_up": "", "scale_out": "200Gb RDMA", "scale_out_GBps_per_gpu": "25"}
    ((row,), _) = reading(table(alone))  # nothing but the network joins them: one in a node
    assert (row.nodes, row.network) == (16, 25e9)


@pytest.mark.parametrize(
    ("gpu", "text", "fabric"),
    [
        ("A100-SXM", "EFA 4x100Gb/s", "EFA v1"),
        ("V100", "EFA 100Gb/s per node", "EFA v1"),
        ("H100", "EFA 32x100Gb/s", "EFA"),
        ("B200", "EFA 8x400Gb/s", "EFA"),
    ],
)
def test_efa_has_a_generation(reading, gpu, text, fabric):
    assert reading(table({"n_gpus": "16", "gpu": gpu, "scale_up": "", "scale_out": text}))[0][0].fabric == fabric


@pytest.mark.parametrize(
    ("cells", "nodes"),
    [
        ({"scale_up_domain": "36"}, 2),
        ({"scale_up": "NVLink5, partitions of 36"}, 2),
        ({"scale_up": "NVLink5, 36-GPU partitions"}, 2),
        ({"gpu": "GB200 NVL72 (NVL36 partition)"}, 2),
        ({"scale_up_domain": "4"}, 18),
        ({"algo": "Ring, MNNVL off"}, 18),
        ({}, 1),
    ],
)
def test_a_rack_may_be_cut_into_partitions(reading, cells, nodes):
    rack = {"n_gpus": "72", "n_nodes": "18", "gpus_per_node": "4", "gpu": "GB200 NVL72", "scale_up": "NVLink5"}
    ((row,), _) = reading(table(rack | {"scale_out": "4x400Gb/s"} | cells))
    assert (row.nodes, row.network) == (nodes, 72 // nodes * 50e9 if nodes > 1 else None)


@pytest.mark.parametrize("text", ["", "Infinity Fabric", "Infinity Fabric 7x64GB/s", "xGMI 448 GB/s"])
def test_a_full_mesh_is_told_by_its_gpu(reading, text):
    ((row,), _) = reading(table({"gpu": "MI300X", "scale_up": text}))
    assert (row.scale_up, row.mesh, row.in_switch) == (448e9, 7, False)
    assert reading(table({}))[0][0].mesh == 0


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        ({"collective": "moe_dispatch_fp8"}, (8, False)),
        ({"collective": "moe_combine"}, (8, False)),
        ({"collective": "ep_dispatch", "note": "top-4 groups top-6 experts"}, (6, False)),
        ({"collective": "moe_combine_bf16", "note": "logical bandwidth incl. local-rank traffic; top-8"}, (8, True)),
    ],
)
def test_expert_kernels_are_read_with_what_they_count(reading, cells, said):
    rate = {"size_bytes": "", "time_us": "", "busbw_GBps": "45", "n_gpus": "16", "scale_out": "CX7 IB 400Gb/s"}
    ((row,), _) = reading(table(rate | cells))
    assert (row.operation, row.experts, row.logical) == (EXPERTS, *said)
    assert row.bus_bandwidth == pytest.approx(45e9)
    ((row,), _) = reading(table({"n_gpus": "16", "scale_out": "8x400Gb/s"} | cells))
    assert (row.logical, row.size) == (True, 1e6)  # a size is that of the whole buffer


@pytest.mark.parametrize(("gpu", "rate"), [("SM90", 450e9), ("SM100", 900e9)])
def test_the_name_of_an_architecture_tells_its_nvlink(reading, gpu, rate):
    for cells in ({"scale_up": "", "scale_out": "NVLink only"}, {"scale_up": "NVLink"}, {"scale_up": ""}):
        assert reading(table({"gpu": gpu} | cells))[0][0].scale_up == rate


@pytest.mark.parametrize(
    ("cells", "nodes", "network"),
    [
        ({"n_gpus": "32", "scale_out": "NVLink5"}, 1, None),
        ({"n_gpus": "32", "n_nodes": "8", "scale_out": "NVLink5", "scale_out_GBps_per_gpu": "900"}, 1, None),
        ({"n_gpus": "72", "n_nodes": "18", "gpu": "GB200 NVL72"}, 1, None),
        ({"n_gpus": "64", "n_nodes": "16", "gpu": "GB300", "scale_out": "4x800Gb/s"}, 1, None),
        ({"n_gpus": "36", "gpu": "GB200 NVL36", "scale_out": "4x400Gb/s"}, 1, None),
        ({"n_gpus": "128", "n_nodes": "32", "gpu": "GB300", "scale_out": "4x800Gb/s"}, 2, 64 * 100e9),
        ({"n_gpus": "128", "n_nodes": "32", "gpu": "GB300", "scale_out_GBps_per_gpu": "100"}, 2, 64 * 100e9),
        ({"n_gpus": "144", "gpu": "NVL72", "scale_out": "4x NDR"}, 2, 72 * 50e9),
        ({"n_gpus": "144", "gpu": "NVL72", "scale_out": "NDR per GPU"}, 2, 72 * 50e9),
        ({"n_gpus": "1024", "gpus_per_node": "4", "gpu": "GB200", "scale_out": "4x NDR"}, 16, 64 * 50e9),
        ({"n_gpus": "8", "n_nodes": "2", "gpu": "B200", "scale_out": "4x NDR"}, 2, 4 * 50e9),
    ],
)
def test_an_nvlink_that_spans_servers_is_one_domain(reading, cells, nodes, network):
    ((row,), _) = reading(table({"scale_up": "NVLink5"} | cells))
    assert (row.nodes, row.scale_up, row.network) == (nodes, 900e9, network)


@pytest.mark.parametrize("text", ["PCIe5", "PCIe Gen5"])
def test_an_all_to_all_on_pcie_is_predicted_by_the_network_alone(reading, text):
    ((row,), _) = reading(table({"collective": "alltoall", "scale_up": text, "n_gpus": "16", "scale_out": "8x400Gb"}))
    assert (row.scale_up, row.scale_up_latency, row.network) == (None, catalogue.link("PCIe 5.0 x16").latency, 400e9)


@pytest.mark.parametrize("name", ["all-reduce", "AllReduce", "all reduce", "ALLREDUCE"])
def test_the_name_of_a_collective_is_folded(reading, name):
    assert reading(table({"collective": name}))[0][0].operation == "all-reduce"


def test_the_machine_is_the_publication_and_the_gpu(reading):
    cells = [{"gpu": "H100-SXM"}, {"gpu": "8xH100 (NVLS)"}, {"gpu": "odd one", "group": "b"}]
    assert [row.machine for row in reading(table(*cells))[0]] == ["mine, H100", "mine, H100", "b, odd one"]
    by_source = {row.source: row.machine for row in published_timings()}
    assert (
        by_source["h200_8x_nvlink4"] == by_source["h200_bucketing"] == "stas00/ml-engineering network/README.md, H200"
    )


@pytest.mark.parametrize(
    ("algo", "gpu", "in_switch"),
    [
        ("", "H100", None),
        ("NVLS", "H100", True),
        ("NVLS (official container)", "H100", True),
        ("NVLSTree", "H100", True),
        ("LL ring <= 1 MiB, NVLS above", "H100", None),
        ("NCCL_ALGO=Ring", "H100", False),
        ("LL128 tree", "H100", False),
        ("NVLS off, Ring", "H100", False),
        ("NVLS disabled", "H100", False),
        ("no NVLS", "H100", False),
        ("w/o NVLS", "H100", False),
        ("NCCL_NVLS_ENABLE=0", "H100", False),
        ("", "H100 (SHARP/NVLS)", True),
        ("Ring", "H100", False),
        ("Tree", "H100", False),
        ("Ring (NVLS off)", "H100", False),
    ],
)
def test_whether_switches_add_is_what_the_row_says(reading, algo, gpu, in_switch):
    ((row,), _) = reading(table({"algo": algo, "gpu": gpu}))
    assert row.in_switch is in_switch
    ((row,), _) = reading(table({"algo": algo, "gpu": gpu, "scale_up": "NVLink3"}))
    assert row.in_switch is False  # its switches cannot


@pytest.mark.parametrize(
    ("text", "adds"),
    [
        ("IB SHARP", True),
        ("CollNet", True),
        ("SHARP", True),
        ("NVLS/SHARP", False),
        ("SHARP/NVLS", False),
        ("NVLS", False),
        ("IB SHARP off", False),
        ("", False),
    ],
)
def test_whether_switches_between_nodes_add_is_what_the_row_says(reading, text, adds):
    ((row,), _) = reading(table({"algo": text, "n_gpus": "16", "scale_out": "8x400Gb"}))
    assert row.network_adds is adds
    assert reading(table({"algo": text}))[0][0].network_adds is False


@pytest.mark.parametrize(
    ("cells", "seconds"),
    [
        ({"time_us": "50"}, 50e-6),
        ({"time_us": "", "algbw_GBps": "20"}, 50e-6),
        ({"time_us": "", "busbw_GBps": "35"}, 50e-6),
        ({"time_us": "50", "algbw_GBps": "20", "busbw_GBps": "35"}, 50e-6),
        ({"time_us": "50", "algbw_GBps": "20.1", "busbw_GBps": "34.9"}, 50e-6),
        ({"size_bytes": "10", "algbw_GBps": "0.00", "busbw_GBps": "0.00"}, 50e-6),
        ({"algbw_GBps": "19", "busbw_GBps": "37"}, 50e-6),
        ({"time_us": "N/A", "algbw_GBps": "20"}, 50e-6),
        ({"time_us": "", "algbw_GBps": "5", "busbw_GBps": "9"}, 1.75e-3 / 9),
        ({"size_bytes": "", "time_us": "", "algbw_GBps": "20"}, 1 / 20e9),
        ({"size_bytes": "", "time_us": "", "busbw_GBps": "35"}, 2 * 7 / 8 / 35e9),
        ({"size_bytes": "", "time_us": "", "busbw_GBps": "35", "collective": "p2p_write"}, 1 / 35e9),
    ],
)
def test_seconds_follow_from_any_filled_column(reading, cells, seconds):
    ((row,), _) = reading(table(cells))
    assert row.seconds == pytest.approx(seconds, **close)
    assert row.size == float(cells.get("size_bytes", "1e6") or "inf")


def test_a_plateau_has_the_bus_bandwidth_that_was_published(reading):
    ((row,), _) = reading(table({"size_bytes": "", "time_us": "", "busbw_GBps": "370", "collective": "all_gather"}))
    assert np.isinf(row.size)
    assert row.bus_bandwidth == pytest.approx(370e9, **close)


@pytest.mark.parametrize(
    ("cells", "reason"),
    [
        ({"collective": "gather"}, "no law for 'gather'; there are: all_reduce, all_gather, reduce_scatter, "),
        ({"quality": "D"}, "quality must be A, B or C, got 'D'"),
        ({"n_gpus": "1"}, "one rank alone sends nothing"),
        ({"scale_up": "NVLink only"}, "no rate for the link 'NVLink only'"),
        ({"scale_up": ""}, "no rate for the link ''"),
        (
            {"n_gpus": "16", "scale_out": "Omni-Path"},
            "no rate for the network 'Omni-Path': say a rate (8x400Gb/s), or one",
        ),
        (
            {"n_gpus": "16", "scale_out": "Infiniban NDT"},
            "no rate for the network 'Infiniban NDT': did you mean 'InfiniBand NDR' or 'InfiniBand XDR'?",
        ),
        ({"scale_up": "NVLnk"}, "no rate for the link 'NVLnk': did you mean 'NVLink"),
        ({"collective": "alltoall", "scale_up": "PCIe5"}, "PCIe is a tree of switches"),
        ({"n_nodes": "3", "scale_out": "8x400Gb"}, "n_nodes x gpus_per_node must be n_gpus, got 3 x ? and 8"),
        (
            {"n_gpus": "16", "n_nodes": "2", "gpus_per_node": "4"},
            "n_nodes x gpus_per_node must be n_gpus, got 2 x 4 and",
        ),
        ({"n_gpus": "12", "scale_out": "8x400Gb"}, "n_nodes is missing, and 8 GPUs a node do not make 12"),
        (
            {"n_gpus": "4", "scale_up": "", "scale_out": "8x400Gb"},
            "n_nodes is missing, and 8 GPUs a node do not make 4",
        ),
        ({"n_gpus": "146", "gpu": "GB200 NVL72", "scale_out": "8x400Gb"}, "146 GPUs do not spread evenly over NVLink"),
        ({"n_gpus": "144", "gpu": "GB200 NVL72"}, "no rate for the network ''"),
        ({"algbw_GBps": "35"}, "algbw: 1e+06 B in 50 us are 20.00 GB/s, not 35"),
        ({"algbw_GBps": "18.5"}, "algbw: 1e+06 B in 50 us are 20.00 GB/s, not 18.5"),
        ({"busbw_GBps": "20"}, "busbw: 1e+06 B in 50 us are 35.00 GB/s, not 20"),
        ({"time_us": "", "algbw_GBps": "20", "busbw_GBps": "17.5"}, "algbw: 1e+06 B in 100 us are 10.00 GB/s, not 20"),
        ({"time_us": ""}, "one of time_us (with size_bytes), algbw_GBps and busbw_GBps must be there"),
        ({"size_bytes": ""}, "one of time_us (with size_bytes), algbw_GBps and busbw_GBps must be there"),
        ({"scale_up": "NVLink9"}, "no rate for the link 'NVLink9'"),
    ],
)
def test_a_row_without_a_law_or_a_wire_is_skipped_by_line_and_id(reading, cells, reason):
    rows, (line,) = reading(table({"row_id": "R6"}, cells))
    assert [row.row for row in rows] == ["R6"]
    assert line.startswith(f"line 3, row R7: skipped, {reason}")


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ({"time_us": "5O"}, "time_us must be a number, got '5O'"),
        ({"time_us": "-50"}, "time_us must be positive and finite, got -50"),
        ({"time_us": "0"}, "time_us must be positive and finite, got 0"),
        ({"time_us": "inf"}, "time_us must be positive and finite, got inf"),
        ({"size_bytes": "nan"}, "size_bytes must be positive and finite, got nan"),
        ({"size_bytes": "1 GB"}, "size_bytes must be a number, got '1 GB'"),
        ({"n_gpus": ""}, "n_gpus is missing"),
        ({"n_gpus": "1e17"}, "n_gpus must be at most 10,000,000, got 1e+17"),
        ({"n_gpus": "nan"}, "n_gpus must be a whole number of at least 1, got nan"),
        ({"n_gpus": "8.5"}, "n_gpus must be a whole number of at least 1, got 8.5"),
        ({"size_bytes": "0"}, "size_bytes must be positive and finite, got 0"),
        ({"time_us": "~50"}, "time_us must be a number, got '~50'"),
        ({"busbw_GBps": "35,0", "quality": "A"}, "more cells than columns"),
    ],
)
def test_a_row_that_cannot_be_read_is_named_by_line_and_id_and_the_others_are_read(reading, cells, message):
    rows, (line,) = reading(table({"row_id": "R6"}, cells, {"row_id": "R8"}))
    assert [row.row for row in rows] == ["R6", "R8"]
    assert line.startswith(f"line 3, row R7: not read, {message}")


@pytest.mark.parametrize("missing", ["group", "collective", "n_gpus"])
def test_a_missing_column_is_named(reading, missing):
    message = refusal(reading, table({}).replace(missing, "other"))
    assert message.startswith(f"line 1: columns are missing: {missing}; found: row_id, ")
    assert "other" in message


def test_a_column_that_is_there_twice_is_refused(reading):
    assert refusal(reading, table({}).replace("n_nodes", "group")) == "line 1: column group is there twice"


def test_a_row_that_ends_before_its_group_is_read_without_one(reading):
    ((row,), problems) = reading("collective,n_gpus,busbw_GBps,scale_up,group\nall_gather,8,370,NVLink4\n")
    assert (row.source, row.machine, problems) == ("unnamed", ", ", [])


@pytest.mark.parametrize("kind", ["CSV", "log"])
def test_a_file_of_too_many_rows_is_refused(reading, kind, monkeypatch):
    monkeypatch.setattr(nccl_tests, "MOST_ROWS", 20)
    monkeypatch.setattr(timing_tables, "MOST_ROWS", 20)
    lines = table({}).splitlines() if kind == "CSV" else ONE_NODE.splitlines()[:16]
    before, row = "".join(line + "\n" for line in lines), lines[-1] + "\n"
    assert len(reading(before + row * 19)[0]) == 20
    assert refusal(reading, before + row * 25) == f"line {len(lines) + 20}: more than 20 rows: split the file"


class Watched:
    """A pattern that remembers the longest line that it was asked about."""

    def __init__(self, pattern):
        self.pattern, self.longest = pattern, 0

    def search(self, line):
        self.longest = max(self.longest, len(line))
        return self.pattern.search(line)


def test_a_line_too_long_for_a_row_is_named_and_not_searched(reading, monkeypatch):
    """The pattern of a rank takes the square of a line's length."""
    noise = "Rank 1 on " * 9_000
    watched = Watched(nccl_tests._RANK)
    monkeypatch.setattr(nccl_tests, "_RANK", watched)
    rows, problems = reading(ONE_NODE + noise + "\n" + noise + ONE_NODE.splitlines()[15])
    assert rows == reading(ONE_NODE)[0]
    assert problems == ["line 23: not read, it has 90,116 characters"]
    assert 0 < watched.longest < 2_000


def test_what_is_for_logs_is_refused_for_a_csv(reading):
    assert refusal(reading, table({}), scale_up="NVLink 4").startswith("--scale-up is for logs; a CSV says this in its")


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace(",", ", "),
        lambda text: text.replace(",", ";"),
        lambda text: text.replace(",", "\t"),
        lambda text: text.upper().replace("NVLINK", "NVLink").replace("MINE", "mine"),
        lambda text: "# my timings, of 2025\n\n" + text,
        lambda text: text.replace("\n", "\n# half way, in words\n\n,,,\n"),
        lambda text: text.replace("\n", ",\n") + ",",
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text.rstrip(","),
    ],
)
def test_a_csv_may_look_otherwise(reading, change):
    text = table({"gpu": "H100"}, {"row_id": "R8", "gpu": "H100"})
    (sound, _), (rows, problems) = reading(text), reading(change(text))
    assert rows == sound
    assert problems == []


def test_columns_beyond_the_needed_ones_may_be_absent_and_in_any_order(reading):
    rows, _ = reading("n_gpus,busbw_GBps,collective,group,scale_up\n8,370,all_gather,lab,NVLink4\n")
    assert rows == [
        Timing(
            "lab",
            "line 2",
            "all-gather",
            np.inf,
            pytest.approx(7 / 8 / 370e9),
            8,
            scale_up=450e9,
            scale_up_latency=catalogue.link("NVLink 4").latency,
            nvlink="NVLink 4",
            in_switch=None,
            switch=rows[0].switch,
            machine="lab, ",
        )
    ]


def test_a_csv_from_a_spreadsheet_with_a_byte_order_mark_is_read(reading):
    text = "\ufeff" + table({}).replace("row_id,group", "group,row_id").replace("R7,mine", "mine,R7")
    assert reading(text)[0] == reading(text.removeprefix("\ufeff"))[0]


def test_a_csv_of_headings_alone_is_refused(reading):
    assert refusal(reading, table()) == "no timing that can be used\nthere are no rows below the heading"
    message = refusal(reading, table({"n_gpus": "1"}))
    assert message == "no timing that can be used\nline 2, row R7: skipped, one rank alone sends nothing"


def test_published_timings_are_a_tuple_that_is_made_once():
    assert published_timings() is published_timings()
    assert nccl_tests.published_timings()[0].bus_bandwidth == pytest.approx(1.31e9, rel=0.005)
