package namespace

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Setup is an [*Unshare] or an [*Enter].
type Setup interface{ fill(o *order) }

func (u *Unshare) fill(o *order) { o.Unshare = u }
func (e *Enter) fill(o *order)   { o.Enter = e }

// Command is the command to run. It inherits only its three standard streams.
type Command struct {
	// Argv is the program and its arguments. A name without a slash is looked up
	// in the directories of PATH in Env, as they are in the namespaces.
	Argv []string
	Env  []string // the whole environment, as "K=V"
	// Stdin is the input, nil for none. Stdout and Stderr receive the output; nil
	// discards it.
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Terminal leaves the command in the caller's session, with its terminal.
	// Otherwise the command gets its own session.
	Terminal bool
	// Signals are passed on to the command.
	Signals <-chan syscall.Signal
}

// Result is how a command ended.
type Result struct {
	Code     int  // exit status; -N if signal N ended it
	TimedOut bool // the context ended first
	// Survivors counts processes of the command's tree, itself included, that were
	// still running when it had ended or timed out; SurvivorsKilled counts how many of
	// them were killed. DeathProved means that none is left.
	Survivors, SurvivorsKilled int
	DeathProved                bool
}

// answerGrace is how long the helper may take to answer once it must end the
// command.
const answerGrace = patience + 5*time.Second

// Run runs a command. When ctx ends, the command and everything that it started
// is killed, and the result says so; the writers have received the output until
// then. An error is an *Error, and the result is then nil.
func Run(ctx context.Context, setup Setup, c *Command) (*Result, error) {
	if !ready {
		return nil, &Error{Op: "run", Object: "a command in namespaces", Err: errors.New("this program does not call namespace.Helper")}
	}
	if len(c.Argv) == 0 || c.Argv[0] == "" {
		return nil, &Error{Op: "run", Object: "a command", Err: errors.New("no program is given")}
	}
	o := &order{Argv: rawTexts(c.Argv), Env: rawTexts(c.Env), Paths: rawTexts(candidates(c.Argv[0], c.Env)), Session: !c.Terminal}
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

// runOn runs a command with a handle of the process whose namespaces are entered,
// or -1, and a control group, or nil.
func runOn(ctx context.Context, o *order, target int, g *group, c *Command) (*Result, error) {
	o.Group = g != nil
	ours, err := startHelper(c, target, g)
	if err != nil {
		return nil, &Error{Op: "start", Object: "the helper", Err: err}
	}
	a, err := ours.exchange(ctx, o, c.Signals)
	if err != nil { // the helper was killed, or hangs
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

// candidates returns the paths where a program may be, with an environment.
func candidates(program string, env []string) []string {
	if strings.Contains(program, "/") {
		return []string{program}
	}
	list := "/bin:/usr/bin" // as execvp(3) has it
	for _, kv := range env {
		if value, ok := strings.CutPrefix(kv, "PATH="); ok {
			list = value
		}
	}
	var paths []string
	for dir := range strings.SplitSeq(list, ":") {
		if strings.HasPrefix(dir, "/") {
			paths = append(paths, dir+"/"+program)
		}
	}
	return paths
}

// openTarget opens a handle of the process. It refers to that process even if its
// pid is reused.
func openTarget(pid int) (int, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	switch {
	case err == nil:
		return fd, nil
	case errors.Is(err, unix.ESRCH):
		err = errors.New("there is no such process")
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOENT):
		err = errors.New("it is a thread, not a process")
	}
	return -1, &Error{Op: "enter", Object: "process " + strconv.Itoa(pid), Err: err}
}

// exchange sends the helper its order and messages, and returns its answer.
func (r *running) exchange(ctx context.Context, o *order, signals <-chan syscall.Signal) (*answer, error) {
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
	var again <-chan time.Time // wake.C, once ctx has ended
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
			_ = out.Encode(message{Signal: s}) // a helper that has ended has answered
		case <-over:
			over, r.killed = nil, true
			_ = out.Encode(message{Kill: true})
			again = wake.C
			_ = r.control.SetReadDeadline(time.Now().Add(answerGrace))
		}
	}
}

