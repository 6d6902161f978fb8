// Package confine is confinement as data: a [Plan] is the exact list of steps
// that build a sandbox, made by a backend outside, printable, and applied
// step by step by the new process inside.
//
// plan.go and the other portable files define the data; the files named
// *_linux.go apply it, one file per mechanism (mount, seccomp, caps, rlimit,
// network). A step that fails is an [Error] that names the stage, the
// operation, the object and the errno, and nothing is started.
//
// The plan crosses a process boundary from the trusted side to the new one, in
// a binary form (see [Boot]); an agent never sends one back. Its JSON form is
// for people and programs that look at it.
package confine

import "github.com/paddock-dev/paddock/policy"

// PlanVersion is the version of the plan's format.
const PlanVersion = 1

// Plan is everything that makes a process a sandbox.
type Plan struct {
	Version    int         `json:"version"`
	Namespaces []Namespace `json:"namespaces"`
	UIDs       []IDMap     `json:"uids"`
	GIDs       []IDMap     `json:"gids"`
	// Command is the wall where another program builds it: it is started with
	// the agent's own command behind, and there are no other steps. It does not
	// cross to the new process.
	Command []string `json:"command,omitempty"`
	// Setup runs once, in order, in the new process before any command.
	Setup []Step `json:"setup"`
	// Spawn is applied to the one thread that every command is cloned from,
	// and so to every command.
	Spawn []Step `json:"spawn"`
	// Files names the descriptors that are handed over with the plan, in
	// order; steps refer to them by name.
	Files []string `json:"files,omitempty"`
	// GroupLimits bound all commands together. The host side keeps them: they do not
	// cross to the new process.
	GroupLimits GroupLimits `json:"group_limits,omitzero"`
	// Rlimits bound each process of every command.
	Rlimits Rlimits `json:"rlimits,omitzero"`
	// Redaction are the rules for what is replaced in all that commands print.
	Redaction []policy.Redaction `json:"redaction,omitempty"`
	// Env is the base environment of every command.
	Env map[string]string `json:"env"`
	// LeftOut are the directories of the caller's PATH that PATH in Env lacks. They
	// do not cross to the new process.
	LeftOut []LeftOut `json:"path_left_out,omitempty"`
	// Workspace is the directory inside where commands start.
	Workspace string `json:"workspace"`
	// Scratch is a directory of the host for the sandbox's private files, with
	// places in it that the constants Scratch… name, where no namespaces give
	// it places of its own. Empty: they do.
	Scratch string `json:"scratch,omitempty"`
	// Holds is what will be true once the plan is applied.
	Holds policy.Isolation `json:"holds"`
}

// LeftOut is a directory in which programs are not looked for, and why.
type LeftOut struct {
	Dir string `json:"dir"`
	Why string `json:"why"`
}

// GroupLimits are limits of a control group. 0: none.
type GroupLimits struct {
	MemoryMax  int64 `json:"memory_max_bytes,omitempty"`  // memory.max
	MemoryHigh int64 `json:"memory_high_bytes,omitempty"` // memory.high
	// SwapMax is beside MemoryMax; 0 is none (memory.swap.max).
	SwapMax   *int64 `json:"swap_max_bytes,omitempty"`
	MilliCPUs int64  `json:"milli_cpus,omitempty"` // thousandths of a processor (cpu.max)
	Pids      uint64 `json:"pids,omitempty"`       // processes and threads (pids.max)
}

// Rlimits are resource limits of a process (setrlimit(2)). 0: none.
type Rlimits struct {
	CPUSeconds uint64 `json:"cpu_seconds,omitempty"`     // RLIMIT_CPU
	FileSize   uint64 `json:"file_size_bytes,omitempty"` // RLIMIT_FSIZE
	OpenFiles  uint64 `json:"open_files,omitempty"`      // RLIMIT_NOFILE
	Processes  uint64 `json:"processes,omitempty"`       // RLIMIT_NPROC
	Data       uint64 `json:"data_bytes,omitempty"`      // RLIMIT_DATA
}

// The agent's places in Plan.Scratch.
const (
	ScratchState   = "state"
	ScratchSecrets = "secrets"
)

// Namespace is a kind of kernel namespace.
type Namespace string

// The namespaces that a plan can ask for.
const (
	NSUser   Namespace = "user"
	NSMount  Namespace = "mount"
	NSPID    Namespace = "pid"
	NSIPC    Namespace = "ipc"
	NSUTS    Namespace = "uts"
	NSNet    Namespace = "net"
	NSCgroup Namespace = "cgroup"
)

// IDMap is one line of a user namespace's uid_map or gid_map.
type IDMap struct {
	Inside uint32 `json:"inside"`
	Host   uint32 `json:"host"`
	Count  uint32 `json:"count"`
}

// Op names what a step does.
type Op string

