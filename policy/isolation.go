package policy

// Isolation is what was really applied to a sandbox: the effective isolation
// that every result can be read against. It is filled by the side that
// applied or verified each wall, never from what was asked for.
type Isolation struct {
	Backend string `json:"backend"`
	// Level is "full" or "landlock".
	Level string `json:"level"`
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
	Seccomp      string `json:"seccomp"` // the filter's profile
	// Landlock says what it keeps commands from, "files execute
	// abstract_unix_socket signal" say, or "none"; "execute" is where the spec
	// lists commands: these alone can be executed. LandlockABI is what the
	// kernel offers.
	Landlock    string `json:"landlock"`
	LandlockABI int    `json:"landlock_abi,omitempty"`
	// Cgroup names the controllers that bound the commands, or "none".
	Cgroup string `json:"cgroup"`
	// Workspace is "bind" or "copy", RootFS "host" or a directory.
	Workspace string `json:"workspace"`
	RootFS    string `json:"rootfs"`
	// OwnCopies are files inside, git's configuration, of which commands change a
	// copy of their own, and the host's file stays as it is.
	OwnCopies []string `json:"own_copies,omitempty"`
	// Limits says by what each limit is kept: "memory": "memory.max=64MiB".
	Limits map[string]string `json:"limits,omitempty"`
	// Degraded names what was written and is weaker than written, because the
	// spec allowed that by name; Lost says, in sentences, what a level or a
	// degradation does not keep.
	Degraded []string `json:"degraded,omitempty"`
	Lost     []string `json:"lost,omitempty"`
	// NestedUserns says what keeps user namespaces from being made inside:
	// "sysctl+seccomp" or "seccomp".
	NestedUserns string `json:"nested_userns"`
	// Death is how the end of a whole process tree is proved: "pidns+uts", or
	// "descent" where it can be proved of what descends from the agent alone.
	Death string `json:"death"`
	// Verified says that the host side read the walls from the kernel itself.
	Verified bool `json:"verified"`
}
