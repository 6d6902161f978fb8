//go:build linux

package escape

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// target is a process under attack.
type target struct {
	name, pid string
	full      string // what naming it comes to at level full
	absent    string // why there is none at the landlock level
}

// processAttacks are after processes: the commands' init, the agent, one of
// the host's and one of another sandbox of the same user's.
func processAttacks() []row {
	rows := []row{
		{name: "find a process of the host's", args: []string{"find-process", "{token}"}, want: "not visible", lost: "other processes"},
		{name: "find a process of another sandbox's", args: []string{"find-process", "{token}-inside"}, want: "not visible", control: never,
			why: "the host's is found", lost: "other processes"},
		{name: "change the niceness of the user's processes", args: []string{"nice-user"}, want: succeeded, landlock: "EPERM", control: never,
			why: "outside it would slow the host down; inside it reaches the commands alone"},
		{name: "change the user's I/O priority", args: []string{"ioprio-user"}, want: succeeded, landlock: "EPERM", control: never,
			why: "outside it would slow the host down; inside it reaches the commands alone"},
		{name: "change the personality", args: []string{"personality"}, want: "EPERM"},
	}
	victims := []target{
		{"the commands' init", "{init}", "", "it is the agent"},
		{"the agent", "{agent}", "ESRCH", ""},
		{"a process of the host's", "{host}", "ESRCH", ""},
		{"another sandbox's process", "{sibling}", "ESRCH", ""},
	}
	if emulated {
		victims = victims[:2]
	}
	for _, t := range victims {
		rows = append(rows, t.held()...)
		rows = append(rows, t.files()...)
		rows = append(rows, t.signals()...)
		rows = append(rows, t.shares()...)
	}
	return rows
}

// or gives what naming the process comes to, else another answer.
func (t target) or(want string) string {
	if t.full != "" {
		return t.full
	}
	return want
}

// held are attacks on what a process holds.
func (t target) held() []row {
	var rows []row
	for _, a := range []struct{ attack, name, want, unless string }{
		{"ptrace", "trace %s", "EPERM", ""},
		{"ptrace-attach", "attach to %s", "EPERM", ""},
		{"vm-read", "read the memory of %s", "EPERM", ""},
		{"vm-write", "write the memory of %s", "EPERM", ""},
		{"pidfd-getfd", "take a descriptor of %s", t.or("EPERM"), ""},
		{"madvise", "page out the memory of %s", t.or("EPERM"), "EPERM"},
		{"kcmp", "compare descriptors of %s", "EPERM", "ENOSYS"},
		{"move-pages", "move the memory of %s", "ENOSYS", "ENOSYS"},
	} {
		rows = append(rows, row{name: fmt.Sprintf(a.name, t.name), args: []string{a.attack, t.pid}, want: a.want, landlock: "EPERM|ENOSYS",
			unless: a.unless, absent: t.absent})
	}
	return rows
}

// files are attacks through /proc/PID.
func (t target) files() []row {
	var rows []row
	want := "EACCES|EPERM"
	if t.full != "" {
		want = "ENOENT"
	}
	names := []string{"mem", "environ", "fd", "root", "cwd", "maps"}
	if t.full == "" {
		names = append(names, "auxv", "stack", "syscall", "pagemap", "io")
	}
	for _, file := range names {
		r := row{name: "open " + file + " of " + t.name, args: []string{"proc-open", t.pid, file}, want: want, landlock: "EACCES|EPERM",
			unless: "EPERM|EACCES|ENOENT|EINVAL", absent: t.absent}
		if file == "fd" && t.pid != "{init}" && t.pid != "{agent}" { // the numbers are listed; none can be opened
			r.lost = "other processes"
		}
		rows = append(rows, r)
	}
	for _, link := range []string{"exe", "root", "cwd", "ns/mnt", "fd/0"} {
		rows = append(rows, row{name: "follow " + link + " of " + t.name, args: []string{"proc-link", t.pid, link}, want: want, landlock: "EACCES", absent: t.absent})
	}
	for _, file := range []string{"timer-slack", "oom-score"} {
		rows = append(rows, row{name: "write " + file + " of " + t.name, args: []string{file, t.pid}, want: want, landlock: "EACCES", unless: "EPERM", absent: t.absent})
	}
	if t.pid == "{sibling}" {
		rows = append(rows, row{name: "open shared memory of " + t.name, args: []string{"find-memfd", t.pid}, want: "ENOENT", landlock: "EACCES"})
	}
	return rows
}

