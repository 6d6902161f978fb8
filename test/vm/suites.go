package main

import "slices"

// suite is one package whose tests run in the machine.
type suite struct {
	pkg  string // below the module's root
	skip string // tests that make no sense there, as for -test.skip
	only string // tests that ask the kernel something, as for -test.run; empty: all do
	// later are the tests that a kernel other than the oldest only repeats: what
	// the oldest one and this host's agree on, one between them has. everything
	// leaves the whole suite out.
	later string
}

const everything = "."

// allSuites are those of all machines.
func allSuites() []suite { return slices.Concat(machines...) }

// machines are the packages, by the machine that they share. One more is one
// line, next to what takes less time.
var machines = [][]suite{
	{
		{pkg: "cgroup"},
		{pkg: "test/limits"},
		{pkg: "confine", skip: "TestCallNumbers"}, // it reads a module of go
		{pkg: "agent/internal/beneath", later: everything},
		{pkg: "internal/clone", later: everything},
		{pkg: "namespace", skip: "^(TestTimeout|TestEnterTimeout)$/^a_fork_bomb", later: everything}, // it needs a fast machine
		{pkg: "op/internal/host"},
		// The operations on the host itself; the others reach the kernel through packages that run here.
		{pkg: "op/table", only: "^(TestUnshareTool|TestNsenterTool|TestCgroupTools|TestHostTools|TestContractErrors|TestSwitches|TestExec$)", later: everything},
	},
	{
		{pkg: "backend/linux", skip: "^(TestRootFS|TestManySandboxes)$", // one builds a program with go, one needs a fast machine
			// Mounts and paths, which are the same on every kernel since the oldest.
			later: "^(TestRootFSThatCannotBe|TestOverlappingMounts|TestProtectedPaths|TestMountOfProtectedPath|TestNames|TestOwnCopy|TestOtherOwners|" +
				"TestStateIsCovered|TestCopyIsBounded|TestCopiedWorkspace|TestLoaderOnWhatCanBeWritten|TestStartErrors|TestGitFile|TestSpareConnection)"},
	},
	{
		{pkg: "test/escape", skip: "^(TestAsOrdinaryUser|TestExecStart|TestSwapped|TestFloodOfRefusals|TestForkBomb|TestStarvedAgent|TestRefused|TestAfter)", // they need a fast machine, programs such as git, or none of this kernel
			later: "^TestGrid$/full|^(TestGridHostNetwork|TestGridBombs|TestWalls|TestOwnership|TestExistingSetID|TestDaemons|TestDetachedDaemons|TestKillEverything|TestStoppedTree|TestStoppedAgent)$"},
	},
}

// programs are what those tests build with go, which the machine does not
// have: what it has in its place finds these.
var programs = []program{
	{pkg: "cmd/paddock"},
	{pkg: "cmd/paddock-agent"},
	{pkg: "cmd/paddock-keeper"},
	{pkg: "cmd/paddock-agent", ldflags: "-X github.com/paddock-dev/paddock/wire.Build=another"},
	{pkg: "agent/testdata/helper"},
	{pkg: "backend/linux/testdata/fakeagent"},
	{pkg: "test/escape/attacker"},
	{pkg: "test/limits/hog"},
}
