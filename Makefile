# make alone lists what there is. Every target works from a bare clone with Python 3.11 or newer and its venv module.
PYTHON ?= python3
JOBS ?= 2
# Every process would compile the library, and the tests, again.
unexport PYTHONDONTWRITEBYTECODE
# Every core has a process of its own: NumPy's threads would wait for one another, and a wait takes a core whole.
export OPENBLAS_NUM_THREADS ?= 1
VENV := .venv
BIN := $(VENV)/bin
STUDENTS ?= course/roster.csv
SITE := _build/html/index.html
SOURCES := $(shell find _config.yml _toc.yml book lib sphinx_ext vendor -type f ! -path '*/__pycache__/*' ! -path '*.egg-info/*' ! -path '*/.ipynb_checkpoints/*')
UV := uv==0.13.9
PYTEST := $(BIN)/pytest --numprocesses $(JOBS) --dist loadscope --no-loadscope-reorder

# uv takes a fifth of pip's time. Where it finds nothing (it does not read pip's configuration), pip installs the same.
install = $(BIN)/uv pip install --quiet --python $(BIN)/python $(1) || $(BIN)/pip install --quiet $(1)
compile = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --annotation-style line --custom-compile-command "make lock" pyproject.toml

.PHONY: help book test test-all library course course-plain slides sessions labs round lab refresh lint bench lock dist release plain translation clean

help:  ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

book: $(SITE)  ## Set up, execute the chapters and build the site
	@echo
	@echo "Open the book: $(CURDIR)/$(SITE)"

test: $(VENV)/test lint  ## Run what every change must pass, in minutes: library, notebooks, a cold build, some pages in a browser
	$(PYTEST) --nbval -m "not slow"

test-all: $(VENV)/test lint  ## Run every test, as the workflow does: refits, simulations, every page and widget in a browser, JupyterLab, slides
	$(PYTEST) --nbval

library: $(VENV)/test  ## Run the tests that need no chapter and no browser
	$(PYTEST) --ignore tests/book --ignore tests/explorable

course: $(VENV)/course  ## Write, take in and mark the problem sets: make course STUDENTS=roster.csv SECRET=...
	@$(BIN)/python -m course --students $(STUDENTS) --secret '$(SECRET)'

course-plain: $(VENV)/book  ## The same without nbgrader: notebooks that check themselves, and a CSV of marks
	@$(BIN)/python -m course --plain --students $(STUDENTS) --secret '$(SECRET)'

slides: $(VENV)/book  ## Write slides of all chapters and sessions, or of DECKS="session-roof power", to _build/slides; PDF=1 prints them, too
	@$(BIN)/python -m course.slides $(DECKS) $(if $(PDF),--pdf)

sessions: $(VENV)/book  ## Write the sessions and weeks of course/plan.toml into the book
	@$(BIN)/python -m course.sessions

labs: $(VENV)/book  ## Write the labs, for students and for the teacher: _build/labs
	@$(BIN)/python -m course.labs

round: $(VENV)/course $(VENV)/test  ## Test the whole round of the course with nbgrader, which make test-all leaves out
	$(BIN)/pytest tests/book/test_course_round.py

lab: $(VENV)/test  ## Open the chapters in JupyterLab
	$(BIN)/jupyter lab book

refresh: $(VENV)/test  ## Execute the notebooks and store their text outputs
	$(BIN)/ruff format --line-length 88 book/*.ipynb
	$(BIN)/python tests/refresh.py

# A page is narrower than an editor, so the code of a chapter is broken earlier.
lint: $(VENV)/test  ## Check style, format and types
	$(BIN)/ruff check --exclude "book/*.ipynb"
	$(BIN)/ruff check --line-length 88 book/*.ipynb
	$(BIN)/ruff format --check --exclude "book/*.ipynb"
	$(BIN)/ruff format --check --line-length 88 book/*.ipynb
	$(BIN)/mypy

bench: $(VENV)/test  ## Measure layouts a second beside mlsysim and calculon (if installed), serving beside aiconfigurator (if installed), jobs beside simpy, flows beside an event-driven witness, sweeps on processes and Dask, the widget beside ipywidgets (needs Chromium)
	$(BIN)/python bench/layouts.py
	$(BIN)/python bench/serving.py
	$(BIN)/python bench/failures.py
	$(BIN)/python bench/scheduling.py
	$(BIN)/python bench/contention.py
	$(BIN)/python bench/sweep.py
	$(BIN)/python bench/widget.py

# The widest lock comes first, and the others are parts of it: what builds the book, and what a teacher marks with.
# Binder's image has JupyterLab, at the versions that fit it: a chapter needs only these on top.
BINDER := anywidget|contourpy|cycler|fonttools|jupyterlab-myst|kiwisolver|matplotlib|numpy|pillow|psygnal|pyparsing
lock: $(VENV)/book  ## Compile the locks again from pyproject.toml, with the newest versions
	$(BIN)/pip install --quiet $(UV)
	$(compile) --upgrade --extra book --extra lab --extra test --output-file requirements.txt
	$(compile) --upgrade --extra book --constraint requirements.txt --output-file requirements-book.txt
	$(compile) --upgrade --extra book --extra course --constraint requirements.txt --output-file requirements-course.txt
	sed -nE 's/^(($(BINDER))==[^ ;]+).*/\1/p' requirements.txt > binder/requirements.txt
	echo "-e ." >> requirements.txt

dist: $(VENV)/book  ## Build wheel and source, check them, and use both where nothing else is installed: _build/dist
	@$(BIN)/python tools/release.py --build

release: $(VENV)/book  ## Test everything, do what dist does, and say what is left for a person: make release VERSION=1.0.0
	@$(BIN)/python tools/release.py --write $(VERSION)
	@$(MAKE) test-all
	@$(BIN)/python tools/release.py --build --left

plain: $(VENV)/book  ## Build the book on plain Sphinx, without Jupyter Book, and say what differs: _build/sphinx
	@$(BIN)/python tools/plain.py

translation: $(VENV)/book  ## Bring catalogues up to date and build the book in a language: make translation LANGUAGE=de PAGE=book/glossary
	@$(BIN)/python tools/translate.py $(or $(LANGUAGE),de) $(PAGE)

clean:  ## Remove what was built; keep the environment
	rm -rf _build

# --all, and away with the page that a failed build left: Sphinx would not say twice what is wrong with it.
$(SITE): $(VENV)/book $(SOURCES)
	@$(BIN)/jupyter-book build . --all -W --keep-going || { rm -f $@; exit 1; }
	@touch $@

$(VENV)/book: requirements-book.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(None if sys.version_info >= (3, 11) else "Python 3.11 or newer is needed: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	-$(BIN)/pip install --quiet --only-binary :all: $(UV)
	$(call install,--requirement requirements-book.txt --editable .)
	@touch $@

$(VENV)/test: requirements.txt $(VENV)/book
	$(call install,--requirement $<)
	@touch $@

$(VENV)/course: requirements-course.txt $(VENV)/book
	$(call install,--requirement $<)
	@touch $@
