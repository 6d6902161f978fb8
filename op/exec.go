package op

import (
	"context"
	"errors"
	"io"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

// Bounds of the execs of one sandbox.
const (
	maxExecs      = 64  // that run at a time
	maxEndedExecs = 256 // that are remembered; the oldest are forgotten
)

// foregroundTime ends a command that is waited for and has no other bound.
const foregroundTime = 2 * time.Minute

// execs are the commands of a sandbox, the oldest first.
type execs struct {
	mu     sync.Mutex
	list   []*keptExec
	closed bool
}

// keptExec is a command that runs, or ran, in a sandbox that is kept. Its id is
// its output's.
type keptExec struct {
	out     *Output
	command string // what is remembered of it
	began   time.Time
	cmd     *paddock.Cmd
	limit   timeLimit
	end     context.CancelFunc // kills the whole tree
	killed  atomic.Bool        // by exec_kill

	done   chan struct{} // closed once the two below are final
	result *paddock.Result
	err    error
}

func (x *keptExec) running() bool {
	select {
	case <-x.done:
		return false
	default:
		return true
	}
}

// add makes room for a command; the oldest that has ended is forgotten.
func (l *execs) add(x *keptExec) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	running := 0
	for _, old := range l.list {
		if old.running() {
			running++
		}
	}
	switch {
	case l.closed:
		return &paddock.Error{Message: "cannot run the command: the sandbox has ended", Code: wire.CodeGone}
	case running >= maxExecs:
		return &paddock.Error{Message: "cannot run the command: too many run in this sandbox", Code: wire.CodeBusy,
			Hint: "exec_kill ends one, and sandbox_status lists them"}
	}
	if len(l.list)-running >= maxEndedExecs {
		i := slices.IndexFunc(l.list, func(old *keptExec) bool { return !old.running() })
		old := l.list[i]
		l.list = slices.Delete(l.list, i, i+1)
		old.out.drop()
	}
	l.list = append(l.list, x)
	return nil
}

// drop takes out a command that did not start.
func (l *execs) drop(x *keptExec) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = slices.DeleteFunc(l.list, func(old *keptExec) bool { return old == x })
}

// all are the commands, the oldest first.
func (l *execs) all() []*keptExec {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.list)
}

func (l *execs) find(id string) *keptExec {
	for _, x := range l.all() {
		if x.out.ID() == id {
			return x
		}
	}
	return nil
}

// forget drops all commands with their outputs. What still runs has ended with
// the sandbox, or ends with it.
func (l *execs) forget() {
	l.mu.Lock()
	l.closed = true
	list := l.list
	l.list = nil
	l.mu.Unlock()
	for _, x := range list {
		x.end()
		<-x.done
		x.out.drop()
	}
}

// start starts a command whose output is kept. It runs until it ends, until end
// is called, or until the sandbox ends, whoever waits. Where the error is nil the
// caller has await bring it to its end.
func (h *held) start(env *Env, argv []string, in ExecInput, stream *Stream) (*keptExec, error) {
	ctx, end := context.WithCancel(context.Background())
	x := &keptExec{out: env.Outputs.New(h.principal), command: h.remembered(in), began: time.Now(), end: end, done: make(chan struct{})}
	if err := h.execs.add(x); err != nil {
		end()
		x.out.drop()
		return nil, err
	}
	x.cmd = h.Command(ctx, argv[0], argv[1:]...)
	x.limit = env.within(in.limit(h.Spec()))
	x.cmd.Dir, x.cmd.AddEnv, x.cmd.Timeout = in.Cwd, in.Env, x.limit.span
	x.cmd.Stdout, x.cmd.Stderr = outputSide{x.out, 0}, outputSide{x.out, 1}
	x.cmd.Stdin = in.stdin(h, stream)
	if err := x.cmd.Start(); err != nil {
		end()
		x.err = err
		close(x.done)
		h.execs.drop(x)
		x.out.drop()
		return nil, err
	}
	return x, nil
}

// stdin is the command's input: the door's where it has one and no text is given.
// Under rules there is none: nobody judges what a command would do with it.
func (in ExecInput) stdin(h *held, stream *Stream) io.Reader {
	switch {
	case h.Spec().Commands != nil:
		return nil
	case in.Stdin != "":
		return strings.NewReader(in.Stdin)
	}
	return stream.Stdin
}

// watch brings the command to its end.
func (x *keptExec) watch(h *held) {
	err := brokenStream(x.cmd.Wait())
	x.result = x.cmd.Result()
	x.end()
	if x.result == nil || err != nil && !cancelled(err) {
		x.err = h.explain(err)
	}
	var refused []paddock.Denial
	if x.result != nil && !x.result.Success() {
		refused = x.result.Denials
	}
	x.out.End(x.how(), refused...)
	close(x.done)
}

// how says in a few words how the command ended; x.result and x.err are final.
func (x *keptExec) how() string {
	switch {
	case x.result != nil:
		return x.result.String()
	case errors.Is(x.err, paddock.ErrClosed):
		return "the sandbox has ended"
	}
	return "its end is not known"
}

// limit is how long the command may run, as far as nobody else has a word on it.
func (in ExecInput) limit(spec policy.Spec) timeLimit {
	switch {
	case in.Timeout != nil:
		return timeLimit{time.Duration(*in.Timeout), fromCall}
	case spec.Limits.Timeout > 0:
		return timeLimit{time.Duration(spec.Limits.Timeout), fromSandbox}
	case in.Background || in.YieldAfter != nil:
		return timeLimit{}
	}
	return timeLimit{foregroundTime, fromDefault}
}

// dir is where a command begins, as it sees it.
func (h *held) dir(written string) string {
	workspace := workspaceAt(h.Isolation().Level, h.Spec())
	if path.IsAbs(written) {
		return path.Clean(written)
	}
	return path.Join(workspace, written)
}
