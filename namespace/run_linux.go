package namespace

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Setup is an [*Unshare] or an [*Enter].
type Setup interface{ fill(o *order) }

func (u *Unshare) fill(o *order) { o.Unshare = u }
func (e *Enter) fill(o *order)   { o.Enter = e }

// Command is what is run. It gets no descriptor but the three.
type Command struct {
	// Argv is the program and its arguments. A name without a slash is looked
	// for in the directories of PATH in Env, where the namespaces have them.
	Argv []string
	Env  []string // all of it, as "K=V"
	// Stdin is the input, nil for none; Stdout and Stderr take the output, nil
	// for nowhere.
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Terminal leaves the command in the caller's session, with its terminal.
	// Otherwise it gets a session of its own.
	Terminal bool
	// Signals are handed on to the command.
	Signals <-chan syscall.Signal
}

// Result is how a command ended.
type Result struct {
	Code     int  // exit status; -N where signal N ended it
	TimedOut bool // the context ended first
	// Survivors counts processes of the command's tree that still ran when it had
	// ended or its time was up, itself included; SurvivorsKilled those of them that
	// were killed. DeathProved says that none is left.
	Survivors, SurvivorsKilled int
	DeathProved                bool
}

// answerGrace is how long the helper may take beyond its own patience.
const answerGrace = patience + 5*time.Second

// Run runs a command. When ctx ends, the command and everything that it has
// started is killed, and the result says so; what was printed until then is
// with the writers. An error is an *Error, and then there is no result.
func Run(ctx context.Context, setup Setup, c *Command) (*Result, error) {
	if !ready {
		return nil, &Error{Op: "run", Object: "a command in namespaces", Err: errors.New("this program does not call namespace.Helper")}
	}
	if len(c.Argv) == 0 || c.Argv[0] == "" {
		return nil, &Error{Op: "run", Object: "a command", Err: errors.New("none was given")}
	}
	o := &order{Argv: rawTexts(c.Argv), Env: rawTexts(c.Env), Paths: rawTexts(candidates(c)), Session: !c.Terminal}
	setup.fill(o)
	target := -1
	if o.Enter != nil {
		var err error
		if target, err = openTarget(o.Enter.PID); err != nil {
			return nil, err
		}
		defer unix.Close(target)
	}
	g := newGroup()
	defer g.remove()
	return runOn(ctx, o, target, g, c)
}

// runOn runs with a handle of the process that is entered, and a control group
// where there is one.
func runOn(ctx context.Context, o *order, target int, g *group, c *Command) (*Result, error) {
	o.Group = g != nil
	ours, err := startHelper(c, target, g)
	if err != nil {
		return nil, &Error{Op: "start", Object: "the helper", Err: err}
	}
	a, err := ours.converse(ctx, o, c.Signals)
	if err != nil { // it was killed, or hangs
		_ = ours.cmd.Process.Kill()
		a = &answer{Status: uint32(unix.SIGKILL), Proved: g.kill()}
	}
	ours.wait(a.Proved)
	if a.Failed != nil && ctx.Err() == nil {
		return nil, a.Failed.unpack()
	}
	r := &Result{TimedOut: ctx.Err() != nil && ours.killed, Survivors: a.Survivors, SurvivorsKilled: a.Killed, DeathProved: a.Proved}
	if ws := unix.WaitStatus(a.Status); ws.Signaled() {
		r.Code = -int(ws.Signal())
	} else {
		r.Code = ws.ExitStatus()
	}
	return r, nil
}

// candidates are the paths that the command may have.
func candidates(c *Command) []string {
	if strings.Contains(c.Argv[0], "/") {
		return []string{c.Argv[0]}
	}
	list := ""
	for _, kv := range c.Env {
		if value, ok := strings.CutPrefix(kv, "PATH="); ok {
			list = value
		}
	}
	var paths []string
	for dir := range strings.SplitSeq(list, ":") {
		if strings.HasPrefix(dir, "/") {
			paths = append(paths, dir+"/"+c.Argv[0])
		}
	}
	return paths
}

// openTarget opens a handle of the process, which stays that one's whoever has
// its number later.
func openTarget(pid int) (int, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	switch {
	case err == nil:
		return fd, nil
	case errors.Is(err, unix.ESRCH):
		err = errors.New("there is no such process")
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOENT):
		err = errors.New("it is no process, but a thread of one")
	}
	return -1, &Error{Op: "enter", Object: "process " + strconv.Itoa(pid), Err: err}
}

// converse tells the helper what to do, and returns its answer.
func (r *running) converse(ctx context.Context, o *order, signals <-chan syscall.Signal) (*answer, error) {
	out := json.NewEncoder(r.control)
	if err := out.Encode(o); err != nil {
		return nil, err
	}
	answered := make(chan error, 1)
	a := &answer{}
	go func() { answered <- json.NewDecoder(r.control).Decode(a) }()
	over := ctx.Done()
	wake := time.NewTicker(50 * time.Millisecond)
	defer wake.Stop()
	var again <-chan time.Time // wake's, once it is over
	for {
		select {
		case err := <-answered:
			return a, err
		case <-again:
			_ = r.cmd.Process.Signal(syscall.SIGCONT) // a command of the same user may have stopped it
		case s, ok := <-signals:
			if !ok {
				signals = nil
				continue
			}
			_ = out.Encode(message{Signal: s}) // a helper that is gone has answered
		case <-over:
			over, r.killed = nil, true
			_ = out.Encode(message{Kill: true})
			again = wake.C
			_ = r.control.SetReadDeadline(time.Now().Add(answerGrace))
		}
	}
}

// wait waits for the helper, and for the output.
func (r *running) wait(dead bool) {
	_ = r.control.Close()
	_ = r.cmd.Wait() // its answer has told
	r.streams.finish(dead)
}
