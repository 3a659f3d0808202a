# `make demo` and `make test` work on a fresh checkout: what they need is set up first, in $(VENV), from locked and
# hashed requirements. It is done again only when a lock file or pyproject.toml has changed.

VENV ?= .venv
PYTHON ?=
PYTEST_ARGS ?=
LOCK_ARGS ?=
BENCH_ARGS ?=

BIN := $(VENV)/bin
# --only-binary: a source distribution would be built with tools that no lock file names.
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input
INSTALL := $(PIP) install --quiet --require-hashes --only-binary :all:
LOCK := $(BIN)/uv pip compile --no-config --quiet --universal --python-version 3.11 --generate-hashes --no-header \
	--no-annotate $(LOCK_ARGS)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test check static format lint types mypy pyright contracts sizes docs fix bench mutants lock install clean

help: ## Show this list
	@awk -F ':.* ## ' '/^[a-z]+:.* ## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/.base ## Run the demonstration
	$(BIN)/addendum demo

test: $(VENV)/.dev ## Run all tests (PYTEST_ARGS="tests/unit -k name" for some)
	$(BIN)/python -m pytest -n auto $(PYTEST_ARGS)

check: static test ## Everything that CI asks for: static checks, then the tests

static: format lint types contracts sizes docs ## All checks but the tests

format: $(VENV)/.dev ## Is the code formatted?
	$(BIN)/ruff format --check .

lint: $(VENV)/.dev ## Lint
	$(BIN)/ruff check .

types: mypy pyright ## Check types: mypy inside, pyright what users import

mypy: $(VENV)/.dev
	$(BIN)/mypy

pyright: $(VENV)/.dev
	$(BIN)/basedpyright --pythonpath $(BIN)/python

contracts: $(VENV)/.dev ## Check who imports whom (LAYOUT)
	$(BIN)/lint-imports --no-cache
	$(BIN)/python tools/check_guest.py

sizes: $(VENV)/.dev ## Check the sizes of modules, functions and classes
	$(BIN)/python tools/sizes.py

docs: $(VENV)/.dev ## Check the text of all committed files
	$(BIN)/python tools/check_files.py
	$(BIN)/python tools/write_reference.py --check

fix: $(VENV)/.dev ## Format, and mend what the linter can mend
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.base ## Run the benchmarks (BENCH_ARGS=--full for more of them)
	@$(MAKE) --no-print-directory $(VENV)-bench/.peer || echo "DBOS can't be installed here: it is left out."
	$(BIN)/python benchmarks/run.py --peer $(VENV)-bench/bin/python $(BENCH_ARGS)
	$(BIN)/python benchmarks/sandbox.py
	$(BIN)/python benchmarks/analysis.py
	$(BIN)/python benchmarks/authority.py

mutants: $(VENV)/.dev ## Mutate the code and see whether the tests notice
	$(BIN)/python evaluation/mutants.py

lock: $(VENV)/.dev ## Write the lock files anew (LOCK_ARGS=--upgrade for newer releases)
	$(LOCK) --all-extras --group dev pyproject.toml --output-file requirements/dev.txt
	$(LOCK) --group build --constraint requirements/dev.txt pyproject.toml --output-file requirements/base.txt
	$(LOCK) --group pyproject.toml:bench --constraint requirements/dev.txt --output-file requirements/bench.txt

install: $(VENV)/.dev ## Set up only

clean: ## Remove the environments and everything that tools left
	rm -rf .venv .venv-* build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find src tests tools -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.made:
	@tools/make_venv.sh $(VENV) $(PYTHON)
	@touch $@

# The demonstration runs on this alone, so the small base install is what a newcomer tries.
$(VENV)/.base: $(VENV)/.made requirements/base.txt pyproject.toml
	@echo "Installing requirements/base.txt and addendum itself"
	@$(INSTALL) -r requirements/base.txt
	@$(PIP) install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.base requirements/dev.txt
	@echo "Installing requirements/dev.txt"
	@$(INSTALL) -r requirements/dev.txt
	@touch $@

# An environment of its own: what is compared with shares no packages with what is measured.
$(VENV)-bench/.peer: requirements/bench.txt
	@tools/make_venv.sh $(VENV)-bench $(PYTHON)
	@echo "Installing requirements/bench.txt"
	@$(VENV)-bench/bin/python -m pip --disable-pip-version-check --no-input install --quiet --require-hashes \
		--only-binary :all: -r requirements/bench.txt
	@touch $@
