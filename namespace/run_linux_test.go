package namespace

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

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

// userns skips if an ordinary user may not make a user namespace, and returns
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
			if r.err != nil || r.Code != 0 || strings.TrimSpace(r.stdout) != strings.TrimSpace(tt.want) || !r.DeathProved || r.Survivors != 0 {
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
	r, err := Run(t.Context(), unshare(t, "fork"), &Command{Argv: []string{"sh", "-c", "trap 'exit 9' USR1; echo ready; while :; do sleep 0.1; done"},
		Env: environment, Stdout: said, Signals: signals})
	if err != nil || r.Code != 9 {
		t.Errorf("%+v, %v", r, err)
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
			"cannot write uid_map of the new user namespace: operation not permitted\nan ordinary user can map only one id, their own (--map-root-user or --map-current-user)\n"},
		{attempt{Enter: 1, Flags: []string{"net"}, Argv: []string{"true"}},
			"cannot read the net namespace of process 1: permission denied\nan ordinary user can enter only namespaces of their own processes and user namespaces\n"},
	} {
		if out := tryAsNobody(t, tt.attempt); out != tt.want {
			t.Errorf("%v: %q, want %q", tt.Flags, out, tt.want)
		}
	}
}
