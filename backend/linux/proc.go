//go:build linux

package linux

import (
	"os"

	"github.com/paddock-dev/paddock/backend/state"
	"github.com/paddock-dev/paddock/confine"
)

var procFlags = []string{confine.FlagNoSuid, confine.FlagNoDev, confine.FlagNoExec}

// What a fresh /proc shows of the machine that is nobody's business inside,
// as far as this kernel has it, and what in it can be written at all. Commands
// lack the privilege for most of it anyway.
var (
	procHidden   = []string{"acpi", "asound", "interrupts", "kallsyms", "kcore", "keys", "latency_stats", "sched_debug", "scsi", "timer_list", "timer_stats"}
	procReadOnly = []string{"bus", "fs", "irq", "sys", "sysrq-trigger"}
)

func (b *builder) maskProc() {
	for _, name := range procHidden {
		target := "/proc/" + name
		switch info, err := os.Stat(target); {
		case err != nil:
		case info.IsDir():
			b.add(confine.Step{Do: confine.OpTmpfs, Target: target, Mode: 0o555, Size: 4096,
				Flags: append([]string{confine.FlagReadOnly, confine.FlagExisting}, procFlags...), Why: "it tells about the machine"})
		default:
			b.add(confine.Step{Do: confine.OpBind, Source: os.DevNull, Target: target,
				Flags: []string{confine.FlagReadOnly, confine.FlagNoSuid, confine.FlagNoExec, confine.FlagExisting},
				Why:   "it tells about the machine, or holds keys"})
		}
	}
	for _, name := range procReadOnly {
		if target := "/proc/" + name; state.Exists(target) {
			b.add(confine.Step{Do: confine.OpSelf, Target: target, Flags: append([]string{confine.FlagReadOnly}, procFlags...),
				Why: "the machine's settings"})
		}
	}
}
