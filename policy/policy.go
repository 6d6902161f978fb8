// Package policy holds what a sandbox should be and what it turned out to be:
// the [Spec] that a user writes, its defaults and its validation, and the
// [Isolation] that was really applied. It decides; it enforces nothing.
//
// The package is portable and imports the standard library only, because the agent
// links it. Package policy/specfile reads specs from YAML and JSON.
//
// A spec is used in three steps: it is read ([FieldError] names the line of
// what cannot be read), [Spec.Resolve] fills in every default and refuses
// what cannot be kept, and a backend turns the result into a wall. Everything
// here looks at text alone: whether a path exists, and where its links lead,
// is for the backend to find out at the moment of use.
package policy

// Spec is what a sandbox should be. Its zero value is safe: the current
// directory as workspace behind every default wall, and no network.
type Spec struct {
	// Backend builds the wall. Default: "linux".
	Backend string `json:"backend,omitempty"`
	// Level is how much of a wall it is: "full" (default) or "landlock", for
	// hosts that forbid user namespaces. The second is weaker, and the plan
	// says in what.
	Level string `json:"level,omitempty"`
	// Seccomp is the profile of the system call filter: "default", "strict"
	// (for programs that need little) or "debug" (debuggers work).
	Seccomp string `json:"seccomp,omitempty"`
	// RootFS is where programs and libraries come from: "host" (default: the
	// host's system directories) or a directory that holds a root file system.
	// It is read-only.
	RootFS string `json:"rootfs,omitempty"`
	// Workspace is the directory that commands may change.
	Workspace Workspace `json:"workspace,omitzero"`
	// Mounts are further host paths that are visible inside, at most 256.
	Mounts []Mount `json:"mounts,omitempty"`
	// Network is "none" (default: loopback only) or "host" (the host's own,
	// with everything that listens there).
	Network string `json:"network,omitempty"`
	// Limits bound what commands may use.
	Limits Limits `json:"limits,omitzero"`
	// Env is laid over the clean base environment of every command. A name
	// is letters, digits and underscores; a variable is at most 128 KiB with
	// its name (the kernel's bound), and all together are at most 1 MiB.
	Env map[string]string `json:"env,omitempty"`
	// Hostname is the host name inside, at most 64 bytes. Default: "paddock".
	Hostname string `json:"hostname,omitempty"`
	// AllowDegraded names what was written and may be weaker all the same
	// where this host cannot keep it, each a word of [Degradations].
	AllowDegraded []string `json:"allow_degraded,omitempty"`
	// Commands are the rules for command texts. nil: there are none; with an
	// empty list of programs every command is refused. With rules, the files
	// of these programs and what loads them are all that can be executed, where
	// the kernel has Landlock, and nothing that commands can change.
	Commands *Commands `json:"commands,omitempty"`
	// Redaction are rules for what is replaced in the output of commands, at
	// most 64.
	Redaction []Redaction `json:"redaction,omitempty"`
	// Docker, Codex and Wrapper are the options of the backends of these names.
	Docker  *Docker  `json:"docker,omitempty"`
	Codex   *Codex   `json:"codex,omitempty"`
	Wrapper *Wrapper `json:"wrapper,omitempty"`
}

// Workspace is the directory at /workspace.
type Workspace struct {
	// Source is a host directory, never "/"; it is made absolute, and "~" is
	// the caller's home. Default: the current directory.
	Source string `json:"source,omitempty"`
	// Mode is "bind" (default: changes reach the source as they are made) or
	// "copy": commands get a copy in memory, bounded by Limits.Disk, that ends
	// with the sandbox; the source is only read.
	Mode string `json:"mode,omitempty"`
	// Access is "rw" (default) or "ro".
	Access string `json:"access,omitempty"`
	// Unprotected lists those paths of [ProtectedPaths] that commands may
	// change all the same; "*" lists them all, and DIR/.git a repository below
	// the workspace.
	Unprotected []string `json:"unprotected,omitempty"`
}

// Mount makes a host path visible inside.
type Mount struct {
	// Source is a host file or directory; it is made absolute, and "~" is
	// the caller's home.
	Source string `json:"source"`
	// Target is an absolute path inside; "~" is the caller's home on the host, which
	// the linux backend shows below HOME inside, too. Default: the absolute source.
	Target string `json:"target,omitempty"`
	// Mode is "ro" (default) or "rw".
	Mode string `json:"mode,omitempty"`
}
