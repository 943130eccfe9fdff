# PG: the major version of PostgreSQL to build for
export PG ?= 15
export PG_CONFIG ?= /usr/lib/postgresql/$(PG)/bin/pg_config
export DESTDIR
.PHONY: help demo psql test bench install lint clean

help: ## this list
	@echo 'make TARGET [PG=15] [PG_CONFIG=path]'
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  \1\t\2/p' Makefile | expand -t 12

demo: ## the main job on real input, on a private server; installs what is missing
	@scripts/demo

psql: ## a shell on the demo's server
	@scripts/psql

test: ## every test
	@scripts/test

bench: ## the benchmark
	@bench/run

install: ## build, and install into the PostgreSQL of PG_CONFIG, below DESTDIR
	@scripts/build
	@scripts/install

lint: ## formatting, clippy, shell, spelling, words, layers, licences
	@scripts/lint

clean: ## what was built, the private PostgreSQL and its servers
	@scripts/pg clean
	@cargo clean
