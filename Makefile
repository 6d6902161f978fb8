# Paddock. `make help` says what there is; Go and git are all that is needed.

GO       ?= go
BIN      := bin
TOOLS    := .cache/tools
FUZZTIME ?= 10s
TESTARGS ?=
BENCHARGS ?=

# The product, its tests and its benchmarks are modules of their own, which
# go.work joins. A pattern matches packages of one module alone. What makes releases
# stays outside of go.work.
MODULES  := . test bench release
# Those that take longest come first, so that nothing waits for one of them at the end.
PACKAGES := ./test/... ./... ./bench/...

# What test-engines runs whole. "make test ELSEWHERE=engines" leaves it to that.
ENGINES   := backend/codex backend/docker backend/piped backend/wrapper internal/testkit/engines test/backends
ELSEWHERE ?=

# A tree that belongs to somebody else has no commit that git would tell. What is
# compiled with -trimpath serves every copy of the tree, and what is compiled without
# cgo serves programs, tests and virtual machines alike.
export GOFLAGS := $(strip $(GOFLAGS) -buildvcs=false -trimpath)
export CGO_ENABLED := 0

# The race detector: auto uses it where it works, which takes a C compiler.
RACE ?= auto
race  = $(if $(filter auto,$(RACE)),$(raceprobe),$(if $(filter on,$(RACE)),-race))
raceprobe = $(eval raceprobe := $(shell CGO_ENABLED=1 $(GO) run -race ./test/raceprobe 2>/dev/null))$(raceprobe)

# Where the race detector teaches nothing and takes up to ten times as long: packages
# that compute, whose code and tests start no goroutine beside another, tests of whole
# programs, which are built without it, and layer, whose only goroutines read a layer, as
# internal/layers has them do.
UNRACED := policy(/.*)? internal/(redact|search|strictjson|text)(/.*)? op/internal/(output|patch|shell|wrap) \
	backend/hostpath/gitconfig obeyed layer test/.* bench(/.*)? examples/.*

# The skips that are allowed; empty where nothing may be skipped.
SKIPS = test/skips.txt

# Programs that tests start end at once, where each would wait a second for
# races of other threads.
export GORACE := atexit_sleep_ms=0 $(GORACE)

# Each failure is shown at once, and test/summary has the last word.
# $(call tests,PACKAGES,FLAGS) runs go test, and what failed alone again, up to twice. Links
# without what debuggers need take two thirds of the time.
# What go vet says of tests, "make lint" says, once.
gotestsum = mkdir -p .cache && $(GO) tool gotestsum --format=pkgname-and-test-fails --format-hide-empty-pkg --format-icons=text \
	--hide-summary=skipped --jsonfile=.cache/events-$@.json \
	--post-run-command="$(GO) run ./test/summary -skips='$(SKIPS)' -race='$(if $(race),on$(comma) but for what only computes and for whole programs,off)'"
again = --rerun-fails=2 --rerun-fails-max-failures=5 --rerun-fails-run-root-test
tests = $(gotestsum) $(again) --raw-command -- \
	sh test/gotest.sh '$(race)' '$(call paths,$(UNRACED))' '$(1)' '$(subst ','\'',-vet=off -ldflags=-w -count=1 $(2))'
comma := ,

# $(call paths,PATTERNS) is one regular expression of import paths.
paths = ^[^/]+/[^/]+/[^/]+/($(subst $() ,|,$(strip $(1))))$$

# Most tests wait for programs that they started: more packages at once than processors.
ATONCE = -p=$(shell expr 2 '*' $$(nproc || echo 2))

# What is the same for every user: what only computes or keeps files of its own, what
# checks the tree, what asks servers and clients of others, and doors over the operations,
# which are tried themselves.
SAME := policy(/.*)? egress(/.*)? wire audit internal/(linediff|namedhosts|origins|redact|relay|run|search|stdiomux|strictjson|text)(/.*)? \
	op/internal/(changes|exec|files|output|patch|sandbox|service|session|shell) op/table \
	bench(/.*)? test/(arch|network|projects|raceprobe|readme|shape|summary|vm|work)(/.*)? server/(httpd|mcp) privilege/redis examples/.*

