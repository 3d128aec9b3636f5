# The Phase Bit: `make help` lists what there is. Nothing here needs a GPU.
#
# Set-up is a chain of stamp files in .venv, so a second run finds it done and a
# changed requirements file is installed again.

PYTHON ?= python3
JOBS   ?= $(shell nproc 2>/dev/null || echo 2)
VENV   := .venv
PY     := $(VENV)/bin/python
PIP    := $(PY) -m pip install --disable-pip-version-check --progress-bar off -q

# Hundreds of processes import the package: each must find it compiled, whatever the caller wants
# of other programs.
export PYTHONDONTWRITEBYTECODE :=

# UNPINNED=1 installs the newest versions that requirements.in allows.
REQUIREMENTS := $(if $(UNPINNED),requirements.in,requirements.txt)

SETUP := $(VENV)/.packages $(VENV)/.phasebit $(VENV)/.quiet .vendor/.done
ifeq ($(shell command -v npm),)
.vendor/.done: $(VENV)/.node
endif
ifeq ($(shell command -v nvcc),)
SETUP += $(VENV)/.nvcc
endif
ifneq ($(shell nvidia-smi -L 2>/dev/null),)
SETUP += $(VENV)/.cupy
endif

# What a page depends on.
SOURCES := _config.yml _toc.yml $(shell find book phasebit kernels records -type f \
	-not -path '*/__pycache__/*' -not -path '*/.ipynb_checkpoints/*' -not -name '.*')

JUPYTER_BOOK := $(VENV)/bin/jupyter-book build . -n -W --keep-going --all

.PHONY: help setup book site test bench record serve clean pin
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

help:  ## list the targets
	@awk -F':.*## ' '/^[a-z]+:.*## /{printf "make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(SETUP)  ## make .venv with everything pinned, an nvcc, MathJax and Pyodide
	@echo "Set-up is up to date: $$($(PY) --version) in $(VENV)."

book: _build/.book  ## execute every notebook on this machine and render the book
	@echo "The book is in _build/html: open _build/html/index.html, or run 'make serve'."

site: _build/.site  ## render the book from its saved outputs, without executing
	@echo "The pages are in _build/html: open _build/html/index.html, or run 'make serve'."

# Each worker has a processor already: threads of NumPy's would wait for each other.
test: export OPENBLAS_NUM_THREADS = 1
test: setup _build/.site  ## run every test this machine can run, and say what it skipped
	@echo "Testing package, notebooks and pages; the first time takes longest, since everything is compiled."
	@$(PY) -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder --nbval --nbval-sanitize-with=tests/book/sanitize.cfg tests book

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

pin:  ## pin the newest versions that requirements.in allows, from a clean install
	@rm -rf _build/pin && $(PYTHON) -m venv _build/pin
	@_build/pin/bin/pip install --disable-pip-version-check -q -r requirements.in
	@{ echo "# Every package of the book and its tests, pinned. Written by 'make pin' from requirements.in."; \
	   _build/pin/bin/pip freeze; } > requirements.txt
	@rm -rf _build/pin && echo "requirements.txt is renewed."

# -- set-up ----------------------------------------------------------------

$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	    echo "The book needs Python 3.11 or newer, and '$(PYTHON)' is $$($(PYTHON) --version 2>&1 || true)." \
	         "Name another: make setup PYTHON=python3.12" >&2; exit 1; }
	@echo "== A virtual environment in $(VENV), with $$($(PYTHON) --version) (10 s)"
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
	    echo "$(PYTHON) could not make a virtual environment; on Debian or Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	@touch $@

$(VENV)/.packages: $(REQUIREMENTS) $(VENV)/.made
	@echo "== The packages of $(REQUIREMENTS) (1 to 3 minutes, 300 MB on disk)"
	@$(PIP) -r $(REQUIREMENTS)
	@touch $@

$(VENV)/.phasebit: pyproject.toml $(VENV)/.packages
	@echo "== The package phasebit, from this folder (5 s)"
	@$(PIP) --no-deps --no-build-isolation -e .
	@touch $@

# Two things that would speak up on first use, in a notebook or in the middle of a
# build: Matplotlib lists the machine's fonts, and a kernel warns that it talks to its
# client over this machine's loopback without encryption.
$(VENV)/.quiet: $(VENV)/.packages
	@$(PY) -c 'import matplotlib.font_manager' 2>/dev/null
	@mkdir -p $(VENV)/etc/ipython
	@echo 'c.IPKernelApp.log_level = "ERROR"' > $(VENV)/etc/ipython/ipython_kernel_config.py
	@touch $@

$(VENV)/.nvcc: requirements-cuda.txt $(VENV)/.packages
	@echo "== No nvcc on PATH: NVIDIA's compiler, from pip (1 to 2 minutes, 400 MB on disk)"
	@$(PIP) -r requirements-cuda.txt
	@touch $@

$(VENV)/.cupy: requirements-gpu.txt $(VENV)/.packages
	@echo "== A GPU: CuPy, from pip (1 minute)"
	@$(PIP) -r requirements-gpu.txt
	@touch $@

$(VENV)/.node: requirements-node.txt $(VENV)/.packages
	@echo "== No npm on PATH: Node.js, from pip (20 s, 200 MB on disk)"
	@$(PIP) -r requirements-node.txt
	@touch $@

.vendor/.done: book/_vendor/package-lock.json tools/vendor.py $(VENV)/.packages
	@echo "== MathJax and Pyodide, which the pages serve themselves (10 s)"
	@$(PY) tools/vendor.py .vendor
	@touch $@

# -- the book --------------------------------------------------------------

# Both stamps stand for pages in _build/html; those of `book` were also executed
# here. Rendering from saved outputs makes the other stamp stale.
_build/.book: $(SETUP) $(SOURCES)
	@echo "Executing the notebooks and rendering the book (at most 5 minutes on two cores)"
	@rm -rf _build/.site _build/html _build/.doctrees _build/jupyter_execute
	@PHASEBIT_EXECUTE=force $(JUPYTER_BOOK)
	@touch _build/.site $@

_build/.site: $(SETUP) $(SOURCES)
	@echo "Rendering the pages from saved outputs (less than a minute)"
	@rm -rf _build/.book _build/html _build/.doctrees _build/jupyter_execute
	@PHASEBIT_EXECUTE=off $(JUPYTER_BOOK) -q
	@touch $@
