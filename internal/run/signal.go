package run

import (
	"slices"
	"strconv"
	"strings"
)

// signals are the names of signals by their numbers on Linux, because commands run on
// Linux, wherever the caller is.
var signals = [...]string{
	1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 4: "SIGILL", 5: "SIGTRAP", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE",
	9: "SIGKILL", 10: "SIGUSR1", 11: "SIGSEGV", 12: "SIGUSR2", 13: "SIGPIPE", 14: "SIGALRM", 15: "SIGTERM",
	16: "SIGSTKFLT", 17: "SIGCHLD", 18: "SIGCONT", 19: "SIGSTOP", 20: "SIGTSTP", 21: "SIGTTIN", 22: "SIGTTOU",
	23: "SIGURG", 24: "SIGXCPU", 25: "SIGXFSZ", 26: "SIGVTALRM", 27: "SIGPROF", 28: "SIGWINCH", 29: "SIGIO",
	30: "SIGPWR", 31: "SIGSYS",
}

// IsSignal reports whether name is a signal's, with or without "SIG".
func IsSignal(name string) bool {
	full := "SIG" + strings.TrimPrefix(name, "SIG")
	return slices.Contains(signals[1:], full)
}

// SignalName returns the name of the signal that a negative exit code stands for, or "" for
// any other code. Real-time signals are numbered. It does not use the agent's name of the
// signal, which could be anything.
func SignalName(exitCode int) string {
	switch n := -exitCode; {
	case n <= 0:
		return ""
	case n < len(signals):
		return signals[n]
	default:
		return "signal " + strconv.Itoa(n)
	}
}
