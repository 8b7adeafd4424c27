"""``python -m course.labs``: hand out the labs, and write the marked sample reports."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from . import LABS, hand_out, report


def main(arguments: list[str] | None = None) -> int:
    """Copy some labs for students, or all, and write their marked sample reports for the teacher."""
    parser = argparse.ArgumentParser(prog="python -m course.labs", description=main.__doc__)
    parser.add_argument("labs", nargs="*", metavar="lab", help=f"of: {', '.join(LABS)}")
    parser.add_argument("--folder", type=Path, default=Path("_build/labs"), help="where everything goes")
    given = parser.parse_args(arguments)
    if wrong := [name for name in given.labs if name not in LABS]:
        print(f"no lab {wrong[0]!r}; there are: {', '.join(LABS)}", file=sys.stderr)
        return 2
    kept = given.folder / "teacher"
    kept.mkdir(parents=True, exist_ok=True)
    for name in given.labs or LABS:
        own = hand_out(name, given.folder / "students")
        (kept / f"{name}.md").write_text(report(name), encoding="utf-8")
        print(f"{own}: hand this out; {kept / f'{name}.md'}: keep this")
    return 0


if __name__ == "__main__":
    sys.exit(main())
