// Package policy describes what a sandbox should be and what it turned out to be: the
// [Spec] that a user writes, its defaults and its validation, and the [Isolation] that
// was really applied. It decides, and enforces nothing.
//
// The package is portable and imports little more than the standard library, because the
// agent links it. Package policy/specfile reads specs from YAML and JSON.
//
// A spec is used in three steps: it is read ([FieldError] names the line of a
// mistake), [Spec.Resolve] fills in every default and refuses fields that cannot be
// enforced, and a backend turns the result into a wall. This package looks only at
// text: the backend finds out at the moment of use whether a path exists, and where
// its links lead.
package policy

import "github.com/paddock-dev/paddock/internal/osstring"

// Spec is what a sandbox should be. Its zero value is safe: the current
// directory as workspace behind every default wall, and no network.
type Spec struct {
	// Backend builds the wall. Default: "linux".
	Backend string `json:"backend,omitempty"`
	// Level is how strong the wall is: "full" (default) or "landlock", for hosts
	// that forbid user namespaces. The second is weaker, and the plan says in what.
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
	// Caches are the tools whose caches stay for later sandboxes over the same workspace,
	// for the same principal: words of [CacheTools], or one of "auto" (those whose files
	// the top directory of the workspace has) and "none". Empty: none, unless the options
	// that open the sandbox say otherwise.
	Caches []string `json:"caches,omitempty"`
	// Home is what HOME is: empty (default: a private and empty directory), "keep" (one
	// that stays for later sandboxes over the same workspace, for the same principal), or
	// a host directory, which commands may change.
	Home string `json:"home,omitempty"`
	// Network is what commands can reach. Default: nothing but loopback.
	Network Network `json:"network,omitzero"`
	// HostSockets are Unix sockets of the host that commands may connect to, at the same paths
	// inside, at most 16. Nobody but the host's programs may have been able to put them there.
	// Default: none: sockets that programs of the host listen at are covered, wherever a
	// mount shows them.
	HostSockets osstring.List `json:"host_sockets,omitempty"`
	// SSHAgent, if not nil, lets commands use the caller's SSH agent, within bounds. It
	// implies network "allow". Default: none.
	SSHAgent *SSHAgent `json:"ssh_agent,omitempty"`
	// Limits bound what commands may use.
	Limits Limits `json:"limits,omitzero"`
	// Env is laid over the clean base environment of every command. A name
	// is letters, digits and underscores; a variable is at most 128 KiB with
	// its name (the kernel's bound), and all together are at most 1 MiB.
	Env osstring.Map `json:"env,omitempty"`
	// NoToolchains leaves out the toolchains below the caller's home that the caller's
	// PATH names, where they would be shown.
	NoToolchains bool `json:"no_toolchains,omitempty"`
	// Hostname is the host name inside, at most 64 bytes. Default: "paddock".
	Hostname string `json:"hostname,omitempty"`
	// AllowDegraded names the settings that may be weaker than written if this host
	// cannot enforce them, each by a word of [Degradations].
	AllowDegraded []string `json:"allow_degraded,omitempty"`
	// Commands are the rules for command texts. nil: none; with an empty list of
	// programs every command is refused. With rules, if the kernel has Landlock, only
	// the files of these programs and what loads them can be executed, and nothing
	// that commands can change.
	Commands *Commands `json:"commands,omitempty"`
	// Redaction are rules for replacing text in the output of commands, at most 64.
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
	// with the sandbox; the source is only read. Or "overlay": what commands change goes to
	// a layer above the source, which is only read until somebody commits the layer.
	Mode string `json:"mode,omitempty"`
	// Layers is where the layer of an overlay lies: a host directory on a file system that
	// can carry one, made absolute. Default: the state directory.
	Layers string `json:"layers,omitempty"`
	// Access is "rw" (default) or "ro".
	Access string `json:"access,omitempty"`
	// Unprotected lists the paths of [ProtectedPaths] that commands may change
	// nevertheless; "*" stands for all of them, and DIR/.git for a repository below the
	// workspace.
	Unprotected osstring.List `json:"unprotected,omitempty"`
}

// OnlyReads reports whether commands leave the source as it is, in whatever they change.
func (w Workspace) OnlyReads() bool { return w.Mode == ModeCopy || w.Mode == ModeOverlay }

// Stays reports whether what commands change in the workspace stays in its source.
func (w Workspace) Stays() bool { return w.Access != "ro" && !w.OnlyReads() }

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

