// Package confine describes confinement as data. A [Plan] is the exact list of
// steps that build a sandbox: a backend outside makes it, it can be printed,
// and the new process inside applies it step by step.
//
// plan.go and the other portable files define the data. The files named
// *_linux.go apply it, one for each mechanism: mounts, copies, process state,
// Landlock, seccomp. If a step fails, an [Error] names the stage, the
// operation, the object and the errno, and nothing is started.
//
// The plan crosses the process boundary from the trusted side to the new
// process in a binary form (see [Boot]); an agent never sends one back. Its
// JSON form is for people and programs that inspect it.
package confine

import (
	"fmt"
	"syscall"

	"github.com/paddock-dev/paddock/policy"
)

// PlanVersion is the version of the plan's format.
const PlanVersion = 1

// Plan holds everything that turns a process into a sandbox.
type Plan struct {
	Version    int         `json:"version"`
	Namespaces []Namespace `json:"namespaces"`
	UIDs       []IDMap     `json:"uids"`
	GIDs       []IDMap     `json:"gids"`
	// Command is the program that builds the wall, for backends that leave this to
	// another program. It is started with the agent's command appended, and
	// there are no other steps. It is not sent to the new process.
	Command []string `json:"command,omitempty"`
	// Setup runs once, in order, in the new process before any command.
	Setup []Step `json:"setup"`
	// Spawn is applied to the one thread that every command is cloned from,
	// and so to every command.
	Spawn []Step `json:"spawn"`
	// Files names the descriptors that are passed with the plan, in order; steps
	// refer to them by name.
	Files []string `json:"files,omitempty"`
	// GroupLimits bound all commands together. The host side keeps them: they do not
	// cross to the new process.
	GroupLimits GroupLimits `json:"group_limits,omitzero"`
	// Rlimits bound each process of every command.
	Rlimits Rlimits `json:"rlimits,omitzero"`
	// Redaction are the rules that apply to the output of every command.
	Redaction []policy.Redaction `json:"redaction,omitempty"`
	// Env is the base environment of every command.
	Env map[string]string `json:"env"`
	// LeftOut lists the directories of the caller's PATH that PATH in Env lacks. It is not
	// sent to the new process, and neither are the toolchains, caches, downloads and home of
	// Holds.
	LeftOut []LeftOut `json:"path_left_out,omitempty"`
	// Workspace is the directory inside where commands start.
	Workspace string `json:"workspace"`
	// Scratch is a directory of the host for the sandbox's private files, in
	// subdirectories named by the constants Scratch…. It is empty if namespaces
	// give the sandbox private directories.
	Scratch string `json:"scratch,omitempty"`
	// Holds describes the isolation once the plan is applied.
	Holds policy.Isolation `json:"holds"`
}

// LeftOut is a directory that is not searched for programs, and the reason.
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

// The agent's subdirectories of Plan.Scratch.
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

// Op is the kind of a step.
type Op string

// The operations, with the fields of Step that each one uses.
const (
	OpBind     Op = "bind"     // Source or FD, Target, Flags: a host path becomes visible
	OpSelf     Op = "self"     // Target, Source, Flags: the path Source inside is bound at Target; without Source, Target onto itself
	OpCopy     Op = "copy"     // Source or FD, Target, Flags: the content of a host directory is copied into one inside
	OpOwnCopy  Op = "own_copy" // Target, Source, Data, Flags: a link mounted over the file at Target leads to Source, a copy of the file or of Data that commands can change
	OpOverlay  Op = "overlay"  // Source or FD, Target, Names, Flags, Size: what a host directory has, except under Names, appears below what Target has; what commands change there is private, and ends with the sandbox
	OpLayer    Op = "layer"    // FD, Target, Flags: an overlay that the host side has mounted; or Source, ID, Names, Target, Flags: one of a host directory and the layer in the directory that Names has
	OpTmpfs    Op = "tmpfs"    // Target, Flags, Size, Mode: an empty private file system
	OpProc     Op = "proc"     // Target, Flags: a fresh /proc of the commands' pid namespace
	OpCgroup   Op = "cgroup"   // Source: the sandbox's control group, for the agent only
	OpCgroupNS Op = "cgroupns" // the commands' cgroup namespace gets the process's group as its root
	OpDevpts   Op = "devpts"   // Target, Flags: private terminals
	OpMkdir    Op = "mkdir"    // Target, Mode
	OpFile     Op = "file"     // Target, Mode, Data: a file made for the sandbox
	OpSymlink  Op = "symlink"  // Source (the link's text), Target
	OpPivot    Op = "pivot"    // the new root becomes the root; the old one is detached
	OpReadOnly Op = "readonly" // Target: only the mount at Target becomes read-only, not those below it
	OpHostname Op = "hostname" // Source
	OpLoopback Op = "loopback" // the lo interface goes up
	OpGateway  Op = "gateway"  // Size: a network namespace without processes that everything is routed to, and as many unbound sockets in it, which the host side gets
	OpListen   Op = "listen"   // Target: a listening Unix socket, which the host side gets after those of the gateway
	OpKeyring  Op = "keyring"  // a private session keyring
	OpSysctl   Op = "sysctl"   // Target (below /proc/sys), Source (the value)
	OpReset    Op = "reset"    // inherited process state is reset to defaults
	OpCaps     Op = "caps"     // drops all capabilities except Caps, and the bounding set
	OpNoNew    Op = "no_new_privs"
	OpLandlock Op = "landlock" // Rules (for files), Flags (what else is denied)
	OpApart    Op = "apart"    // each command gets its own Landlock domain
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
	FlagBelowRO    = "below_ro"             // bind: mounts of the host below the source become read-only
	FlagOutlive    = "outlive"              // reset: the agent is not killed with its parent, so that it can clean up
	FlagBounding   = "bounding"             // caps: the bounding and inheritable sets are dropped, the process keeps its own
	FlagAllThreads = "all_threads"          // seccomp: the agent's own threads are filtered, too
	FlagNotify     = "notify"               // seccomp: the agent is notified of what commands are denied
	FlagAbstract   = "abstract_unix_socket" // landlock
	FlagSignal     = "signal"               // landlock
	FlagSockets    = "unix_socket"          // landlock: no socket with a path that was made outside of the domain, but where a rule grants AccessConnect
	FlagTCP        = "tcp"                  // landlock: no port can be bound or connected to
)