// threadHandles says whether the kernel has PIDFD_THREAD, which is O_EXCL
// (Linux 6.9, pidfd_open(2)).
func threadHandles() bool {
	fd, err := unix.PidfdOpen(os.Getpid(), unix.O_EXCL)
	if err == nil {
		_ = unix.Close(fd)
	}
	return err == nil
}

// signals are attacks that end a process. Where init could be sent one, it
// would survive: that is for kernels without Landlock's scope of signals.
func (t target) signals() []row {
	var rows []row
	for _, a := range [][2]string{
		{"kill", "kill %s with every signal"}, {"kill-thread", "kill each thread of %s by its number"}, {"tkill", "tkill %s"}, {"tgkill", "tgkill each thread of %s"},
		{"sigqueue", "forge faults of %s"}, {"tgsigqueue", "forge faults of a thread of %s"},
		{"pidfd-signal", "signal %s by a pidfd"}, {"pidfd-thread", "signal each thread of %s by a pidfd"},
		{"kill-group", "kill the process group of %s"},
	} {
		rows = append(rows, row{name: fmt.Sprintf(a[1], t.name), args: []string{a[0], t.pid}, want: t.or("EPERM|survived"), landlock: "EPERM", absent: t.absent})
	}
	if t.full == "" { // its group is that of the outer namespace
		rows[len(rows)-1].want = "its group has no number here"
	}
	if !threadHandles() {
		rows[7].want, rows[7].unless = "no pidfd: EINVAL|EINVAL", "no pidfd: EINVAL|EINVAL"
	}
	// Who becomes the owner of a file gets its signals. The call succeeds, and
	// the signal does not come.
	for _, a := range [][2]string{
		{"own-file", "let a file signal %s"}, {"own-file-ex", "let a file signal a thread of %s"},
		{"own-socket", "let a socket signal %s"}, {"own-group", "let a file signal the group of %s"},
	} {
		want := "survived"
		if t.full != "" {
			want = "ESRCH"
		} else if a[0] == "own-group" {
			want = "its group has no number here"
		}
		rows = append(rows, row{name: fmt.Sprintf(a[1], t.name), args: []string{a[0], t.pid}, want: want, landlock: "EPERM|survived", absent: t.absent})
	}
	return rows
}

// shares are attacks that starve a process. The commands' init has nothing to
// lose by them.
func (t target) shares() []row {
	dumb := "it reaches the commands' init alone, which does nothing"
	want := t.or(succeeded)
	var rows []row
	for _, a := range [][2]string{
		{"affinity", "pin %s to a processor"}, {"scheduler", "change the scheduling of %s"}, {"sched-attr", "change the scheduling attributes of %s"},
		{"priority", "change the niceness of %s"}, {"ioprio", "change the I/O priority of %s"},
	} {
		rows = append(rows, row{name: fmt.Sprintf(a[1], t.name), args: []string{a[0], t.pid}, want: want, why: dumb, landlock: "EPERM", absent: t.absent})
	}
	limits := row{name: "limit the processor time of " + t.name, args: []string{"prlimit", t.pid}, want: t.or("EPERM"), landlock: "EPERM", absent: t.absent}
	group := row{name: "change the niceness of the group of " + t.name, args: []string{"nice-group", t.pid}, want: t.or("its group has no number here"),
		landlock: "EPERM", absent: t.absent}
	return append(rows, limits, group)
}
