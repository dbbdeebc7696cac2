# All tasks of this project. Needs Python 3.11+ and a Java 17 or 21 JDK; `make` alone lists the targets.
.DEFAULT_GOAL := help
SHELL := /bin/bash

# The first of these that is 3.11 or newer; `make PYTHON=/path/to/python3.12 ...` names one.
PYTHON ?= $(shell for name in python3.11 python3.12 python3.13 python3; do \
  $$name -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && command -v $$name && break; done)
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --disable-pip-version-check --no-input
# uv takes half of pip's time to install. It ignores pip's settings and certificates, so they are passed on.
UV := $(BIN)/uv pip install --quiet --no-cache --no-build-isolation --python $(BIN)/python
PIP_INDEX = $${PIP_INDEX_URL:-$$($(BIN)/python -m pip config get global.index-url 2>/dev/null)}
UV_SETTINGS = UV_HTTP_TIMEOUT=300 $${index:+UV_DEFAULT_INDEX="$$index"} $${PIP_CERT:+SSL_CERT_FILE="$$PIP_CERT"}
READY := $(VENV)/.ready
BEGAN := $(VENV)/.began
SAMPLES := data_samples/kafka-4.1.1-kraft data_samples/kafka-2.8.2-zookeeper
COMPILE := $(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-header \
  --no-annotate --no-emit-index-url
# The package rebalancer needs Python 3.12 or newer, and is only for `make bench-planners`.
PYTHON_FOR_REBALANCER ?= $(or $(firstword $(wildcard $(HOME)/.pyenv/versions/3.12*/bin/python)),python3.12)
# Tests start many processes: without compiled bytecode, as in images that set PYTHONDONTWRITEBYTECODE, each compiles it.
PYTEST = $(BIN)/python -m compileall -q pipelines udfs && PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest
# The recipe of test must not contain $(MAKE), or `make -n test` would run it.
LINT = $(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy
# Arguments for pytest: make test PYTEST_ARGS="-k placement"
PYTEST_ARGS ?=
# Processes that run test files in parallel. Each starts its own Spark: 2 GB, and at times 2 GB more.
WORKERS ?= 2
# One more for tests of Kafka clusters, which mostly wait: up to 2 GB. See make_scheduler in tests/shared_runs.py.
ALL_WORKERS = $(shell expr $(WORKERS) + 1)
# Random requests for the oracle, cases for the fuzzer: make oracle N=1000000
N ?= $(if $(filter soak,$(MAKECMDGOALS)),200000,100000)
# Total partitions of a fleet; the other sizes follow from it unless they are set.
SIZE ?= 70000
OUT ?= fleet
SHAPE = --size $(SIZE) $(if $(CLUSTERS),--clusters $(CLUSTERS)) $(if $(BROKERS),--brokers $(BROKERS)) \
  $(if $(TOPICS),--topics $(TOPICS)) $(if $(SMALL),--small $(SMALL)) $(if $(SEED),--seed $(SEED)) $(if $(LOADS),--loads)

.PHONY: help setup run test test-fast test-soak soak lint bench bench-read bench-kernels bench-plans bench-planners bench-replay fleet bench-fleet bench-cluster bench-live bench-year oracle screenshots docs wheel wheel-databricks lock clean check-machine

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | while IFS=$$'\t' read -r name what; do printf '  make %-16s %s\n' "$$name" "$$what"; done

setup: check-machine $(READY) ## install every library, the kafka-placement command and Delta's jars in .venv (once; needs network)

run: check-machine $(READY) ## run the whole pipeline on data_samples/ into ./warehouse
	@$(BIN)/kafka-placement run $(SAMPLES)

# Lint uses one core; the other compiles the kernels that setup has not compiled.
test: check-machine $(READY) ## run lint, type checks and every test, with a part of the random cases
	@began=$$SECONDS; $(BIN)/python -m pipelines.setup.kernel_compilation & \
	  $(LINT) || { kill $$!; exit 1; }; wait $$! || exit 1; ended=0; \
	  { $(PYTEST) -n $(ALL_WORKERS) --dist loadfile $(PYTEST_ARGS); } || ended=$$?; \
	  echo "make test took $$((SECONDS - began)) s, lint included."; exit $$ended

test-soak: check-machine $(READY) ## run every test with all random cases
	$(PYTEST) -n $(ALL_WORKERS) --dist loadfile --soak $(PYTEST_ARGS)

test-fast: check-machine $(READY) ## run the fast tests, without Spark
	$(PYTEST) -n $(WORKERS) --dist loadfile -m "not slow and not spark and not e2e" $(PYTEST_ARGS)

soak: check-machine $(READY) ## fuzz the reading of sources with N damaged samples (SEED: the same ones again); failures go to /tmp
	$(BIN)/python -m tests.fuzz $(N) --jobs $(WORKERS) $(if $(SEED),--seed $(SEED))

lint: check-machine $(READY) ## run ruff (lint, format) and mypy
	$(LINT)

bench: check-machine $(READY) ## measure placing a million partitions against Spark's write of as many constant rows
	$(BIN)/python -m tests.bench.placement

bench-read: check-machine $(READY) ## measure reading the output of each tool, from a file to facts, per million records
	$(BIN)/python -m tests.bench.reading

bench-kernels: check-machine $(READY) ## measure the placement kernels against Kafka's own classes, as ratios
	$(BIN)/python -m tests.bench.kernels

bench-plans: check-machine $(READY) ## measure plans of every goal on synthetic clusters against their bounds (LARGE=1: also 300 brokers; SEEDS=n)
	$(BIN)/python -m tests.bench.plans $(if $(LARGE),--large) $(if $(SEEDS),--seeds $(SEEDS))

bench-planners: check-machine $(READY) ## compare placement planners with one judge, Rebalancer from PyPI in .venv-rebalancer among them (SEEDS=9201,9202; LARGE=1; REBALANCER=python of it; needs Python 3.12 for Rebalancer)
	@[ -n "$(REBALANCER)" ] || [ -x .venv-rebalancer/bin/python ] || { $(PYTHON_FOR_REBALANCER) -m venv .venv-rebalancer && .venv-rebalancer/bin/pip install --quiet rebalancer==1.0.4; }
	$(BIN)/python -m tests.bench.planners --rebalancer $(or $(REBALANCER),.venv-rebalancer/bin/python) $(if $(SEEDS),--seeds $(SEEDS)) $(if $(LARGE),--large)

bench-replay: check-machine $(READY) ## measure a replay of a million events over 100,000 partitions against Spark's sort and write of them
	$(BIN)/python -m tests.bench.replay

bench-year: check-machine $(READY) ## measure a night, the report and queries after 1, 30 and 365 nights of a small cluster, and 30 of a fleet (NIGHTS="1 365")
	$(BIN)/python -m tests.bench.year $(if $(NIGHTS),--nights $(NIGHTS))
	$(BIN)/python -m tests.bench.year --fleet --nights 1 30

bench-live: check-machine $(READY) ## measure reading a running cluster of 10,000 partitions (PARTITIONS=n), which takes minutes to create
	$(BIN)/python -m tests.bench.live_reading $(if $(PARTITIONS),--partitions $(PARTITIONS))

fleet: check-machine $(READY) ## write a synthetic fleet of SIZE partitions (CLUSTERS, BROKERS, TOPICS, SMALL, SEED) to folder OUT
	$(BIN)/python -m tests.bench.fleet --out $(OUT) $(SHAPE)

bench-fleet: check-machine $(READY) ## measure the pipeline on such a fleet against Spark's own copy, with peak memory (TO=stage; APART=1: the largest cluster alone too)
	$(BIN)/python -m tests.bench.fleet_run $(SHAPE) $(if $(TO),--to $(TO)) $(if $(APART),--apart)

bench-cluster: check-machine $(READY) ## measure the pipeline on such a fleet on Spark standalone clusters of 1, 2 and 4 executors (TO=stage)
	$(BIN)/python -m tests.bench.cluster_run $(SHAPE) $(if $(TO),--to $(TO))

oracle: check-machine $(READY) ## compare the placement kernels with Kafka's own classes on N random requests each
	$(BIN)/python -m tests.oracle $(N)

screenshots: check-machine $(READY) ## update docs/images with the report of the samples and of 215 brokers; needs Chromium (WORK=dir keeps the runs)
	$(BIN)/python -m tests.report.screenshots $(if $(WORK),--work $(WORK))

docs: check-machine $(READY) ## update docs/tables.md and docs/verdicts.md from the code
	$(BIN)/python -m pipelines.spark.tables_page > docs/tables.md
	$(BIN)/python -m pipelines.verdict.verdicts_page > docs/verdicts.md

wheel: check-machine $(READY) ## build dist/kafka_placement-*.whl, with the default settings inside
	$(BIN)/hatchling build -t wheel

wheel-databricks: wheel ## build dist/databricks/*.whl for platforms that provide Spark and Delta
	$(BIN)/python -m jobs.databricks.wheel

lock: check-machine $(READY) ## update requirements.lock from pyproject.toml
	$(COMPILE) pyproject.toml --group dev -o requirements.lock
	printf "setuptools\nuv\n" | $(COMPILE) - -o requirements-build.lock

clean: ## remove build results and caches; keep the warehouse and .venv
	rm -rf dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find pipelines udfs tests -name __pycache__ -type d -prune -exec rm -rf {} +

# Check the machine before anything is downloaded.
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
# Also compile bytecode: where PYTHONDONTWRITEBYTECODE is set, as in many images, each process would do it again.
	@index=$(PIP_INDEX); env $(UV_SETTINGS) $(UV) --compile-bytecode --require-hashes -r requirements.lock
	@$(UV) --no-deps -e . && $(BIN)/python -m compileall -q pipelines udfs
	@echo "  Delta's jars, from Maven Central"
	@$(BIN)/python -m pipelines.setup.jars
	@echo "  Kernels compiled, and a first start of Spark that makes later ones faster"
	@$(BIN)/python -m pipelines.faster_starts
	@touch $(READY)
	@echo "Ready after $$(($$(date +%s) - $$(cat $(BEGAN)))) s: $(BIN)/kafka-placement --help"
