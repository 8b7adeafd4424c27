"""What nbval compares, and with what: a kernel's answers, or those that the build of the site had of its own."""

import nbformat

from building import ROOT

# What committed notebooks leave out, so that nbval compares text alone.
PICTURES = "image/svg+xml", "text/html", "text/markdown"
NOT_STORED = (*PICTURES, *(f"application/papermill.record/{kind}" for kind in PICTURES))
ID = "build"


def executed(site, path):
    """Return a notebook as the cold build executed it, in a fresh kernel."""
    return nbformat.read(site.parent / "jupyter_execute" / path.relative_to(ROOT), as_version=4)


class Replay:
    """What the build's kernel answered to a notebook, cell by cell, in place of a kernel of nbval's own."""

    def __init__(self, executed):
        self.cells = iter([cell for cell in executed.cells if cell.cell_type == "code"])
        self.messages = []

    def is_alive(self):
        return True

    def stop(self):
        pass

    def await_reply(self, _, **__):
        pass

    def await_idle(self, *_):
        self.messages.clear()

    def get_message(self, _, **__):
        return self.messages.pop(0)

    def execute_cell_input(self, source, **_):
        cell = next(self.cells)
        assert cell.source == source, f"the build ran another cell:\n{cell.source}"
        assert cell.execution_count, f"the build did not run:\n{source}"
        self.messages += [message(output.output_type, **output) for output in cell.outputs]
        self.messages.append(message("status", execution_state="idle"))
        return ID


def message(kind, **content):
    """Return a kernel's message."""
    return {"msg_type": kind, "parent_header": {"msg_id": ID}, "content": content}
