# `make demo` and `make test` do everything on a fresh clone; `make help` lists the rest.

PYTHON ?= python3
BIN := .venv/bin
# Worker processes of pytest; the simulators are single-threaded.
WORKERS ?= 2
# Faults that `make mutate` asks for.
MUTANTS ?= 400
# Runs of `make sim` for each build and simulator, and requests of `make soak`.
SEEDS ?= 3
REQUESTS ?= 10000000

# Packages on a PYTHONPATH of the caller would come before the locked ones.
unexport PYTHONPATH PYTHONHOME
# A compiler named here or on the command line (make CXX=...) is the one that builds the RTL.
ifneq ($(origin CXX),default)
export CXX
endif

.DEFAULT_GOAL := help
.PHONY: help setup setup-test setup-synth demo test test-slow sim cov soak latency mutate formal formal-faults fpga board release lint lock clean distclean

help:  ## List these targets
	@echo "V-Rex. Needs python3 (3.11 or newer), make and a C++ compiler; everything else goes into .venv."
	@echo
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' Makefile | while IFS='|' read -r name text; do \
		printf '%-20s %s\n' "$$name" "$$text"; done
	@echo
	@echo "  PYTHON=python3.12 or CXX=clang++ on the command line choose another interpreter or compiler."

# Both are quick when there is nothing to do; tools/setup_env.py keeps the stamps.
setup: .python-found  ## Make .venv with what a run needs (demo and test do this themselves)
	@$(PYTHON) tools/setup_env.py demo

setup-test: .python-found  ## Add what the tests, the cocotb benches and the trace maker need (test does this itself)
	@$(PYTHON) tools/setup_env.py test
	@tools/system_packages.sh

.PHONY: .python-found
.python-found:
	@command -v "$(PYTHON)" >/dev/null || { \
		echo "setup: $(PYTHON) was not found; Python 3.11 or newer is needed." >&2; \
		echo "  with root:    apt-get install python3 python3-venv   (or: dnf install python3)" >&2; \
		echo "  without root: pyenv, conda or uv install one into your home; then: make demo PYTHON=/path/to/python3" >&2; \
		exit 1; }

setup-synth: .python-found  ## Add the synthesis tools, for `kv-asu timing` and the FPGA figures
	@$(PYTHON) tools/setup_env.py synth

demo: setup  ## Main job: a real trace through the compiled RTL, checked against the golden model
	@$(BIN)/python -m kv_asu_sim.demo

test: setup-test  ## All tests but the slow ones
	$(BIN)/python -m pytest -n $(WORKERS) -m "not slow"

test-slow: setup-test  ## The slow tests
	$(BIN)/python -m pytest -n $(WORKERS) -m slow

sim: setup-test  ## Every stream in two simulators, six builds, under many seeds (SEEDS=3)
	$(BIN)/python -m kv_asu_sim.regression --seeds $(SEEDS) --jobs $(WORKERS)

cov: setup-test  ## Functional coverage of every stream over six builds: table, and build/coverage.json
	$(BIN)/python -m kv_asu_sim.coverage_report --json build/coverage.json --jobs $(WORKERS)

soak: setup-test  ## Compiled RTL against the model over many requests, some minutes (REQUESTS=10000000)
	$(BIN)/python -m kv_asu_sim.soak --requests $(REQUESTS) --jobs $(WORKERS)

latency: setup-test  ## Measure every answer's latency anew and write docs/latency.md
	$(BIN)/python -m kv_asu_sim.latency

mutate: setup-synth setup-test  ## Plant faults in the core and count those that the streams show (MUTANTS=400)
	$(BIN)/python -m kv_asu_sim.mutation --log2-entries 3 --window 2 --mutants $(MUTANTS) --jobs $(WORKERS)

formal: setup-test  ## Prove the core's invariants by induction; table in build/formal/proofs.md
	@cd tests && ../$(BIN)/python -m formal

formal-faults: setup-test  ## Plant faults one by one, and see the proof of each fail
	@cd tests && ../$(BIN)/python -m formal --plant all

fpga: setup-synth  ## Measure and write docs/fpga.md: sizes, grades and three seeds on an ECP5; hours, but it goes on
	$(BIN)/python -m kv_asu.timing.fpga --jobs $(WORKERS)

board: setup-synth  ## The bitstream for a ULX3S-85F, ten minutes or more; build/board/kv_asu_board.bit
	$(BIN)/python -m kv_asu.board

release: setup  ## Pack Verilog, registers, headers, constraints and assertions into dist/
	$(BIN)/python tools/release.py

lint: setup-test  ## Style, types, and generated files against their source
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m kv_asu.registers_gen --check
	$(BIN)/python -m kv_asu_firmware.retrieve_abi --check

lock: setup-test  ## Resolve pyproject.toml anew into locks/ (for maintainers)
	@tools/lock.sh

clean:  ## Remove what runs and tests have made; .venv stays
	rm -rf build dist .pytest_cache .hypothesis .ruff_cache .mypy_cache
	find . -path ./.venv -prune -o -name __pycache__ -type d -exec rm -rf {} +

distclean: clean  ## Remove .venv too
	rm -rf .venv
