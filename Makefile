# Every command of the project. `make help` lists them; the README explains the first two.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
PY := .venv/bin/python
BIN := .venv/bin

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: setup
setup: ## what is missing on this machine (Debian packages, uv, the Python environment)
	@deploy/local/bootstrap.sh

.PHONY: prepare
prepare: setup ## builds and caches everything that the demo and the tests start (the first time, a quarter of an hour)
	@$(PY) -m modelfleet_local prepare

.PHONY: demo
demo: setup ## a cluster on this machine, a model served by vLLM, an answer
	@$(PY) -m modelfleet_local demo

.PHONY: demo-down
demo-down: setup ## takes the demo's cluster down and proves that nothing is left
	@$(PY) -m modelfleet_local down --name demo
	@$(PY) -m modelfleet_local leftovers --name demo

.PHONY: test
test: prepare verify ## everything: static checks, unit, golden, API server, real engine, real kubelet
	@$(BIN)/pytest

.PHONY: test-fast
test-fast: setup verify ## static checks, unit and golden tests only
	@$(BIN)/pytest tests/arch tests/unit tests/golden

.PHONY: verify
verify: setup ## format, lint, types, layers
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/lint-imports --no-logo > build/lint-imports.log || { cat build/lint-imports.log; exit 1; }

.PHONY: generate
generate: setup ## CRDs, docs/conditions.md, docs/schemas and the chart's copies, from the models
	@$(BIN)/modelfleet crds --output crds
	@$(BIN)/modelfleet crds --output charts/modelfleet/crds
	@$(BIN)/modelfleet docs conditions > docs/conditions.md
	@$(BIN)/modelfleet docs catalogue > charts/modelfleet/files/catalogue.yaml
	@$(BIN)/modelfleet plan --schema > docs/schemas/plan.schema.json

.PHONY: golden
golden: setup ## rewrites the golden files; read the diff
	@$(BIN)/pytest -q tests/golden --update-golden

.PHONY: bench-planner
bench-planner: setup ## how far the planner is from measurements; writes build/bench/planner.json and docs/benchmarks.md
	@PYTHONPATH=tests $(PY) -m benchmarks.planner

.PHONY: fit-planner
fit-planner: setup ## fits the performance model's constants on measurements; writes core/perf/fitted.py
	@PYTHONPATH=tests $(PY) -m benchmarks.planner.fit
	@$(BIN)/ruff format --quiet operator/modelfleet/core/perf/fitted.py

.PHONY: format
format: setup ## formats the code
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .
