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
demo: setup ## a cluster on this machine, a model served by vLLM, an answer; KUBECONFIG=FILE: on that cluster instead
	@$(PY) -m modelfleet_local demo $(if $(filter command line,$(origin KUBECONFIG)),--kubeconfig=$(KUBECONFIG) $(DEMO))

.PHONY: demo-down
demo-down: setup ## takes the demo's cluster down and proves that nothing is left
	@$(PY) -m modelfleet_local down --name demo
	@$(PY) -m modelfleet_local leftovers --name demo

.PHONY: test
test: prepare verify ## everything: static checks, unit, golden, API server, real engine, real kubelet
	@$(BIN)/pytest --numprocesses=2 --dist=loadscope --no-loadscope-reorder

.PHONY: e2e-helm
e2e-helm: prepare ## Helm for real: install, upgrade, rollback, removal, a second release, the roles' proof
	@$(BIN)/pytest --thorough tests/e2e/test_helm_life.py tests/e2e/test_helm_second.py tests/apiserver/test_roles.py

.PHONY: e2e-gitops
e2e-gitops: prepare ## Flux and Argo CD keep the samples for ten minutes of scaling (builds both the first time)
	@$(PY) -m modelfleet_local prepare --gitops
	@$(BIN)/pytest -s tests/gitops -m "gitops or not gitops"

.PHONY: e2e-existing
e2e-existing: prepare ## the demo and the end-to-end tests on a second cluster, known by its kubeconfig alone
	@$(BIN)/pytest tests/local/test_existing_cluster.py -m "existing or not existing" -s

.PHONY: test-fast
test-fast: setup verify ## static checks, unit and golden tests only
	@$(BIN)/pytest tests/arch tests/unit tests/golden

.PHONY: soak
soak: setup ## fuzzes a million objects, plays 10,000 fleets in trouble, an hour; SOAK=, SIM="--seed N" go on where one ended
	@$(PY) tests/fuzz/soak.py $(SOAK)
	@$(PY) tests/sim/sim_soak.py $(SIM)

.PHONY: e2e-kills
e2e-kills: prepare ## the operator killed at 50 moments of a fleet's life, two operators with a bouncing Lease, every crash point
	@$(BIN)/pytest --thorough -s tests/apiserver/test_kills.py tests/apiserver/test_leadership.py tests/unit/controller/test_crash_points.py

.PHONY: e2e-faults
e2e-faults: prepare ## every fault of a proxy between operator and API server (20 minutes)
	@$(BIN)/pytest --thorough -s tests/apiserver/test_faults.py

.PHONY: e2e-weights
e2e-weights: prepare ## one download for 20 pods of a real node, kill -9 at any byte, a hub that stalls, a full disk
	@$(BIN)/pytest --thorough -s tests/unit/worker/fetch tests/e2e/test_weight_stories.py

.PHONY: e2e-restarts
e2e-restarts: prepare ## etcd, API server and kubelet killed in a rollout of the real engine while requests flow
	@$(BIN)/pytest --thorough -s tests/e2e/test_restarts.py

.PHONY: e2e-memory
e2e-memory: prepare ## every cause of a death for lack of memory, and of other deaths, provoked on the real engine (root); its contract
	@$(BIN)/pytest --thorough -q -s tests/engine/test_memory_faults.py tests/engine/test_contract.py

.PHONY: e2e-drain
e2e-drain: prepare ## drains as clients see them, SIGTERM at every moment of a start, engines that hang
	@$(BIN)/pytest --thorough -s tests/e2e/test_drain.py tests/engine/test_sigterm.py tests/engine/test_hang.py tests/unit/worker/test_drain_entrance.py tests/unit/worker/test_full_memory_folder.py

.PHONY: e2e-groups
e2e-groups: prepare ## the real engine over two nodes: its answers, and every way to lose a member (half an hour)
	@$(BIN)/pytest --thorough -s tests/unit/worker/test_group.py tests/e2e/test_group_stories.py

.PHONY: e2e-sim
e2e-sim: prepare ## twenty seeded fleets in trouble on a real API server and scheduler with fake nodes
	@$(BIN)/pytest --thorough -s tests/apiserver/test_kwok_simulation.py

.PHONY: e2e-rollout
e2e-rollout: prepare ## scale, roll, drain, delete and kill replicas under a steady stream of requests; cycles on the stand-in, one on vLLM
	@$(BIN)/pytest --thorough -s tests/e2e/test_rollout.py tests/apiserver/test_rollback.py tests/apiserver/test_two_classes.py

.PHONY: e2e-samples
e2e-samples: prepare ## what is measured of a fleet on a real kubelet: whose page it is, a client's own count, a restarted operator
	@$(BIN)/pytest --thorough -s tests/e2e/test_samples_for_real.py

.PHONY: e2e-prometheus
e2e-prometheus: setup ## the operator's samples read from a real Prometheus that scrapes real workers (fetches Debian's the first time)
	@$(PY) -m modelfleet_local prepare --prometheus
	@$(BIN)/pytest --thorough -s tests/prometheus

.PHONY: e2e-zero
e2e-zero: prepare ## to zero and back with the chart's activators: bursts, cycles, killed activators and operators, a broken image, vLLM
	@$(BIN)/pytest --thorough -s tests/e2e/test_zero_for_real.py

