# Everything a newcomer or a machine does with this repository. `make` alone lists the targets.
# ARGS reaches the program a target runs: make test ARGS="tests/store -x"

BIN := .venv/bin
JOBS ?= 3
SOAK_S ?= 3600
FAULT_ROUNDS ?= 50
ARGS ?=

# Bytecode caches are part of what users have, so a machine-wide switch against them must not reach a measurement, nor the
# tests, which start hundreds of daemons: without caches each of them compiles every module first.
WITH_BYTECODE := env -u PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

.PHONY: help run test test-docker test-postgres test-podman test-long test-guard test-clients soak check check-style check-types check-imports check-docs check-plugins format docs \
	bench bench-peers conformance clean distclean

help: ## list the targets
	@echo "Shiftlog: the session layer for AI agents."
	@echo
	@sed -n 's/^\([a-z][a-z-]*\):.*## \(.*\)/\1\t\2/p' Makefile | while IFS="$$(printf '\t')" read -r name text; do \
		printf '  make %-14s %s\n' "$$name" "$$text"; done
	@echo
	@echo 'Pass arguments on with ARGS, for example: make test ARGS="tests/store -x"'

run: .venv/.stamp ## start Shiftlog and show how to connect an agent (never needs root)
	@$(WITH_BYTECODE) $(BIN)/shiftlog run $(ARGS)

test: system-packages .venv/.stamp-dev ## run the test suite
	@$(WITH_BYTECODE) scripts/with-memory-tmp $(BIN)/python -m pytest -q -n $(JOBS) $(ARGS)

test-docker: system-packages .venv/.stamp-dev ## run the tests of containers with a Docker Engine of their own (needs root)
	@scripts/ensure-system-packages requirements/system-packages-docker
	@$(WITH_BYTECODE) SHIFTLOG_TEST_DOCKER=1 $(BIN)/python -m pytest -q tests/shell/remote/docker tests/deploy $(ARGS)

test-postgres: system-packages .venv/.stamp-dev ## run the tests of journal, dialects and properties on PostgreSQL, and its long faults (FAULT_ROUNDS: how often)
	@$(WITH_BYTECODE) $(BIN)/python -m pytest -q -n $(JOBS) --timeout 600 --store postgres tests/journal/continuity tests/journal/keeping tests/journal/runs tests/journal/usage \
		tests/journal/test_sessions.py tests/journal/test_turns.py tests/dialects tests/property $(ARGS)
	@$(WITH_BYTECODE) FAULT_ROUNDS=$(FAULT_ROUNDS) $(BIN)/python -m pytest -q -m soak --timeout 6000 tests/store/postgres tests/server $(ARGS)

test-podman: .venv/.stamp-dev ## run the same tests with Podman (needs root)
	@scripts/ensure-system-packages requirements/system-packages-podman
	@$(WITH_BYTECODE) SHIFTLOG_TEST_DOCKER=podman $(BIN)/python -m pytest -q tests/shell/remote/docker $(ARGS)

test-long: system-packages .venv/.stamp-dev ## run the tests that take seconds each: properties, faults under load, whole matrices
	@$(WITH_BYTECODE) $(BIN)/python -m pytest -q -m "long and not guard and not soak" -n $(JOBS) $(ARGS)

test-guard: system-packages .venv/.stamp-dev ## run the long races against the guard
	@$(BIN)/python -m pytest -q -m guard --timeout 1800 $(ARGS)

test-clients: .venv/.stamp-dev ## run real agents, installed from npm into build/, against a scripted model
	@$(BIN)/python -m tests.clients.installing
	@$(WITH_BYTECODE) SHIFTLOG_CLIENT_RESULTS=1 $(BIN)/python -m pytest -q -m clients tests/clients $(ARGS)

soak: system-packages .venv/.stamp-dev ## run the long kill loops and endurance tests (SOAK_S: seconds of load with faults)
	@$(WITH_BYTECODE) HYPOTHESIS_PROFILE=soak SOAK_S=$(SOAK_S) $(BIN)/python -m pytest -m soak --timeout 7200 $(ARGS)

check: check-style check-types check-imports check-docs check-plugins ## check style, types, imports and generated files

check-style: .venv/.stamp-dev
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check

check-types: .venv/.stamp-dev
	@$(BIN)/basedpyright

check-imports: .venv/.stamp-dev
	@$(BIN)/lint-imports --no-cache
	@$(BIN)/python scripts/check_dependencies.py
	@$(BIN)/python scripts/check_house.py

check-docs: .venv/.stamp-dev
	@$(BIN)/python scripts/generate_docs.py --check

check-plugins: .venv/.stamp-dev
	@$(BIN)/python scripts/generate_plugins.py --check

format: .venv/.stamp-dev ## rewrite the code in the house style
	@$(BIN)/ruff check --fix
	@$(BIN)/ruff format

docs: .venv/.stamp-dev ## regenerate the generated parts of docs/, and plugins/
	@$(BIN)/python scripts/generate_docs.py
	@$(BIN)/python scripts/generate_plugins.py

bench: .venv/.stamp-dev ## measure and print a table (asserts nothing)
	@$(WITH_BYTECODE) $(BIN)/python -m bench $(ARGS)

bench-peers: .venv/.stamp-dev ## measure other tools beside ours
	@$(WITH_BYTECODE) $(BIN)/python -m bench.peers $(ARGS)

conformance: .venv/.stamp-dev ## run the public MCP conformance suite (needs Node 22)
	@scripts/conformance $(ARGS)

clean: ## remove caches and built files
	@rm -rf dist .hypothesis .pytest_cache .ruff_cache .import_linter_cache
	@find src tests bench scripts -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

distclean: clean ## remove the environment too; state directories are never touched
	@rm -rf .venv

.PHONY: system-packages
system-packages:
	@scripts/ensure-system-packages requirements/system-packages

.venv/.stamp: requirements/build.txt requirements/runtime.txt pyproject.toml scripts/ensure-environment
	@scripts/ensure-environment requirements/build.txt requirements/runtime.txt
	@touch $@

.venv/.stamp-dev: .venv/.stamp requirements/dev.txt
	@echo "shiftlog: installing dev.txt" >&2
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --requirement=requirements/dev.txt
	@touch $@
