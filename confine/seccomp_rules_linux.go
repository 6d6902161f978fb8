package confine

import (
	"slices"

	"golang.org/x/sys/unix"
)

// rule denies system calls: each of calls fails with errno where all
// conditions hold. Of the rules for one call the first that holds counts.
type rule struct {
	group string
	calls []string
	when  []cond
	errno unix.Errno
	who   scope
	why   string
}

// tells says whether a supervisor is to hear that the rule was applied: where
// it is a refusal, as opposed to an answer that programs know how to live
// with. The agent's own filter answers first for what binds the agent, too.
func (r rule) tells() bool {
	return r.who&agent == 0 && (r.errno == unix.EPERM || r.errno == unix.EACCES)
}

// binds says whether the rule is part of a filter. Commands that begin in
// control groups are denied clone3 by a filter of their own (NoClone3).
func (r rule) binds(who scope) bool {
	return r.who&who != 0 && !(who&grouped != 0 && r.calls[0] == "clone3")
}

// scope is whom a rule binds: any of these.
type scope uint8

const (
	agent        scope = 1 << iota // every thread of the agent
	byDefault                      // commands under a profile
	strict                         //
	debug                          //
	noNamespaces                   // commands that share the host's namespaces
	noNetwork                      // commands that the filter keeps from the network
	grouped                        // commands that another filter keeps from clone3
	notified                       // commands that have a supervisor

	commands = byDefault | strict | debug
	everyone = agent | commands
)

// rules is what may not be asked of the kernel. ENOSYS stands where programs
// fall back to an older call or do without, EPERM elsewhere, another errno
// where it is the kernel's usual one.
//
// They are made anew when asked for: the agent, which links this package too,
// pays nothing for them when it starts.
func rules() []rule {
	return slices.Concat(fileRules(), namespaceRules(), processRules(), hostRules(), socketRules(), sharedRules())
}

var (
	setID    = []value{{unix.S_ISUID, "S_ISUID"}, {unix.S_ISGID, "S_ISGID"}}
	creating = []value{{unix.O_CREAT, "O_CREAT"}, {0o20000000, "__O_TMPFILE"}} // O_TMPFILE without its O_DIRECTORY
	devices  = []value{{unix.S_IFCHR, "S_IFCHR"}, {unix.S_IFBLK, "S_IFBLK"}}
)

const (
	setIDWhy  = "on disk it would act with its owner's identity on the host"
	deviceWhy = "no device belongs into a sandbox; 0:0 is what overlayfs takes for a deletion"
	namesWhy  = "a nested namespace opens most of the kernel to its maker"
	mountWhy  = "the view of the file system is fixed"
)

// fileRules guard what files can become and how they are reached.
func fileRules() []rule {
	return []rule{
		{"set-id files", []string{"chmod", "fchmod", "creat", "mkdir", "mknod"}, []cond{has(1, "mode", setID...)}, unix.EPERM, commands, setIDWhy},
		{"set-id files", []string{"fchmodat", "fchmodat2", "mkdirat", "mknodat"}, []cond{has(2, "mode", setID...)}, unix.EPERM, commands, setIDWhy},
		{"set-id files", []string{"open"}, []cond{has(1, "flags", creating...), has(2, "mode", setID...)}, unix.EPERM, commands, setIDWhy},
		{"set-id files", []string{"openat"}, []cond{has(2, "flags", creating...), has(3, "mode", setID...)}, unix.EPERM, commands, setIDWhy},
		{"set-id files", []string{"openat2"}, nil, unix.ENOSYS, commands, "its mode is behind a pointer; programs use openat"},
		{"device nodes", []string{"mknod"}, []cond{is(1, "mode", devices...).masked(unix.S_IFMT)}, unix.EPERM, commands, deviceWhy},
		{"device nodes", []string{"mknodat"}, []cond{is(2, "mode", devices...).masked(unix.S_IFMT)}, unix.EPERM, commands, deviceWhy},
		{"file handles", []string{"open_by_handle_at"}, nil, unix.EPERM, everyone, "it asks no directory for leave"},
		{"file handles", []string{"name_to_handle_at"}, nil, unix.EPERM, commands, "of no use without the other"},
		{"file handles", []string{"fanotify_init", "fanotify_mark"}, nil, unix.EPERM, commands, "it watches whole file systems, by handle"},
		{"programs without a file", []string{"memfd_create"}, nil, unix.ENOSYS, strict, "programs and data are files; programs fall back to temporary ones"},
		{"programs without a file", []string{"execveat"}, nil, unix.ENOSYS, strict, "programs are executed by their path"},
	}
}