// Isolation describes the walls that were really applied to a sandbox, and comes with every
// result. It is filled in by the side that applied or verified a wall, and never copied from
// the spec.
type Isolation struct {
	Backend string `json:"backend"`
	// Level is "full" or "landlock".
	Level string `json:"level"`
	// Namespaces are the kinds of kernel namespace that the sandbox has of
	// its own: "user", "mount", "pid", "ipc", "uts", "net", "cgroup".
	Namespaces []string `json:"namespaces"`
	// UIDInside and UIDHost are one identity, as commands see it and as the host's
	// kernel does.
	UIDInside uint32 `json:"uid_inside"`
	UIDHost   uint32 `json:"uid_host"`
	// KeptGroups are supplementary groups that could not be dropped (an ordinary
	// user's, in a user namespace). They grant the same access as outside.
	KeptGroups []int `json:"kept_groups,omitempty"`
	// Identity is how files keep their owner: "mapped" (the caller's own id
	// is mapped) or "idmap" (an id-mapped mount).
	Identity string `json:"identity"`
	Network  string `json:"network"` // "none", "allow" or "host"
	// Egress is how commands reach other hosts if Network is "allow", else nil.
	Egress *IsolationEgress `json:"egress,omitempty"`
	// SSHAgent is what commands may use of the caller's SSH agent, nil for nothing.
	SSHAgent *SSHAgent `json:"ssh_agent,omitempty"`
	// HostSockets are the sockets of the host that commands may connect to, and CoveredSockets
	// those that mounts would show, and that are covered.
	HostSockets    osstring.List `json:"host_sockets,omitempty"`
	CoveredSockets osstring.List `json:"covered_sockets,omitempty"`
	// Published are the ports of the sandbox that the host listens for.
	Published    []PublishedPort `json:"published,omitempty"`
	Capabilities string          `json:"capabilities"` // of commands: "none"
	NoNewPrivs   bool            `json:"no_new_privs"`
	Seccomp      string          `json:"seccomp"` // the filter's profile
	// Landlock lists the kinds of access that it restricts, for example "files
	// execute abstract_unix_socket signal", or is "none"; "execute" means that only
	// the commands that the spec lists can be executed. LandlockABI is the kernel's
	// version.
	Landlock    string `json:"landlock"`
	LandlockABI int    `json:"landlock_abi,omitempty"`
	// Cgroup names the controllers that bound the commands, or "none".
	Cgroup string `json:"cgroup"`
	// Workspace is "bind", "copy" or "overlay", RootFS "host" or a directory. Layer says
	// how an overlay was mounted: "trusted" (by root) or "userxattr" (by an ordinary user).
	Workspace string          `json:"workspace"`
	Layer     string          `json:"layer,omitempty"`
	RootFS    osstring.String `json:"rootfs"`
	// Caches are the tools whose caches are kept for later sandboxes. LayeredCaches are those
	// for which commands have what earlier sandboxes kept, below a layer in memory: what they
	// change ends with the sandbox. Home is the host directory at HOME, empty for a private
	// one that ends with the sandbox.
	Caches        []string        `json:"caches,omitempty"`
	LayeredCaches []string        `json:"layered_caches,omitempty"`
	Home          osstring.String `json:"home,omitempty"`
	// Downloads are the tools that can read what they have downloaded for the caller, outside
	// of sandboxes.
	Downloads []string `json:"downloads,omitempty"`
	// OwnCopies are files inside (git's configuration) of which commands get a
	// separate copy to change; the host's file stays unchanged.
	OwnCopies osstring.List `json:"own_copies,omitempty"`
	// Toolchains are those of the caller's home that are visible, read-only.
	Toolchains []Toolchain `json:"toolchains,omitempty"`
	// Limits says how each limit is enforced: "memory": "memory.max=64MiB".
	Limits map[string]string `json:"limits,omitempty"`
	// Degraded names the settings that are weaker than written, because the spec
	// allowed that by name; Lost has a sentence for each guarantee that a level or a
	// degradation does not give.
	Degraded []string `json:"degraded,omitempty"`
	Lost     []string `json:"lost,omitempty"`
	// NestedUserns says what keeps user namespaces from being made inside:
	// "sysctl+seccomp" or "seccomp".
	NestedUserns string `json:"nested_userns"`
	// Death is how the end of a whole process tree is proved: "pidns+uts", or
	// "descent" if it can be proved only for what descends from the agent.
	Death string `json:"death"`
	// Verified says that the host side read the walls from the kernel itself.
	Verified bool `json:"verified"`
}

// IsolationEgress is how commands reach hosts by name.
type IsolationEgress struct {
	// How is where their connections end: "gateway", a network namespace of the sandbox's
	// own without any process; or "inside", the commands' own, where they cannot listen at
	// the ports that rules name.
	How string `json:"how"`
	// Allow are the rules in their short form, "api.example.com:8443"; without ports they
	// open 443 and 80. Deny are the hosts that are closed nevertheless.
	Allow []string `json:"allow"`
	Deny  []string `json:"deny,omitempty"`
	// Intercepted are those of Allow for which the egress process ends TLS: it sees requests
	// and answers. Injected says which header of them gets which secret,
	// "api.example.com:443 Authorization API_TOKEN".
	Intercepted []string `json:"intercepted,omitempty"`
	Injected    []string `json:"injected,omitempty"`
}

// Toolchain is a toolchain below the caller's home, such as nvm's Node.
type Toolchain struct {
	// Name is that of the version manager: "nvm", "rustup".
	Name string `json:"name"`
	// Dirs are its directories and files that are visible, at the same paths.
	Dirs osstring.List `json:"dirs"`
}