# Tests of other packages that are the same for every user: those that count bytes, lines and
# rounds, or read trees that they have made.
ALIKE := TestSearch(AsGrep|Ignores.*|LongLines|ManyEntries|Ends|WhileChanging|Answers.*|InPages|InNested.*) \
	TestSessionIsAsBash TestConform(Framing|Numbers|Strings|Paths|NormalizedPaths|Archive.*|PythonArchives) \
	TestList(InPages|GoesOn.*|OfLongNames.*) TestRefusedLine.* TestUnprovedLines.* TestLinesShareRoom TestLongRequests.* \
	TestEndlessRequestLine TestServiceLogBounds TestBackground(Bounds|Number) TestExecOutputLargerThanALine \
	TestDenialsWithoutEnd TestVanishingClients TestIdleFlood TestHangUpsAtEveryPoint TestCompare(Many.*|Bounds) TestProtectMany.*

# Operations whose answers depend on the user, of op/table.
OFUSERS := TestUnshareTool.*|TestNsenterTool|TestCgroupTools|TestHostTools.*|TestHostBackend.*|TestSwitches|TestExec|TestExecKill|TestDoctor|TestPlan|TestLittleIsReported|TestDailyWork|TestImportAndExport|TestPortPublish|TestNetworkOperations

# What the two programs compare when they meet: the commit, and a hash of
# everything that is compiled into them, because a commit alone does not tell
# one edited tree from another.
COMMIT = $(shell git describe --always 2>/dev/null || echo none)
HASH   = $(shell find . \( -name .git -o -name .cache -o -name bin -o -path ./test -o -path ./bench -o -path ./release \) -prune -o -type f \
	\( -name '*.go' -o -name '*.s' -o -name 'go.*' \) ! -name '*_test.go' ! -name 'go.work*' -print | LC_ALL=C sort | \
	xargs cat | git hash-object --stdin | cut -c1-12)
BUILD ?= $(COMMIT).$(HASH)
STAMP  = -X github.com/paddock-dev/paddock/wire.Build=$(BUILD)

LINT_VERSION := v2.15.0
LINT         := $(TOOLS)/golangci-lint-$(LINT_VERSION)

.DEFAULT_GOAL := help
.PHONY: help build demo test test-user test-property test-sessions test-vm vm-deps test-redis redis-deps test-engines engines-deps test-bypass bypass-deps test-mcp test-mcp-newest mcp-deps test-readme readme-deps test-projects projects-deps test-network network-deps test-release modules lint bench bench-deps fuzz shape changelog release clean

help: ## say what there is
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' Makefile

# GOWORK=off: these programs are what the product's go.mod says, whatever tests need.
build: export GOWORK = off
build: ## build the programs: bin/paddock, and paddock-server, paddock-agent, paddock-egress and paddock-keeper beside it (static)
	@mkdir -p $(BIN)
	$(GO) build -ldflags "-s -w $(STAMP)" -o $(BIN)/ ./cmd/paddock ./cmd/paddock-server ./cmd/paddock-agent ./cmd/paddock-egress ./cmd/paddock-keeper

demo: build ## run a real test suite inside a sandbox, and see what the sandbox refuses
	@sh test/demo/demo.sh

test-property test-sessions test-redis test-engines test-bypass test-mcp test-mcp-newest test-readme test-projects test-network: SKIPS =
test-property test-vm test-mcp test-mcp-newest test-readme test-projects test-network test-release: RACE = off

test: build ## run the tests; TESTARGS goes to go test, RACE is auto (the race detector where it works), on or off
	@$(call tests,$(if $(ELSEWHERE),$(shell $(GO) list $(PACKAGES) | grep -vE '$(call paths,$(ENGINES))'),$(PACKAGES)),-timeout=25m $(ATONCE) $(TESTARGS))

# The grid of attacks is left out, which root runs as an ordinary user too, what the MCP
# server only hands on, and the grid of backends, which test-engines runs.
HANDED := TestGrid.*|TestErrorsName.*|TestHTTPFlags|TestHeld.*|TestNotHeld|TestOperators.*|TestOneOfTwoTokens|TestOwnTimeout|TestProfiles|TestRevisions|TestRevoked|TestTokenBounds

