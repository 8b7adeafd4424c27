"""The Explorer in JupyterLab, with a kernel: the same figure, and its traits follow the reader."""

import json
import shutil
import time

import nbformat
import pytest
from jupyter_client import BlockingKernelClient

from building import ROOT
from pages import CONTROLS, commit_prediction, drawn, jupyter_lab, move_by_keyboard, run_all_cells, watched

pytestmark = pytest.mark.slow

# Every explorer of the kernel, by title: its traits, and its read-outs at their present values.
ASK = """
import gc, json
from explorable import Explorer
print(json.dumps({
    e._title: {"guess": e.guess, "values": {c.name: getattr(e, c.name) for c in e._controls}, "readouts": e.at()}
    for e in gc.get_objects() if isinstance(e, Explorer)
}))
"""


CHECK = (
    "from explorable import Check, Question\n"
    "check = Check(Question('100 GB over 400 Gbit/s?', 2.0, 's', mistakes={'Bits for bytes.': 0.25}))\ncheck"
)

PRICES = (
    "from IPython.display import HTML, display\nfrom clusterlab.records import tabulate\n"
    "display(HTML('$x$ is a formula.'))\ntabulate({'an hour': ['$2.95', '$1.69 ($1.41 to $3.17)']})"
)


@pytest.fixture(scope="module")
def lab(tmp_path_factory, browser):
    """JupyterLab with a chapter that it has run: its page, and the folder of its kernels.

    Behind the opening stand a check and a table of prices, and the chapter ends with its first figure that asks.
    """
    scratch = tmp_path_factory.mktemp("lab")
    shutil.copytree(ROOT / "book", scratch / "book")
    chapter = chapter_up_to_its_first_question(scratch / "book")
    with jupyter_lab(scratch / "book", scratch) as (url, kernels), watched(browser) as visit:
        page = visit(f"{url}/lab/tree/{chapter}?reset", blame="widget|clusterlab|blob:")
        run_all_cells(page)
        yield page, kernels


@pytest.fixture
def page(lab):
    """The page of JupyterLab."""
    return lab[0]


@pytest.fixture
def ask(lab):
    """Run code in the one kernel, beside the notebook: ``ask(code)`` returns what it prints."""
    clients = []

    def asked(code):
        if not clients:
            (connection,) = lab[1].glob("kernel-*.json")
            client = BlockingKernelClient(connection_file=str(connection))
            client.load_connection_file()
            client.start_channels()
            clients.append(client)
        said = []
        reply = clients[0].execute_interactive(code, timeout=60, output_hook=said.append, store_history=False)
        assert reply["content"]["status"] == "ok", reply["content"]
        return "".join(message["content"]["text"] for message in said if message["msg_type"] == "stream")

    yield asked
    for client in clients:
        client.stop_channels()


def chapter_up_to_its_first_question(folder) -> str:
    """Cut the chapter that asks after the least code behind its first figure that asks; return the notebook's name."""
    _, cut, name = min(
        (sum(len(cell.source) for cell in notebook.cells[: i + 1] if cell.cell_type == "code"), i + 1, path.name)
        for path in folder.glob("*.ipynb")
        for notebook in [nbformat.read(path, as_version=4)]
        for i, cell in enumerate(notebook.cells)
        if cell.cell_type == "code" and "predict=" in cell.source
    )
    notebook = nbformat.read(folder / name, as_version=4)
    del notebook.cells[cut:]
    notebook.cells[1:1] = map(nbformat.v4.new_code_cell, (CHECK, "check.given", PRICES))
    nbformat.write(notebook, folder / name)
    return name


def test_in_jupyterlab_a_check_takes_keys_judges_and_tells_the_kernel(page):
    check = page.locator(".jp-Notebook .cl-check").first
    # JupyterLab may take the focus once more when the last cell's reply comes in: then no key reaches the field.
    deadline = time.monotonic() + 30
    while not check.get_by_role("status").is_visible() and time.monotonic() < deadline:
        check.get_by_role("textbox").fill("0.25 s")
        check.get_by_role("textbox").press("Enter")
        page.wait_for_timeout(200)
    assert check.get_by_role("status").inner_text() == "Bits for bytes."
    assert check.locator("summary").inner_text().startswith("0 of ")
    check.get_by_role("textbox").fill("2 s")
    check.get_by_role("textbox").press("Enter")
    assert check.get_by_role("status").inner_text() == "Right: 2 s."
    page.locator(".jp-CodeCell").filter(has_text="check.given").click()
    page.keyboard.press("Control+Enter")
    page.get_by_text("'2 s'", exact=True).wait_for()


def test_in_jupyterlab_prices_are_no_formulas(page):
    cell = page.locator(".jp-CodeCell").filter(has_text="is a formula.")
    cell.scroll_into_view_if_needed()
    cell.locator(".jp-OutputArea mjx-container").wait_for()  # the formula is set, so anything else would be
    assert cell.locator("td").last.inner_text() == "$1.69 ($1.41 to $3.17)"
    assert not cell.locator("table mjx-container").count()


def test_in_jupyterlab_keys_move_the_figure_and_the_kernel_follows_both_ways(page, ask):
    asking = page.locator(".jp-Notebook .cl-explorer.cl-ask[data-ready]").first
    asking.scroll_into_view_if_needed()
    title = asking.locator("figcaption").text_content()
    figure = page.locator(".jp-Notebook .cl-explorer").filter(has=page.get_by_text(title, exact=True))
    before = json.loads(ask(ASK))[title]
    asked_first = commit_prediction(page, figure)
    # JupyterLab may take the focus once more when the last cell's reply comes in: then no key has reached the figure.
    deadline = time.monotonic() + 30
    while commit_prediction(page, figure) and time.monotonic() < deadline:
        page.wait_for_timeout(200)
    assert drawn(figure)["readouts"] == before["readouts"]
    name, value = (figure.locator(f".cl-readouts {part}").first.bounding_box() for part in ("dt", "dd"))
    assert value["x"] == name["x"]  # under its name, where JupyterLab would set it beside
    assert value["y"] >= name["y"] + name["height"] - 1
    for control in figure.locator(CONTROLS).all():
        shown = drawn(figure)
        assert move_by_keyboard(figure, control)
    name = control.get_attribute("name")
    moved, after = drawn(figure), json.loads(ask(ASK))[title]
    assert all(after["values"][key] != value for key, value in before["values"].items())
    assert moved["readouts"] == after["readouts"]
    assert bool(after["guess"]) == asked_first

    # A trait set in the kernel moves the figure back.
    ask(
        "import gc; from explorable.explorer import Explorer\n"
        f"e = next(e for e in gc.get_objects() if isinstance(e, Explorer) and e._title == {title!r})\n"
        f"setattr(e, {name!r}, {before['values'][name]!r})"
    )
    deadline = time.monotonic() + 30
    while drawn(figure) == moved and time.monotonic() < deadline:
        page.wait_for_timeout(50)
    assert drawn(figure) == shown
