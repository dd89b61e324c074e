# Every command a developer needs. It needs nothing but Linux, make and Python 3.11 or newer.
#
#   PYTHON=python3.12   the interpreter to make .venv with
#   DATA=DIR            recorded data for tests and benchmarks (default: shared/data beside the checkout)
#   ARGS="..."          more arguments for pytest or the benchmarks

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

DATA ?=
ARGS ?=
BIN := .venv/bin
# With `=`: pytest would take a folder behind a space for its own, and find no conftest.py there.
PYTEST := $(BIN)/python -m pytest $(if $(DATA),--data=$(DATA))
# Files run side by side; 0 for one after the other, as a debugger needs it.
WORKERS ?= 2
# A long version of a test, or building a node's parts for the first time, may take its hour.
PATIENT := --timeout=7200 -o faulthandler_timeout=7500
PROJECTS := pyproject.toml $(wildcard runtime/pyproject.toml) tools/venv.sh
BENCHES := $(basename $(notdir $(shell grep -lE "import .*(run_bench|show_run)|^    (run_bench|show_run)," bench/*.py)))

.PHONY: help
help:  ## list the targets
	@awk 'BEGIN {FS = ":[^#]*## "} /^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' Makefile

.PHONY: demo
demo: .venv-demo/.installed  ## start the service, run a real training job through it, show the result
	@examples/demo.sh .venv-demo

.PHONY: test
test: setup  ## lock fresh, format, lint, types, imports, then all tests except whole clusters
	$(BIN)/python -m tools.lock check
	$(BIN)/python -m pip check --quiet
	$(BIN)/python -m ruff format --check --quiet .
	$(BIN)/python -m ruff check --quiet .
	$(BIN)/python -m mypy
	$(BIN)/lint-imports --no-logo
	$(PYTEST) -n $(WORKERS) --dist loadfile -m "not cluster" $(ARGS)

.PHONY: setup
setup: .venv/.installed  ## .venv with everything in it, and the Debian packages that tests need
	@tools/debian.sh

.PHONY: unit
unit: setup  ## the unit folder alone, in seconds
	$(PYTEST) tests/unit $(ARGS)

.PHONY: test-cluster
test-cluster: whole-nodes  ## whole nodes, chart, image; needs root
	$(PYTEST) $(PATIENT) -m cluster tests/cluster $(ARGS)

.PHONY: cluster-demo
cluster-demo: whole-nodes  ## a whole cluster on this machine, the chart, a training job, a lost node; needs root
	@$(BIN)/python -m tests.cluster.demo

.PHONY: root
root:  ## stop unless run as root, which whole nodes need
	@[ "$$(id -u)" = 0 ] || { echo "Whole nodes need root: they make network namespaces, mounts and addresses." >&2; exit 1; }

.PHONY: whole-nodes
whole-nodes: root setup  ## see to what whole nodes need of the machine
	@tools/debian.sh debian-packages-cluster.txt

.PHONY: proof
proof: setup  ## the long versions of tests by chance, for hours: kills, seeds, planted faults
	PROOF=1 $(PYTEST) $(PATIENT) -m proof $(ARGS)

.PHONY: fmt
fmt: setup  ## format, and repair what the linter can
	$(BIN)/python -m ruff format .
	$(BIN)/python -m ruff check --fix .

.PHONY: bench
bench: setup  ## all benchmarks; ARGS=--quick for the CI size
	@for name in $(BENCHES); do \
	    echo "== bench.$$name"; \
	    $(BIN)/python -m bench.$$name $(if $(DATA),--data $(DATA)) $(ARGS); \
	done

.PHONY: study
study: setup  ## the study, for days: goes on in OUT=DIR where it stopped; ARGS=--quick for the CI size
	@test -n "$(OUT)" || { echo 'Say where its runs lie: make study OUT=runs' >&2; exit 1; }
	$(BIN)/python -m bench.study run --out "$(OUT)" $(if $(DATA),--data $(DATA)) $(ARGS)
	$(BIN)/python -m bench.study report --out "$(OUT)"

.PHONY: migration
migration: setup  ## a new database revision: make migration m="add attempt"
	@test -n "$(m)" || { echo 'Say what it does: make migration m="add attempt"' >&2; exit 1; }
	$(BIN)/alembic revision -m "$(m)"

.PHONY: docs
docs: setup  ## rebuild docs/reference, .env.example and api/openapi.json
	$(BIN)/python -m tools.docs

.PHONY: lock
lock: setup  ## bring the lock files in line with pyproject.toml; UPGRADE=1 for the newest versions
	$(BIN)/python -m tools.lock $(if $(UPGRADE),upgrade,make)

.venv/.installed: requirements.lock $(PROJECTS)
	@tools/venv.sh .venv requirements.lock

.venv-demo/.installed: requirements-demo.lock $(PROJECTS)
	@tools/venv.sh .venv-demo requirements-demo.lock
