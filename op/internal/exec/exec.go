package exec

import (
	"context"
	"io"
	"path"
	"strings"
	"time"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/registry"
	"github.com/paddock-dev/paddock/policy"
)

// foregroundTime ends a command that is waited for and has no other bound.
const foregroundTime = 2 * time.Minute

// start starts a command whose output is kept. It runs until it ends, until end
// is called, or until the sandbox ends, whoever waits. Where the error is nil the
// caller has await bring it to its end.
func start(h *registry.Sandbox, env *op.Env, argv []string, in ExecInput, stream *op.Stream) (*registry.Exec, error) {
	ctx, end := context.WithCancel(context.Background())
	x := &registry.Exec{Out: env.Outputs.New(h.Principal), Command: remembered(h, in), Began: time.Now(), End: end, Done: make(chan struct{})}
	if err := h.Execs.Add(x); err != nil {
		end()
		x.Out.Drop()
		return nil, err
	}
	x.Cmd = h.Command(ctx, argv[0], argv[1:]...)
	x.Limit = env.BoundTime(in.limit(h.Spec()))
	x.Cmd.Dir, x.Cmd.AddEnv, x.Cmd.Timeout = in.Cwd, in.Env, x.Limit.Span
	x.Cmd.Stdout, x.Cmd.Stderr = x.Out.Side(0), x.Out.Side(1)
	x.Cmd.Stdin = in.stdin(h, stream)
	if err := x.Cmd.Start(); err != nil {
		end()
		x.Err = err
		close(x.Done)
		h.Execs.Drop(x)
		x.Out.Drop()
		return nil, err
	}
	return x, nil
}

// stdin is the command's input: the door's where it has one and no text is given.
// Under rules there is none: nobody judges what a command would do with it.
func (in ExecInput) stdin(h *registry.Sandbox, stream *op.Stream) io.Reader {
	switch {
	case h.Spec().Commands != nil:
		return nil
	case in.Stdin != "":
		return strings.NewReader(in.Stdin)
	}
	return stream.Stdin
}

// watch brings the command to its end.
func watch(x *registry.Exec, h *registry.Sandbox) {
	err := brokenStream(x.Cmd.Wait())
	x.Result = x.Cmd.Result()
	x.End()
	if x.Result == nil || err != nil && !registry.Cancelled(err) {
		x.Err = h.Explain(err)
	}
	var refused []paddock.Denial
	if x.Result != nil && !x.Result.Success() {
		refused = x.Result.Denials
	}
	x.Out.End(x.How(), refused...)
	close(x.Done)
}

// limit is how long the command may run, as far as nobody else has a word on it.
func (in ExecInput) limit(spec policy.Spec) registry.TimeLimit {
	switch {
	case in.Timeout != nil:
		return registry.TimeLimit{Span: time.Duration(*in.Timeout), From: registry.FromCall}
	case spec.Limits.Timeout > 0:
		return registry.TimeLimit{Span: time.Duration(spec.Limits.Timeout), From: registry.FromSandbox}
	case in.Background || in.YieldAfter != nil:
		return registry.TimeLimit{}
	}
	return registry.TimeLimit{Span: foregroundTime, From: registry.FromDefault}
}

// dir is where a command begins, as it sees it.
func dir(h *registry.Sandbox, written string) string {
	workspace := registry.WorkspaceAt(h.Isolation().Level, h.Spec())
	if path.IsAbs(written) {
		return path.Clean(written)
	}
	return path.Join(workspace, written)
}
