# Two commands do everything on a machine that has only Python 3.11 or newer: `make demo` and `make test`.
# Packages come pinned with hashes from requirements.lock, through uv where it is installed and pip where it is not.

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
LOCAL := $(VENV)/.local
# one more than there are processors: many tests wait for what another process does
WORKERS ?= $(shell echo $$(( $$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2) + 1 )))
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& { echo $$p; break; }; done)

.PHONY: demo demo-local test lint diagrams schemas lock clean

demo: $(READY)
	@$(BIN)/sma demo

# The same with a model on this machine, and beside it decisions by chance. However it ends is what is to be seen (10 to 15).
demo-local: $(LOCAL)
	@$(BIN)/sma demo --model local:smollm2 --chance 200; code=$$?; \
		test $$code -eq 0 || { test $$code -ge 10 && test $$code -le 15; } || exit $$code

test: $(READY)
	@$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(ARGS)

lint: $(READY)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/mypy --strict --config-file "" --follow-imports=silent tests/typing/api.py  # as a user's code

diagrams: $(READY)
	@for f in machines/*.yaml; do m=$$(basename $$f .yaml); $(BIN)/sma diagram $$m -o diagrams/$$m.svg || exit 1; done

schemas: $(READY)
	@for k in machine tool people script settings; do $(BIN)/sma schema $$k -o schemas/$$k.json; done

# The pins: rewritten from pyproject.toml, without the address of any registry.
lock:
	uv pip compile --universal --generate-hashes --no-emit-index-url --no-header --python-version 3.11 \
		--extra dev pyproject.toml -o requirements.lock
	uv pip compile --universal --generate-hashes --no-emit-index-url --no-header --python-version 3.11 \
		--extra local -c requirements.lock pyproject.toml -o requirements-local.lock

$(READY): requirements.lock pyproject.toml
	@test -n "$(PYTHON)" || { echo "make: Python 3.11 or newer is needed; install it, or name it: make PYTHON=…" >&2; exit 1; }
	@echo "setting up $(VENV) (once) …"
	@if command -v uv >/dev/null 2>&1; then \
		uv venv --quiet --clear --python "$(PYTHON)" $(VENV) && \
		uv pip install --quiet --python $(BIN)/python --require-hashes -r requirements.lock && \
		uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation -e . ; \
	else \
		"$(PYTHON)" -m venv --clear $(VENV) && \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock && \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e . ; \
	fi
	@touch $@

# llama.cpp comes as source only: what it takes is said before it is taken.
$(LOCAL): requirements-local.lock $(READY)
	@command -v "$${CXX:-c++}" >/dev/null 2>&1 || command -v g++ >/dev/null 2>&1 || { \
		echo "make: a C++ compiler is needed (on Debian: apt-get install g++)" >&2; exit 1; }
	@echo "adding the local model to $(VENV) (once): 93 MB of weights, and llama.cpp is compiled, which takes five to"
	@echo "ten minutes on two cores and needs a C++ compiler; nothing is printed meanwhile …"
	@if command -v uv >/dev/null 2>&1; then \
		uv pip install --quiet --python $(BIN)/python --require-hashes -r requirements-local.lock; \
	else \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-local.lock; \
	fi
	@touch $@

clean:
	rm -rf $(VENV) build dist  # the tasks in .sma stay
