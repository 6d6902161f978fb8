//go:build linux

package linux

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/confine"
	"github.com/paddock-dev/paddock/internal/testkit/boxtest"
	"github.com/paddock-dev/paddock/policy"
)

// alone is one mechanism without the others: a plan with the other steps
// taken out, and attacks that it has to stop by itself. The same attacks
// succeed where nothing is left of the plan.
type alone struct {
	mechanism string
	level     string
	keep      func(confine.Step) (confine.Step, bool) // of the steps that confine commands
	limits    policy.Limits
	attacks   []solo
}

// solo is an attack, and the only answer that is right.
type solo struct {
	args []string
	want string
	// without is what it comes to where nothing stops it, if not success:
	// most hosts do not let an ordinary user do this anyway.
	without string
	// control is another attack that has to succeed where nothing stops it.
	control []string
	// over is what is kept for the control, where that is not nothing.
	over func(confine.Step) (confine.Step, bool)
}

func tried(want string, args ...string) solo { return solo{args: args, want: want} }

// refused is for what nobody without privileges may do anywhere.
func refused(want, without string, args ...string) solo {
	return solo{args: args, want: want, without: without}
}

// step keeps steps of these kinds. A thread without no_new_privs could not
// confine itself.
func step(ops ...confine.Op) func(confine.Step) (confine.Step, bool) {
	return func(s confine.Step) (confine.Step, bool) {
		for _, op := range append(ops, confine.OpNoNew) {
			if s.Do == op {
				return s, true
			}
		}
		return s, false
	}
}

// domain keeps a part of the Landlock domain: the rules of files, or one flag.
func domain(flag string, more ...confine.Op) func(confine.Step) (confine.Step, bool) {
	return func(s confine.Step) (confine.Step, bool) {
		if s.Do != confine.OpLandlock {
			return step(more...)(s)
		}
		if flag == "" {
			s.Flags = nil
		} else {
			s.Rules, s.Flags = nil, []string{flag}
		}
		return s, true
	}
}

func nothing(s confine.Step) (confine.Step, bool) { return s, false }

