# The two commands of the README, and what CI runs.

SHELL := /bin/bash
PACKAGES_BUILD := cmake:cmake g++:g++ make:make
PACKAGES_TEST := curl:curl python3:python3 node:nodejs redis-server:redis-server \
	chromium:chromium chromedriver:chromium-driver

.PHONY: demo test format lint unit packages-build packages-test bench bench-store soak

# Installs what is missing, builds, and serves the built-in example on 127.0.0.1:8080.
demo: packages-build
	cargo run --quiet -- demo

# Installs what is missing, then: formatting, lints, every test.
test: packages-build packages-test format lint unit

format:
	cargo fmt --all -- --check

lint:
	cargo clippy --all-targets --quiet -- -D warnings

unit:
	cargo test --quiet

# One decision in memory: nanoseconds and instructions; and what one costs Redis.
bench: packages-build bench-store
	cargo bench --bench decide
	tests/bench/count-instructions

# Redis' time and memory for a decision, beside the script that is written most often.
bench-store: packages-build
	@packaging/install-missing redis-server:redis-server
	cargo bench --bench store

# Every kind of traffic with faults, for SECONDS seconds: nothing may be left behind.
SECONDS ?= 120
soak: packages-build packages-test
	cargo bench --bench soak -- $(SECONDS)

packages-build:
	@packaging/install-missing $(PACKAGES_BUILD)

packages-test:
	@packaging/install-missing $(PACKAGES_TEST)
