# `make` prints the targets. Everything runs in .venv, which the targets make from the lock files.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# `release` is for wheels and benches: its link takes minutes.
PROFILE ?= quick
UV := $(shell command -v uv 2>/dev/null)
PLUGINS := $(wildcard plugins/*/pyproject.toml examples/*/pyproject.toml)
RUST := Cargo.toml Cargo.lock $(shell find rust -name '*.rs' -o -name Cargo.toml -not -path '*/target/*' 2>/dev/null)

# Use uv if it is installed: it is several times faster. pip does the same from the same lock file.
ifdef UV
CREATE := $(UV) venv --quiet --allow-existing --seed --python $(PYTHON) $(VENV)
INSTALL := VIRTUAL_ENV=$(VENV) $(UV) pip install --quiet
else
CREATE := $(PYTHON) -m venv $(VENV)
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
endif

DEVELOP = PIP_QUIET=1 VIRTUAL_ENV=$(CURDIR)/$(VENV) $(CURDIR)/$(BIN)/maturin develop --quiet --locked --profile $(PROFILE)

# What a host imports. uv leaves compiling to the first run. In containers that set PYTHONDONTWRITEBYTECODE nothing is
# written then, and compiling takes half of every start.
RUNTIME := anyio click cryptography greenlet h11 idna msgspec pluggy prometheus_client starlette structlog typing_extensions.py wsproto yaml

.PHONY: help venv
help: ## Print the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

venv: $(VENV)/.core $(VENV)/.plugins ## Make .venv: locked dependencies, the compiled core, the plugins

$(VENV)/.deps: requirements/dev.txt
	$(CREATE)
	$(INSTALL) --require-hashes -r requirements/dev.txt
	@touch $@

$(VENV)/.core: $(VENV)/.deps pyproject.toml sandbox/pyproject.toml $(RUST)
	$(DEVELOP)
	cd sandbox && $(DEVELOP)
	@touch $@

# Full benches measure what wheels have.
.PHONY: release-core
release-core: PROFILE := release
release-core: venv
	$(DEVELOP)
	cd sandbox && $(DEVELOP)

$(VENV)/.plugins: $(VENV)/.core $(PLUGINS)
	@if [ -n "$(PLUGINS)" ]; then $(INSTALL) --no-deps --no-build-isolation $(foreach p,$(PLUGINS),-e $(dir $(p))); fi
	@$(BIN)/python -m compileall -q ctrlhost sandbox/src plugins/*/src $(RUNTIME:%=$(VENV)/lib/python*/site-packages/%)
	@touch $@

# ---- tests ---------------------------------------------------------------------------------------------------------

GO_SOURCES := tests/go/go.mod tests/go/go.sum tests/go/build
CONTROLPLANE := tests/go/bin/controlplane
PEERS := tests/go/bin/peers
CLIENTS := tests/go/bin/clients
JAVA_CLIENTS := tests/java/target/classes/Clients.class
RUST_CLIENTS := tests/rust/target/debug/clients
HELM := tests/go/bin/helm
CONFORMANCE := tests/go/bin/conformance
PROTOBUF := tests/go/bin/protobuf
# In CI a test that fails runs once more, and the end of the output lists it as RERUN: it is not steady, mend it.
PYTEST := $(BIN)/python -m pytest$(if $(CI), --reruns 1 -raR)

