# Everything that is done with this project. Needs Python 3.11+ and a Java 17 or 21 JDK; `make` alone lists the targets.
.DEFAULT_GOAL := help
SHELL := /bin/bash

# The first of these that is 3.11 or newer; `make PYTHON=/path/to/python3.12 ...` names one.
PYTHON ?= $(shell for name in python3.11 python3.12 python3.13 python3; do \
  $$name -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && command -v $$name && break; done)
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --disable-pip-version-check --no-input
# uv installs in half of pip's time. It knows neither pip's settings nor its certificates: these are handed on.
UV := $(BIN)/uv pip install --quiet --no-cache --no-build-isolation --python $(BIN)/python
PIP_INDEX = $${PIP_INDEX_URL:-$$($(BIN)/python -m pip config get global.index-url 2>/dev/null)}
UV_SETTINGS = UV_HTTP_TIMEOUT=300 $${index:+UV_DEFAULT_INDEX="$$index"} $${PIP_CERT:+SSL_CERT_FILE="$$PIP_CERT"}
READY := $(VENV)/.ready
BEGAN := $(VENV)/.began
SAMPLES := data_samples/kafka-4.1.1-kraft data_samples/kafka-2.8.2-zookeeper
COMPILE := $(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-header \
  --no-annotate --no-emit-index-url
# No $(MAKE) in the recipe of test: make -n would run it.
LINT = $(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy
# More for pytest: make test PYTEST_ARGS="-k placement"
PYTEST_ARGS ?=
# Test files side by side; each worker has a Spark of its own (2 GB, and as much again while it starts others).
WORKERS ?= 2
# More for the oracle: make oracle N=1000000
N ?= 100000
# Of fleets: partitions in all; the others follow from it unless they are given.
SIZE ?= 70000
OUT ?= fleet
SHAPE = --size $(SIZE) $(if $(CLUSTERS),--clusters $(CLUSTERS)) $(if $(BROKERS),--brokers $(BROKERS)) \
  $(if $(TOPICS),--topics $(TOPICS)) $(if $(SMALL),--small $(SMALL)) $(if $(SEED),--seed $(SEED)) $(if $(LOADS),--loads)

.PHONY: help setup run test test-fast soak lint bench bench-kernels bench-plans bench-replay fleet bench-fleet oracle screenshots docs wheel wheel-databricks lock clean check-machine

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | while IFS=$$'\t' read -r name what; do printf '  make %-16s %s\n' "$$name" "$$what"; done

setup: check-machine $(READY) ## .venv with every library and the kafka-placement command, and Delta's jars (once; needs network)

run: check-machine $(READY) ## the whole pipeline on data_samples/, into ./warehouse
	@$(BIN)/kafka-placement run $(SAMPLES)

# Lint keeps one core busy: kernels that set-up left for their first use are compiled on the other meanwhile.
test: check-machine $(READY) ## lint, types and every test, with a tenth of the random sequences
	@began=$$SECONDS; $(BIN)/python -m pipelines.setup.kernel_compilation & \
	  $(LINT) || { kill $$!; exit 1; }; wait $$! || exit 1; ended=0; \
	  $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile $(PYTEST_ARGS) || ended=$$?; \
	  echo "make test took $$((SECONDS - began)) s, lint included."; exit $$ended

soak: check-machine $(READY) ## every test, with all of the random sequences
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --soak $(PYTEST_ARGS)

test-fast: check-machine $(READY) ## the tests that take no Spark and no minutes
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile -m "not slow and not spark and not e2e" $(PYTEST_ARGS)

lint: check-machine $(READY) ## ruff (lint, format) and mypy
	$(LINT)

bench: check-machine $(READY) ## placing a million partitions, against Spark's own write of as many constant rows
	$(BIN)/python -m tests.bench.placement

bench-kernels: check-machine $(READY) ## the placement kernels beside Kafka's own classes, as ratios
	$(BIN)/python -m tests.bench.kernels

bench-plans: check-machine $(READY) ## plans of every goal on synthetic clusters: what they reach, beside the bounds (LARGE=1: 300 brokers too)
	$(BIN)/python -m tests.bench.plans $(if $(LARGE),--large)

bench-replay: check-machine $(READY) ## a million events over 100,000 partitions replayed into tables, against Spark's own sort and write of them
	$(BIN)/python -m tests.bench.replay

fleet: check-machine $(READY) ## a fleet of clusters to try: SIZE partitions (CLUSTERS, BROKERS, TOPICS, SMALL, SEED) below OUT
	$(BIN)/python -m tests.bench.fleet --out $(OUT) $(SHAPE)

bench-fleet: check-machine $(READY) ## the pipeline over such a fleet beside Spark's own copy, with peak memory (TO=stage)
	$(BIN)/python -m tests.bench.fleet_run $(SHAPE) $(if $(TO),--to $(TO))

oracle: check-machine $(READY) ## the placement kernels against Kafka's own classes, on N random requests each
	$(BIN)/python -m tests.oracle $(N)

screenshots: check-machine $(READY) ## docs/images: the report of the captured clusters and of 215 brokers, in Debian's Chromium (WORK=dir keeps the runs)
	$(BIN)/python -m tests.report.screenshots $(if $(WORK),--work $(WORK))

docs: check-machine $(READY) ## docs/tables.md from the tables' contracts
	$(BIN)/python -m pipelines.tables.tables_page > docs/tables.md

wheel: check-machine $(READY) ## dist/kafka_placement-*.whl, conf's defaults inside
	$(BIN)/hatchling build -t wheel

wheel-databricks: wheel ## dist/databricks/*.whl: the same for platforms that bring Spark and Delta
	$(BIN)/python -m jobs.databricks.wheel

lock: check-machine $(READY) ## requirements.lock anew from pyproject.toml
	$(COMPILE) pyproject.toml --group dev -o requirements.lock
	printf "setuptools\nuv\n" | $(COMPILE) - -o requirements-build.lock

clean: ## removes what was built and cached; the warehouse and .venv stay
	rm -rf dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find pipelines udfs tests -name __pycache__ -type d -prune -exec rm -rf {} +

# Before anything is downloaded: is this a machine that it can run on?
check-machine:
	@if [ -z "$(PYTHON)" ] || ! "$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	  echo "kafka-placement: Python 3.11 or newer was not found (looked at: $(or $(PYTHON),python3.11 python3.12 python3.13 python3)). Install it (Debian, Ubuntu: apt-get install python3 python3-venv), or name one: make PYTHON=/path/to/python3.12" >&2; exit 1; fi
	@"$(PYTHON)" pipelines/setup/java.py

$(READY): requirements.lock requirements-build.lock pyproject.toml conf/jars.toml | check-machine
	@"$(PYTHON)" -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "kafka-placement: $(PYTHON) cannot make virtual environments. Install its venv module (Debian, Ubuntu: apt-get install python3-venv)." >&2; exit 1; }
	@[ -x $(BIN)/python ] && $(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { rm -rf $(VENV); "$(PYTHON)" -m venv $(VENV); }
	@date +%s > $(BEGAN)
	@echo "Setting up $(VENV) with $$($(BIN)/python --version): 1.5 GB of libraries. About 2 minutes on two cores; the download is 900 MB."
	@$(PIP) --quiet --require-hashes -r requirements-build.lock
# Bytecode too: where PYTHONDONTWRITEBYTECODE is set, as in many images, each process would make it anew.
	@index=$(PIP_INDEX); env $(UV_SETTINGS) $(UV) --compile-bytecode --require-hashes -r requirements.lock
	@$(UV) --no-deps -e . && $(BIN)/python -m compileall -q pipelines udfs
	@echo "  Delta's jars, from Maven Central"
	@$(BIN)/python -m pipelines.setup.jars
	@echo "  Kernels compiled, and a first start of Spark that makes later ones faster"
	@$(BIN)/python -m pipelines.setup.warm_up
	@touch $(READY)
	@echo "Ready after $$(($$(date +%s) - $$(cat $(BEGAN)))) s: $(BIN)/kafka-placement --help"
