# make demo and make test install everything that they need. `make help` lists the other targets.
SHELL := /bin/sh
PYTHON ?=
EVENTS ?= 20000
PYTEST_ARGS ?= --quiet --numprocesses 2 --dist worksteal
BIN := .venv/bin
export PYTHON

.PHONY: help announce demo demo-containerd quick test test-all test-python test-node coverage fuzz soak docs lint binaries binaries-portable install may-install uninstall rollback deb release bench clean venv
.DEFAULT_GOAL := help

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 18

demo: announce binaries ## five chapters on an embedded runtime with the real bridge and plugins; one: CHAPTER=devices
	@$(BIN)/python -m demo $(CHAPTER)

announce:
	@[ -x $(BIN)/python ] || echo "The first run takes about a minute and a half: it makes .venv and compiles the plugins."

demo-containerd: binaries ## the same chapters on a private, real containerd; needs root
	@$(BIN)/python -m demo.on_containerd $(CHAPTER)

quick: venv ## run the unit tests: a minute, without root, compiled binaries or runtimes
	@$(BIN)/python -m pytest $(PYTEST_ARGS) tests/unit

test: binaries ## run all tests that this machine can run; the end lists what was skipped, and why
	@$(BIN)/python -m pytest $(PYTEST_ARGS)

test-all: binaries ## everything, for hours: emulated machines, other Pythons, coverage, fuzzing, soak, bench; goes on where it stopped
	@tools/parts all

test-python: binaries ## the unit and integration tests with another Python: PYTHON=3.14
	@tools/test-python $(PYTHON)

test-node: binaries ## a whole machine with systemd and cgroup v2 in an emulator, and what happens to it; needs root
	@tools/test-node $(NODE_ARGS)

coverage: binaries ## branches of nri/ that the unit and integration tests reach, by package
	@tools/coverage

fuzz: venv ## fuzz all parsers of untrusted input, guided by coverage; FUZZ_SECONDS=60 for each target
	@tools/fuzz

soak: binaries ## run the bridge for a long time with faulty plugins; EVENTS=20000
	@nice -n 10 $(BIN)/python -m soak --events $(EVENTS)

docs: venv ## build the pages as a site with search in build/site; a broken link is an error. SERVE=1 shows it
	@$(BIN)/python tools/docs >build/docs.txt 2>&1 || { grep -E "WARNING|Error" build/docs.txt; exit 1; }; tail -n 1 build/docs.txt
	@[ -z "$(SERVE)" ] || { echo "http://127.0.0.1:8000, until Ctrl-C"; $(BIN)/python -m http.server --bind 127.0.0.1 --directory build/site; }

lint: venv docs ## check format, lint, types, decisions, layers and the pages
	@$(BIN)/ruff format --check --quiet . && $(BIN)/ruff check --quiet . && echo "ruff: fine"
	@$(BIN)/mypy --no-error-summary && echo "mypy: fine"
	@$(BIN)/codespell -D - -D tools/dialect.txt -L notin,datas,timout -S '*.svg,*.pyc,*_pb2*,*/recorded/*,tools/dialect.txt' nri docs *.md deploy demo conf tools && echo "words: fine"
	@$(BIN)/python tools/decisions && echo "decisions: fine"
	@$(BIN)/lint-imports --no-cache >build/layers.txt 2>&1 || { cat build/layers.txt; exit 1; }; echo "layers: fine"

binaries: venv ## build dist/nri with PyInstaller: nri, v1bridge, the plugins and their shared libraries
	@tools/binaries

binaries-portable: venv ## build dist/nri in a tree of Debian 11, for nodes with glibc 2.30 or later; needs root and debootstrap
	@tools/binaries --portable

install: may-install binaries ## install the binaries and the sample configuration below DESTDIR
	@tools/install "$(DESTDIR)"

may-install:
	@tools/install --check "$(DESTDIR)"

uninstall: ## remove what make install has installed below DESTDIR
	@tools/uninstall $(if $(FORCE),--force) "$(DESTDIR)"

rollback: ## go back to the previous binaries below DESTDIR, or forward again
	@tools/rollback "$(DESTDIR)"

deb: binaries-portable ## build a Debian package of the portable binaries
	@tools/deb

release: binaries-portable ## make wheel, sources, binaries, .deb, .rpm, SBOM and checksums in dist/release
	@tools/release

bench: binaries ## measure plugins and bridge against references of the same run, and check the goals
	@$(BIN)/python -m bench $(BENCH_ARGS)

venv: ## make the virtual environment in .venv
	@mkdir -p build
	@tools/venv .venv

clean: ## remove what was built, except for the virtual environment
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find bench demo fuzz harness nri soak tests -name __pycache__ -type d -exec rm -rf {} +