$(CONTROLPLANE): $(GO_SOURCES) $(wildcard tests/go/controlplane/*.go)
	PYTHON=$(PYTHON) tests/go/build controlplane

$(PEERS): $(GO_SOURCES) $(wildcard tests/go/peers/*.go)
	PYTHON=$(PYTHON) tests/go/build peers

$(CLIENTS): $(GO_SOURCES) $(wildcard tests/go/clients/*.go)
	PYTHON=$(PYTHON) tests/go/build clients

# Without Maven and a JDK the test of the Java client is skipped with a message.
$(JAVA_CLIENTS): tests/java/pom.xml $(wildcard tests/java/src/main/java/*.java)
	cd tests/java && mvn --quiet --batch-mode compiler:compile dependency:copy-dependencies
	@touch $@

# Its own workspace.
$(RUST_CLIENTS): tests/rust/Cargo.toml tests/rust/Cargo.lock $(wildcard tests/rust/src/*.rs)
	cargo build --quiet --locked --manifest-path tests/rust/Cargo.toml --target-dir tests/rust/target
	@touch $@

$(HELM): tests/go/build $(wildcard tests/go/helm/go.*)
	PYTHON=$(PYTHON) tests/go/build helm

$(PROTOBUF): $(GO_SOURCES) $(wildcard tests/go/protobuf/*.go)
	PYTHON=$(PYTHON) tests/go/build protobuf

$(CONFORMANCE): tests/go/build $(wildcard tests/go/conformance/*)
	PYTHON=$(PYTHON) tests/go/build conformance

.PHONY: demo test test-fast test-rust test-python test-real real-tools nightly slow conformance evil loom
demo: venv ## Run all plugins on the sandbox with example objects; KEEP=1 leaves it running
	@$(BIN)/python -m examples.demo $(if $(KEEP),--keep)

# Tests mostly wait: with one process for each core, half of the machine is idle. Each process has its own servers.
WORKERS ?= $(shell echo $$(($$(nproc 2>/dev/null || echo 1) + 1)))
SPREAD := $(if $(filter-out 0 1,$(WORKERS)),-n $(WORKERS))
# A run is to take 8 minutes on two cores; a machine that needs more than 20 makes it fail.
LIMITED := $(SPREAD) $(if $(SPREAD),--session-timeout 1200)

test: test-rust test-python ## The tests that need only Python and Rust, on the sandbox

test-rust:
	cargo test --quiet --locked --profile $(PROFILE) --package ctrlhost-core --package ctrlhost-requests --package ctrlhost-transport --package kube-cel

test-python: venv
	$(PYTEST) --quiet -m "not real and not slow" $(LIMITED)

test-fast: venv ## The unit tests and those of the plugins, under a minute
	$(PYTEST) --quiet tests/unit plugins/*/tests -m "not real and not slow" $(SPREAD)

# What `test-real` needs beside Python and Rust.
REAL := $(CONTROLPLANE) $(PROTOBUF) $(CLIENTS) $(HELM) $(RUST_CLIENTS) $(if $(and $(shell command -v mvn),$(shell command -v javac)),$(JAVA_CLIENTS))

# Without bitcoind, promtool or Chromium their tests are skipped with a message; in CI a missing one is a failure.
real-tools: $(REAL)
	@for program in bitcoind promtool browser; do tests/$$program/fetch >/dev/null || test -z "$$CI"; done

test-real: venv real-tools ## The tests on a real kube-apiserver, with kubectl, helm, bitcoind, promtool, a browser, other clients
	cargo test --quiet --locked --profile $(PROFILE) --package ctrlhost-core --test proto_go -- --ignored
	$(PYTEST) --quiet -m "real and not slow" $(LIMITED)

slow: venv real-tools ## The slow tests: storms, outages, revoked tokens, installations
	$(PYTEST) --quiet -m slow $(SPREAD)

loom: ## Explore the interleavings of queue, store and handlers, up to a bound
	cargo test --quiet --locked --profile $(PROFILE) --package ctrlhost-core --features loom --test queue_loom --test store_loom --test informer_loom

conformance: venv $(CONTROLPLANE) $(CONFORMANCE) ## Kubernetes' own tests that need no container, and published CRDs, on the sandbox
	$(PYTEST) --quiet tests/conformance/upstream.py tests/conformance/published_crds.py --timeout 1800 $(SPREAD)

evil: venv ## Each misbehaviour of a plugin beside a good one, on the sandbox; in `make nightly` on the real server, too
	$(PYTEST) --quiet tests/evil/every_misbehaviour.py -m "not real" $(SPREAD)

nightly: venv real-tools $(CONFORMANCE) ## What takes long: run it once before an issue is resolved
	$(MAKE) test-rust PROFILE=dev # with debug assertions and checks of overflow, which `quick` leaves out
	$(MAKE) loom slow soak conformance test-pythons test-free-threaded
	$(PYTEST) --quiet tests/evil/every_misbehaviour.py -m real $(SPREAD)
	$(MAKE) fuzz bench bench-scale

# The versions beside the one of `.venv`, where they are installed: in the PATH, by pyenv or by uv.
PYTHONS ?= 3.12 3.13 3.14
.PHONY: test-pythons $(PYTHONS:%=test-python-%)
test-pythons: $(PYTHONS:%=test-python-%) ## The unit, host and sandbox tests on each Python that is installed

installed = $(shell tests/python/find $(1))
$(PYTHONS:%=test-python-%): test-python-%:
	$(if $(call installed,$*),$(MAKE) VENV=.venv-$* PYTHON=$(call installed,$*) .venv-$*/.plugins,@echo "Python $* is not installed; nothing was tested on it")
	$(if $(call installed,$*),.venv-$*/bin/python -m pytest --quiet tests/unit tests/host sandbox -m "not real and not slow" $(SPREAD))

# A free-threaded interpreter; `make test-free-threaded FREE_THREADED=…` uses another one.
FREE_THREADED ?= $(shell command -v python3.14t python3.13t | head -n 1)
.PHONY: test-free-threaded
test-free-threaded: ## The tests on a free-threaded Python, if one is installed
ifeq ($(FREE_THREADED),)
	@echo "no free-threaded Python (python3.14t or python3.13t) is installed; nothing was tested on one"
else
	$(MAKE) VENV=.venv-free-threaded PYTHON=$(FREE_THREADED) .venv-free-threaded/.plugins
	.venv-free-threaded/bin/python -c 'import sys, ctrlhost._core; sys.exit(sys._is_gil_enabled() and "the import turned the lock on")'
	PYTHON_GIL=0 .venv-free-threaded/bin/python -m pytest --quiet -m "not real and not slow"
endif

.PHONY: tables controlplane
tables: $(PROTOBUF) ## Write the tables of built-in kinds anew from the Go types
	$(PROTOBUF) tables rust/core/src/proto/fields.table sandbox/src/ctrlhost_sandbox/registry/data/types.json

controlplane: $(CONTROLPLANE) ## Start a real kube-apiserver for yourself; prints its kubeconfig
	@mkdir -p .cache && $(CONTROLPLANE) serve .cache/controlplane

# ---- lint ----------------------------------------------------------------------------------------------------------

.PHONY: lint format
lint: venv ## Formatting, lint, types, import layers, stubs
	cargo fmt --check
	cargo clippy --quiet --locked --profile $(PROFILE) --all-targets -- -D warnings
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m mypy.stubtest ctrlhost._core --allowlist tests/stubtest-allowlist.txt

format: venv ## Format the sources
	cargo fmt
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# ---- benches, fuzzing, docs, wheels --------------------------------------------------------------------------------

.PHONY: bench bench-scale fuzz soak lock wheel clean
fuzz: ## Fuzz every decoder, SECONDS_EACH seconds (300); 0 replays the seeds and what was found before
	rust/fuzz/run $(or $(SECONDS_EACH),300)

soak: venv $(CONTROLPLANE) $(PROTOBUF) ## The long versions of the leak, stress, waiting, kill, differential and shard model tests, and 200,000 faults
	CTRLHOST_LEAK_CYCLES=10000000 CTRLHOST_STRESS_ADDS=100000 $(PYTEST) --quiet tests/unit -k "leak or flat or stress" --timeout 3600
	CTRLHOST_RANDOM_OBJECTS=1000 cargo test --quiet --locked --profile $(PROFILE) --package ctrlhost-core --test proto_go -- --ignored
	CTRLHOST_FAULTS=100000 $(PYTEST) --quiet tests/convergence
	CTRLHOST_BITCOIN_SOAK=1 $(PYTEST) --quiet tests/e2e -k "bitcoin and (at_rest or left_in_peace)"
	CTRLHOST_KILLS=1000 CTRLHOST_FUZZ_REQUESTS=100000 $(PYTEST) --quiet sandbox/tests -k "kills or fuzzed" --timeout 7200
	CTRLHOST_DIFFERENTIAL_SECONDS=600 $(PYTEST) --quiet tests/differential
	CTRLHOST_SHARD_STATES=1000000 CTRLHOST_SHARD_WALKS=300 $(PYTEST) --quiet tests/coordination --timeout 3600

BENCH := $(BIN)/python -m pytest benches --benchmark-enable --timeout 900
bench: $(if $(SHORT),venv,release-core) $(PEERS) $(CONTROLPLANE) ## Measure against the peers in one run; SHORT=1 for the headline figures of CI
	$(BENCH) $(if $(SHORT),--short)

bench-scale: release-core $(PEERS) $(CONTROLPLANE) ## Measure large clusters against the peers, 15 minutes; writes docs/benchmarks-scale.md
	$(BENCH) --scale

docs: venv ## Write the generated parts of docs/reference, and the site to docs/_build/html
	$(BIN)/python -m tests.docs.test_reference
	$(BIN)/python -m sphinx -b html -W -n -q docs docs/_build/html

COMPILE := uv pip compile --quiet --universal --generate-hashes --python-version 3.11 --no-emit-index-url --no-header
lock: ## Renew the lock files: of this environment, of the image, of builds and of releases
	$(COMPILE) pyproject.toml sandbox/pyproject.toml requirements/dev.in --output-file requirements/dev.txt
	for name in build release runtime; do \
	  $(COMPILE) --constraint requirements/dev.txt requirements/$$name.in --output-file requirements/$$name.txt; done

# With the package `ziglang` the wheels are for manylinux2014, without it for the libc of this machine.
ZIG = $(shell $(BIN)/python -c "import ziglang; print('--zig --compatibility manylinux2014 ')" 2>/dev/null)
wheel: venv ## Build the wheels of ctrlhost and of the bundled plugins into dist/
	$(BIN)/maturin build --quiet --locked --release $(ZIG)--out dist
	cd sandbox && $(CURDIR)/$(BIN)/maturin build --quiet --locked --release $(ZIG)--out ../dist
	$(if $(FREE_THREADED),$(BIN)/maturin build --quiet --locked --release $(ZIG)--out dist --interpreter $(FREE_THREADED))
	for plugin in $(dir $(PLUGINS)); do (cd $$plugin && $(CURDIR)/$(BIN)/python -m hatchling build --target wheel --directory $(CURDIR)/dist); done

.PHONY: image image-check release-check
TAG ?= ctrlhost:$(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
image: ## Build the image with docker, as TAG, from the base images in image/bases.lock
	docker build $$(sed -n 's/^[A-Z]*_IMAGE=/--build-arg &/p' image/bases.lock) --tag $(TAG) \
	  --build-arg SOURCE=$$(git remote get-url origin) --build-arg REVISION=$$(git rev-parse HEAD) \
	  --build-arg VERSION=$(lastword $(subst :, ,$(TAG))) .

image-check: venv ## The scripts of the image in roots of Debian packages; needs root and a mirror of Debian
	$(PYTEST) --quiet tests/release/image_in_a_root.py

# The address of the project's repository, as https://HOST/OWNER/NAME. Without it the wheel has no addresses.
PROJECT_URL ?=

# Zig links against the old C library that manylinux2014 has.
RELEASE := .venv-release
release-check: image-check ## Build what a release publishes into dist/release, and check it
	$(PYTHON) -m venv $(RELEASE)
	$(RELEASE)/bin/python -m pip install --quiet --require-hashes --requirement requirements/release.txt
	rm -rf dist/release dist/source
	mkdir -p dist/source && git archive HEAD | tar -x -C dist/source
	$(if $(PROJECT_URL),$(PYTHON) release/addresses.py --tree dist/source $(PROJECT_URL))
	for part in . sandbox; do (cd dist/source/$$part && \
	  $(CURDIR)/$(RELEASE)/bin/maturin sdist --out $(CURDIR)/dist/release && \
	  CTRLHOST_REVISION=$$(git rev-parse HEAD) PATH=$(CURDIR)/$(RELEASE)/bin:$$PATH CARGO_TARGET_DIR=$(CURDIR)/target \
	  maturin build --quiet --locked --release --zig --compatibility manylinux2014 --out $(CURDIR)/dist/release) || exit; done
	CTRLHOST_RELEASE=dist/release $(PYTEST) --quiet tests/release/wheel_in_a_root.py
	$(RELEASE)/bin/python release/check.py --tree dist/source --dist dist/release

clean: ## Remove what the targets made
	rm -rf $(VENV) .venv-* .cache dist target tests/go/bin tests/java/target tests/rust/target