// OwnCopyLink is the suffix of the link that leads to a copy: the link is named
// after the copy.
const OwnCopyLink = ".link"

// PathRule grants access to a path and everything below it, in a Landlock domain.
type PathRule struct {
	Path   string `json:"path"`
	Access Access `json:"access"`
	// Resolved says that the path had no symbolic links when the plan was made.
	// If it has one now, that is an error.
	Resolved bool `json:"resolved,omitempty"`
	// ID is the file that a resolved path must lead to; zero allows any.
	ID FileID `json:"id,omitzero"`
}

// Access is the kind of access that a rule grants.
type Access string

// The kinds of access.
const (
	AccessRead   Access = "read"   // files and directories
	AccessExec   Access = "exec"   // read, and execute
	AccessUse    Access = "use"    // read and write files that exist, devices among them
	AccessChange Access = "change" // everything but executing and making devices
	AccessAll    Access = "all"    // everything but making devices
	// AccessConnect allows connecting to Unix sockets there that processes outside of the domain
	// have made. It matters only with FlagSockets.
	AccessConnect Access = "connect"
)

// The ABIs of Landlock that plans need: the first one that can restrict files
// without breaking programs, the first one that can isolate signals and
// abstract sockets, and the first one that can isolate sockets with paths.
const (
	LandlockFilesABI   = 2
	LandlockScopesABI  = 6
	LandlockSocketsABI = 9
)

// FileID identifies a file of the host by its device and inode.
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
	ID     FileID     `json:"id,omitzero"`  // the file that Source must lead to; zero allows any
	Flags  []string   `json:"flags,omitempty"`
	Mode   uint32     `json:"mode,omitempty"`
	Size   int64      `json:"size,omitempty"`
	Data   []byte     `json:"data,omitempty"`
	Caps   []string   `json:"caps,omitempty"`
	Names  []string   `json:"names,omitempty"`
	Rules  []PathRule `json:"rules,omitempty"`
	// Why is the reason for the step, for people who read the plan.
	Why string `json:"why,omitempty"`
	// Optional says that a failure of the step is reported but not fatal,
	// because another step of the plan gives the same guarantee.
	Optional bool `json:"optional,omitempty"`
	// Hint says what to do if the step fails.
	Hint string `json:"hint,omitempty"`
}

// Error is a step that failed. The new process sends it to the host side (see
// [Booted]).
type Error struct {
	Stage  string // "setup", "spawn"
	Op     string // the step's operation or the system call
	Object string // a path, an interface, a resource
	Errno  int
	Cause  string // if there is no errno
	Hint   string
}

// Error returns what could not be done and why.
func (e *Error) Error() string {
	cause := e.Cause
	if e.Errno != 0 {
		cause = syscall.Errno(e.Errno).Error()
	}
	if e.Object == "" {
		return fmt.Sprintf("cannot apply %s (%s): %s", e.Op, e.Stage, cause)
	}
	return fmt.Sprintf("cannot apply %s to %s (%s): %s", e.Op, e.Object, e.Stage, cause)
}

// Unwrap returns the errno, so that errors.Is(err, fs.ErrPermission) works.
func (e *Error) Unwrap() error {
	if e.Errno == 0 {
		return nil
	}
	return syscall.Errno(e.Errno)
}
