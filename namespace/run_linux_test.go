package namespace

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

var environment = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/", "LANG=C.UTF-8"}

func ctxOf() context.Context { return context.Background() }

func hintIn(err error) string {
	var e *Error
	if errors.As(err, &e) {
		return e.Hint
	}
	return ""
}

type ran struct {
	*Result
	err            error
	stdout, stderr string
}

func run(ctx context.Context, setup Setup, argv ...string) ran {
	var stdout, stderr bytes.Buffer
	r, err := Run(ctx, setup, &Command{Argv: argv, Env: environment, Stdout: &stdout, Stderr: &stderr})
	return ran{r, err, stdout.String(), stderr.String()}
}

func unshare(t *testing.T, flags ...string) *Unshare {
	t.Helper()
	u, err := ParseUnshare(flags)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// userns skips where an ordinary user may make no user namespace, and gives
// the flag that root does not need.
func userns(t *testing.T) string {
	t.Helper()
	if r := run(t.Context(), unshare(t, "-Ur"), "true"); r.err != nil {
		t.Skipf("user namespaces are forbidden here: %v", r.err)
	}
	return "-Ur"
}

func TestUnshare(t *testing.T) {
	u := userns(t)
	dir := t.TempDir()
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name   string
		flags  []string
		script string
		want   string
	}{
		{"nothing", nil, "echo fine", "fine"},
		{"root of its own", []string{u}, "id -u; cat /proc/self/setgroups; cat /proc/self/uid_map | tr -s ' '",
			fmt.Sprintf("0\ndeny\n 0 %d 1", os.Geteuid())},
		{"oneself", []string{"map-current-user"}, "id -u; id -g", fmt.Sprintf("%d\n%d", os.Geteuid(), os.Getegid())},
		{"first process", []string{u, "pid", "fork", "mount-proc"}, "echo $$; echo /proc/[0-9]*", "1\n/proc/1"},
		{"pid without fork", []string{u, "p"}, "test $$ != 1 && sh -c 'echo $$'", "1"},
		{"host name", []string{u, "uts"}, "hostname inner 2>/dev/null || echo inner >/proc/sys/kernel/hostname; uname -n", "inner"},
		{"directory", []string{"wd=" + dir}, "pwd", dir},
		{"root directory", []string{u, "-m", "--root=/usr"}, "", ""},
		{"another user", []string{u, "setuid=0", "setgid=0"}, "id -u", "0"},
		{"private mounts", []string{u, "mount"}, "mount -t tmpfs none /mnt && echo mounted", "mounted"},
		{"time", []string{u, "time", "fork"}, `test "$(readlink /proc/self/ns/time)" = "$(readlink /proc/self/ns/time_for_children)" && echo same`, "same"},
		{"network", []string{u, "n"}, "wc -l </proc/net/dev", "3"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			argv := []string{"sh", "-c", tt.script}
			if tt.script == "" {
				argv = []string{"/bin/true"}
			}
			r := run(t.Context(), unshare(t, tt.flags...), argv...)
			if r.err != nil || r.Code != 0 || strings.TrimSpace(r.stdout) != strings.TrimSpace(tt.want) || !r.DeathProved || r.Killed != 0 {
				t.Errorf("%+v %v\n%s\n%s\nwant %s", r.Result, r.err, r.stdout, r.stderr, tt.want)
			}
		})
	}
	if now, _ := os.Hostname(); now != host {
		t.Errorf("the host is called %q", now)
	}
}

func TestStatus(t *testing.T) {
	for _, flags := range [][]string{nil, {"fork"}} {
		for _, tt := range []struct {
			script string
			want   int
		}{{"exit 0", 0}, {"exit 7", 7}, {"exit 255", 255}, {"kill -9 $$", -9}, {"kill -TERM $$", -15}} {
			if r := run(t.Context(), unshare(t, flags...), "sh", "-c", tt.script); r.err != nil || r.Code != tt.want || r.TimedOut || !r.DeathProved {
				t.Errorf("%v %s: %+v, %v", flags, tt.script, r.Result, r.err)
			}
		}
	}
}