func mechanisms() []alone {
	const full, bare = policy.LevelFull, policy.LevelLandlock
	sock := func(family, kind int) []string {
		return []string{"socket", strconv.Itoa(family), strconv.Itoa(kind), "0"}
	}
	scopes := domain(confine.FlagSignal)
	return []alone{
		{"a root of its own", full, step(), policy.Limits{}, []solo{
			tried("ENOENT", "read", "{canary}"), tried("ENOENT", "climb", "{canary}"), tried("ENOENT", "append", "{canary}"), tried("ENOENT", "socket-at", "{socket}")}},
		{"protected paths", full, step(), policy.Limits{}, []solo{
			tried("EROFS", "append", "{ws}/.envrc"), tried("EBUSY", "exchange", "{ws}/.git")}},
		{"a pid namespace", full, step(), policy.Limits{}, []solo{
			tried("ESRCH", "kill", "{host}"), tried("ESRCH", "priority", "{host}"), tried("not visible", "find-process", "{token}")}},
		{"an inner pid namespace", full, step(), policy.Limits{}, []solo{tried("ESRCH", "kill", "{agent}"), tried("ESRCH", "affinity", "{agent}")}},
		{"a network namespace", full, step(), policy.Limits{}, []solo{
			tried("ECONNREFUSED", "tcp", "{tcp}"), tried("ECONNREFUSED", "abstract", "{abstract}")}},
		{"an ipc namespace", full, step(), policy.Limits{}, []solo{tried("ENOENT", "shm", "{shm}")}},
		{"masks over /proc", full, step(), policy.Limits{}, []solo{tried("EOF", "read", "/proc/interrupts")}},
		{"no capabilities", full, step(), policy.Limits{}, []solo{
			refused("EPERM", "EPERM", "mount-tmpfs"), refused("EPERM", "EPERM", "chroot"), refused("EPERM", "EPERM", "mknod-null"),
			refused("EPERM", "EPERM", "sethostname"), refused("EPERM", "EPERM", "filecap"), refused("EPERM", "EPERM", "handle")}},
		{"user namespaces switched off", full, step(), policy.Limits{}, []solo{tried("ENOSPC", "clone", "user"), tried("ENOSPC", "clone3", "user")}},
		{"a bounded /tmp", full, step(), policy.Limits{Tmp: 8 * policy.MiB}, []solo{
			tried("ENOSPC", "bomb-space", "/tmp", "12"), tried("ENOSPC", "bomb-inodes", "/tmp", "2500")}},
		{"limits of each process", full, step(), policy.Limits{Processes: 64, OpenFiles: 200}, []solo{
			tried("EMFILE", "bomb-descriptors", "300"), tried("EAGAIN", "bomb-processes", "80")}},
		{"an agent that cannot be dumped", bare, step(), policy.Limits{}, []solo{
			{args: []string{"ptrace", "{agent}"}, want: "EPERM", control: []string{"ptrace", "{host}"}},
			{args: []string{"proc-open", "{agent}", "mem"}, want: "EACCES", control: []string{"proc-open", "{host}", "mem"}},
			{args: []string{"proc-link", "{agent}", "exe"}, want: "EACCES", control: []string{"proc-link", "{host}", "exe"}}}},
		{"no_new_privs", bare, step(), policy.Limits{}, []solo{tried("the same identity", "euid", "{suid}")}},
		{"the system call filter", bare, step(confine.OpSeccomp), policy.Limits{}, []solo{
			tried("EPERM", "setid-fchmod"), tried("EPERM", "setid-openat"), tried("ENOSYS", "setid-openat2"), tried("EPERM", "setid-tar"),
			tried("EPERM", "mknod-white"), tried("EPERM", "clone", "user"), tried("ENOSYS", "clone3", "user"), tried("EPERM", "key-add"),
			tried("ENOSYS", "io_uring"), tried("EPERM", sock(unix.AF_VSOCK, unix.SOCK_STREAM)...),
			tried("EPERM", "ptrace", "{host}"), tried("EPERM", "vm-write", "{host}"), tried("EPERM", "pidfd-getfd", "{host}"),
			tried("EPERM", "prlimit", "{host}"), tried("EPERM", "affinity", "{host}"), tried("EPERM", "priority", "{host}"),
			tried("EACCES", "tcp", "{tcp}"), tried("EACCES", "abstract", "{abstract}"), tried("EACCES", "socket-at", "{socket}"),
			tried("EACCES", "pair-send", "{packets}"), tried("ENOSYS", "shm", "{shm}")}},
		{"Landlock: files", bare, domain(""), policy.Limits{}, []solo{
			tried("EACCES", "read", "{canary}"), tried("EACCES", "append", "{canary}"), tried("EACCES", "truncate", "{canary}"),
			tried("EACCES", "climb", "{canary}"), tried("EACCES", "create", "{hostdir}/attacker"), tried("EPERM", "ptrace", "{host}"), tried("EACCES", "proc-open", "{host}", "environ")}},
		{"Landlock: signals", bare, scopes, policy.Limits{}, []solo{
			tried("EPERM", "kill", "{host}"), tried("EPERM", "pidfd-signal", "{host}"), tried("survived", "own-file", "{host}"), tried("EPERM", "kill", "{agent}")}},
		{"Landlock: abstract sockets", bare, domain(confine.FlagAbstract), policy.Limits{}, []solo{
			tried("EPERM", "abstract", "{abstract}")}},
		{"Landlock: TCP", bare, domain(confine.FlagTCP), policy.Limits{}, []solo{
			tried("EACCES", "tcp", "{tcp}"), tried("EACCES", "listen", "tcp", "127.0.0.1:0")}},
		{"the shield, over Landlock's signals", bare, domain(confine.FlagSignal, confine.OpShield), policy.Limits{}, []solo{
			{args: []string{"kill-thread", "{agent}"}, want: "EPERM", over: scopes}, {args: []string{"tgkill", "{agent}"}, want: "EPERM", over: scopes},
			{args: []string{"own-file", "{agent}"}, want: "survived", over: scopes}, {args: []string{"own-socket", "{agent}"}, want: "EPERM", over: scopes}}},
	}
}

// aloneReport is the grid that TestMain prints.
var aloneReport strings.Builder

// Each mechanism stops its attacks by itself.
func TestMechanismsAlone(t *testing.T) {
	boxtest.RequireWalls(t)
	if confine.LandlockABI() < confine.LandlockScopesABI {
		t.Skipf("the kernel's Landlock ABI is %d", confine.LandlockABI())
	}
	fmt.Fprintf(&aloneReport, "  %-36s %-34s %-20s %s\n", "mechanism", "attack", "without it", "with it alone")
	h := newPrey(t)
	free := h.box(t, alone{level: policy.LevelLandlock, keep: nothing})
	for _, m := range mechanisms() {
		t.Run(strings.ReplaceAll(m.mechanism, "/", "."), func(t *testing.T) {
			box := h.box(t, m)
			for _, a := range m.attacks {
				if a.args[len(a.args)-1] == "{suid}" && os.Geteuid() != 0 {
					continue // only root can make such a program
				}
				without := h.without(t, free, m, a)
				got := h.attack(t, box, a.args)
				mark := " "
				if got != a.want || without != "succeeded" && without != a.without {
					mark = "!"
					t.Errorf("%v: without it %s, with it alone %s, want %s", a.args, without, got, a.want)
				}
				if without != "succeeded" {
					without = "n/a: host refuses, " + without
				}
				fmt.Fprintf(&aloneReport, "%s %-36s %-34s %-20s %s\n", mark, m.mechanism, strings.Join(a.args, " "), without, got)
			}
		})
	}
}
