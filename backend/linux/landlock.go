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
	return nil
}

func (b *builder) holdsLandlock(s confine.Step) {
	var words []string
	if len(s.Rules) > 0 {
		words = append(words, "files")
	}
	if words = append(words, s.Flags...); len(words) > 0 {
		b.plan.Holds.Landlock = strings.Join(words, " ")
	}
	b.plan.Holds.LandlockABI = b.abi
}

// fileRules repeats in Landlock's words what the mounts say: all of the root
// can be read and executed, and what is writable is listed.
func (b *builder) fileRules() []confine.PathRule {
	rules := []confine.PathRule{
		{Path: "/", Access: confine.AccessExec},
		{Path: "/dev", Access: confine.AccessUse},
		{Path: "/proc", Access: confine.AccessUse},
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