.PHONY: e2e-scaling
e2e-scaling: prepare ## the number of replicas under a real load: step, burst, restart, a slow replica, decay (half an hour)
	@$(BIN)/pytest --thorough -s tests/e2e/test_scaling_for_real.py

.PHONY: e2e-scaling-prometheus
e2e-scaling-prometheus: prepare ## the same with samples from a real Prometheus: step up, five minutes without it, step up again (a quarter of an hour)
	@$(PY) -m modelfleet_local prepare --prometheus
	@$(BIN)/pytest --thorough -s tests/e2e/test_scaling_by_prometheus.py

.PHONY: bench-weights
bench-weights: setup ## what a fetch costs in time and processor time for a gigabyte
	@PYTHONPATH=tests $(PY) -m benchmarks.weights

.PHONY: bench-scale
bench-scale: prepare ## 200 ModelDeployments of 5 replicas, then 1,000 of 10, beside plain Deployments; docs/benchmarks.md
	@PYTHONPATH=tests:tests/apiserver $(PY) tests/benchmarks/scale/scale.py build/bench/scale.json
	@PYTHONPATH=tests:tests/apiserver $(PY) tests/benchmarks/scale/large.py build/bench/scale-large.json $(LARGE)

.PHONY: bench-placement
bench-placement: setup ## placement at 8,000 accelerators: how long, and how well after a churn; docs/benchmarks.md
	@PYTHONPATH=tests $(PY) -m benchmarks.placement.books
	@PYTHONPATH=tests $(PY) -m benchmarks.placement build/bench/placement.json

.PHONY: bench-scrape
bench-scrape: setup ## 10,000 fake engines of 1,000 models read by the operator's sampler: time, CPU, memory; docs/benchmarks.md
	@PYTHONPATH=tests $(PY) -m benchmarks.scrape build/bench/scrape.json

.PHONY: bench-fleet-tick
bench-fleet-tick: setup ## the numbers of replicas of 1,000 models, decided once: CPU seconds of one core; docs/benchmarks.md
	@PYTHONPATH=tests $(PY) -m benchmarks.fleet_tick build/bench/fleet-tick.json

.PHONY: bench-goodput
bench-goodput: prepare ## our goodput counters against vllm bench serve and aiperf at three rates; docs/benchmarks.md
	@PYTHONPATH=tests $(PY) -m benchmarks.goodput build/bench/goodput.json

.PHONY: bench-overhead
bench-overhead: prepare ## what our layers cost: throughput, TPOT and CPU with and without them; docs/benchmarks.md
	@PYTHONPATH=tests $(PY) -m benchmarks.overhead build/bench/overhead.json

.PHONY: bench-activator
bench-activator: setup ## what the activator costs beside nginx: latency, rate, memory, the first token; docs/benchmarks.md
	@PYTHONPATH=tests $(PY) -m benchmarks.activator build/bench/activator.json

.PHONY: bench-cold-start
bench-cold-start: prepare ## a cold start of the real engine phase by phase, with and without caches; docs/benchmarks.md
	@PYTHONPATH=tests $(PY) -m benchmarks.cold_start build/bench/cold-start.json $(COLD)

.PHONY: verify
verify: setup ## format, lint, types, layers
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/lint-imports --no-logo > build/lint-imports.log || { cat build/lint-imports.log; exit 1; }

.PHONY: generate
generate: setup ## CRDs, JSON Schemas, docs/conditions.md and the chart's copies, from the models
	@$(BIN)/modelfleet crds --output crds
	@$(BIN)/modelfleet crds --output charts/modelfleet/crds
	@$(BIN)/modelfleet docs conditions > docs/conditions.md
	@$(BIN)/modelfleet docs catalogue > charts/modelfleet/files/catalogue.yaml
	@$(BIN)/modelfleet schema --output docs/schemas
	@$(BIN)/modelfleet plan --schema > docs/schemas/plan.schema.json

.PHONY: golden
golden: setup ## rewrites the golden files; read the diff
	@$(BIN)/pytest -q tests/golden --update-golden

.PHONY: bench-planner
bench-planner: setup ## how far the planner is from measurements; writes build/bench/planner.json and docs/benchmarks.md
	@PYTHONPATH=tests $(PY) -m benchmarks.planner

.PHONY: bench-autoscaler
bench-autoscaler: setup ## scaling policies on traces, SIZE=small (an hour) or full (hours); docs/benchmarks.md
	@PYTHONPATH=tests $(PY) -m benchmarks.autoscaler $(or $(SIZE),small)

.PHONY: bench-engine-model
bench-engine-model: setup ## the simulator's engine against requests of real vLLM engines; docs/benchmarks.md
	@PYTHONPATH=tests $(PY) -m benchmarks.autoscaler.engine

.PHONY: bench-engine-cpu
bench-engine-cpu: prepare ## a real vLLM on CPU is calibrated, and the simulator's engine compared with it; docs/benchmarks.md
	@PYTHONPATH=tests $(PY) -m benchmarks.autoscaler.engine_cpu

.PHONY: fit-planner
fit-planner: setup ## fits the performance model's constants on measurements; writes core/perf/fitted.py
	@PYTHONPATH=tests $(PY) -m benchmarks.planner.fit
	@$(BIN)/ruff format --quiet operator/modelfleet/core/perf/fitted.py

.PHONY: format
format: setup ## formats the code
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .
