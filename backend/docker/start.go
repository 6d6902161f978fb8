//go:build linux

package docker

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/piped"
	"github.com/paddock-dev/paddock/backend/state"
	"github.com/paddock-dev/paddock/confine"
	"github.com/paddock-dev/paddock/egress"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

// Plan asks the engine for its abilities, and returns the commands that Start would run.
func (b *Backend) Plan(ctx context.Context, req backend.Request) (*confine.Plan, error) {
	e, img, err := open(ctx, req)
	if err != nil {
		return nil, err
	}
	c, err := newBuild(req, e, img, "ID")
	if err == nil {
		err = c.nameHosts(req.Spec, e, state.Path(req.StateDir, "ID"))
	}
	if err != nil {
		return nil, err
	}
	p := &confine.Plan{Version: confine.PlanVersion, Command: append([]string{e.binary}, c.args()...),
		Redaction: req.Spec.Redaction, Env: c.guestEnv(req.Spec, img), Workspace: c.dir, Holds: c.plannedIsolation(req.Spec, e)}
	p.Rlimits = piped.PlanRlimits(rlimits(req.Spec.Limits))
	return p, nil
}

// Start runs a container, waits for the answer of the agent in it, and verifies the container
// that the engine has made.
func (b *Backend) Start(ctx context.Context, req backend.Request) (backend.Sandbox, error) {
	e, img, err := open(ctx, req)
	if err != nil {
		return nil, err
	}
	c, err := newBuild(req, e, img, strings.ToLower(rand.Text()[:13]))
	if err != nil {
		return nil, err
	}
	named, err := c.openNamed(ctx, req, e) // never of an engine elsewhere
	if err != nil {
		return nil, err
	}
	if c.uploads {
		if err := c.upload(ctx, e, req.Agent); err != nil {
			c.clean(e)
			return nil, err
		}
	}
	started, err := piped.Start(ctx, req, c.wall(req, e, img, named))
	if err != nil {
		c.clean(e)
		named.end()
		return nil, err
	}
	s := &sandbox{Sandbox: started, build: c, named: named}
	if err := s.fill(ctx); err != nil {
		_, _ = s.Stop(context.WithoutCancel(ctx), time.Second)
		return nil, err
	}
	return s, nil
}

// wall returns the container as a wall of package piped.
func (b *build) wall(req backend.Request, e *engine, img *image, n *named) piped.Wall {
	w := piped.Wall{
		Backend: policy.BackendDocker,
		Argv:    append([]string{e.binary}, b.args()...),
		Env:     e.env,
		Agent:   b.agent,
		Guest: wire.Guest{Workspace: wire.OSString(b.dir), Env: b.guestEnv(req.Spec, img), Rlimits: rlimits(req.Spec.Limits),
			Seccomp: req.Spec.Seccomp, KeepCapabilities: b.says("cap-add", "privileged"), Threads: agentThreads},
		Verify: func(ctx context.Context, r piped.Running) (policy.Isolation, error) {
			iso, err := b.verifyWall(ctx, req.Spec, e, r)
			if err == nil {
				err = n.serve(ctx, req)
			}
			return iso, err
		},
		Gone: func(ctx context.Context) (bool, error) { return e.gone(ctx, &b.container) },
	}
	if n != nil {
		w.State, w.Guest.Passage = n.dir, &wire.GuestPassage{Path: passagePath, Sockets: egress.Stock + 1}
	}
	// The environment is part of the clean-up commands: a process that sweeps may have
	// another one, which names another engine.
	command := []string{e.binary}
	if env, err := exec.LookPath("env"); err == nil {
		command = slices.Concat([]string{env, "-i"}, e.env, command)
	}
	for _, args := range b.cleanup() {
		w.Cleanup = append(w.Cleanup, slices.Concat(command, args))
	}
	return w
}

// clean removes everything that a failed start has left on the engine.
func (b *build) clean(e *engine) {
	for _, args := range b.cleanup() {
		_, _ = e.ask(context.Background(), args...)
	}
}

// isPlainName reports whether commands get an image's variable of this name: at most 64
// letters, digits and underscores.
func isPlainName(name string) bool {
	for i, c := range []byte(name) {
		letter := c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != "" && len(name) <= 64
}

// guestEnv returns the environment of commands: the image's, overridden by the spec's.
func (b *build) guestEnv(spec policy.Spec, img *image) map[string]string {
	env := map[string]string{"PATH": policy.SearchPath}
	maps.Copy(env, spec.NetworkEnv())
	for _, kv := range img.Config.Env {
		if name, value, ok := strings.Cut(kv, "="); ok && isPlainName(name) {
			env[name] = value
		}
	}
	env["HOME"] = b.home
	if spec.SSHAgent != nil {
		env["SSH_AUTH_SOCK"] = sshAgentPath
	}
	for name, value := range spec.Env {
		env[name] = value
	}
	return env
}

// rlimits returns the limits that the agent sets in each command.
func rlimits(l policy.Limits) wire.GuestRlimits {
	return wire.GuestRlimits{CPUSeconds: uint64(time.Duration(l.CPUTime) / time.Second), FileSize: uint64(l.FileSize), OpenFiles: l.OpenFiles}
}

// sandbox is a container with its agent.
type sandbox struct {
	backend.Sandbox
	build *build
	named *named // nil without rules for the network
	ended sync.Once
}

// Stop ends the container, and then what its commands reached hosts through.
func (s *sandbox) Stop(ctx context.Context, grace time.Duration) (backend.Death, error) {
	death, err := s.Sandbox.Stop(ctx, grace)
	s.ended.Do(s.named.end)
	return death, err
}

// Isolation returns what holds. Without its egress process a sandbox reaches nothing.
func (s *sandbox) Isolation() policy.Isolation {
	if s.named == nil {
		return s.Sandbox.Isolation()
	}
	return s.named.process.Holds(s.Sandbox.Isolation())
}

// Egress returns a client of the egress process, or nil if the sandbox has none.
func (s *sandbox) Egress() *egress.Client {
	if s.named == nil {
		return nil
	}
	return s.named.process.Client()
}

// fill copies the workspace, if commands are to have a copy. The agent's own program
// does it, inside, as the user that commands run as.
func (s *sandbox) fill(ctx context.Context) error {
	ws := s.build.shown[0]
	if !ws.Copied {
		return nil
	}
	client := &wire.Client{Dial: s.Dial}
	r, err := client.Exec(ctx, wire.ExecRequest{Argv: []string{s.build.agent, "copy", s.build.source(), policy.WorkspacePath}})
	if err == nil && r.ExitCode != 0 {
		err = fmt.Errorf("%s", lastWords([]byte(r.Stderr)))
	}
	if err != nil {
		return &backend.StartError{Stage: "setup", Op: "copy", Object: ws.Source, Cause: err.Error(),
			Hint: "the workspace must be readable by " + s.build.user + " and fit: raise `limits.disk`, or use workspace mode bind"}
	}
	return nil
}
