# Every target does its own set-up: on a fresh machine `make test` is enough.
#
#   PYTHON=python3.12   which interpreter .venv is made with (after `make clean`, if there is one already)
#   ARGS="..."          handed on to quorate up, pytest, the simulator, or the benchmarks but that of the core
#   SEEDS=n SEED0=k     how many simulator runs, and the first seed
#   MINUTES=n NAME=...  how long each decoder is fuzzed, and which one (all, one after the other)
#   SECONDS=n SEED=k    how long chaos breaks things, in all, and its first seed (drawn if it is left out)
#   WORKLOAD="a b"      which workloads share that time, one after another; NEMESIS=a,b: what breaks

PYTHON ?= python3
ARGS   ?=
SEEDS  ?= 300
SEED0  ?= 0

# Not from the environment: a shell's own SECONDS is something else.
MINUTES  := 1
NAME     :=
SECONDS  := 180
SEED     ?=
WORKLOAD ?= log groups metadata
NEMESIS  ?= mix

VENV  := .venv
BIN   := $(VENV)/bin
READY := $(VENV)/.ready
BENCH_READY := $(VENV)/.bench-ready
FUZZ_READY := $(VENV)/.fuzz-ready

.DEFAULT_GOAL := help
.PHONY: help venv chaosparts run test check bench sim fuzz chaos fmt clean

help: ## List the targets (what plain `make` does)
	@echo "Quorate. Targets:"
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-6s  %s\n", $$1, $$2 }' Makefile

venv: $(READY) ## Make .venv with every extra; quick when nothing changed
	@echo "==> venv: $(VENV) is ready"

$(READY): setup.cfg pyproject.toml
	@command -v $(PYTHON) >/dev/null 2>&1 || { \
	  echo "error: there is no '$(PYTHON)' here. Install Python 3.11 or newer, or name one: make venv PYTHON=/path/to/python3" >&2; \
	  exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "error: Quorate needs Python 3.11 or newer, and '$(PYTHON)' is $$($(PYTHON) -V 2>&1). Name another: make venv PYTHON=python3.12" >&2; \
	  exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "error: '$(PYTHON)' lacks its venv module. On Debian and Ubuntu: sudo apt install python3-venv" >&2; \
	  exit 1; }
	@echo "==> venv: setting up $(VENV) with every extra (Spark is large: the first time takes some minutes)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,spark,chaos]' || { \
	  echo "error: pip could not install what Quorate needs (its reason is above)." >&2; \
	  echo "       If this machine is offline, connect it, or point PIP_FIND_LINKS at a folder of wheels, and run make venv again." >&2; \
	  exit 1; }
	@touch $@

chaosparts: venv
	@$(BIN)/python -m quorate.chaos.toxiproxy_server

run: venv ## Set up, then run a local cluster until Ctrl-C (ARGS="--nodes 5 --base-port 19092" to choose)
	@echo "==> run: a local cluster of three nodes in .quorate; Ctrl-C stops it"
	@$(BIN)/quorate up $(ARGS)

test: chaosparts ## Set up, then run the quick test suite (ARGS="-k wheel" to choose)
	@echo "==> test: the quick suite, two workers"
	@$(BIN)/pytest -n 2 --dist loadgroup -q $(ARGS)

check: venv ## Set up, then lint, formatting, types and import contracts
	@echo "==> check: ruff (lint, then formatting), mypy --strict, import contracts"
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy --strict
	@$(BIN)/lint-imports --no-logo

bench: $(BENCH_READY) ## Set up, then measure the core, appends, Kafka clients and Spark, beside others (ARGS="--quick")
	@echo "==> bench: the consensus core, in memory, in one process"
	@$(BIN)/python -m bench.core
	@echo "==> bench: appends through three node processes with fsync, failover, idle groups"
	@$(BIN)/python -m bench.replicated_append $(ARGS)
	@echo "==> bench: Kafka clients on Quorate, and the same load on Apache Kafka and NATS JetStream"
	@$(BIN)/python -m bench.kafka $(ARGS)
	@echo "==> bench: Spark reads a queue, through our source and through its own Kafka connector"
	@$(BIN)/python -m bench.spark $(ARGS)

# Apart from .venv's own set-up: only this target needs them. Without them the comparison leaves NATS out and says so.
$(BENCH_READY): $(READY)
	@echo "==> bench: fetching what Quorate is compared with (NATS; Kafka follows by Maven, if java and mvn are here)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[bench]' || \
	  echo "warning: pip could not install the extra 'bench' (its reason is above); NATS is left out." >&2
	@touch $@

sim: venv ## Set up, then run the simulator (SEEDS=300 SEED0=0)
	@echo "==> sim: $(SEEDS) seeded runs of the simulator, from seed $(SEED0)"
	@$(BIN)/python -m tests.sim --seeds $(SEEDS) --seed0 $(SEED0) $(ARGS)

fuzz: $(FUZZ_READY) ## Set up, then fuzz every decoder of outside bytes (MINUTES=1 for each; NAME=kafka for one)
	@echo "==> fuzz: $(or $(NAME),every target in turn), $(MINUTES) minutes each; what is found is kept in .fuzz/"
	@$(BIN)/python -m tests.fuzz.rounds --minutes $(MINUTES) $(NAME)

# Apart, because atheris has no wheel for every Python.
$(FUZZ_READY): $(READY)
	@echo "==> fuzz: fetching the fuzzer (atheris)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[fuzz]' || { \
	  echo "error: pip could not install atheris (its reason is above). It has wheels for CPython 3.11 to 3.14 on Linux;" >&2; \
	  echo "       set .venv up with one of these: make clean && make fuzz PYTHON=python3.13" >&2; \
	  exit 1; }
	@touch $@

chaos: chaosparts ## Set up, then break a real cluster and check (SECONDS=180 SEED=7 WORKLOAD="log groups" NEMESIS=mix)
	@if ! $(BIN)/python -m quorate.chaos.toxiproxy_server --all >/dev/null 2>&1; then \
	  echo "==> chaos: skipped, because something it needs is missing (named above)"; exit 0; fi; \
	set -- $(WORKLOAD); each=$$(( $(SECONDS) / $$# )); seed=$(SEED); seed=$${seed:-$$(date +%s)}; \
	echo "==> chaos: $(NEMESIS) for $$each s on each of: $(WORKLOAD); histories and reports are kept in .chaos"; \
	for workload do \
	  $(BIN)/quorate chaos run --workload "$$workload" --nemesis "$(NEMESIS)" --seconds "$$each" --seed "$$seed" $(ARGS) \
	    --dir ".chaos/$$workload-$$seed-$$(date +%Y%m%dT%H%M%S)" || exit 1; \
	  seed=$$((seed + 1)); \
	done

fmt: venv ## Set up, then format the code and fix what ruff can fix
	@echo "==> fmt: ruff fixes and formats in place"
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

clean: ## Remove .venv, caches and build leftovers
	@echo "==> clean: removing $(VENV), caches and build leftovers"
	@rm -rf $(VENV) build dist quorate.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	@find . -type d -name __pycache__ -not -path './.git/*' -prune -exec rm -rf {} +
