# The two commands of the README, and what CI runs.

SHELL := /bin/bash
PACKAGES_BUILD := cmake:cmake g++:g++ make:make
PYTHON_PACKAGES := /usr/lib/python3/dist-packages
PACKAGES_TEST := curl:curl python3:python3 node:nodejs redis-server:redis-server h2load:nghttp2-client wrk:wrk \
	/usr/bin/python3:python3 $(PYTHON_PACKAGES)/grpc:python3-grpcio $(PYTHON_PACKAGES)/websockets:python3-websockets \
	chromium:chromium chromedriver:chromium-driver

.PHONY: demo test format lint unit packages-build packages-test bench bench-store bench-gateway release release-tools soak

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

# A release build guided by a profile, where the tools for it are there; target/guided/sluicegate.
release: packages-build
	@packaging/guided-release

# What `release` and `bench-gateway` can use and no Debian package holds, into target/tools.
release-tools:
	@packaging/install-missing python3:python3 nginx:nginx wrk:wrk h2load:nghttp2-client redis-server:redis-server
	@packaging/release-tools

# One decision in memory: nanoseconds and instructions; what one costs Redis; the whole gateway beside its peers.
bench: packages-build bench-store bench-gateway
	cargo bench --bench decide
	tests/bench/count-instructions

# Redis' time and memory for a decision, beside the script that is written most often.
bench-store: packages-build
	@packaging/install-missing redis-server:redis-server
	cargo bench --bench store

# The whole gateway beside bare Pingora, nginx and Envoy. The build of `make release` is measured too where it is there.
bench-gateway: packages-build
	@packaging/install-missing python3:python3 nginx:nginx wrk:wrk
	cargo build --release --bin sluicegate
	cargo build --manifest-path $(GATEWAY)/bare/Cargo.toml --target-dir target/bare --profile same --features mimalloc --locked
	cargo build --manifest-path $(GATEWAY)/bare/Cargo.toml --target-dir target/bare --release --bin bare --locked
	$(GATEWAY)/compare.py $(COMPARE)

GATEWAY := tests/bench/gateway

# Every kind of traffic with faults, for SECONDS seconds: nothing may be left behind.
SECONDS ?= 120
soak: packages-build packages-test
	cargo bench --bench soak -- $(SECONDS)

packages-build:
	@packaging/install-missing $(PACKAGES_BUILD)

packages-test:
	@packaging/install-missing $(PACKAGES_TEST)
