package paddock

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/policy"
)

// protectWait bounds the look at what is protected: a file system that hangs
// must not hold up a start for ever.
const protectWait = 30 * time.Second

// protect finds what commands must not change of what the host executes or
// obeys, and puts it into the request. Where nothing is to be protected, nothing
// that goes wrong holds up the start.
func (o Options) protect(ctx context.Context, req *backend.Request) (hostpath.Protection, error) {
	unknown := hostpath.Protection{Relative: true}
	if req.Spec.Workspace.Source == "" {
		return unknown, nil // no workspace of this host
	}
	host := req.Spec.Backend == policy.BackendHost
	open := host || slices.Contains(req.Spec.Workspace.Unprotected, "*")
	mounts, err := hostpath.Mounts(*req, policy.WorkspacePath)
	switch {
	case err != nil && open:
		return unknown, nil // the backend says so
	case err != nil:
		return unknown, err
	}
	var parse hostpath.Parse // nil for the backend without walls, which must not need any
	if !host {
		parse = gitParser{agent: req.Agent, state: req.StateDir}.parse
	}
	ctx, cancel := context.WithTimeout(ctx, protectWait)
	defer cancel()
	if open {
		found := make(chan hostpath.Protection, 1)
		look := *req
		go func() {
			p, err := hostpath.Protect(ctx, look, mounts, parse)
			if err != nil {
				p = unknown
			}
			found <- p
		}()
		select {
		case p := <-found:
			return p, nil
		case <-ctx.Done():
			return unknown, nil
		}
	}
	p, err := hostpath.Protect(ctx, *req, mounts, parse)
	if ctx.Err() != nil {
		err = &Error{Message: "cannot tell what the host obeys in the workspace: " + context.Cause(ctx).Error(),
			Hint: "look for a file system that does not answer, or allow changes with --unprotect '*'"}
	}
	req.Guards = p.Guards
	return p, err
}

// maxUnread bounds the files that losses names: commands can make many.
const maxUnread = 8

// losses says what of the host's programs is open to commands.
func losses(p hostpath.Protection) []string {
	lost := slices.Clone(p.Opened)
	for i, file := range p.Unread {
		if i == maxUnread {
			lost = append(lost, fmt.Sprintf("%d more files of git's configuration cannot be read", len(p.Unread)-i))
			break
		}
		lost = append(lost, "git's configuration "+hostpath.Printable(file)+" cannot be read: git may obey whatever commands change")
	}
	return append(lost, p.Lost...)
}

// gitParser has git read configuration in a sandbox of its own, since who wrote
// it may have had git's mistakes in mind.
type gitParser struct{ agent, state string }

// maxParsedConfig bounds what git says.
const maxParsedConfig = 4 << 20

func (g gitParser) parse(ctx context.Context, text []byte) ([]byte, error) {
	be := defaultBackend()
	if be == nil {
		return nil, &Error{Message: "cannot have git read its configuration: no sandbox can be made here"}
	}
	dir, err := os.MkdirTemp("", "paddock-git-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.Remove(dir) }()
	spec, err := Spec{Workspace: Workspace{Source: dir, Access: "ro"}}.Resolve(policy.Base{Dir: dir})
	if err != nil {
		return nil, err
	}
	wall, err := be.Start(ctx, backend.Request{Spec: spec, Agent: g.agent, StateDir: g.state})
	if err != nil {
		return nil, err
	}
	s := newSandbox(wall, spec)
	defer func() { _ = s.Close() }()
	c := s.Command(ctx, "git", "config", "--file", "-", "--null", "--list")
	c.AddEnv = []string{"GIT_CONFIG_NOSYSTEM=1"}
	out := &Capture{Max: maxParsedConfig}
	c.Stdin, c.Stdout, c.Timeout = bytes.NewReader(text), out, protectWait
	if err := c.Run(); err != nil {
		return nil, err
	}
	if out.Truncated() {
		return nil, &Error{Message: "cannot read what git says of its configuration: it is too long"}
	}
	return out.Bytes(), nil
}
