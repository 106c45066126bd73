# Everything that people and CI do with damoos. `make help` lists it.
SHELL := /bin/bash
# Bytecode is kept, also where the environment forbids it: the tests start hundreds of Pythons, and each would compile all
# that it imports anew.
export PYTHONDONTWRITEBYTECODE :=
# Debian's own where it is new enough: it is what a fresh machine has, so it is what is tried.
PYTHON ?= $(shell for python in /usr/bin/python3 python3; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; done)
VENV := .venv
BIN := $(VENV)/bin
# The shortest of PARSEC's programs that a scheme does something for.
WORKLOAD ?= parsec3/dedup
ARGS ?=
# What the host must have: to build guests and to compile the access program; shellcheck for make lint.
APT := qemu-system-x86 mmdebstrap uidmap e2fsprogs kmod cpio xz-utils zstd openssh-client gcc libc6-dev python3-venv \
	debian-archive-keyring procps shellcheck make m4 git
# To emulate arm64 on another host, and to compile damoos's programs for it.
APT_ARM64 := qemu-system-arm $(if $(filter aarch64,$(shell uname -m)),,gcc-aarch64-linux-gnu libc6-dev-arm64-cross)
# To build kernels.
APT_KERNEL := make gcc flex bison bc perl patch libelf-dev libssl-dev xz-utils
# For tests: kernels; servers that they start for themselves; file, which damo asks what it is given; a browser that opens
# reports; groff, which reads the manual page.
APT_TEST := $(APT_KERNEL) postgresql file chromium chromium-driver groff-base
SUDO := $(if $(filter 0,$(shell id -u)),,sudo)
SOURCES := $(wildcard damoos/machines/guest/rootfs/*)

# Two processes for a CPU, as many tests wait for guests or for other processes. Each is a Python of its own, so there are
# no more than six. Tests that share a guest stay in one (tests/conftest.py).
PYTEST := $(BIN)/pytest --dist loadgroup --no-loadscope-reorder --maxprocesses 6 --numprocesses $$((2 * $$(nproc)))
phase = @echo "== $$(date +%H:%M:%S) $(1)"

.PHONY: help tune test check quick setup build image kernel kernels kernel-test lint types guest notebooks bench bench-clock bench-prior bench-search bench-judge bench-real \
	bench-published bench-serverless bench-league chaos soak fuzz docs docs-figures docs-reference clean test-bare bare-setup collected test-kvm test-arm64 test-big \
	test-rollout pins
.DEFAULT_GOAL := help

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

# That no trial kept the limits (exit code 4) is a result; the last line says what to do.
tune: setup image ## tune a scheme on a real kernel: make tune WORKLOAD=parsec3/raytrace ARGS='--trials 10'
	$(BIN)/damoos tune --workload $(WORKLOAD) $(ARGS) || { code=$$?; [ $$code -eq 4 ] || exit $$code; }

test: ## lint, types, and all tests, those on four real kernels included
	$(call phase,set-up)
	@$(MAKE) --no-print-directory --jobs 2 setup build/.test-packages
	$(call phase,image; beside it lint and types and the compilation of the tests)
	@$(MAKE) --no-print-directory --jobs 2 --output-sync image lint types collected
	$(call phase,kernels)
	@$(MAKE) --no-print-directory kernels
	$(call phase,tests; beside them the set-up of a bare Debian 12)
	@$(MAKE) --no-print-directory bare-setup >build/.bare-setup 2>&1 & bare=$$!; \
	$(PYTEST) -m "not kernel_test" || failed=1; \
	wait $$bare || { cat build/.bare-setup; exit 1; }; exit $${failed:-0}
	$(call phase,done)

# All test processes read the same modules: they find them compiled.
collected: setup
	@$(BIN)/pytest --collect-only --quiet --quiet > build/.collected || { cat build/.collected; exit 1; }

# It wants root; all of make tune on a bare Debian is make test-bare.
bare-setup:
	@if [ "$$(id -u)" = 0 ]; then tests/bare.sh bookworm setup; else echo "a bare Debian 12 is left out: it needs root"; fi

check: setup ## lint, types and the quick tests that need no guest: the inner loop
	@$(MAKE) --no-print-directory --jobs 3 --output-sync lint types quick

quick: setup
	$(PYTEST) -m "not slow" tests/unit tests/contract

test-bare: setup ## make tune on a bare Debian 12 and a bare Debian 13; needs root, 10 minutes each
	$(SUDO) tests/bare.sh bookworm tune
	$(SUDO) tests/bare.sh bookworm --chroot setup image
	$(SUDO) tests/bare.sh trixie tune

setup: $(VENV)/.installed build ## install what is missing: Debian packages, .venv, the programs below

build: $(VENV)/.installed build/.packages ## compile damoos's own programs into the cache: one makes accesses, one asks key-value servers
	@$(BIN)/python -m damoos.workloads.tools >/dev/null

$(VENV)/.installed: requirements.txt pyproject.toml | build/.packages
	@$(if $(PYTHON),,echo "damoos needs Python 3.11 or newer; name one: make PYTHON=/path/to/python3" >&2; exit 2)
	$(PYTHON) -m venv $(VENV)
	# The whole set: tests/unit/project/test_pins.py. Most of its modules are never imported, so none is compiled beforehand.
	# Only wheels whose hashes stand there: none of these packages runs code while it is installed.
	$(BIN)/pip install --quiet --no-deps --no-compile --only-binary :all: --require-hashes --requirement requirements.txt
	$(BIN)/pip install --quiet --no-deps --no-build-isolation --editable .
	touch $@

build/.packages: packages := $(APT)
build/.kernel-packages: packages := $(APT_KERNEL)
build/.test-packages: packages := $(APT_TEST)
build/.arm64-packages: packages := $(APT_ARM64)
build/.kernel-packages build/.test-packages build/.arm64-packages: | build/.packages # apt works for one at a time
# Debian would make a database and start its server with the package: tests want the programs only.
NO_CLUSTER := /etc/postgresql-common/createcluster.d/damoos.conf
build/.test-packages: before := $(SUDO) mkdir -p $(dir $(NO_CLUSTER)) && echo create_main_cluster = false | $(SUDO) tee $(NO_CLUSTER) >/dev/null &&
build/.test-packages: after := && $(SUDO) rm $(NO_CLUSTER)
# apt is asked only for what dpkg does not have, so a machine that is set up needs no network and no sudo.
build/.packages build/.kernel-packages build/.test-packages build/.arm64-packages:
	mkdir -p build
	@missing="$$(for p in $(packages); do dpkg-query -W -f '$${db:Status-Status}\n' $$p 2>/dev/null | grep -qx installed || echo $$p; done)"; \
	if [ -n "$$missing" ]; then \
		echo "installing Debian packages:" $$missing; \
		$(before) $(SUDO) apt-get -qq update && \
		$(SUDO) env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends $$missing >/dev/null $(after); \
	fi
	touch $@

# The versions stay as they are in the files; change them there first. uv is a program of its own (pip install uv).
pins: ## write the hashes of all files of the pinned versions into requirements.txt, those of workloads and that of AWS; needs uv
	set -o pipefail; for file in requirements.txt workloads/*/requirements.txt machines/aws/requirements.txt; do \
		sed -e '/--hash=/d' -e 's/ \\$$//' $$file | uv pip compile --quiet --universal --python-version 3.11 --no-deps \
			--no-annotate --no-header --generate-hashes - > $$file.new && mv $$file.new $$file || exit; \
	done

image: setup ## build the guest's kernel and image into the cache (DAMOOS_CACHE)
	@$(BIN)/damoos setup

kernel: image build/.kernel-packages ## build damoos's own kernel into the cache: make kernel, make kernel VERSION=6.12
	$(MAKE) -C kernel $(if $(VERSION),VERSION=$(VERSION)) PYTHON=$(abspath $(BIN))/python

kernels: image build/.kernel-packages ## build those of damoos's kernels that the tests boot and the cache does not have
	$(MAKE) -C kernel tested PYTHON=$(abspath $(BIN))/python

kernel-test: setup image kernels ## DAMON's own KUnit tests and kselftests, then damoos's, on four kernels
	$(BIN)/damoos kernel test damoos
	$(BIN)/damoos kernel test damoos-6.1
	$(BIN)/pytest tests/kernel

lint: setup ## ruff, import-linter, shellcheck
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	shellcheck -s sh workloads/*/*.sh
	shellcheck -s sh $(filter-out %/inittab %/sshd_config,$(SOURCES))
	shellcheck .ci/run tests/bare.sh tests/kvm/*.sh

types: setup ## mypy --strict
	$(BIN)/mypy

guest: setup image ## only the tests on a real kernel
	$(PYTEST) tests/guest

notebooks: setup image ## run the notebooks on real guests and render their pages into docs/notebooks
	$(BIN)/python notebooks/render.py

bench: setup build/.test-packages image ## what damoos costs, alone and as a fleet; searchers raced; false winners; accessed bits; models
	$(BIN)/python tests/bench/overhead.py
	$(BIN)/python tests/bench/sampling.py
	PYTHONPATH=. $(BIN)/python tests/bench/scale.py
	PYTHONPATH=. $(BIN)/python tests/bench/report.py
	$(BIN)/python tests/bench/search.py
	$(BIN)/damoos bench aa --workload $(WORKLOAD)
	$(BIN)/python tests/bench/accessed_bits.py
	$(BIN)/damoos bench monitor
	-$(BIN)/damoos workloads check-models # 1 where a model does not follow, which docs/workloads.md says of one

bench-clock: setup build image ## what the kernel's work takes on emulated CPUs of several speeds; rewrites its table in docs/machines.md
	$(BIN)/python tests/bench/clock.py

bench-real: setup build image ## real programs, those of installed suites too: time and memory by kind; goes on where it stopped
	PYTHONPATH=docs $(BIN)/python tests/bench/real.py results/bench-real

bench-published: setup build image kernel ## figures of the TMO, DAOS and KLOCs papers, measured again; goes on where it stopped (five hours)
	PYTHONPATH=docs $(BIN)/python tests/bench/published.py results/bench-published $(FIGURES)

bench-serverless: setup build image kernel ## an hour of a serverless host in service, with swap in zram and in a file (two hours)
	PYTHONPATH=.:docs $(BIN)/python tests/bench/serverless.py results/bench-serverless

PRIOR = parsec3/raytrace parsec3/freqmine parsec3/swaptions splash2x/radiosity splash2x/water_spatial stress-ng/vm
bench-league: setup build image kernel ## ten policies on real programs and models, on two kernels; goes on where it stopped (five hours)
	PYTHONPATH=docs $(BIN)/python tests/bench/league.py results/bench-league

bench-prior: setup build image ## what a recording saves a search, on six workloads (an hour)
	$(BIN)/python tests/bench/prior.py results/bench-prior $(PRIOR)

bench-search: setup ## searchers raced: on curves, and by what whole studies come to on made workloads (15 minutes)
	$(BIN)/python tests/bench/search.py
	$(BIN)/python tests/bench/surfaces.py
	$(BIN)/python tests/bench/transfer.py

bench-judge: setup ## what verdicts, guards and rollouts promise, counted where the truth is known (10 minutes)
	$(BIN)/python tests/bench/judge.py
	$(BIN)/python tests/bench/windows.py

docs-figures: setup ## the tables and figures of the docs that come from results/curated and from made workloads
	PYTHONPATH=docs $(BIN)/python -m generate.results

docs-reference: setup ## the parts of docs/reference and docs/policies.md that the code says itself
	PYTHONPATH=docs $(BIN)/python -m generate.reference

docs: setup ## the site in build/site and the manual page in build/man; warnings and broken links are errors
	$(BIN)/python -m sphinx -W --keep-going -q -E -d build/doctrees -b html docs build/site
	PYTHONPATH=docs $(BIN)/python -m generate.man build/man/damoos.1

chaos: setup image ## kills at random while sweeps run, on machines that are not there and on guests
	PYTHONPATH=. $(BIN)/python tests/chaos.py

soak: setup image ## an hour of work on machines that are not there and 20 minutes on a guest: nothing may grow
	PYTHONPATH=. $(BIN)/python tests/soak.py

fuzz: setup build/.test-packages ## words and files that nobody would write, a million of them; end it with Ctrl-C
	FUZZ_EXAMPLES=1000000 $(BIN)/pytest -x --timeout 0 tests/unit/cli/test_fuzz.py

test-kvm: build/.packages ## guests under KVM, in an emulated machine that has it; needs root, a quarter of an hour
	$(SUDO) tests/bare.sh trixie --disk build/kvm.img setup image
	tests/kvm/run.sh build/kvm.img

test-big: setup image ## Spark, fetched from PyPI (450 MB), installed and run once in a guest; 10 minutes
	$(BIN)/pip install --quiet --no-deps --no-build-isolation --require-hashes --upgrade --target build/spark \
		--requirement workloads/spark/requirements.txt
	$(BIN)/damoos workloads install spark --from build/spark

test-arm64: setup image build/.arm64-packages ## a guest of arm64: contracts, a recording, a study; 5 minutes
	$(BIN)/pytest tests/arm64/checks.py

test-rollout: setup build image kernel ## rollouts on four guests with redis under load, also over Ray, notebook 7, and an hour under --adapt; two hours
	$(BIN)/pytest -s tests/rollout/checks.py tests/rollout/notebook.py tests/rollout/phases.py

clean: ## remove what was built here; the cache and results stay
	rm -rf build $(VENV)