// wait waits for the helper and the output. If dead is false, a process that is still
// alive may hold the output open, so wait only waits for output that is already written.
func (r *running) wait(dead bool) {
	_ = r.control.Close()
	_ = r.cmd.Wait() // its answer said how the command ended
	s := &r.streams
	if s.input != nil {
		_ = s.input.Close()
	}
	if !dead {
		for _, f := range s.output {
			_ = f.SetReadDeadline(time.Now().Add(time.Second))
		}
	}
	s.copies.Wait()
	for _, f := range s.output {
		_ = f.Close()
	}
}

// running is a helper that runs.
type running struct {
	cmd     *exec.Cmd
	control *os.File
	streams streams
	killed  bool // because the caller's context ended
}

// startHelper starts this program as the helper of a command.
func startHelper(c *Command, target int, g *group) (*running, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	_ = unix.SetNonblock(pair[0], true) // so that a deadline works
	r := &running{control: os.NewFile(uintptr(pair[0]), "control")}
	theirs := os.NewFile(uintptr(pair[1]), "control")
	defer theirs.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, errors.Join(err, r.control.Close())
	}
	defer null.Close()
	r.cmd = exec.Command("/proc/self/exe")
	r.cmd.Args = []string{helperName}
	r.cmd.Env = []string{"GOMAXPROCS=2", "GOTRACEBACK=none"}
	r.cmd.ExtraFiles = []*os.File{theirs, null, null}
	if target >= 0 {
		f, err := dup(target)
		if err != nil {
			return nil, errors.Join(err, r.control.Close())
		}
		defer f.Close()
		r.cmd.ExtraFiles[targetFD-controlFD] = f
	}
	if g != nil {
		f, err := dup(g.FD())
		if err != nil {
			return nil, errors.Join(err, r.control.Close())
		}
		defer f.Close()
		r.cmd.ExtraFiles[groupFD-controlFD] = f
	}
	defer func() {
		for _, f := range r.streams.theirs { // the helper has duplicates, or did not start
			_ = f.Close()
		}
	}()
	if err := r.streams.attach(r.cmd, c, null); err != nil {
		return nil, errors.Join(err, r.control.Close())
	}
	if err := r.cmd.Start(); err != nil {
		return nil, errors.Join(err, r.control.Close())
	}
	return r, nil
}

// dup returns a duplicate of a descriptor.
func dup(fd int) (*os.File, error) {
	n, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(n), ""), nil
}

// streams holds the pipes between a command and streams that are not files.
type streams struct {
	theirs []*os.File // the helper's ends, closed once it has them
	input  *os.File
	output []*os.File
	copies sync.WaitGroup
}

// attach sets the helper's standard streams, which the command inherits.
func (s *streams) attach(cmd *exec.Cmd, c *Command, null *os.File) error {
	cmd.Stdin, cmd.Stdout, cmd.Stderr = null, null, null
	if f, ok := c.Stdin.(*os.File); ok && f != nil {
		cmd.Stdin = f
	} else if c.Stdin != nil {
		r, w, err := os.Pipe()
		if err != nil {
			return err
		}
		cmd.Stdin, s.theirs, s.input = r, append(s.theirs, r), w
		go func() {
			_, _ = io.Copy(w, c.Stdin) // a command need not read all its input
			_ = w.Close()
		}()
	}
	for _, out := range []struct {
		to   io.Writer
		file *io.Writer
	}{{c.Stdout, &cmd.Stdout}, {c.Stderr, &cmd.Stderr}} {
		if f, ok := out.to.(*os.File); ok && f != nil {
			*out.file = f
			continue
		}
		if out.to == nil {
			continue
		}
		r, w, err := os.Pipe()
		if err != nil {
			return err
		}
		*out.file, s.theirs, s.output = w, append(s.theirs, w), append(s.output, r)
		s.copies.Go(func() {
			if _, err := io.Copy(out.to, r); err != nil {
				_, _ = io.Copy(io.Discard, r) // so that the command does not block
			}
		})
	}
	return nil
}
