"""Formulas at build time: KaTeX's answers, its refusals, and the numbers of equations on a page."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import maths

EXTENSIONS = Path(maths.__file__).parent


@pytest.fixture(scope="module")
def setter():
    """KaTeX."""
    setter = maths.Setter()
    yield setter
    setter.close()


PAGES = {
    "index": "No formula.",
    "refused": r"A formula :math:`\nonsense < 1`.",
    "numbered": ".. math:: e = mc^2\n   :label: energy\n\nBy :eq:`energy` and again\n\n.. math:: x",
    "marked": ":math:`a = b`. Then :math:`c`, and (:math:`d` and\n:math:`a + b + c + d + e + f + g`.",
}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Pages of a book that Sphinx builds with this extension alone: the HTML of each by name, and all warnings."""
    folder = tmp_path_factory.mktemp("maths")
    for name, text in PAGES.items():
        (folder / f"{name}.rst").write_text(f":orphan:\n\nPage\n====\n\n{text}\n")
    (folder / "conf.py").write_text(
        f"import sys\nsys.path.insert(0, {str(EXTENSIONS)!r})\nextensions = ['maths']\nmath_number_all = False\n"
    )
    command = [sys.executable, "-m", "sphinx", "-q", folder, folder / "html"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return {name: (folder / "html" / f"{name}.html").read_text() for name in PAGES}, done.stderr


def test_a_formula_is_html_for_the_eye_and_mathml_for_a_screen_reader(setter):
    formula = setter.html(r"\frac{S}{B}", display=True)
    assert "<mfrac><mi>S</mi><mi>B</mi></mfrac>" in formula
    assert 'class="katex-html" aria-hidden="true"' in formula
    assert 'class="katex-display"' in formula
    assert 'class="katex-display"' not in setter.html(r"\frac{S}{B}", display=False)


def test_each_distinct_formula_is_set_once(setter, monkeypatch):
    first = setter.html("a + b", display=False)
    monkeypatch.setattr(setter.engine, "call", None)
    assert setter.html("a + b", display=False) == first
    with pytest.raises(TypeError):
        setter.html("a + c", display=False)


@pytest.mark.parametrize(
    ("tex", "why"),
    [
        (r"\frac{a}{", "Unexpected end of input"),
        (r"\nonsense", r"Undefined control sequence: \\nonsense"),
        ("5 µs", "µ"),
    ],
)
def test_what_katex_refuses_is_an_error_that_says_why(setter, tex, why):
    with pytest.raises(ValueError, match=why):
        setter.html(tex, display=True)


def test_a_refused_formula_is_a_warning_at_its_place_and_stands_as_source(built):
    pages, warnings = built
    (warning,) = warnings.splitlines()
    assert re.search(r"refused\.rst:6: WARNING: KaTeX parse error: Undefined control sequence: \\nonsense", warning)
    assert r"<code>\nonsense &lt; 1</code>" in pages["refused"]


def test_numbers_labels_and_references_of_equations(built):
    page = built[0]["numbered"]
    assert 'id="equation-energy"' in page
    assert page.count('<span class="eqno">') == 1
    assert re.search(r'href="#equation-energy">\(1\)</a>', page)


def test_several_equations_in_one_block_are_aligned(setter):
    source = maths.display_source("a &= b \\\\ c &= d\n\n\n\ne &= f\n")
    assert source == r"\begin{aligned}\begin{split}a &= b \\ c &= d\end{split}\\e &= f\end{aligned}"
    assert setter.html(maths.display_source("a &= b \\\\\n c &= d"), display=True).count("<mtr>") == 2


def test_a_mark_and_a_bracket_stay_in_the_line_of_a_short_formula(built):
    page = built[0]["marked"]
    assert re.findall(r"</span>([.,])</span>", page) == [".", ",", "."]  # the last in the last piece of a long one
    assert re.findall(r'class="marked">([^<])', page) == ["("]
    assert page.count('class="marked"') == 3
    assert not re.search(r"[.,]</span>[.,]", page)
