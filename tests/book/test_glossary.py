"""The glossary: every abbreviation that a page uses is a term of it, and every term sends its reader on."""

import re

import nbformat
import pytest

from building import ROOT, table_of_contents

GLOSSARY = ROOT / "book" / "glossary.md"
# Two capitals that are no term of the field, by why they need none.
NO_TERMS = {
    "units, and what counts FLOPs": "EB EFLOP GB GFLOP GJ GW MB MFLOP MJ MW PB PFLOP TB TFLOP",
    "names of firms, schools, countries and licences": "AMD AWS ASHRAE BY CC CMU LMSYS MIT NVIDIA US",
    "names of chips and models": "BERT BLOOM GH GLM GPT HLAT INTELLECT OPT PRO RTX",
    "names of methods, where their page says what they do": "CASSINI DAPO MLTCP",
    "names of clusters and traces": "PAI RSC WSC",
    "names of frameworks": "ROLL",
    "everyday words": "AI IT ML",
}
ABBREVIATION = re.compile(r"(?<![\w/.-])[A-Z]{2,}\d*s?(?![\w])")


def text_of(path) -> str:
    """Return what a reader of a page reads of its text: no code, no formula, no citation, no target of a link."""
    if path.suffix == ".ipynb":
        cells = nbformat.read(path, as_version=4).cells
        text = "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    else:
        text = path.read_text("utf-8")
    for hidden in (
        r"```.*?```",
        r"<style>.*?</style>",
        r"\{cite:[pt]\}`[^`]*`",
        r"\$\$.*?\$\$",
        r"(?<!\\)\$[^$\n]*(?<!\\)\$",
        r"`[^`]*`",
        r"\]\([^)]*\)",
    ):
        text = re.sub(hidden, " ", text, flags=re.DOTALL)
    return text


def entries() -> dict[str, str]:
    """Return the glossary: term to meaning."""
    (body,) = re.findall(r"```\{glossary\}\n(.*?)```", GLOSSARY.read_text("utf-8"), re.DOTALL)
    return dict(re.findall(r"^(\S.*)\n  (.*(?:\n  .*)*)", body, re.MULTILINE))


def base(word: str) -> str:
    """Return an abbreviation without its plural and its number.

    >>> base("TP8"), base("GPUs"), base("BF16")
    ('TP', 'GPU', 'BF')
    """
    return re.sub(r"\d+$", "", word.removesuffix("s"))


def known() -> set[str]:
    """Return the abbreviations that the glossary answers: in a term, or after *Also* where its meaning begins."""
    names = [*entries(), *(m.partition(".")[0] for m in entries().values() if m.startswith("Also "))]
    return {base(word) for name in names for word in re.findall(r"[A-Z]{2,}\d*", name)}


@pytest.mark.parametrize("file", [f for f in table_of_contents() if "/reference/" not in f])
def test_every_abbreviation_of_a_page_is_in_the_glossary(file):
    path = next(ROOT / f"{file}{suffix}" for suffix in (".ipynb", ".md") if (ROOT / f"{file}{suffix}").exists())
    excused = {word for words in NO_TERMS.values() for word in words.split()}
    used = {base(word) for word in ABBREVIATION.findall(text_of(path))}
    assert sorted(word for word in used - known() - excused if len(word) > 1) == []


def test_no_excuse_is_a_term():
    excused = {word for words in NO_TERMS.values() for word in words.split()}
    assert excused & known() <= {"IT"}  # IT load is a term; IT alone is not


def test_every_term_answers_in_its_first_sentence_and_sends_on():
    for term, meaning in entries().items():
        first = re.split(r"(?<=\.)\s", meaning.removeprefix("Also ").partition(". ")[2] or meaning)[0]
        assert len(first) <= 220, (term, first)
        assert re.search(r"\[→ [^\]]+\]\([\w./]+(#[\w-]+)?\)$", meaning), term


def test_terms_are_sorted():
    terms = [term.lower() for term in entries()]
    assert terms == sorted(terms)
