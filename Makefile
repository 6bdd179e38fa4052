# The commands of the README. Each installs what it needs, asks nothing, and hands over to the program `xtask`.

CARGO ?= cargo
XTASK := $(CARGO) run --quiet --package xtask --
# Where cargo puts what it builds: as `cargo run` chooses features anew, it would build half of it again.
BUILT = $(shell $(CARGO) metadata --no-deps --format-version 1 | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')/debug

.PHONY: all demo test dist package bench count lint tidy fuzz clean

all:
	$(CARGO) build --workspace

# Three web servers and two load balancers; ONCE=1 ends after the table and fails if a request did. DEMO="--seconds 10" passes options on.
demo:
	@echo "Building Weir and its demo: about 250 crates, a few minutes the first time."
	$(CARGO) build --package weir --package xtask
	$(BUILT)/xtask demo --weir $(BUILT)/weir $(if $(ONCE),--once) $(DEMO)

# All tests. The binary first: tests of other crates start it too.
test:
	$(CARGO) build --workspace --all-targets
	$(BUILT)/xtask deps
	$(CARGO) test --workspace --all-targets --no-fail-fast
	$(CARGO) test --workspace --doc

# The binary that is measured and released: built twice, the second time by a profile of what was hot. DIST="--plain" builds once.
dist:
	$(XTASK) dist $(DIST)

# Debian packages, a container image's folder, the list of parts: docs/packages.md. PACKAGE="--weir PROGRAM" passes options on.
package:
	$(XTASK) package $(PACKAGE)

# Weir's CPU per request beside its rivals', and whether it meets its targets: the lab's scenario `packed`. BENCH="--quick --rows static"
# passes options on; docs/performance.md tells them, and how two builds are compared.
bench:
	$(XTASK) deps --bench
	$(XTASK) count
	$(XTASK) bench $(BENCH)

# User instructions per request, by phase, held to their budgets. COUNT="--build guided --functions 30" passes options on.
count:
	$(XTASK) count $(COUNT)

lint:
	$(XTASK) deps --lint
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --document-private-items
	$(XTASK) tidy
	$(XTASK) deny

tidy:
	$(XTASK) tidy

# Spoiled input for every parser. FUZZ="--seconds 60 --only nginx" passes options on. `cargo xtask fuzz` is guided by coverage, and longer.
fuzz:
	$(XTASK) fuzz-smoke $(FUZZ)

clean:
	$(CARGO) clean