func TestNotStarted(t *testing.T) {
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		flags []string
		argv  string
		want  error
		text  string
	}{
		{nil, "no-such-program", ErrNotFound, `cannot execute "no-such-program": the command does not exist`},
		{nil, "/no/such/program", ErrNotFound, `cannot execute "/no/such/program": the command does not exist`},
		{[]string{"fork"}, "no-such-program", ErrNotFound, `cannot execute "no-such-program": the command does not exist`},
		{nil, plain, ErrNotExecutable, "cannot execute " + strconv.Quote(plain) + ": permission denied"},
		{[]string{"wd=/no/such"}, "true", unix.ENOENT, "cannot change the working directory to /no/such: no such file or directory"},
		{[]string{"-Ur", "setuid=5"}, "true", unix.EINVAL, "cannot change the user: invalid argument"},
	} {
		r := run(t.Context(), unshare(t, tt.flags...), tt.argv)
		if !errors.Is(r.err, tt.want) || r.err.Error() != tt.text {
			t.Errorf("%v %s: %v", tt.flags, tt.argv, r.err)
		}
	}
}

// The command has nothing of its caller's but what it is given.
func TestNothingLeaks(t *testing.T) {
	t.Setenv("PADDOCK_SECRET", "leaked")
	f, err := os.Open("/etc/passwd")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, flags := range [][]string{nil, {"fork"}} {
		r := run(t.Context(), unshare(t, flags...), "sh", "-c", "env; for f in /proc/self/fd/*; do readlink $f; done; cat; grep -E '^Sig(Ign|Blk)' /proc/self/status")
		for _, bad := range []string{"leaked", "passwd", "socket:", "exe"} {
			if strings.Contains(r.stdout, bad) {
				t.Errorf("%s in %s", bad, r.stdout)
			}
		}
		if !strings.Contains(r.stdout, "/dev/null") || !strings.Contains(r.stdout, "SigIgn:\t0000000000000000") || !strings.Contains(r.stdout, "SigBlk:\t0000000000000000") {
			t.Errorf("%s", r.stdout)
		}
	}
}

func TestInput(t *testing.T) {
	var out bytes.Buffer
	r, err := Run(t.Context(), unshare(t), &Command{Argv: []string{"cat"}, Env: environment, Stdin: strings.NewReader("given"), Stdout: &out})
	if err != nil || r.Code != 0 || out.String() != "given" {
		t.Errorf("%+v, %v, %q", r, err, out.String())
	}
}

func TestSignals(t *testing.T) {
	signals := make(chan syscall.Signal)
	said := &waiter{word: "ready", there: make(chan bool)}
	go func() {
		<-said.there
		signals <- unix.SIGUSR1
	}()
	r, err := Run(t.Context(), unshare(t, "fork"), &Command{Argv: []string{"sh", "-c", "trap 'exit 9' USR1; echo ready; while :; do sleep 0.01; done"},
		Env: environment, Stdout: said, Signals: signals})
	if err != nil || r.Code != 9 {
		t.Errorf("%+v, %v", r, err)
	}
}

// waiter tells when a word was written.
type waiter struct {
	word  string
	text  bytes.Buffer
	there chan bool
	told  bool
}

func (w *waiter) Write(p []byte) (int, error) {
	w.text.Write(p)
	if !w.told && strings.Contains(w.text.String(), w.word) {
		w.told = true
		close(w.there)
	}
	return len(p), nil
}

// unique is an argument by which processes are found.
func unique() string { return strconv.FormatInt(1_000_000_000+time.Now().UnixNano()%1_000_000_000, 10) }

// withArgument counts the processes that have an argument.
func withArgument(arg string) (n int) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range files {
		if text, err := os.ReadFile(f); err == nil && bytes.Contains(text, []byte("\x00"+arg+"\x00")) {
			n++
		}
	}
	return n
}