test-user: RACE = off
test-user: export PADDOCK_TEST_CONTROLLED = by make test
test-user: build ## run the tests of what an ordinary user may see differently, for such a user, after make test as root
	@$(call tests,./test/escape ./test/mcp,-timeout=25m -skip='^($(HANDED))$$' $(TESTARGS))
	@$(call tests,./op/table,-timeout=25m -run='^($(OFUSERS))$$' $(TESTARGS))
	@$(call tests,$(shell $(GO) list $(PACKAGES) | grep -vE '$(call paths,$(SAME) test/(backends|escape|mcp))'),-timeout=25m $(ATONCE) -skip='^($(subst $() ,|,$(strip $(ALIKE))))$$' $(TESTARGS))

# What fails is not tried again: each run has other rounds.
test-property: export PADDOCK_TEST_ROUNDS ?= 100000
test-property: ## commit small changes at random, 100,000 times or PADDOCK_TEST_ROUNDS, each judged by a simple model of what the host obeys
	@$(gotestsum) -- -vet=off -count=1 -timeout=4h -run '^TestCommitProperty$$' $(TESTARGS) ./layer

test-sessions: export PADDOCK_TEST_COMMANDS ?= 10000
test-sessions: ## run 10,000 commands, or PADDOCK_TEST_COMMANDS, in one session, by every door and backend, without one loss (first, as root: make engines-deps)
	@$(call tests,./test/backends,-timeout=8h -run '/many_commands' $(TESTARGS))

test-vm: ## run tests in virtual machines with Linux 6.1 and 6.12 (first, as root: make vm-deps)
	@mkdir -p .cache && $(GO) build -o .cache/test-vm ./test/vm # go run would add a line to what it prints
	@$(gotestsum) $(again) --raw-command -- .cache/test-vm $(VMFLAGS)

vm-deps: ## get QEMU and two kernels for test-vm (Debian, as root)
	@sh test/vm/deps.sh

test-redis: ## run the tests that need a Redis server, none of them skipped (first, as root: make redis-deps)
	@$(call tests,./privilege/redis,-timeout=5m)

redis-deps: ## install the Redis server for test-redis (Debian, as root)
	@command -v redis-server >/dev/null || { apt-get update -q && \
		DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends redis-server; }

test-engines: ## run every backend: docker, podman, codex, bubblewrap, firejail and ssh, none skipped (first, as root: make engines-deps)
	@$(call tests,$(addprefix ./,$(ENGINES)),-timeout=20m $(ATONCE))
	@$(call tests,./test/escape,-timeout=20m -run 'TestWalls$$|TestAfter$$/^tools$$')

engines-deps: ## install container engines, codex and wrappers for test-engines (Debian, as root)
	@sh test/engines/codex.sh
	@sh test/engines/deps.sh

test-bypass: export PADDOCK_TEST_BYPASS = 1
test-bypass: ## try everything that might lead around the rules of a network, behind each wall that keeps them and print what gets through (as root; first: make engines-deps bypass-deps)
	@$(call tests,./test/bypass,-timeout=20m $(TESTARGS))

bypass-deps: ## get the sandboxes that test-bypass compares with (Debian, as root; npm)
	@sh test/bypass/deps.sh

test-mcp: export PADDOCK_TEST_MCP = all
test-mcp: ## run the MCP server with the official suites, with real clients and with much load, none skipped (first: make mcp-deps)
	@$(call tests,./test/mcp,-timeout=20m -parallel=4 -run '^Test(Client|Inspector|Conformance|ManyCalls|Nonsense|Cancel|MuchOutput)')

test-mcp-newest: export PADDOCK_TEST_MCP = newest
test-mcp-newest: ## get the newest version of each MCP suite and client, and run those alone (1.4 GB)
	@sh test/mcp/deps.sh newest
	@$(call tests,./test/mcp,-timeout=25m -run 'Client|Inspector|Conformance')

mcp-deps: ## get the official MCP suites and clients for test-mcp, by npm (1.4 GB)
	@sh test/mcp/deps.sh

test-readme: export PADDOCK_TEST_README = 1
test-readme: ## run every command of the README and docs in a new Debian, as an ordinary user (first, as root: make readme-deps)
	@$(gotestsum) -- -count=1 -timeout=60m ./test/readme

readme-deps: ## make the Debian for test-readme, and get the official Go (Debian, as root)
	@sh test/readme/deps.sh

