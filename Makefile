# Each target sets up what it needs in .venv and does its job; a second run starts at once.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install -qq --disable-pip-version-check
# One BLAS thread per test worker: workers fill the cores already. Each starts with a stretch of files of
# its own, so that not all of them compile the same kernels and make the same fixtures at the same time.
PYTEST := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --maxprocesses 4 --dist worksteal -q

.PHONY: demo test test-all test-browser test-wheel test-minimum fuzz mutants lint bench papers docs clean
.DEFAULT_GOAL := test

demo: $(VENV)/.has-voxprior  ## what each family is worth where its assumption is true
	$(BIN)/voxprior demo

test: $(VENV)/.has-test  ## the fast suite, and how much of the package it reaches
	$(PYTEST) --cov

# Tests of one file share simulations that take minutes: one worker runs all of them.
test-all: test $(VENV)/.has-docs  ## the slow statistical tests too, and a notebook
	$(PYTEST) -m slow --dist loadfile

# New examples in every run; `make fuzz SEED=1` repeats those of a seed, SECONDS=60 looks for longer.
fuzz: SEED := $(or $(SEED),$(shell date +%s))
fuzz: SECONDS := $(or $(SECONDS),5)
fuzz: $(VENV)/.has-test  ## look for inputs that break the rules, some seconds in each test
	@echo "again with the same examples: make fuzz SEED=$(SEED)"
	VOXPRIOR_FUZZ_SEED=$(SEED) VOXPRIOR_FUZZ_SECONDS=$(SECONDS) $(PYTEST) -m fuzz tests/fuzz

mutants: SAMPLE := $(or $(SAMPLE),500)
mutants: SEED := $(or $(SEED),0)
mutants: $(VENV)/.has-test $(VENV)/.has-mutants  ## change lines of the numbers that must hold: do tests notice? an hour
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python tests/mutants.py --sample $(SAMPLE) --seed $(SEED)

# Accessibility rules, fetched once and kept outside the repository; without npm that test is skipped.
AXE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/voxprior/axe-core

test-browser: $(VENV)/.has-test $(VENV)/.has-browser $(VENV)/.has-docs katex  ## pages in headless Chromium
	@command -v chromium >/dev/null || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; \
	  then apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y chromium chromium-driver >/dev/null; \
	  else echo "Chromium is needed: install the packages chromium and chromium-driver" >&2; exit 1; fi; }
	@test -f $(AXE)/package/axe.min.js || { mkdir -p $(AXE) && cd $(AXE) && command -v npm >/dev/null \
	  && tar xzf "$$(npm pack --silent axe-core@4)" package/axe.min.js; } || echo "axe-core cannot be fetched: npm is needed" >&2
	$(BIN)/python -m pytest -q -m browser tests

# The tests of the sdist, without its sources, on the installed wheel: what was not packed is missed.
# Two versions of numba do not share a cache of compiled code.
MINIMUM := $(CURDIR)/.venv-minimum
test-wheel: .venv-minimum/.has-test dist/.checked  ## the fast suite of the wheel, on the lowest versions allowed
	rm -rf $(MINIMUM)/suite && mkdir $(MINIMUM)/suite
	tar xzf dist/*.tar.gz --strip-components 1 -C $(MINIMUM)/suite
	rm -r $(MINIMUM)/suite/src
	$(MINIMUM)/bin/python -m pip install -qq --no-deps --force-reinstall dist/*.whl
	cd $(MINIMUM)/suite && NUMBA_CACHE_DIR=$(MINIMUM)/numba $(subst $(BIN),$(MINIMUM)/bin,$(PYTEST)) tests README.md --pyargs voxprior

test-minimum: test-wheel

lint: $(VENV)/.has-dev  ## format, rules, types, import directions
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	@test ! -x $(BIN)/hadolint || $(BIN)/hadolint Dockerfile

bench: $(VENV)/.has-bench  ## race the peers; tables land in benchmarks/speed
	for race in sharing fields boosting gaussian network permutation mapping; do \
	  $(BIN)/python -m benchmarks.speed.$$race || exit 1; done

PAPERS := palatucci2007 carmi2009 xiang2009 rao2017 chen2005
papers: $(VENV)/.has-voxprior  ## run the papers anew; what they write replaces the results in src
	for paper in $(PAPERS); do place=src/voxprior/papers/$$paper/results; \
	  $(BIN)/voxprior reproduce $$paper --out build/papers/$$paper || exit 1; \
	  rm -rf $$place && mkdir $$place && cp build/papers/$$paper/results.md build/papers/$$paper/*.png $$place || exit 1; done

# Formulas are drawn while the pages are built; without npm they stay as they are written.
KATEX := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/voxprior/katex

docs: $(VENV)/.has-docs katex  ## build docs/_build/html, warnings are errors
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html
	@echo "open docs/_build/html/index.html"

katex:
	@test -f $(KATEX)/package/dist/katex.min.js || { mkdir -p $(KATEX) && cd $(KATEX) && command -v npm >/dev/null \
	  && tar xzf "$$(npm pack --silent katex@0.16)" package/dist; } || echo "KaTeX cannot be fetched: npm is needed" >&2

clean:
	rm -rf $(VENV) .venv-minimum dist docs/_build docs/auto_examples docs/generated

$(VENV)/.has-voxprior: pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing voxprior into $(VENV)"
	@$(PIP) --editable .
	@touch $@

$(VENV)/.has-%: pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing voxprior[$*] into $(VENV)"
	@$(PIP) --editable '.[$*]'
	@touch $@

# The sdist, and the wheel built from it.
SOURCES := $(shell find src tests docs/*.* docs/families recipe -type f -not -path '*/__pycache__/*')
dist/.checked: pyproject.toml $(SOURCES) $(VENV)/.has-dev
	rm -rf dist
	$(BIN)/python -m build --outdir dist . > /dev/null
	$(BIN)/python tests/package.py dist
	@touch $@

.venv-minimum/.has-test: pyproject.toml tests/minimum.py
	$(PYTHON) -m venv --clear .venv-minimum
	$(PYTHON) tests/minimum.py > .venv-minimum/constraints.txt
	.venv-minimum/bin/python -m pip install -qq '.[test]' -c .venv-minimum/constraints.txt
	@touch $@