// escapes are ways to leave a tree of processes.
var escapes = map[string]string{
	"a child":        "sleep $1 & echo ready; wait",
	"a daemon":       "(setsid sleep $1 >/dev/null 2>&1 </dev/null &) ; sleep 0.1; echo ready; sleep $1",
	"deaf processes": "trap '' TERM INT HUP; (trap '' TERM; setsid sleep $1 &); echo ready; sleep $1",
	"a fork bomb":    "bomb() { while :; do setsid sleep $1 & sleep $1 & done; }; bomb $1 & bomb $1 & echo ready; wait",
	"stopped":        "sleep $1 & kill -STOP $!; echo ready; kill -STOP $$; wait", // which no init heeds
}

// TestTimeout ends a tree as soon as it has said that it is there.
func TestTimeout(t *testing.T) {
	u := userns(t)
	for name, script := range escapes {
		for _, flags := range [][]string{nil, {u, "-pf"}, {"fork"}} {
			for _, grouped := range []bool{true, false} {
				t.Run(fmt.Sprint(name, " ", flags, " ", grouped), func(t *testing.T) {
					arg := unique()
					ctx, cancel := context.WithCancel(t.Context())
					said := &waiter{word: "ready", there: make(chan bool)}
					go func() {
						<-said.there
						cancel()
					}()
					var g *group
					if grouped {
						if g = newGroup(); g == nil {
							t.Skip("no control groups here: none can be made")
						}
						defer g.remove()
					}
					c := &Command{Argv: []string{"sh", "-c", script, "sh", arg}, Env: environment, Stdout: said}
					o := &order{Argv: rawTexts(c.Argv), Env: rawTexts(c.Env), Paths: rawTexts(candidates(c)), Session: true}
					unshare(t, flags...).fill(o)
					r, err := runOn(ctx, o, -1, g, c)
					if err != nil || !r.TimedOut || !r.DeathProved || r.Survivors != 0 || r.Killed == 0 || !strings.Contains(said.text.String(), "ready") {
						t.Errorf("%+v, %v", r, err)
					}
					if n := withArgument(arg); n != 0 {
						t.Errorf("%d processes are left", n)
					}
				})
			}
		}
	}
}

// The end of a command is the end of what it leaves behind.
func TestDaemon(t *testing.T) {
	arg := unique()
	r := run(t.Context(), unshare(t), "sh", "-c", "(setsid sleep $1 &); exit 3", "sh", arg)
	if r.err != nil || r.Code != 3 || r.TimedOut || r.Killed != 1 || !r.DeathProved || withArgument(arg) != 0 {
		t.Errorf("%+v, %v, %d left", r.Result, r.err, withArgument(arg))
	}
}

// The death of whoever asked, and that of the helper, is the command's.
func TestHelperKilled(t *testing.T) {
	arg := unique()
	said := &waiter{word: "ready", there: make(chan bool)}
	go func() {
		<-said.there
		for _, p := range descendants(os.Getpid()) {
			if p.parent == os.Getpid() {
				p.signal(unix.SIGKILL)
			}
		}
	}()
	r, err := Run(t.Context(), unshare(t), &Command{Argv: []string{"sh", "-c", "setsid sleep $1 & echo ready; wait", "sh", arg}, Env: environment, Stdout: said})
	if err != nil || r.Code != -9 {
		t.Fatalf("%+v, %v", r, err)
	}
	if r.DeathProved && withArgument(arg) != 0 {
		t.Errorf("%d processes are left", withArgument(arg))
	}
	for _, p := range descendants(1) { // where no group could be killed
		text, _ := os.ReadFile("/proc/" + strconv.Itoa(p.pid) + "/cmdline")
		if bytes.Contains(text, []byte(arg)) {
			p.signal(unix.SIGKILL)
		}
	}
}

