"""Text that a reader hands in: files and standard input, read with a limit, and refused for what they are."""

from __future__ import annotations

import re
import sys
from importlib.resources.abc import Traversable
from pathlib import Path

TextFile = str | Path | Traversable  # "-" is standard input

MOST_BYTES = 64_000_000  # a log of nccl-tests has some kilobytes, with all that NCCL can say some megabytes
UNUSABLE = 2  # exit status of a command that was called wrongly (argparse's own), or whose input is refused
LONGEST_LINE = 100_000  # below the 131,072 characters of a cell that Python's csv reads
_ARCHIVES = {
    b"\x1f\x8b": "is compressed (gzip): unpack it first, with gunzip",
    b"BZh": "is compressed (bzip2): unpack it first, with bunzip2",
    b"\xfd7zXZ": "is compressed (xz): unpack it first, with unxz",
    b"\x28\xb5\x2f\xfd": "is compressed (Zstandard): unpack it first, with unzstd",
    b"PK\x03\x04": "is a ZIP archive, as spreadsheets (.xlsx) are: unpack it, or export the sheet as CSV",
}
_UTF_16 = "is text in UTF-16: save it as UTF-8, or convert it with iconv -f UTF-16 -t UTF-8"
_LINE_END = re.compile(rb"\r\n|\r|\n")


def name_of(path: TextFile) -> str:
    """What to call a file in a message: ``-`` is standard input."""
    return "standard input" if str(path) == "-" else str(path)


def read_text(path: TextFile, *, errors: str = "strict") -> str:
    """Read a text file in UTF-8, or standard input, without its byte order mark.

    Parameters
    ----------
    path
        The file; ``"-"`` is standard input.
    errors
        Whether bytes that are not UTF-8 are refused (``"strict"``), or replaced by U+FFFD (``"replace"``): the log of a
        program may hold a few.

    Returns
    -------
    str

    Raises
    ------
    OSError
        The file cannot be read.
    ValueError
        It is compressed, binary, in UTF-16 or not in UTF-8, has more than ``MOST_BYTES`` bytes, or a line of more than
        ``LONGEST_LINE``. The message names the file and, where there is one, the line.

    Examples
    --------
    >>> from importlib.resources import files
    >>> read_text(files("clusterlab.evidence") / "data" / "collectives.csv").partition(",")[0]
    'row_id'
    """
    name = name_of(path)
    data = _bytes(path, MOST_BYTES + 1)
    for start, why in _ARCHIVES.items():
        if data.startswith(start):
            raise ValueError(f"{name} {why}")
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise ValueError(f"{name} {_UTF_16}")
    if len(data) > MOST_BYTES:
        raise ValueError(f"{name} is larger than {MOST_BYTES / 1e6:g} MB: split it, or leave out what was not measured")
    if (at := data.find(b"\0")) >= 0:
        raise ValueError(f"{name}, line {_line(data, at)}: a NUL byte: the file is binary, or text in UTF-16")
    data = data.removeprefix(b"\xef\xbb\xbf")
    for number, line in enumerate(_LINE_END.split(data), 1):
        if len(line) > LONGEST_LINE:
            raise ValueError(f"{name}, line {number}: {len(line):,} bytes; a line has at most {LONGEST_LINE:,}")
    try:
        return data.decode("utf-8", errors)
    except UnicodeDecodeError as error:
        where = f"{name}, line {_line(data, error.start)}: not UTF-8 (byte 0x{data[error.start]:02X})"
        raise ValueError(f"{where}; if it is Latin-1, convert it with iconv -f WINDOWS-1252 -t UTF-8") from None


def _bytes(path: TextFile, most: int) -> bytes:
    if str(path) == "-":
        if sys.stdin is None:
            raise ValueError("standard input is closed")
        return sys.stdin.buffer.read(most)
    with (Path(path) if isinstance(path, str) else path).open("rb") as stream:
        return stream.read(most)


def _line(data: bytes, at: int) -> int:
    """The number of the line that holds a byte."""
    return len(_LINE_END.split(data[:at]))
