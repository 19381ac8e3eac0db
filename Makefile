# All that a contributor calls. Nothing but make, a Python 3.13 (and 3.11 for the engine) and pip is presumed.
.DEFAULT_GOAL := help
SHELL := /bin/sh
export POLAR_CACHE := $(or $(POLAR_CACHE),$(CURDIR)/.cache)
PYTHON := .venv/bin/python
# A user's own vLLM, by the name that polar-capture knows too: demo and proxy then need no .venv-engine. Tests need the
# driver model; POLAR_ENGINE_URL is a server that has it (tools/engine/README.md).
UPSTREAM ?= $(or $(POLAR_UPSTREAM),$(POLAR_ENGINE_URL))

.PHONY: help setup engine demo test test-all test-sdk test-engine test-harness test-crash lint serve web grpo bench lock clean

help: ## what there is to call
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' Makefile

setup: .venv/.ready ## .venv with polar-capture, its extras and the tools of the tests
	@:
engine: .venv-engine/.ready ## .venv-engine with vLLM for the CPU, and the tiny driver model
	@:

.venv/.ready: requirements/dev.txt pyproject.toml tools/environments.py
	@python=$$(sh tools/find_python.sh 3.13) && "$$python" tools/environments.py proxy

.venv-engine/.ready: requirements/engine.txt tools/environments.py tools/engine/make_driver_model.py $(wildcard tools/engine/driver_model/*.py)
	@python=$$(sh tools/find_python.sh 3.11) && "$$python" tools/environments.py engine

# Both environments at once; each does nothing when it is there already.
.PHONY: for-use for-tests
for-use:
	@$(MAKE) --no-print-directory -j2 setup $(if $(UPSTREAM),,engine)
for-tests:
	@$(MAKE) --no-print-directory -j2 setup $(if $(POLAR_ENGINE_URL),,engine)

demo: for-use ## a real agent through the proxy, on a real vLLM: what was captured
	@$(PYTHON) tools/demo.py $(if $(UPSTREAM),--upstream "$(UPSTREAM)")

test: for-tests ## all checks and tests but the slow ones
	@$(PYTHON) tools/test.py

test-all: for-tests ## all checks and tests
	@$(PYTHON) tools/test.py --slow

test-sdk: setup ## the official clients against the proxy
	@$(PYTHON) tools/test.py --slow sdk

test-engine: for-tests ## what only a real vLLM shows
	@$(PYTHON) tools/test.py --slow engine

test-harness: for-tests ## real agents; HARNESS=NAME for one of them
	@$(PYTHON) tools/test.py --slow harness $(if $(HARNESS),--harness "$(HARNESS)")

test-crash: for-tests ## kill the proxy at its worst moments
	@$(PYTHON) tools/test.py --slow crash

lint: setup ## ruff and mypy
	@$(PYTHON) tools/test.py lint

serve: for-use ## the proxy on 127.0.0.1:8080, with UPSTREAM=URL or an engine of its own
	@$(PYTHON) tools/serve_proxy.py $(if $(UPSTREAM),--upstream "$(UPSTREAM)")

web: for-use ## the same with mitmproxy's web interface
	@$(PYTHON) tools/serve_proxy.py --web $(if $(UPSTREAM),--upstream "$(UPSTREAM)")

grpo: setup engine ## a policy that learns through an unmodified agent; ARGS="--steps 10" for its options
	@$(PYTHON) -m tools.grpo $(ARGS)

bench: setup ## what the proxy costs, in a table
	@test -e tests/bench/__main__.py || { echo "there is no benchmark yet (tests/bench/__main__.py)"; exit 1; }
	@$(PYTHON) -m tests.bench $(ARGS)

lock: setup ## resolve requirements/dev.txt anew from pyproject.toml
	@.venv/bin/uv pip compile --quiet --universal --python-version 3.13 --no-annotate --upgrade \
	  --custom-compile-command "make lock" --constraint requirements/constraints.txt \
	  --extra tokenizer --extra datasets --group dev pyproject.toml --output-file requirements/dev.txt

clean: ## remove environments, caches and the demo's files
	rm -rf .venv .venv-engine .cache .demo .pytest_cache .mypy_cache .ruff_cache .hypothesis