// other is a process in namespaces of its own.
func other(t *testing.T, flags ...string) int {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root may enter every namespace")
	}
	arg := unique()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan ran, 1)
	setup := unshare(t, flags...)
	go func() { done <- run(ctx, setup, "sleep", arg) }()
	t.Cleanup(func() {
		cancel()
		if r := <-done; r.err != nil || !r.DeathProved {
			t.Errorf("%+v, %v", r.Result, r.err)
		}
	})
	for {
		for _, p := range descendants(os.Getpid()) {
			text, _ := os.ReadFile("/proc/" + strconv.Itoa(p.pid) + "/cmdline")
			if string(text) == "sleep\x00"+arg+"\x00" {
				return p.pid
			}
		}
		select {
		case r := <-done:
			done <- r
			t.Skipf("user namespaces are forbidden here: %v", r.err)
		case <-time.After(time.Millisecond):
		}
	}
}

func enter(t *testing.T, pid int, flags ...string) *Enter {
	t.Helper()
	e, err := ParseEnter(pid, flags)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

const listNamespaces = "for n in mnt uts ipc net pid user cgroup; do readlink /proc/self/ns/$n; done"

func TestEnter(t *testing.T) {
	pid := other(t, "-muinpCf", "mount-proc")
	in := func(names ...string) string {
		var b strings.Builder
		for _, n := range []string{"mnt", "uts", "ipc", "net", "pid", "user", "cgroup"} {
			who := "self"
			for _, name := range names {
				if name == n {
					who = strconv.Itoa(pid)
				}
			}
			link, err := os.Readlink("/proc/" + who + "/ns/" + n)
			if err != nil {
				t.Fatal(err)
			}
			b.WriteString(link + "\n")
		}
		return b.String()
	}
	for _, tt := range []struct {
		flags []string
		want  string
	}{
		{nil, in()},
		{[]string{"all"}, in("mnt", "uts", "ipc", "net", "pid", "cgroup")},
		{[]string{"-muinpC"}, in("mnt", "uts", "ipc", "net", "pid", "cgroup")},
		{[]string{"net"}, in("net")},
		{[]string{"net=/proc/" + strconv.Itoa(pid) + "/ns/net", "u"}, in("net", "uts")},
		{[]string{"user"}, in()},
		{[]string{"m", "p", "root", "wd"}, in("mnt", "pid")},
		{[]string{"m", "p", "no-fork"}, ""},
	} {
		r := run(t.Context(), enter(t, pid, tt.flags...), "sh", "-c", listNamespaces)
		if r.err != nil || r.Code != 0 || tt.want != "" && r.stdout != tt.want || !r.DeathProved {
			t.Errorf("%v: %+v %v\n%s%s", tt.flags, r.Result, r.err, r.stdout, r.stderr)
		}
	}
	r := run(t.Context(), enter(t, pid, "all"), "sh", "-c", "echo $PPID; exit 4")
	if r.Code != 4 || strings.TrimSpace(r.stdout) == "0" {
		t.Errorf("the command's parent is no process of the namespace: %+v %q %v", r.Result, r.stdout, r.err)
	}
}

func TestEnterUser(t *testing.T) {
	pid := other(t, "-Urmpf", "mount-proc")
	if r := run(t.Context(), enter(t, pid, "all"), "sh", "-c", "id -u; cat /proc/self/uid_map | tr -s ' '"); r.err != nil || r.stdout != "0\n 0 0 1\n" {
		t.Errorf("%+v %v %q", r.Result, r.err, r.stdout)
	}
	if r := run(t.Context(), enter(t, pid, "all", "setuid=77"), "true"); !errors.Is(r.err, unix.EINVAL) || hintIn(r.err) == "" {
		t.Errorf("a user that is not mapped: %v", r.err)
	}
	if r := run(t.Context(), enter(t, pid, "all", "preserve-credentials"), "id", "-u"); r.err != nil || r.stdout != "0\n" {
		t.Errorf("%+v %v %q", r.Result, r.err, r.stdout)
	}
}

// What a command leaves behind in another pid namespace would belong to a stranger.
func TestEnterTimeout(t *testing.T) {
	pid := other(t, "-mpf", "mount-proc")
	for name, script := range escapes {
		for _, grouped := range []bool{true, false} {
			t.Run(fmt.Sprint(name, grouped), func(t *testing.T) {
				arg := unique()
				ctx, cancel := context.WithCancel(t.Context())
				said := &waiter{word: "ready", there: make(chan bool)}
				go func() {
					<-said.there
					cancel()
				}()
				var g *group
				if grouped {
					if g = newGroup(); g == nil {
						t.Skip("no control groups here: none can be made")
					}
					defer g.remove()
				}
				c := &Command{Argv: []string{"sh", "-c", script, "sh", arg}, Env: environment, Stdout: said}
				o := &order{Argv: rawTexts(c.Argv), Env: rawTexts(c.Env), Paths: rawTexts(candidates(c)), Session: true}
				enter(t, pid, "all").fill(o)
				target, err := openTarget(pid)
				if err != nil {
					t.Fatal(err)
				}
				defer unix.Close(target)
				r, err := runOn(ctx, o, target, g, c)
				if err != nil || !r.TimedOut || !r.DeathProved || r.Killed == 0 {
					t.Errorf("%+v, %v", r, err)
				}
				if n := withArgument(arg); n != 0 {
					t.Errorf("%d processes are left", n)
				}
			})
		}
	}
}

// A handle of a process that has ended leads nowhere, whoever has its number.
func TestNumberOfTheDead(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may enter every namespace")
	}
	dead := exec.Command("true")
	dead.SysProcAttr = &syscall.SysProcAttr{PidFD: new(int)}
	if err := dead.Start(); err != nil {
		t.Fatal(err)
	}
	handle := *dead.SysProcAttr.PidFD
	defer unix.Close(handle)
	if err := dead.Wait(); err != nil {
		t.Fatal(err)
	}
	living := other(t, "-n")
	c := &Command{Argv: []string{"true"}, Env: environment}
	for _, flags := range [][]string{{"net"}, {"root"}, {}} {
		o := &order{Argv: rawTexts(c.Argv), Env: rawTexts(c.Env), Paths: rawTexts(candidates(c))}
		enter(t, living, flags...).fill(o) // the number is another's by now
		if _, err := runOn(t.Context(), o, handle, nil, c); !errors.Is(err, ErrGone) {
			t.Errorf("%v: %v", flags, err)
		}
	}
	if r := run(t.Context(), enter(t, dead.Process.Pid, "all"), "true"); r.err == nil {
		t.Error("a process that has ended was entered")
	}
}

