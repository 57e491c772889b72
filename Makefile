# Two commands set up everything on a fresh machine with Python 3.11 or newer: make demo, make test.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
PYTEST := $(BIN)/python -m pytest --numprocesses 2 --dist worksteal
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
HAS_POSTGRES := { command -v postgres || ls /usr/lib/postgresql/*/bin/postgres; } > /dev/null 2>&1
# Debian's package makes and starts a cluster of its own, unless a file like this is there.
NO_CLUSTER := /etc/postgresql-common/createcluster.d/gaifman.conf

.PHONY: install demo check lint test docs notebooks fuzz bench screenshots clean

install: .venv/core

.venv/created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "gaifman needs Python 3.11 or newer; name one with: make PYTHON=/path/to/python $(MAKECMDGOALS)" >&2; exit 1; }
	$(PYTHON) -m venv .venv
	@touch $@

.venv/core: pyproject.toml constraints.txt | .venv/created
	$(PIP) --editable .
	@touch $@

.venv/dev: .venv/core
	$(PIP) --editable '.[dev]'
	@command -v chromium > /dev/null || [ "$$(id -u)" != 0 ] || ! command -v apt-get > /dev/null || { \
	  echo "installing chromium for the tests of the page" && apt-get update -qq > /dev/null && \
	  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core > /dev/null; } || true
	@command -v chromium > /dev/null || \
	  echo "chromium is missing: the tests of the page are skipped. As root: apt-get install chromium" >&2
	@$(HAS_POSTGRES) || [ "$$(id -u)" != 0 ] || ! command -v apt-get > /dev/null || { \
	  echo "installing PostgreSQL for the tests of databases" && mkdir -p $(dir $(NO_CLUSTER)) && \
	  echo "create_main_cluster = false" > $(NO_CLUSTER) && apt-get update -qq > /dev/null && \
	  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends postgresql > /dev/null; \
	  rm -f $(NO_CLUSTER); } || true
	@$(HAS_POSTGRES) || \
	  echo "PostgreSQL is missing: its tests are skipped. As root: apt-get install postgresql" >&2
	@touch $@

.venv/bench: .venv/dev
	$(PIP) --editable '.[dev,bench]'
	@touch $@

# Compile the kernels once, before two workers do so side by side. Formulas that match no template run beside the others.
.venv/kernels: $(wildcard src/gaifman/kernels/*.py) | .venv/dev
	@echo "compiling the kernels: about a minute"
	@echo 'forall x, y. borders(x, y) -> borders(y, x)' > .venv/general.phi
	@$(BIN)/gaifman features demo x,y france spain --phi .venv/general.phi --json > /dev/null & \
	  $(BIN)/gaifman train demo -o .venv/warm --relation shore_on --force --json > /dev/null && \
	  $(BIN)/gaifman answer .venv/warm demo "shore_on('albania', y)" --json > /dev/null && \
	  $(BIN)/gaifman train demo -o .venv/warm --base mlp --relation shore_on --min-examples 0 --option epochs=1 --force --json > /dev/null && \
	  $(BIN)/gaifman answer .venv/warm demo "shore_on('albania', y)" --json > /dev/null && wait
	@rm -f .venv/warm .venv/warm.md .venv/warm.log.jsonl
	@touch $@

demo: install
	$(BIN)/gaifman demo

lint: .venv/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

# Lint, types, imports and unit tests: under two minutes.
check: lint .venv/kernels
	$(PYTEST) tests/unit src

# Everything: under fifteen minutes.
test: lint .venv/kernels
	$(PYTEST)

# The site, in site/; every warning is an error. Pages are made first: the commands from --help, and one from each
# notebook.
docs: .venv/dev
	$(BIN)/python tests/support/cli_reference.py
	$(BIN)/python docs/_build/notebooks.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# Run the notebooks in docs, and store their outputs in them.
notebooks: .venv/dev
	$(BIN)/python tests/support/notebook.py
	$(BIN)/python docs/_build/notebooks.py

# A million texts through the parser; `make test` runs 20,000 of them.
fuzz: .venv/dev
	$(BIN)/python tests/support/fuzz.py --count 1000000

# Every benchmark: the tables of docs/results.md. Real data sets are read from the folder GAIFMAN_DATA.
bench: .venv/bench
	$(BIN)/python benchmarks/all.py

# The pictures of the page, in docs/pictures.
screenshots: .venv/dev
	$(BIN)/python tests/support/screenshots.py

clean:
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis build dist site
