package namespace

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/internal/descent"
)

// waiter reports when a word was written.
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
			if name == "a fork bomb" && flags != nil {
				continue // one machine has enough of it
			}
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
					o := &order{Argv: rawTexts(c.Argv), Env: rawTexts(c.Env), Paths: rawTexts(candidates(c.Argv[0], c.Env)), Session: true}
					unshare(t, flags...).fill(o)
					r, err := runOn(ctx, o, -1, g, c)
					if err != nil || !r.TimedOut || !r.DeathProved || r.SurvivorsKilled == 0 || r.Survivors != r.SurvivorsKilled || !strings.Contains(said.text.String(), "ready") {
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

// A command that stops the helper gains nothing by it. What is to be counted as
// killed is there before the word that begins the end.
func TestStoppedHelper(t *testing.T) {
	arg := unique()
	ctx, cancel := context.WithCancel(t.Context())
	said := &waiter{word: "ready", there: make(chan bool)}
	go func() {
		<-said.there
		cancel()
	}()
	c := &Command{Argv: []string{"sh", "-c", "sleep $1 & kill -STOP $PPID; echo ready; wait", "sh", arg}, Env: environment, Stdout: said}
	began := time.Now()
	r, err := Run(ctx, unshare(t), c)
	if err != nil || !r.TimedOut || !r.DeathProved || r.SurvivorsKilled == 0 || withArgument(arg) != 0 {
		t.Errorf("%+v, %v, %d left", r, err, withArgument(arg))
	}
	if took := time.Since(began); took > patience/2 {
		t.Errorf("it took %v", took)
	}
}

// The end of a command is the end of what it leaves behind.
func TestDaemon(t *testing.T) {
	arg := unique()
	r := run(t.Context(), unshare(t), "sh", "-c", "(setsid sleep $1 &); exit 3", "sh", arg)
	if r.err != nil || r.Code != 3 || r.TimedOut || r.SurvivorsKilled != 1 || !r.DeathProved || withArgument(arg) != 0 {
		t.Errorf("%+v, %v, %d left", r.Result, r.err, withArgument(arg))
	}
}

// When the caller or the helper dies, the command is killed.
func TestHelperKilled(t *testing.T) {
	arg := unique()
	said := &waiter{word: "ready", there: make(chan bool)}
	go func() {
		<-said.there
		for _, p := range descent.Below(os.Getpid()) {
			if p.Parent == os.Getpid() {
				p.Signal(unix.SIGKILL)
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
	for _, p := range descent.Below(1) { // if no group could be killed
		text, _ := os.ReadFile("/proc/" + strconv.Itoa(p.PID) + "/cmdline")
		if bytes.Contains(text, []byte(arg)) {
			p.Signal(unix.SIGKILL)
		}
	}
}
