# The Phase Bit: `make help` lists what there is. Nothing here needs a GPU.
#
# Set-up is one program, tools/setup.py, which does what is not done yet.

PYTHON ?= python3
JOBS   ?= $(shell nproc 2>/dev/null || echo 2)
VENV   := .venv
PY     := $(VENV)/bin/python

# Hundreds of processes import the package: each must find it compiled, whatever the caller wants
# of other programs.
export PYTHONDONTWRITEBYTECODE :=

# UNPINNED=1 installs the newest versions that requirements.in allows.
export UNPINNED

# A Python that the caller names must be the one in .venv; else any that is there will do.
NAMED := $(if $(filter file,$(origin PYTHON)),,--named)

# Touched when something was installed; what is made with it is then made again.
SETUP := $(VENV)/.setup

# What a page depends on.
SOURCES := _config.yml _toc.yml $(shell find book phasebit kernels records -type f \
	-not -path '*/__pycache__/*' -not -path '*/.ipynb_checkpoints/*' -not -name '.*')

JUPYTER_BOOK := $(VENV)/bin/jupyter-book build . -n -W --keep-going --all

.PHONY: help setup book site pdf cards test proof mutants bench record serve clean pin
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

help:  ## list the targets
	@awk -F':.*## ' '/^[a-z]+:.*## /{printf "make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(SETUP)  ## make .venv with everything pinned, an nvcc and Pyodide
	@echo "Set-up is up to date: $$($(PY) --version) in $(VENV)."

book: _build/.book  ## execute every notebook on this machine and render the book
	@echo "The book is in _build/html: open _build/html/index.html, or run 'make serve'."

site: _build/.site  ## render the book from its saved outputs, without executing
	@echo "The pages are in _build/html: open _build/html/index.html, or run 'make serve'."

pdf: _build/.site  ## print the book: all pages as _build/the-phase-bit.pdf (needs Chromium)
	@echo "Printing the book (some minutes)"
	@$(PY) tools/pdf.py _build/the-phase-bit.pdf

cards: _build/.site  ## draw the card of each page, for links on other sites (needs Chromium)
	@$(PY) tools/cards.py _build/html

# Each worker has a processor already: threads of NumPy's would wait for each other. Pages that
# `make book` made are up to date here or gone: what it executed for them is not executed again.
# Of tests that are alike it runs one of as many as make it take about 12 minutes here;
# ONE_OF=1 runs them all, ONE_OF=3 one of three: see tests/sampled.py.
ONE_OF ?= fitting
test: export OPENBLAS_NUM_THREADS = 1
test: setup _build/.site  ## run the tests (ONE_OF=1: each that this machine can run), say what was skipped
	@echo "Testing package, notebooks and pages; the first time takes longest, since everything is compiled."
	@if [ -e _build/.book ]; then export PHASEBIT_EXECUTED=_build/executed; \
	    echo "make book has executed the notebooks: what they printed there is compared."; fi; \
	$(PY) -m pytest --one-of $(ONE_OF) -n $(JOBS) --dist loadfile --no-loadscope-reorder --nbval --nbval-sanitize-with=tests/book/sanitize.cfg tests book

proof: setup  ## replay the emulator's proof whole: what an H200 answered, bit for bit
	@$(PY) -m proof replay

# Hours for all of them: SAMPLE=60 takes some, SEED=2 others. Stop it and start it again as you like.
# What it needs has pins of its own, so it is not installed into .venv.
SEED ?= 1
mutants: setup  ## change the code a little, and see whether a test notices
	@[ -e _build/mutants/cosmic-ray ] || $(PY) -m pip install -q --disable-pip-version-check \
	    --target _build/mutants/cosmic-ray cosmic-ray==8.7.0
	@$(PY) tools/mutants.py reach
	@nice $(PY) tools/mutants.py run --seed $(SEED) $(if $(SAMPLE),--sample $(SAMPLE))

bench: setup  ## time the simulator beside SimPy, and whatever else bench/ measures
	@for file in bench/*.py; do \
	    [ -e "$$file" ] || { echo "bench/ has no benchmark yet."; break; }; \
	    echo "== $$file"; $(PY) $$file || exit; done

record: setup  ## on a GPU: measure again, refresh records/ and the saved outputs
	@$(PY) tools/record.py

serve: _build/.site  ## serve the rendered pages on this machine (the in-page lab needs it)
	@$(PY) tools/serve.py _build/html

clean:  ## remove what was rendered and cached (the set-up stays: rm -r .venv .vendor)
	rm -rf _build .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +

# One version of each package for every Python that pyproject.toml names: the newest that the
# oldest of them takes.
pin:  ## pin the newest versions that requirements.in allows on every Python
	@rm -rf _build/pin && "$(PYTHON)" -m venv _build/pin
	@_build/pin/bin/pip install --disable-pip-version-check -q uv
	@_build/pin/bin/uv pip compile -q --universal --python-version 3.11 --fork-strategy fewest \
	    --no-annotate --no-header requirements.in -o _build/pin/pins
	@{ echo "# Every package of the book and its tests, pinned. Written by 'make pin' from requirements.in."; \
	   cat _build/pin/pins; } > requirements.txt
	@rm -rf _build/pin && echo "requirements.txt is renewed."

# -- set-up ----------------------------------------------------------------

$(SETUP): FORCE
	@for python in "$(PYTHON)" $(if $(NAMED),,$(PY)); do \
	    if "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	        exec "$$python" tools/setup.py $(NAMED); fi; done; \
	echo "The book needs Python 3.11 or newer, and '$(PYTHON)' is $$("$(PYTHON)" --version 2>&1 || true)." \
	     "Name another: make setup PYTHON=python3.12" >&2; exit 1
FORCE:

# -- the book --------------------------------------------------------------

# Both stamps stand for pages in _build/html; those of `book` were also executed
# here. Rendering from saved outputs makes the other stamp stale.
_build/.book: $(SETUP) $(SOURCES)
	@echo "Executing the notebooks and rendering the book (some minutes; notebooks run side by side)"
	@rm -rf _build/.site _build/html _build/.doctrees _build/jupyter_execute _build/executed
	@PHASEBIT_EXECUTE=force $(JUPYTER_BOOK)
	@touch _build/.site $@

_build/.site: $(SETUP) $(SOURCES)
	@echo "Rendering the pages from saved outputs (less than a minute)"
	@rm -rf _build/.book _build/html _build/.doctrees _build/jupyter_execute _build/executed
	@PHASEBIT_EXECUTE=off $(JUPYTER_BOOK) -q
	@touch $@
