"""nccl-tests: its text output, read as timed collectives, and a reader for that and for tables.

No row is dropped in silence: :func:`read_timings` returns a line for each row that it could not read or use, with the
reason.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from itertools import pairwise
from pathlib import PurePath

import numpy as np

from .. import catalogue
from ..own import match_accelerator
from ..units import GB, us
from .text import TextFile, name_of, read_text
from .timing_tables import read_table
from .timings import AGREE, MOST_ROWS, TESTS, Timing, bus_factor_of, is_data, operation_of, whole_count
from .wires import BETWEEN_NODES, Wires, fabric_of, link_wires, nvlink_domains, nvlink_gpu, reference_network

# --- Timed collectives -----------------------------------------------------------------------------------------------


@cache
def published_timings() -> tuple[Timing, ...]:
    """Published timings of collectives: ``data/collectives.csv``, whose rows carry their sources.

    Examples
    --------
    >>> row = published_timings()[0]
    >>> row.source, row.operation, row.ranks, row.size, row.seconds
    ('a100_8x_nvlink3', 'all-reduce', 8, 32768.0, 4.383e-05)
    """
    return tuple(read_table((files("clusterlab.evidence") / "data" / "collectives.csv").read_text(encoding="utf-8"))[0])


def read_timings(
    path: TextFile,
    *,
    ranks: int | None = None,
    nodes: int | None = None,
    scale_up: str | None = None,
    network: str | None = None,
    collective: str | None = None,
    assume: bool = False,
) -> tuple[list[Timing], list[str]]:
    """Read timings from a CSV in the form of ``data/collectives.csv``, or from the text output of nccl-tests.

    Parameters
    ----------
    path
        The file; ``"-"`` is standard input. It is a log if it holds a heading or a row of nccl-tests, and otherwise a
        CSV if its first line has commas, semicolons or tabs. Of a log the out-of-place columns are read.
    ranks, nodes
        Number of GPUs and of hosts, for a log that does not say.
    scale_up, network
        Names of the links inside a node and between nodes, for a log. The network has one port for each GPU.
    collective
        Its name, for a log that does not say.
    assume
        Whether links that nobody says are those of reference servers of the GPU that a log names; a line says which.

    Returns
    -------
    tuple
        The timings, and a line for every row that was not read, was skipped, or has something wrong with it, and for
        what was assumed.

    Raises
    ------
    OSError
        The file cannot be read.
    ValueError
        It is not text, is empty, lacks a column, has more than 20,000 rows or no timing that can be used, or an
        argument has no such value. The message names the file.
    """
    text = read_text(path, errors="replace")  # a log may hold a few bytes that are not UTF-8
    stem = "stdin" if str(path) == "-" else PurePath(str(path)).stem
    try:
        if is_log(text):
            told = replace(told_of(ranks, nodes, scale_up, network, collective), assume=assume)
            rows, problems = read_log(text, stem, told)
        else:
            given = {"ranks": ranks, "nodes": nodes, "scale_up": scale_up, "network": network, "collective": collective}
            rows, problems = read_table(text, **given)
    except (csv.Error, ValueError) as error:
        raise ValueError(f"{name_of(path)}: {error}") from None
    if not rows:
        why = "\n".join(problems) or "there are no rows below the heading"
        raise ValueError(f"{name_of(path)}: no timing that can be used\n{why}")
    return rows, problems


def is_log(text: str) -> bool:
    """Whether a text is the output of nccl-tests, rather than a CSV."""
    if not text.strip():
        raise ValueError("the file is empty")
    first = next(filter(is_data, text.splitlines()), "")
    return bool(_COLUMNS.search(text) or _ROW.search(text) or not re.search(r"[,;\t]", first))


def looks_like_log(text: str) -> bool:
    """Whether a text is surely the output of nccl-tests: it has a heading or a row of it."""
    return bool(_COLUMNS.search(text) or _ROW.search(text))


# --- What the caller says --------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Told:
    """What the caller says of a log."""

    ranks: int | None
    nodes: int | None
    scale_up: catalogue.Link | None
    network: catalogue.Link | None
    collective: str | None
    assume: bool = False


def told_of(
    ranks: int | None, nodes: int | None, scale_up: str | None, network: str | None, collective: str | None
) -> Told:
    """What the caller says of a log, checked."""
    ranks = None if ranks is None else whole_count(ranks=ranks)
    nodes = None if nodes is None else whole_count(nodes=nodes)
    inside, across = (catalogue.link(name) if name else None for name in (scale_up, network))
    if inside and BETWEEN_NODES.match(inside.name):
        raise ValueError(f"--scale-up must be a link inside a node, such as 'NVLink 4', got {inside.name!r}")
    if across and not BETWEEN_NODES.search(across.name):
        raise ValueError(f"--network must be a link between nodes, such as 'InfiniBand NDR', got {across.name!r}")
    if collective and not operation_of(collective):
        raise ValueError(f"--collective must be one of {TESTS}, got {collective!r}; others have no law here")
    return Told(ranks=ranks, nodes=nodes, scale_up=inside, network=across, collective=collective)


# --- Tables of a log -------------------------------------------------------------------------------------------------

_TYPES = r"(?:u?int\d+|char|half|float|double|bfloat16|fp?8_?e\dm\d)"

# Rows and headings are found anywhere in a line: srun, mpirun and log collectors put labels of their own before them.
_ROW = re.compile(rf"(?<![\w.])\d+\s+\d+\s+{_TYPES}\s.*")
_LIKE_A_ROW = re.compile(rf"\d\s+{_TYPES}\s|^\s*\d+[\s\d.]*$")
_COLUMNS = re.compile(r"\bsize\s+count\s+type\b.*")
_RANK = re.compile(r"\bRank\s+(\d+)\s.*\bon\s+(\S+)\s+device\s+\d+\s+\[\S+\]\s+(.+)")
_LABEL = re.compile(r"\[\d+,\d+\]<std(?:out|err)>:")  # mpirun --tag-output puts them anywhere in a line
_START = re.compile(r"Collective test starting: (\w+?)_perf|\bnThread \d+ nGpus \d|\bUsing devices\b")
_SEVERAL = re.compile(r"\bnThread (?!1 nGpus 1\b)\d+ nGpus \d+")
_END = re.compile(r"Out of bounds values|Avg bus bandwidth|Collective test concluded")
_USUAL = ("size", "count", "type", "redop", "root", "time", "algbw", "busbw")
_HALF = 0.005 * GB  # bandwidths are printed with two decimals
_LONGEST = 2000  # characters of a line: a row has some 150, and the labels before it


@dataclass
class _Line:
    """A row as nccl-tests printed it, out of place: bytes, seconds, bytes/s."""

    where: str
    size: float
    seconds: float
    algbw: float
    busbw: float
    reduces: bool


@dataclass
class _Block:
    """One table, and what stands before it."""

    collective: str | None = None
    hosts: list[str] = field(default_factory=list)
    listed: set[int] = field(default_factory=set)  # ranks
    gpu: str = ""
    columns: tuple[str, ...] = ()
    rows: list[_Line] = field(default_factory=list)
    ended: bool = False
    host: bool = False  # one process for several GPUs

    @property
    def timed_on_host(self) -> bool:
        """Whether its times are those of the CPUs."""
        return "cputime" in self.columns


def read_log(text: str, stem: str, told: Told) -> tuple[list[Timing], list[str]]:
    """Rows of every table that nccl-tests printed, with what its heading says of ranks, hosts and GPUs."""
    blocks, problems = _blocks(text)
    found = []
    for block in blocks:
        try:
            rows, worse = _block_timings(block, stem, told)
            problems += worse
        except ValueError as error:
            rows = []
            problems.append(f"{block.rows[0].where}: not read, nor the rest of its table: {error}")
        if rows:
            found.append(rows)
    if len(found) > 1:
        found = _named_apart(found, stem)
    problems.sort(key=lambda line: int(re.findall(r"\d+", line)[0]))
    return [row for rows in found for row in rows], problems


def _named_apart(tables: list[list[Timing]], stem: str) -> list[list[Timing]]:
    """The tables of one file as sources of their own, named by their operation, and numbered where that is the same."""
    names: Counter[str] = Counter()
    apart = []
    for rows in tables:
        name = f"{stem} {rows[0].operation}"
        names[name] += 1
        name += f" {names[name]}" if names[name] > 1 else ""
        apart.append([replace(row, source=name) for row in rows])
    return apart


def _blocks(text: str) -> tuple[list[_Block], list[str]]:
    """The tables of a log. Of the lines that are no rows, only those in a table that look like one are named."""
    log = _Log()
    for number, line in enumerate(text.splitlines(), 1):
        log.read(line, f"line {number}")
    blocks = [*log.blocks, log.block]
    for before, after in pairwise(blocks):
        if not after.hosts:
            after.hosts, after.listed, after.gpu = before.hosts, before.listed, before.gpu
    return [block for block in blocks if block.rows], log.problems


@dataclass
class _Log:
    """A log that is read line by line: the tables so far, the one that is open, and what is wrong with some lines."""

    block: _Block = field(default_factory=_Block)
    blocks: list[_Block] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    count: int = 0  # of rows

    def read(self, line: str, where: str) -> None:
        """Take in the next line: of a heading, a row, the end of a table, or none of these."""
        line = _LABEL.sub("", line)
        if len(line) > _LONGEST:
            if _ROW.search(line):
                self.problems.append(f"{where}: not read, it has {len(line):,} characters")
            return
        row, columns, rank, start = (form.search(line) for form in (_ROW, _COLUMNS, _RANK, _START))
        self._begin(heading=bool(rank or start), columns=bool(columns), row=bool(row))
        block = self.block
        if rank:
            block.listed.add(int(rank[1]))
            block.hosts.append(rank[2])
            block.gpu = rank[3].strip()
        elif start:
            block.collective = start[1] or block.collective
            block.host = bool(_SEVERAL.search(line)) or block.host
        elif columns:
            block.columns = tuple(columns[0].split())
            if block.timed_on_host:
                self.problems.append(f"{where}: not read, its table has CPU times (-C), not those of the GPUs")
        elif _END.search(line):
            block.ended = True
        elif not block.timed_on_host:
            self._read_row(row, line, where)

    def _begin(self, *, heading: bool, columns: bool, row: bool) -> None:
        """Open the next table where a line is of another than the one that is open."""
        block = self.block
        begins = (block.rows or block.columns) if heading else block.rows if columns else row and block.ended
        if begins:
            self.blocks.append(block)
            # What a test says of its hosts holds for the next one, until that says something else.
            self.block = _Block(columns=block.columns if row else ())

    def _read_row(self, row: re.Match[str] | None, line: str, where: str) -> None:
        """Add a row to the table; name a line within it that only looks like one."""
        block = self.block
        if row:
            _add_row(block, row[0].split(), where, self.problems)
            self.count += 1
            if self.count > MOST_ROWS:
                raise ValueError(f"{where}: more than {MOST_ROWS:,} rows: split the file")
        elif (block.rows or block.columns) and not block.ended and _LIKE_A_ROW.search(line):
            self.problems.append(f"{where}: not read, not a row of nccl-tests: {line.strip()!r}")


def _add_row(block: _Block, words: list[str], where: str, problems: list[str]) -> None:
    """Add a row to its table, or say what is wrong with it."""
    columns = list(block.columns or _USUAL)
    if "redop" in columns and not "".join(words[columns.index("redop") :][:1]).isalpha():
        columns.remove("redop")  # until 2022 an all-to-all left that cell blank
    try:
        at = columns.index("time")
        size, time, algbw, busbw = (float(words[i]) for i in (0, at, at + 1, at + 2))
    except (ValueError, IndexError):
        problems.append(f"{where}: not read, not a row of nccl-tests: {' '.join(words)!r}")
        return
    if size == 0 or time == 0:
        problems.append(f"{where}: skipped, nothing was sent or timed")
        return
    says = size / (time * 1e3)
    if not (0 < time < np.inf and abs(says - algbw) <= _HALF / GB + 0.001 + AGREE * algbw):
        problems.append(f"{where}: not read, {size:g} B in {time:g} us are {says:.2f} GB/s, and it says {algbw:g}")
        return
    if columns[at + 3 : at + 4] == ["#wrong"] and re.fullmatch(r"[1-9]\d*", "".join(words[at + 3 : at + 4])):
        problems.append(
            f"{where}: not used, {words[at + 3]} of its results are wrong (#wrong): what moved is no collective"
        )
        return
    reduces = "redop" in columns and words[columns.index("redop")] != "none"
    block.rows.append(
        _Line(where=where, size=size, seconds=time * us, algbw=algbw * GB, busbw=busbw * GB, reduces=reduces)
    )


# --- What a table says of its collective, ranks and wires ------------------------------------------------------------


def _block_timings(block: _Block, stem: str, told: Told) -> tuple[list[Timing], list[str]]:
    """The timings of one table, and the rows whose two bandwidths do not fit the collective and the ranks."""
    operation, n = _what(block.rows, _block_operation(block, told), _ranks_listed(block, told))
    nodes, wires, problems = _block_wires(block, told, n)
    factor, rows = bus_factor_of(operation, n), []
    for line in block.rows:
        if abs(line.busbw - factor * line.algbw) > 1.01 * _HALF * (1 + factor) + 0.002 * line.busbw:
            is_, be = line.busbw / max(line.algbw, _HALF), f"{factor:.3f} for {operation} on {n} ranks"
            problems.append(f"{line.where}: not read, busbw / algbw is {is_:.3f}, not {be}; say --collective, --ranks")
            continue
        timing = Timing(
            source=stem,
            row=line.where,
            operation=operation,
            size=line.size,
            seconds=line.seconds,
            ranks=n,
            nodes=nodes,
            in_switch=None if wires.switch else False,
            host=block.host,
            machine=stem,
            **vars(wires),
        )
        rows.append(timing)
    return rows, problems


def _ranks_listed(block: _Block, told: Told) -> int | None:
    """Ranks that the heading lists, or the caller says: a list from which somebody cut lines does not say how many."""
    if told.ranks or not block.listed:
        return told.ranks
    most = max(block.listed) + 1
    if len(block.listed) == most:
        return most
    raise ValueError(
        f"its list of devices has {len(block.listed)} lines, and the last is of rank {most - 1}: lines were cut; "
        f"say --ranks and --nodes (were there {most} ranks?)"
    )


def _block_operation(block: _Block, told: Told) -> str | None:
    """The operation that the heading of a table or the caller names."""
    if block.collective and told.collective and operation_of(told.collective) != operation_of(block.collective):
        raise ValueError(f"the heading says {block.collective}, and --collective says {told.collective}")
    name = block.collective or told.collective
    if name and not operation_of(name):
        raise ValueError(f"no law for {name!r}; there are: {TESTS}")
    return operation_of(name) if name else None


def _block_wires(block: _Block, told: Told, n: int) -> tuple[int, Wires, list[str]]:
    """Number of nodes of a table, the wires inside and between them, and a line for those that were assumed."""
    hosts = len(set(block.hosts))
    cut = bool(block.listed) and len(block.listed) < n  # then hosts are missing in its list, too
    if cut and not told.nodes:
        raise ValueError(f"its list of devices has {len(block.listed)} lines of {n}: say --nodes")
    nodes = told.nodes or nvlink_domains(n, block.gpu) or hosts or 1
    if n % nodes:
        raise ValueError(f"--nodes must divide --ranks, got {nodes} and {n}")
    if (
        told.nodes and hosts and told.nodes > hosts and not cut
    ):  # an NVLink domain may be several hosts, a host no several nodes
        raise ValueError(f"the heading names {hosts} host{'s' * (hosts > 1)}, and --nodes says {told.nodes}")
    part, chip = nvlink_gpu(block.gpu), match_accelerator(block.gpu) if told.assume else None
    inside, network, assumed = told.scale_up, told.network, []
    if inside is None and part and part.scale_up_link:
        inside = catalogue.link(part.scale_up_link)
    elif inside is None and chip and chip.scale_up_link and n > nodes:
        inside = catalogue.link(chip.scale_up_link)
        assumed.append(f"{inside.name} inside a node (--scale-up says another)")
    if network is None and nodes > 1 and chip and (network := reference_network(chip)):
        assumed.append(f"{network.name} between nodes, a port for each GPU (--network says another)")
    wires = link_wires(inside) if inside else Wires()
    said = [f"{block.rows[0].where}: assumed, as in reference servers of {chip.name}: {one}" for one in assumed if chip]
    if nodes == 1:
        return 1, wires, said
    if network is None:  # the busiest wire is not known: a bandwidth can be fitted, a share of it cannot
        return 1, Wires(), []
    return nodes, wires.across(network.bandwidth * (n // nodes), fabric=fabric_of(network.name)), said


def _what(rows: list[_Line], operation: str | None, ranks: int | None) -> tuple[str, int]:
    """Operation and ranks, told from the bus factor of the fastest row where the heading does not say."""
    if ranks == 1:
        raise ValueError("one rank alone sends nothing")
    if operation is None or ranks is None:
        best = max(rows, key=lambda row: row.busbw)
        if not best.algbw:
            raise ValueError("no row is long enough to have a bandwidth: say --collective and --ranks")
        low = (best.busbw - _HALF) / (best.algbw + _HALF)
        high = (best.busbw + _HALF) / (best.algbw - _HALF)
        operation = operation or _operation_between(low, high, ranks, best.reduces)
        ranks = ranks or _ranks_between(operation, low, high)
    return operation, ranks


def _operation_between(low: float, high: float, ranks: int | None, reduces: bool) -> str:
    """The operation whose bus factor lies between the two."""
    if high - low > 0.1 or (ranks is None and low <= 1 <= high):
        raise ValueError("busbw / algbw leaves the collective open: say --collective and --ranks")
    if low > 1 or (ranks == 2 and reduces and high > 1):
        return "all-reduce"
    if high < 1:
        return "reduce-scatter" if reduces else "all-gather"
    return "broadcast"


def _ranks_between(operation: str, low: float, high: float) -> int:
    """The only number of ranks whose bus factor lies between the two."""
    if operation not in ("broadcast", "send-receive"):
        top = 2 if operation == "all-reduce" else 1
        least, most = (1 / (1 - factor / top) if factor < top else np.inf for factor in (low, high))
        if np.floor(most) == np.ceil(least):
            return int(np.ceil(least))
    raise ValueError("the number of ranks cannot be told from the file: say --ranks")
