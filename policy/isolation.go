package policy

// Isolation is what was really applied to a sandbox: the effective isolation
// that every result can be read against. It is filled by the side that
// applied or verified each wall, never from what was asked for.
type Isolation struct {
	Backend string `json:"backend"`
	// Namespaces are the kinds of kernel namespace that the sandbox has of
	// its own: "user", "mount", "pid", "ipc", "uts", "net", "cgroup".
	Namespaces []string `json:"namespaces"`
	// UIDInside and UIDHost are one identity: as commands see it, and as the
	// host's kernel does.
	UIDInside uint32 `json:"uid_inside"`
	UIDHost   uint32 `json:"uid_host"`
	// KeptGroups are supplementary groups that could not be dropped (an
	// ordinary user's, in a user namespace). They grant what they grant outside.
	KeptGroups []int `json:"kept_groups,omitempty"`
	// Identity is how files keep their owner: "mapped" (the caller's own id
	// is mapped) or "idmap" (an id-mapped mount).
	Identity     string `json:"identity"`
	Network      string `json:"network"`      // "none" or "host"
	Capabilities string `json:"capabilities"` // of commands: "none"
	NoNewPrivs   bool   `json:"no_new_privs"`
	Seccomp      string `json:"seccomp"`  // the filter's profile, "default"
	Landlock     string `json:"landlock"` // "none"
	Cgroup       string `json:"cgroup"`   // "none"
	// NestedUserns says what keeps user namespaces from being made inside:
	// "sysctl+seccomp" or "seccomp".
	NestedUserns string `json:"nested_userns"`
	// Death is how the end of a whole process tree is proved: "pidns+uts".
	Death string `json:"death"`
	// Verified says that the host side read the walls from the kernel itself.
	Verified bool `json:"verified"`
}
