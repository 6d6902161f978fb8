// Package policy holds what a sandbox should be and what it turned out to be:
// the [Spec] that a user writes, its defaults and its validation, and the
// [Isolation] that was really applied. It decides; it enforces nothing.
//
// The package is portable and imports the standard library only, because the
// agent links it. Reading a spec from YAML or JSON is package
// policy/specfile's duty.
package policy

import "time"

// Spec is what a sandbox should be. Its zero value is safe: the current
// directory as workspace behind every default wall, and no network.
type Spec struct {
	// Backend builds the wall. Default: "linux".
	Backend string `json:"backend,omitempty"`
	// Workspace is the directory that commands may change.
	Workspace Workspace `json:"workspace,omitzero"`
	// Mounts are further host paths that are visible inside.
	Mounts []Mount `json:"mounts,omitempty"`
	// Network is "none" (default: loopback only) or "host" (the host's own,
	// with everything that listens there).
	Network string `json:"network,omitempty"`
	// Limits bound what commands may use.
	Limits Limits `json:"limits,omitzero"`
	// Env is laid over the clean base environment of every command.
	Env map[string]string `json:"env,omitempty"`
	// Hostname is the host name inside. Default: "paddock".
	Hostname string `json:"hostname,omitempty"`
}

// Workspace is the directory at /workspace.
type Workspace struct {
	// Source is a host directory. Default: the current directory.
	Source string `json:"source,omitempty"`
	// Mode is "bind" (default): changes reach the source as they are made.
	Mode string `json:"mode,omitempty"`
	// Access is "rw" (default) or "ro".
	Access string `json:"access,omitempty"`
	// Unprotected lists those paths of [ProtectedPaths] that commands may
	// change all the same; "*" lists them all.
	Unprotected []string `json:"unprotected,omitempty"`
}

// Mount makes a host path visible inside.
type Mount struct {
	// Source is a host file or directory; it is made absolute, and "~" is
	// the caller's home.
	Source string `json:"source"`
	// Target is an absolute path inside. Default: the absolute source.
	Target string `json:"target,omitempty"`
	// Mode is "ro" (default) or "rw".
	Mode string `json:"mode,omitempty"`
}

// Limits bound what commands may use. Zero means: the default, or no limit
// where there is no default.
type Limits struct {
	Timeout   Duration `json:"timeout,omitempty"`    // of one command; default none
	Output    Size     `json:"output,omitempty"`     // of each captured stream; default 1 MiB
	CPUTime   Duration `json:"cpu_time,omitempty"`   // of each process (RLIMIT_CPU, whole seconds)
	FileSize  Size     `json:"file_size,omitempty"`  // of each file written (RLIMIT_FSIZE)
	OpenFiles uint64   `json:"open_files,omitempty"` // of each process (RLIMIT_NOFILE)
	Processes uint64   `json:"processes,omitempty"`  // of the sandbox's user (RLIMIT_NPROC)
	Tmp       Size     `json:"tmp,omitempty"`        // of /tmp, HOME and /dev/shm each; default 1 GiB
}

// Duration is a time span that is written with a unit: "90s", "1h30m".
type Duration time.Duration

// Size is a number of bytes that is written with a unit: "512MiB", "1GB", "4096".
type Size int64
