# make demo and make test set up everything they need, from nothing. `make help` lists the rest.
SHELL := /bin/sh
PYTHON ?=
EVENTS ?= 20000
PYTEST_ARGS ?= --quiet --numprocesses 2
BIN := .venv/bin
export PYTHON

.PHONY: help demo demo-containerd test fuzz soak lint binaries install may-install bench clean venv
.DEFAULT_GOAL := help

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 18

demo: binaries ## two pods on an embedded runtime, the real bridge, the real plugins, on the screen
	@$(BIN)/python -m demo

demo-containerd: binaries ## the same on a private, real containerd; needs root
	@$(BIN)/python -m demo.on_containerd

test: binaries ## all tests that this machine can run; at the end what was skipped, and why
	@$(BIN)/python -m pytest $(PYTEST_ARGS)

fuzz: venv ## coverage-guided fuzzing of what reads others' bytes; FUZZ_SECONDS=60 for each target
	@tools/fuzz

soak: binaries ## the bridge for a long time, one plugin in five at fault; EVENTS=20000
	@nice -n 10 $(BIN)/python -m soak --events $(EVENTS)

lint: venv ## format, lint, types, layers
	@$(BIN)/ruff format --check --quiet . && $(BIN)/ruff check --quiet . && echo "ruff: fine"
	@$(BIN)/mypy --no-error-summary && echo "mypy: fine"
	@$(BIN)/lint-imports --no-cache >build/layers.txt 2>&1 || { cat build/layers.txt; exit 1; }; echo "layers: fine"

binaries: venv ## PyInstaller -> dist/nri: clearcfs, konfine, nri and the folder of libraries that they share
	@tools/binaries

install: may-install binaries ## lay the binaries and the sample configuration out below DESTDIR
	@tools/install "$(DESTDIR)"

may-install:
	@tools/install --check "$(DESTDIR)"

bench: binaries ## what plugins and the bridge cost, beside references of the same run, and whether the goals are reached
	@$(BIN)/python -m bench $(BENCH_ARGS)

venv: ## the virtual environment in .venv
	@mkdir -p build
	@tools/venv .venv

clean: ## remove what was made, but for the virtual environment
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find bench demo fuzz harness nri soak tests -name __pycache__ -type d -exec rm -rf {} +