func TestOrdinaryUser(t *testing.T) {
	if out := tryAsNobody(t, attempt{Flags: []string{"-Ur"}, Argv: []string{"id", "-u"}}); out != "0\nstatus 0 proved true\n" {
		if strings.Contains(out, "forbidden") {
			t.Skipf("user namespaces are forbidden here: %s", out)
		}
		t.Errorf("%q", out)
	}
	arg := rand.Text()
	for _, tt := range []struct {
		attempt
		want string
	}{
		{attempt{Flags: []string{"-Urpf", "mount-proc"}, Argv: []string{"sh", "-c", "echo $$"}}, "1\nstatus 0 proved true\n"},
		{attempt{Flags: []string{"-Urn"}, Argv: []string{"sh", "-c", "(setsid sleep 9999999 &); echo " + arg}}, arg + "\nstatus 0 proved true\n"},
		{attempt{Flags: []string{"net"}, Argv: []string{"true"}},
			"cannot make the net namespace: operation not permitted\nan ordinary user needs a new user namespace for all others: --user --map-root-user\n"},
		{attempt{Flags: []string{"map-users=0:0:1"}, Argv: []string{"true"}},
			"cannot write uid_map of the new user namespace: operation not permitted\nan ordinary user can map one id alone, its own (--map-root-user or --map-current-user)\n"},
		{attempt{Enter: 1, Flags: []string{"net"}, Argv: []string{"true"}},
			"cannot read the net namespace of process 1: permission denied\nan ordinary user can enter namespaces only of its own processes, and of its own user namespaces\n"},
	} {
		if out := tryAsNobody(t, tt.attempt); out != tt.want {
			t.Errorf("%v: %q, want %q", tt.Flags, out, tt.want)
		}
	}
}
