# `make` prints the targets. Everything runs in .venv, which the targets make from the lock files.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PROFILE ?= release
UV := $(shell command -v uv 2>/dev/null)
PLUGINS := $(wildcard plugins/*/pyproject.toml examples/*/pyproject.toml)
RUST := Cargo.toml Cargo.lock $(shell find rust -name '*.rs' -o -name Cargo.toml -not -path '*/target/*' 2>/dev/null)

# uv is several times faster where it is installed; pip does the same job from the same lock file.
ifdef UV
CREATE := $(UV) venv --quiet --allow-existing --seed --python $(PYTHON) $(VENV)
INSTALL := VIRTUAL_ENV=$(VENV) $(UV) pip install --quiet
else
CREATE := $(PYTHON) -m venv $(VENV)
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
endif

.PHONY: help venv
help: ## Print the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

venv: $(VENV)/.core $(VENV)/.plugins ## Make .venv: locked dependencies, the compiled core, the plugins

$(VENV)/.deps: requirements/dev.txt
	$(CREATE)
	$(INSTALL) --require-hashes -r requirements/dev.txt
	@touch $@

$(VENV)/.core: $(VENV)/.deps pyproject.toml $(RUST)
	VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/maturin develop --quiet --locked --profile $(PROFILE)
	@touch $@

$(VENV)/.plugins: $(VENV)/.core $(PLUGINS)
	@if [ -n "$(PLUGINS)" ]; then $(INSTALL) --no-deps --no-build-isolation $(foreach p,$(PLUGINS),-e $(dir $(p))); fi
	@touch $@