// The operations, with the fields of Step that each one uses.
const (
	OpBind     Op = "bind"     // Source or FD, Target, Flags: a host path becomes visible
	OpSelf     Op = "self"     // Target, Flags: a path inside is bound onto itself
	OpCopy     Op = "copy"     // Source or FD, Target, Flags: what a host directory holds is copied into a place inside
	OpOwnCopy  Op = "own_copy" // Target, Source, Data, Flags: a link over the file at Target leads to Source, a copy of it, or of Data, that commands can change
	OpTmpfs    Op = "tmpfs"    // Target, Flags, Size, Mode: an empty file system of its own
	OpProc     Op = "proc"     // Target, Flags: a fresh /proc of the commands' pid namespace
	OpCgroup   Op = "cgroup"   // Source: the sandbox's control group, for the agent alone
	OpCgroupNS Op = "cgroupns" // the commands' cgroup namespace begins at the group that the process is in
	OpDevpts   Op = "devpts"   // Target, Flags: terminals of its own
	OpMkdir    Op = "mkdir"    // Target, Mode
	OpFile     Op = "file"     // Target, Mode, Data: a file made for the sandbox
	OpSymlink  Op = "symlink"  // Source (the link's text), Target
	OpPivot    Op = "pivot"    // the new root becomes the root; the old one is detached
	OpReadOnly Op = "readonly" // Target: the mount at Target alone becomes read-only
	OpHostname Op = "hostname" // Source
	OpLoopback Op = "loopback" // the lo interface goes up
	OpKeyring  Op = "keyring"  // a session keyring of its own
	OpSysctl   Op = "sysctl"   // Target (below /proc/sys), Source (the value)
	OpReset    Op = "reset"    // inherited process state goes back to defaults
	OpCaps     Op = "caps"     // Caps stay, everything else and the bounding set go
	OpNoNew    Op = "no_new_privs"
	OpLandlock Op = "landlock" // Rules (of files), Flags (what else is out of reach)
	OpApart    Op = "apart"    // each command gets a Landlock domain of its own
	OpSeccomp  Op = "seccomp"  // Source (the filter's name), Data (its program), Flags
	OpShield   Op = "shield"   // commands cannot signal the thread that they are cloned from
)

// Flags of steps.
const (
	FlagReadOnly   = "ro"                   // mounts
	FlagNoSuid     = "nosuid"               // mounts
	FlagNoDev      = "nodev"                // mounts
	FlagNoExec     = "noexec"               // mounts
	FlagExisting   = "existing"             // bind: the target exists and is never made
	FlagResolved   = "resolved"             // bind: the source is free of symbolic links, and must still be
	FlagBelowRO    = "below_ro"             // bind: what the host has mounted below the source becomes read-only
	FlagOutlive    = "outlive"              // reset: the agent does not die with its parent, it tidies up first
	FlagBounding   = "bounding"             // caps: the bounding and inheritable sets go, the process keeps what it has
	FlagAllThreads = "all_threads"          // seccomp: the agent's own threads are filtered too
	FlagNotify     = "notify"               // seccomp: the agent is told of what commands are denied
	FlagAbstract   = "abstract_unix_socket" // landlock
	FlagSignal     = "signal"               // landlock
	FlagTCP        = "tcp"                  // landlock: no port can be bound or connected to
)

// OwnCopyLink is behind the name of a copy in the name of the link that leads to it.
const OwnCopyLink = ".link"

// PathRule grants access to a path and all below it, in a Landlock domain.
type PathRule struct {
	Path   string `json:"path"`
	Access Access `json:"access"`
	// Resolved paths have no symbolic links: one that has come into it since is
	// an error.
	Resolved bool `json:"resolved,omitempty"`
	// ID is what a resolved path must lead to; zero: whatever is there.
	ID FileID `json:"id,omitzero"`
}

// Access is what a rule grants.
type Access string

// The kinds of access.
const (
	AccessRead   Access = "read"   // files and directories
	AccessExec   Access = "exec"   // read, and execute
	AccessUse    Access = "use"    // read and write files that exist, devices among them
	AccessChange Access = "change" // everything but executing and making devices
	AccessAll    Access = "all"    // everything but making devices
)

// The ABIs of Landlock that plans rest on: what can bound files without
// breaking programs, and what can keep signals and abstract sockets apart.
const (
	LandlockFilesABI  = 2
	LandlockScopesABI = 6
)

// FileID tells one file of the host from every other: its device and its inode.
type FileID struct {
	Dev uint64 `json:"dev"`
	Ino uint64 `json:"ino"`
}

// Step is one operation of a plan. Which fields matter depends on Do.
type Step struct {
	Do     Op         `json:"do"`
	Source string     `json:"source,omitempty"`
	Target string     `json:"target,omitempty"`
	FD     string     `json:"fd,omitempty"` // a name from Plan.Files
	ID     FileID     `json:"id,omitzero"`  // what Source must lead to; zero: whatever is there
	Flags  []string   `json:"flags,omitempty"`
	Mode   uint32     `json:"mode,omitempty"`
	Size   int64      `json:"size,omitempty"`
	Data   []byte     `json:"data,omitempty"`
	Caps   []string   `json:"caps,omitempty"`
	Rules  []PathRule `json:"rules,omitempty"`
	// Why is the reason, for people who read the plan.
	Why string `json:"why,omitempty"`
	// Optional steps may fail where the plan says elsewhere that the
	// guarantee is kept by another one; a failure is reported, not fatal.
	Optional bool `json:"optional,omitempty"`
	// Hint says what to do where the step fails.
	Hint string `json:"hint,omitempty"`
}
