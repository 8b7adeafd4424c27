"""Text that a reader hands in: what is no text in UTF-8 is refused for what it is, with its line where it has one."""

import bz2
import gzip
import io
import lzma
import zipfile
from importlib.resources import files
from pathlib import Path
from types import SimpleNamespace

import pytest

from clusterlab.evidence import text
from clusterlab.evidence.text import read_text

TABLE = "row_id,group\nR1,Zürich\n"


def zipped(data: bytes) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("xl/workbook.xml", data)
    return stream.getvalue()


@pytest.mark.parametrize("data", [TABLE.encode(), TABLE.encode("utf-8-sig"), TABLE.replace("\n", "\r\n").encode()])
def test_text_in_utf_8_is_read_without_its_byte_order_mark(data, tmp_path):
    (tmp_path / "a.csv").write_bytes(data)
    assert read_text(tmp_path / "a.csv").splitlines() == read_text(str(tmp_path / "a.csv")).splitlines()
    assert read_text(tmp_path / "a.csv").splitlines() == TABLE.splitlines()


def test_a_file_of_the_package_is_read():
    assert read_text(files("clusterlab.evidence") / "data" / "collectives.csv").startswith("row_id,group,")


def test_standard_input_is_a_dash(monkeypatch):
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(TABLE.encode())))
    assert read_text("-") == TABLE
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(b"a\nb\xe9\n")))
    with pytest.raises(ValueError, match=r"^standard input, line 2: not UTF-8 \(byte 0xE9\)"):
        read_text("-")
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(ValueError, match="standard input is closed"):
        read_text("-")


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (TABLE.encode("latin-1"), r", line 2: not UTF-8 \(byte 0xFC\); if it is Latin-1, convert it with iconv"),
        (TABLE.replace("\n", "\r").encode("latin-1"), ", line 2: not UTF-8"),
        (TABLE.replace("\n", "\r\n").encode("latin-1"), ", line 2: not UTF-8"),
        (b"\xe9" + TABLE.encode(), ", line 1: not UTF-8"),
        (TABLE.encode("utf-16"), " is text in UTF-16: save it as UTF-8"),
        (TABLE.encode("utf-16-be"), ", line 1: a NUL byte: the file is binary, or text in UTF-16"),
        (TABLE.encode() + b"R2,a\0b\n", ", line 3: a NUL byte"),
        (gzip.compress(TABLE.encode(), mtime=0), r" is compressed \(gzip\): unpack it first"),
        (bz2.compress(TABLE.encode()), r" is compressed \(bzip2\)"),
        (lzma.compress(TABLE.encode()), r" is compressed \(xz\)"),
        (zipped(TABLE.encode()), r" is a ZIP archive, as spreadsheets \(.xlsx\) are"),
        (b"a\nb\n" + b"c" * 100_001, ", line 3: 100,001 bytes; a line has at most 100,000"),
        (b"a\r" + b"c" * 200_000 + b"\rb", ", line 2: 200,000 bytes"),
    ],
)
@pytest.mark.parametrize("errors", ["strict", "replace"])
def test_what_is_no_text_is_refused_for_what_it_is(data, why, errors, tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(data)
    if errors == "replace" and "not UTF-8" in why:
        assert "\N{REPLACEMENT CHARACTER}" in read_text(path, errors=errors)
        return
    with pytest.raises(ValueError, match=f"^{path}{why}"):
        read_text(path, errors=errors)


def test_a_file_that_is_too_large_is_refused_without_being_read_to_its_end(tmp_path, monkeypatch):
    monkeypatch.setattr(text, "MOST_BYTES", 1_000_000)
    path = tmp_path / "a.csv"
    path.write_bytes(b"a\n" * 500_000)
    assert len(read_text(path)) == 1_000_000
    path.write_bytes(b"a\n" * 500_001)
    with pytest.raises(ValueError, match=f"^{path} is larger than 1 MB: split it"):
        read_text(path)
    if Path("/dev/zero").exists():
        with pytest.raises(ValueError, match=r"^/dev/zero is larger than 1 MB"):
            read_text("/dev/zero")


def test_a_file_that_is_not_there_is_an_os_error(tmp_path):
    with pytest.raises(OSError, match="absent"):
        read_text(tmp_path / "absent.csv")
    with pytest.raises(OSError, match="directory"):
        read_text(tmp_path)
