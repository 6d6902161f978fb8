package main

// suite is one package whose tests run in the machine.
type suite struct {
	pkg  string // below the module's root
	skip string // tests that make no sense there, as for -test.skip
}

// suites are the packages. One more is one line.
var suites = []suite{
	{pkg: "cgroup"},
	{pkg: "internal/beneath"},
	{pkg: "internal/clone"},
	{pkg: "internal/stdiomux"},
	{pkg: "confine", skip: "TestCallNumbers"}, // it reads a module of go
	{pkg: "backend/linux"},
	{pkg: "test/limits"},
	{pkg: "test/escape", skip: "^(TestAsOrdinaryUser|TestExecStart|TestSwapped|TestFloodOfRefusals|TestStarvedAgent|TestRefused)"}, // they need a fast machine, or none of this kernel
	{pkg: "."},
	{pkg: "agent"},
}

// programs are what those tests build with go, which the machine does not
// have: what it has in its place finds these.
var programs = []program{
	{pkg: "cmd/paddock"},
	{pkg: "cmd/paddock-agent"},
	{pkg: "cmd/paddock-agent", ldflags: "-X github.com/paddock-dev/paddock/wire.Build=another"},
	{pkg: "agent/testdata/helper"},
	{pkg: "backend/linux/testdata/fakeagent"},
	{pkg: "test/escape/attacker"},
	{pkg: "test/limits/hog"},
}