test-projects: export PADDOCK_TEST_PROJECTS = 1
test-projects: ## run the tests of five real projects inside, in a fresh account with version managers, none skipped (first, as root: make projects-deps)
	@$(call tests,./test/projects,-timeout=40m $(TESTARGS))

projects-deps: ## get compilers, packages and programs of version managers for test-projects (Debian, as root; npm)
	@sh test/projects/deps.sh

test-network: ## run servers and clients of others by name: OpenSSH, PostgreSQL, Java, HTTP/2, WebSocket, none skipped (first, as root: make network-deps)
	@$(call tests,./test/network,-timeout=20m -run '^Test(SSH|Postgres|Java|HTTP2|WebSocket)')

network-deps: ## get the servers and clients for test-network (Debian, as root)
	@sh test/network/deps.sh

test-release: ## install the programs as a user does, with cgo and without, and make a release twice, once with nothing compiled
	@$(gotestsum) --raw-command -- env GOWORK=off $(GO) -C release test -json -vet=off -count=1 -timeout=60m $(TESTARGS) .

modules: ## get the modules that the product, its tests, its benchmarks and its releases need
	@for module in $(MODULES); do GOWORK=off $(GO) -C $$module mod download || exit; done

# What go vet looks for is among what the linter does.
lint: $(LINT) ## check format, vet and style, on every platform
	@bad=$$(find . \( -name .git -o -name .cache \) -prune -o -name '*.go' -print | xargs "$$($(GO) env GOROOT)/bin/gofmt" -l) && \
	if [ -n "$$bad" ]; then echo "not formatted by gofmt:"; echo "$$bad"; exit 1; fi
	$(GO) build $(PACKAGES)
	GOARCH=arm64 $(GO) build $(PACKAGES)
	GOOS=darwin $(GO) vet . ./cmd/... ./internal/run ./wire ./policy/... ./op/... ./backend/hostpath/...
	GOOS=windows $(GO) vet ./cmd/paddock ./cmd/paddock-agent ./cmd/paddock-egress ./cmd/paddock-keeper ./cmd/paddock-server ./wire ./policy/...
	GOWORK=off $(GO) -C release vet .
	GOGC=400 $(LINT) run --allow-parallel-runners $(PACKAGES)
	cd release && GOWORK=off GOGC=400 ../$(LINT) run --allow-parallel-runners .

$(LINT):
	@mkdir -p $(TOOLS)
	@echo "building golangci-lint $(LINT_VERSION), once"
	@rm -rf $(TOOLS)/new && GOBIN="$$PWD/$(TOOLS)/new" $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINT_VERSION)
	@mv $(TOOLS)/new/golangci-lint $@ && rmdir $(TOOLS)/new

bench: build ## measure Paddock beside its peers; BENCH_SHORT=1 for a short run, BENCHARGS for flags
	@$(GO) run ./bench $(if $(BENCH_SHORT),-short) $(BENCHARGS)

bench-deps: ## install the peers of the benchmark (Debian, as root)
	apt-get update -q
	DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends bubblewrap crun runc

fuzz: ## run every fuzz target for FUZZTIME (10s)
	@set -e; for pkg in $$($(GO) list $(PACKAGES)); do \
		for target in $$($(GO) test -list '^Fuzz' "$$pkg" | grep '^Fuzz'); do \
			echo "== $$pkg $$target"; \
			$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) "$$pkg"; \
		done; \
	done

changelog: ## move the entries in changes/unreleased to the top of CHANGELOG.md
	@set -e; entries=$$(ls changes/unreleased/*.md); \
	{ sed '/^## Unreleased$$/q' CHANGELOG.md; echo; cat $$entries; sed '1,/^## Unreleased$$/d' CHANGELOG.md | sed 1d; } >CHANGELOG.new; \
	mv CHANGELOG.new CHANGELOG.md; rm $$entries

release: ## write archives for both architectures, images and checksums to bin/release; VERSION is the commit's, or vX.Y.Z
	@GOWORK=off $(GO) run -C release . $(if $(VERSION),-version '$(VERSION)')

shape: ## print how much there is to read, beside code that others like to live in; TIMES=1 for a cold build, SHAPEARGS=-list for names
	@$(GO) run -C test ./shape -root .. $(if $(TIMES),-times) $(SHAPEARGS)

clean: ## remove what was built
	rm -rf $(BIN) .cache
