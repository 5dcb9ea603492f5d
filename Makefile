# Weir: `make help` lists what there is.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
.DEFAULT_GOAL := help
.NOTPARALLEL:
MAKEFLAGS += --no-print-directory

TARGET  := $(or $(CARGO_TARGET_DIR),target)
TOOLS   := $(TARGET)/tools
DENY    := 0.20.2
MDBOOK  := 0.5.4
WEB_SOURCES := $(shell find web -type f -not -path '*/node_modules/*' -not -path '*/dist/*' 2>/dev/null)
# One binary for every black-box test: the dev profile (dependencies at opt-level 2, our code at 0, or 1 where it computes) builds in a
# fraction of the time of release and moves bytes fast enough for tests. Only `demo` and `bench` build release.
export PATH := $(abspath $(TOOLS))/bin:$(PATH)
export PEERS ?= yes
# A file, or a folder with a `main.rs`.
BLACKBOX := $(patsubst tests/tests/%.rs,%,$(patsubst %/main.rs,%.rs,$(wildcard tests/tests/*.rs tests/tests/*/main.rs)))
TEST_SOME := cargo test --workspace --locked --no-fail-fast
TEST_BLACKBOX := $(TEST_SOME) $(addprefix --test ,$(BLACKBOX))
# They take a third of the time of all black-box tests, nearly all of it to wait until a database is taken for lost.
WAITING := nodes outages
# Property tests draw the same cases every time: a change is judged by itself. `soak` draws others.
GATE_SEED := 20260801

# What tests leave out for want of a program or a disk: each line of theirs says why.
LEFT_OUT := $(TARGET)/left-out

.PHONY: help demo build web test check quick lint tidy deny doc book unit suites browser blackbox peers soak fuzz bench clean

help: ## List the goals
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## Build Weir and run the UK mini data challenge at 1/100 of its rates
	@echo "make demo: builds Weir (minutes the first time), then runs the UK mini data challenge at 1/100 of its rates"
	$(MAKE) build
	$(TARGET)/release/weir challenge run challenges/minidc-uk.toml --scale 0.01 --audit 5%

build: web ## Build the release binary
	@scripts/prerequisites.sh
	cargo build --release --locked -p weir

web: web/dist/report.html ## Build the front end

web/dist/report.html: web/node_modules/.package-lock.json $(WEB_SOURCES)
	@cd web && npm run build && touch dist/report.html

web/node_modules/.package-lock.json: web/package.json web/package-lock.json
	@scripts/prerequisites.sh
	cd web && npm ci --no-audit --no-fund && touch node_modules/.package-lock.json

test: peers web lint tidy deny doc suites browser ## Run everything CI runs (PEERS=no: without other people's programs)
	@echo "make test: all passed"

check: export PEERS = no
check: web lint tidy doc unit ## Run what needs no peer: format, lints, tidy, unit and in-process tests, docs

quick: export PROPTEST_RNG_SEED = $(GATE_SEED)
quick: web ## Run format, lints and the tests of crates that changed since BASE=HEAD, and of their users; then a short challenge
	@node scripts/quick.mjs

lint: web
	@cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings

tidy:
	@cargo run -q --locked -p xtask -- tidy

unit: web
	@export PROPTEST_RNG_SEED=$(GATE_SEED)
	PEERS=no cargo test --workspace --exclude weir-tests --locked
	cd web && npm test

# Here and below one selection of packages, the whole workspace, so that every dependency is built once with one set of
# features.
# The black-box tests wait for other programs for most of their time: beside the others they cost little more than their
# processors' time. What they print follows when both have ended. Unit tests, some of which are about time, run before.
suites: web
	@export PROPTEST_RNG_SEED=$(GATE_SEED) WEIR_LEFT_OUT=$(abspath $(LEFT_OUT))
	rm -f "$$WEIR_LEFT_OUT"
	cargo test --workspace --locked --no-run
	passed=yes
	cargo test --workspace --locked --no-fail-fast --lib --bins || passed=no
	printed=$$(mktemp) beside=
	trap '[ -z "$$beside" ] || kill -- -$$beside || true; rm -f "$$printed"' EXIT
	# In a process group of its own, which an interrupt ends as a whole.
	set -m
	$(TEST_SOME) $(addprefix --test ,$(filter-out $(WAITING),$(BLACKBOX))) >"$$printed" 2>&1 & beside=$$!
	set +m
	cargo test --workspace --exclude weir-tests --locked --no-fail-fast --test '*' || passed=no
	cargo test --workspace --locked --no-fail-fast --doc || passed=no
	$(TEST_SOME) $(addprefix --test ,$(WAITING)) || passed=no
	echo "the other black-box tests, which run beside these, print at their end"
	wait $$beside || passed=no
	beside=
	cat "$$printed"
	scripts/left-out.sh "$$WEIR_LEFT_OUT" || passed=no
	[ $$passed = yes ] || { echo "make test: some tests failed; each failure is printed above under 'failures:'" >&2; exit 1; }
	cd web && npm test

