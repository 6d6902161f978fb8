package namespace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/internal/descent"
)

// other starts a process in its own namespaces.
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
		for _, p := range descent.Below(os.Getpid()) {
			text, _ := os.ReadFile("/proc/" + strconv.Itoa(p.PID) + "/cmdline")
			if string(text) == "sleep\x00"+arg+"\x00" {
				return p.PID
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

// sleeper starts a process with an environment.
func sleeper(t *testing.T, env ...string) int {
	t.Helper()
	cmd := exec.Command("sleep", "99999")
	cmd.Env = env
	if env == nil {
		cmd.Env = []string{}
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd.Process.Pid
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
				o := &order{Argv: rawTexts(c.Argv), Env: rawTexts(c.Env), Paths: rawTexts(candidates(c.Argv[0], c.Env)), Session: true}
				enter(t, pid, "all").fill(o)
				target, err := openTarget(pid)
				if err != nil {
					t.Fatal(err)
				}
				defer unix.Close(target)
				r, err := runOn(ctx, o, target, g, c)
				if err != nil || !r.TimedOut || !r.DeathProved || r.SurvivorsKilled == 0 {
					t.Errorf("%+v, %v", r, err)
				}
				if n := withArgument(arg); n != 0 {
					t.Errorf("%d processes are left", n)
				}
			})
		}
	}
}

// A handle of a process that has ended leads nowhere, even if its pid is reused.
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
		o := &order{Argv: rawTexts(c.Argv), Env: rawTexts(c.Env), Paths: rawTexts(candidates(c.Argv[0], c.Env))}
		enter(t, living, flags...).fill(o) // the number is another's by now
		if _, err := runOn(t.Context(), o, handle, nil, c); !errors.Is(err, ErrGone) {
			t.Errorf("%v: %v", flags, err)
		}
	}
	if r := run(t.Context(), enter(t, dead.Process.Pid, "all"), "true"); r.err == nil {
		t.Error("a process that has ended was entered")
	}
}
