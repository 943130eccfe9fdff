# PG: the major version of PostgreSQL to build for
export PG ?= 15
export PG_CONFIG ?= /usr/lib/postgresql/$(PG)/bin/pg_config
export DESTDIR
.PHONY: help docs demo web psql test test-core test-board test-clients test-tools test-router faults test-all deb packages packages-test bench install lint clean

help: ## this list
	@echo 'make TARGET [PG=15] [PG_CONFIG=path]'
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1\t\2/p' Makefile | expand -t 16

demo: ## the main job on real input, on a private server; installs what is missing
	@scripts/demo

web: ## the web page, on a private server with a live load
	@tools/scylla-pg/demo

psql: ## a shell on the demo's server
	@scripts/psql

test: ## every test, and lint
	@scripts/test

test-core: ## the tests of the extension; builds neither client nor tool
	@scripts/test core

test-board: ## the tests of what needs no PostgreSQL: board, recurrence
	@scripts/test board

test-clients: ## the tests of the client libraries; SCYLLA_NO_BUILD=1 compiles no extension
	@scripts/test clients

test-tools: ## the tests of the command line; SCYLLA_NO_BUILD=1 compiles no extension
	@scripts/test tools

test-router: ## the router: 100,000 tasks, 50 kills, a million moved; 20 failovers
	@SCYLLA_LONG=1 pgrx-tests/router/run

faults: ## torments a server, and proves that nothing is lost [SEED=n] [ONLY=name] [MINUTES=60]
	@pgrx-tests/faults/run $(if $(SEED),--seed $(SEED)) $(if $(ONLY),--only $(ONLY)) $(if $(MINUTES),--minutes $(MINUTES))

test-all: ## every test with PostgreSQL 15, 17 and 18, each in a new Debian; as root
	@scripts/test-all

deb: ## the Debian package, in target/packages
	@scripts/package deb

packages: ## all packages of a release, each on its Debian; as root
	@scripts/release packages

packages-test: ## makes the packages twice, checks and installs them; as root
	@scripts/packages-test

docs: ## the site of the documentation, in target/docs/site
	@scripts/docs

bench: ## the benchmark, against other queues; bench/run --help for parts of it
	@bench/run

install: ## build, and install into the PostgreSQL of PG_CONFIG, below DESTDIR
	@scripts/build
	@scripts/install

lint: ## formatting, clippy, shell, Python, spelling, words, layers, licences
	@scripts/lint

clean: ## what was built, the private PostgreSQL and its servers
	@scripts/pg clean
	@cargo clean