// namespaceRules keep the walls where they are. CLONE_NEWUTS may pass:
// the spawner marks each command's tree with it, and commands lack the capability.
func namespaceRules() []rule {
	return []rule{
		{"namespaces", []string{"clone"}, []cond{has(0, "flags", value{unix.CLONE_NEWNS, "CLONE_NEWNS"}, value{unix.CLONE_NEWCGROUP, "CLONE_NEWCGROUP"},
			value{unix.CLONE_NEWIPC, "CLONE_NEWIPC"}, value{unix.CLONE_NEWUSER, "CLONE_NEWUSER"}, value{unix.CLONE_NEWPID, "CLONE_NEWPID"},
			value{unix.CLONE_NEWNET, "CLONE_NEWNET"})}, unix.EPERM, commands, namesWhy},
		{"namespaces", []string{"clone3"}, nil, unix.ENOSYS, commands, "its flags are behind a pointer; programs use clone"},
		{"namespaces", []string{"unshare"}, []cond{hasOther(0, "flags", value{unix.CLONE_VM, "CLONE_VM"}, value{unix.CLONE_FS, "CLONE_FS"},
			value{unix.CLONE_FILES, "CLONE_FILES"}, value{unix.CLONE_SIGHAND, "CLONE_SIGHAND"}, value{unix.CLONE_THREAD, "CLONE_THREAD"},
			value{unix.CLONE_SYSVSEM, "CLONE_SYSVSEM"}, value{unix.CLONE_NEWUTS, "CLONE_NEWUTS"})}, unix.EPERM, commands, namesWhy},
		{"namespaces", []string{"setns"}, nil, unix.EPERM, commands, namesWhy},
		{"namespaces", []string{"listns"}, nil, unix.ENOSYS, commands, "what other namespaces there are is nobody's business"},
		{"mounts", []string{"mount", "umount2", "chroot", "pivot_root"}, nil, unix.EPERM, commands, mountWhy},
		{"mounts", []string{"open_tree", "open_tree_attr", "move_mount", "mount_setattr", "fsopen", "fsconfig", "fsmount", "fspick"}, nil, unix.EPERM, commands, mountWhy},
		{"mounts", []string{"statmount", "listmount"}, nil, unix.ENOSYS, commands, "they name mount namespaces behind a pointer; programs read /proc/self/mountinfo"},
	}
}

// queries are the personalities that change nothing of weight, and the question for the present one.
var queries = []value{{0, "PER_LINUX"}, {0x8, "PER_LINUX32"}, {0x20000, "UNAME26"}, {0x20008, "PER_LINUX32|UNAME26"}, {0xffffffff, "a query"}}

// processRules keep processes apart.
func processRules() []rule {
	return []rule{
		{"other processes", []string{"ptrace", "process_vm_readv", "process_vm_writev", "kcmp", "pidfd_getfd"}, nil, unix.EPERM, byDefault | strict,
			"only debuggers look into other processes"},
		{"other processes", []string{"process_madvise", "process_mrelease"}, nil, unix.EPERM, commands, "the memory of other processes"},
		{"other processes", []string{"prlimit64"}, []cond{isNot(0, "pid", value{0, "0"})}, unix.EPERM, noNamespaces, "the host's processes can be named; one's own pid is not known to a filter"},
		{"other processes", []string{"prlimit64"}, []cond{isNot(0, "pid", value{0, "0"}), notNull(2, "new_limit")}, unix.EPERM, commands, "limits of other processes"},
		{"personality", []string{"personality"}, []cond{isNot(0, "persona", queries[0], queries[4])}, unix.EPERM, strict, "old behaviour is old holes"},
		{"personality", []string{"personality"}, []cond{isNot(0, "persona", queries...)}, unix.EPERM, byDefault, "it turns protections of memory off"},
		{"personality", []string{"personality"}, []cond{isNot(0, "persona", append(queries[:len(queries):len(queries)], value{0x40000, "ADDR_NO_RANDOMIZE"})...)}, unix.EPERM, debug,
			"it turns protections of memory off; debuggers need addresses that repeat"},
		{"keyrings", []string{"keyctl", "add_key", "request_key"}, nil, unix.EPERM, everyone, "keyrings are not namespaced"},
		{"terminals", []string{"ioctl"}, []cond{is(1, "request", value{unix.TIOCSTI, "TIOCSTI"}, value{unix.TIOCLINUX, "TIOCLINUX"})}, unix.EPERM, commands,
			"typing into a terminal"},
		{"terminals", []string{"ioctl"}, []cond{is(1, "request", value{unix.TIOCSETD, "TIOCSETD"})}, unix.EPERM, commands, "line disciplines are old drivers for modems"},
		{"terminals", []string{"vhangup"}, nil, unix.EPERM, everyone, "it takes a terminal from others"},
	}
}