browser: web
	@if [ "$(PEERS)" != no ]; then cd web && npm run test:browser; fi

doc: web
	@RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked

deny: ## Check licences, sources and bans of all dependencies
	@cargo deny --version >/dev/null 2>&1 || scripts/install-cargo-deny.sh $(DENY) "$(TOOLS)"
	cargo deny --log-level error check bans licenses sources

book: ## Build the handbook as a site that is searched offline (target/book/site), and check its links
	@mdbook --version >/dev/null 2>&1 || scripts/install-mdbook.sh $(MDBOOK) "$(TOOLS)"
	cargo run -q --locked -p xtask -- book "$(TARGET)/book"
	echo "the handbook is in $(TARGET)/book/site/index.html"

peers: ## Install other people's programs, which the black-box tests speak to
	@scripts/peers.sh tests

blackbox: web ## Run the black-box tests (PEERS=no: those without other people's programs)
	@cargo test --workspace --locked --no-run
	$(TEST_BLACKBOX)

soak: web ## Run the long tests, some hours: new worlds, many rounds of faults, all tests on busy and slow machines, fuzz targets
	@scripts/fuzz.sh --check
	scripts/peers.sh tests
	cargo test --workspace --locked --no-run
	PROPTEST_CASES=100000 cargo test --release --locked -p weir-sched --test model
	PROPTEST_CASES=10000 cargo test --release --locked -p weir-sim --test oracle
	WEIR_SOAK=yes cargo test --workspace --locked --test kill_transfer --test kill_streamed --test nodes --test outages --test oracle --test disk_full \
		--test storage_calls --test storage_clock --test hostile --test interrupts
	WEIR_SOAK=yes cargo test --release --locked -p weir-sim --test cases
	$(TARGET)/debug/weir incident run --all --real --out $(TARGET)/soak-incidents
	scripts/conditions.sh 3
	$(MAKE) fuzz FUZZ_SECONDS=$(or $(FUZZ_SECONDS),600)

fuzz: ## Fuzz every reader of network bytes for FUZZ_SECONDS=60 each, one on each core (cargo-fuzz, nightly Rust for its address sanitizer)
	@scripts/fuzz.sh $(or $(FUZZ_SECONDS),60)

# Another system's XRootD runs in its root directory, which only root can enter.
XROOTD_ROOT = $$([ "$$(id -u)" -ne 0 ] || [ ! -x .peers/xrootd/usr/bin/xrootd ] || echo --xrootd-root .peers/xrootd)

bench: ## Measure decisions and the simulator, then Weir beside nginx and XRootD on this machine
	@cargo bench --locked -p weir-sched --bench decisions
	@cargo run --release --locked -q -p weir-sim --example network_cost
	@cargo run --release --locked -q -p weir-sim --example simulation_cost
	@cargo run --release --locked -q -p weir-network --example relay_cost
	scripts/peers.sh bench
	cargo test --release --locked -p weir-transfer --lib rates_of -- --ignored --nocapture --test-threads 1
	$(MAKE) build
	cargo build --release --locked -p weir-bench
	WEIR_BIN=$(TARGET)/release/weir $(TARGET)/release/weir-bench $(XROOTD_ROOT)
	WEIR_BIN=$(TARGET)/release/weir $(TARGET)/release/weir-bench service

clean: ## Remove everything that was built; run folders stay
	@cargo clean
	rm -rf web/node_modules web/dist .peers
