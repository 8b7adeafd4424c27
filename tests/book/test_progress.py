"""What students' browsers saved: one table for the teacher, and what doesn't hold together is refused by its name."""

from datetime import UTC, datetime

import pytest
from course import progress
from course.__main__ import main
from course.progress import RefusedError, checksum

NOW = datetime(2026, 11, 26, tzinfo=UTC)
KNOWN = progress.book()
ASKED = [
    asked for asked, check in KNOWN.items() if check.page == "roofline" and check.mistakes > 1 and not check.choices
]
CHOSEN = next(question for question, check in KNOWN.items() if check.choices)
LAST = "2026-11-20T10:00"
HEAD = ["question", "state", "tries", "hints", "answer", "mistakes", "last"]


def row(
    question=ASKED[0], state="right", tries=2, hints=0, answer="2 s", mistakes="1 x Bits.", last="2026-11-20T10:00"
):
    return [question, state, tries, hints, answer, mistakes, last]


def saved(path, *rows, head=HEAD):
    """A file as a browser writes it."""
    cells = ([f'"{str(cell).replace(chr(34), chr(34) * 2)}"' for cell in line] for line in (head, *rows))
    text = "".join(",".join(line) + "\r\n" for line in cells)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(f'{text}"checksum","{checksum(text)}"\r\n'.encode())
    return path


def test_the_book_s_checks_are_found_with_their_pages():
    assert len(KNOWN) > 150
    assert {check.page for check in KNOWN.values()} >= {"roofline", "contention", "fleet", "plan"}
    assert all(len(check.choices) == check.mistakes + 1 for check in KNOWN.values() if check.choices)
    assert all(check.hints >= 1 for check in KNOWN.values())


def test_a_file_is_read(tmp_path):
    rows = [row(), row(ASKED[1], "shown", 3, KNOWN[ASKED[1]].hints + 1, "'-3", '2 x A thing | 1 x Another, "so"')]
    entries, foreign = progress.read(saved(tmp_path / "a.csv", *rows, row("What is this?")), KNOWN, NOW)
    assert foreign == ["What is this?"]
    assert [entry.state for entry in entries] == ["right", "shown"]
    assert entries[1].answer == "-3"
    assert entries[1].mistakes == {"A thing": 2, 'Another, "so"': 1}


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        ([row(tries=0, mistakes="")], "is right without a try"),
        ([row(tries=1)], "has more mistakes than tries"),
        ([row(hints=99)], "had more hints than there are"),
        ([row(state="shown", hints=1, mistakes="")], "was shown, but not asked"),
        ([row(state="done")], "has a state that no check has"),
        ([row(mistakes=" | ".join(f"1 x {n}" for n in range(9)), tries=20)], "has more mistakes than it knows"),
        ([row(last="yesterday")], "has no date"),
        ([row(last="2027-01-01T00:00")], "was answered in the future"),
        ([row(CHOSEN, answer="all of them", mistakes="")], "was answered by none of its choices"),
        ([row(), row()], "holds a question twice"),
        ([row(tries="many")], "line 2 is not what the browser writes"),
        ([row("Of what book?")], "holds no question of this book"),
    ],
)
def test_what_no_browser_writes_is_refused(tmp_path, rows, why):
    with pytest.raises(RefusedError, match=why):
        progress.read(saved(tmp_path / "a.csv", *rows), KNOWN, NOW)


def test_an_edited_or_foreign_file_is_refused(tmp_path):
    path = saved(tmp_path / "a.csv", row(state="open", mistakes=""))
    whole = path.read_bytes().decode()
    with pytest.raises(RefusedError, match="was edited"):
        progress.read(changed(path, whole.replace('"open"', '"right"')), KNOWN, NOW)
    with pytest.raises(RefusedError, match="has no checksum"):
        progress.read(changed(path, whole[: whole.index('"checksum"')]), KNOWN, NOW)
    with pytest.raises(RefusedError, match="is not what"):
        progress.read(changed(path, "id,name\nada,Ada\n"), KNOWN, NOW)
    with pytest.raises(RefusedError, match="another edition"):
        progress.read(saved(path, head=["question", "state", "more"]), KNOWN, NOW)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(RefusedError, match="UTF-8"):
        progress.read(path, KNOWN, NOW)


def changed(path, text):
    path.write_text(text, newline="")
    return path


def test_the_teacher_s_command_prints_who_is_where_what_went_wrong_and_what_was_refused(tmp_path, capsys):
    roster = tmp_path / "roster.csv"
    roster.write_text("id,name\nada,Ada\nben,Ben\ncyd,Cyd\ndan,Dan\n")
    files, page = tmp_path / "files", KNOWN[ASKED[0]].page
    files.mkdir()
    saved(files / "ada" / "any.csv", row(), row(ASKED[1], "open", 1, 0, "1", "1 x Bits."), row("An old question?"))
    saved(files / "Ben" / "clusterlab-progress.csv", row(mistakes="1 x Upside down.", last="2026-11-21T09:00"))
    same = [row(question, last=f"2026-11-22T10:{minute}") for minute, question in enumerate(ASKED[:8], 10)]
    saved(files / "cyd.csv", *same)
    saved(files / "dan.csv", *same)
    saved(files / "clusterlab-progress (3).csv", row())
    saved(files / "ada.csv", row())
    assert main(["--students", str(roster), "--progress", str(files)]) == 0
    told = capsys.readouterr().out
    asked = sum(check.page == page for check in KNOWN.values())
    lines = {line.split()[0]: line for line in told.splitlines() if line[:3] in ("ada", "ben", "cyd", "dan")}
    assert f"1 of {asked}" in lines["ada"]
    assert f"1 of {asked}" in lines["ben"]
    assert "no file" in lines["cyd"]
    assert f"   1 of 4 students,   2x  {page}: Bits." in told, told
    assert "cyd.csv and dan.csv: the same answers in the same minutes" in told
    assert "clusterlab-progress (3).csv is named after no student" in told
    assert "ada.csv is a second file of ada, beside ada/any.csv" in told
    assert "no proof" in told
    assert main(["--students", str(roster), "--progress", str(tmp_path / "none")]) == 2
    assert "is no folder" in capsys.readouterr().err
    assert main(["--students", str(roster)]) == 2
    assert "the secret is missing" in capsys.readouterr().err
