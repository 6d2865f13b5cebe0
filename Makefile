# Everything a newcomer types. `make` alone lists it.
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
UV := $(BIN)/uv
COMPILE = $(UV) pip compile --quiet --universal --generate-hashes --no-annotate --no-header --python-version 3.11

## -- set-up ---------------------------------------------------------------------------------------------

# The environment is made anew when a lock changes; nothing else needs to be typed first.
$(VENV)/.installed: requirements-dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Millrace needs Python 3.11 or newer: set PYTHON=python3.11"; exit 1; }
	@echo "Setting up $(VENV) ..."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@test -x $(UV) || $(BIN)/python -m pip install --quiet --disable-pip-version-check uv 2>&1 | (grep -v WARNING || true)
	@$(UV) pip sync --quiet --python $(BIN)/python --require-hashes requirements-dev.txt
	@$(UV) pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation -e .
	@touch $@

node_modules/.installed: package-lock.json
	@$(BIN)/python infra/local/engines.py
	@touch $@

# MiniStack and the SAM CLI pin versions of their own: an environment each.
.venv-ministack/.installed: requirements-ministack.txt | $(VENV)/.installed
	@echo "Setting up .venv-ministack ..."
	@$(UV) venv --quiet --clear --python $(BIN)/python .venv-ministack
	@$(UV) pip sync --quiet --python .venv-ministack/bin/python --require-hashes requirements-ministack.txt
	@touch $@

.PHONY: install engines ministack
ministack: .venv-ministack/.installed  ## bring MiniStack, a second implementation of DynamoDB
install: $(VENV)/.installed  ## make the Python environment
engines: $(VENV)/.installed node_modules/.installed  ## bring DynamoDB Local

.PHONY: compile lock
compile: install  ## write infra/definitions.json anew from infra/queues
	@$(BIN)/millrace fmt
	@$(BIN)/millrace compile

lock: ## write the locked requirements anew from pyproject.toml
	$(COMPILE) pyproject.toml -o requirements.txt
	$(COMPILE) --all-extras pyproject.toml -o requirements-dev.txt
	$(COMPILE) infra/local/engines.in -o requirements-engines.txt

## -- proof ----------------------------------------------------------------------------------------------

.PHONY: test check unit
test: check unit  ## all checks and tests: what CI runs

check: install  ## formatting, lint, types, import directions, definitions
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache
	@$(BIN)/millrace fmt --check
	@$(BIN)/millrace compile --check --strict

unit: engines ministack  ## the test suite on DynamoDB Local and MiniStack
	@$(BIN)/pytest

.PHONY: bench costs hammer soak load
bench: engines  ## figures side by side: engine, definitions, ingress, worker
	@$(BIN)/python -m tests.bench.bench_engine
	@$(BIN)/python -m tests.bench.bench_definitions
	@$(BIN)/python -m tests.bench.bench_ingress
	@$(BIN)/python -m tests.bench.bench_worker

costs: engines ministack  ## write units of every operation, measured
	@$(BIN)/python -m tests.costs.report

hammer: engines  ## 5,000 messages, 8 processes, some killed: nothing lost
	@$(BIN)/python -m tests.hammer.run --messages 5000 --processes 8

load: engines  ## 10,000 signed webhooks through the real handlers
	@$(BIN)/python -m tests.load.run

soak: engines  ## the long proofs: schedules by the hundred thousand, hostile requests
	@$(BIN)/python -m tests.exploration.soak
	@$(BIN)/python -m tests.ingress.soak --requests 100000

.PHONY: help
help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 22
