# make alone lists what there is. Every target works from a bare clone with Python 3.11 or newer and its venv module.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SITE := _build/html/index.html

.PHONY: help book test lab refresh lint bench lock clean

help:  ## List the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

book: $(VENV)/ready  ## Set up, execute the chapters and build the site
	@$(BIN)/jupyter-book build . --all -W --keep-going
	@echo
	@echo "Open the book: $(CURDIR)/$(SITE)"

test: $(VENV)/ready lint  ## Run every test: library, notebooks, a cold build, the site in a browser
	$(BIN)/pytest

lab: $(VENV)/ready  ## Open the chapters in JupyterLab
	$(BIN)/jupyter lab book

refresh: $(VENV)/ready  ## Execute the notebooks and store their text outputs
	$(BIN)/ruff format --line-length 88 book
	$(BIN)/python tests/refresh.py

# A page is narrower than an editor, so the code of a chapter is broken earlier.
lint: $(VENV)/ready  ## Check style and format
	$(BIN)/ruff check
	$(BIN)/ruff format --check --exclude book
	$(BIN)/ruff format --check --line-length 88 book

bench: $(VENV)/ready  ## Measure layouts a second beside mlsysim and calculon (if installed), jobs beside simpy, the widget beside ipywidgets (needs Chromium)
	$(BIN)/python bench/layouts.py
	$(BIN)/python bench/failures.py
	$(BIN)/python bench/widget.py

lock: $(VENV)/ready  ## Compile requirements.txt again from pyproject.toml
	$(BIN)/pip install --quiet pip-tools
	$(BIN)/pip-compile --quiet --upgrade --strip-extras --no-emit-index-url --no-emit-options --no-emit-find-links --all-extras --output-file requirements.txt pyproject.toml
	@echo "-e ." >> requirements.txt

clean:  ## Remove what was built; keep the environment
	rm -rf _build

$(VENV)/ready: requirements.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(None if sys.version_info >= (3, 11) else "Python 3.11 or newer is needed: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --requirement requirements.txt
	@touch $@
