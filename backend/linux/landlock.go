//go:build linux

package linux

import (
	"fmt"
	"strings"

	"github.com/paddock-dev/paddock/confine"
	"github.com/paddock-dev/paddock/policy"
)

// landlock adds the second layer: should a mount ever show more than it was
// meant to, or be writable, commands still may use and change these paths alone.
func (b *builder) landlock(spec policy.Spec) error {
	s := confine.Step{Do: confine.OpLandlock, Why: "a second layer over mounts and namespaces"}
	if b.abi >= confine.LandlockFilesABI {
		s.Rules = b.fileRules()
	}
	if err := b.onlyExecute(&s, spec.Commands); err != nil {
		return err
	}
	switch {
	case b.abi >= confine.LandlockScopesABI:
		s.Flags = []string{confine.FlagAbstract, confine.FlagSignal}
	case spec.Network == "host" && !spec.Allows(policy.DegradeSockets):
		return fail("plan", "network host", "", fmt.Errorf("the kernel's Landlock ABI is %d, and %d is needed to keep commands from the host's abstract sockets", b.abi, confine.LandlockScopesABI),
			"use --network none, a kernel from 6.12 on with landlock among its security modules, or --allow-degraded="+policy.DegradeSockets)
	case spec.Network == "host":
		b.degrade(policy.DegradeSockets)
	}
	b.holdsLandlock(s)
	if len(s.Rules)+len(s.Flags) > 0 {
		b.plan.Spawn = append(b.plan.Spawn, s)
	}
	b.apart()
	return nil
}

// apart keeps commands from each other's memory, environments and descriptors.
// Those of the profile debug are meant to trace each other.
func (b *builder) apart() {
	if b.abi >= confine.LandlockFilesABI && b.spec.Seccomp != "debug" {
		b.plan.Spawn = append(b.plan.Spawn, confine.Step{Do: confine.OpApart, Why: "commands cannot look into each other's memory, environment and descriptors"})
	}
}

func (b *builder) holdsLandlock(s confine.Step) {
	var words []string
	if len(s.Rules) > 0 {
		words = append(words, "files")
	}
	if b.spec.Commands != nil && len(s.Rules) > 0 {
		words = append(words, "execute")
	}
	if words = append(words, s.Flags...); len(words) > 0 {
		b.plan.Holds.Landlock = strings.Join(words, " ")
	}
	b.plan.Holds.LandlockABI = b.abi
}

// onlyExecute takes the right to execute from all that the rules grant, where
// the spec says which programs commands may call, and gives it to these alone.
//
// The kernel asks for the right when a program is executed, for the file, its
// "#!" interpreter and its loader; it does not ask when a library is mapped.
// An interpreter that may be executed can do whatever a program could.
func (b *builder) onlyExecute(s *confine.Step, c *policy.Commands) error {
	if c == nil {
		return nil
	}
	programs, err := b.execRules(c)
	if err != nil {
		return err
	}
	if len(s.Rules) == 0 {
		b.plan.Holds.Lost = append(b.plan.Holds.Lost, "the rules for commands are a matter of reading them alone: this kernel has no Landlock to keep a program that was started from executing others")
		return nil
	}
	for i, r := range s.Rules {
		switch r.Access {
		case confine.AccessExec:
			s.Rules[i].Access = confine.AccessRead
		case confine.AccessAll:
			s.Rules[i].Access = confine.AccessChange
		}
	}
	s.Rules = append(s.Rules, programs...)
	s.Why += "; the programs of commands.allow and what loads them alone can be executed, of which an interpreter can still do what any program could"
	return nil
}

// fileRules repeats in Landlock's words what the mounts say: all of the root
// can be read and executed, and what is writable is listed.
func (b *builder) fileRules() []confine.PathRule {
	rules := []confine.PathRule{
		{Path: "/", Access: confine.AccessExec},
		{Path: "/dev", Access: confine.AccessUse},
	}
	if b.spec.Seccomp == "debug" { // debuggers write to the memory of processes there
		rules = append(rules, confine.PathRule{Path: "/proc", Access: confine.AccessUse})
	}
	for _, dir := range []string{"/dev/shm", policy.TmpPath, homeDir, "/run"} {
		rules = append(rules, confine.PathRule{Path: dir, Access: confine.AccessAll})
	}
	for _, m := range b.mounts {
		if m.writable || m.copied {
			rules = append(rules, confine.PathRule{Path: m.target, Access: confine.AccessAll})
		}
	}
	return rules
}
