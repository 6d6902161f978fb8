package mcp

import "github.com/paddock-dev/paddock/op"

// planted tells the operator, at the default level, what a sandbox has left for
// the host to run or obey: the model that is told of it may be who did it.
func (s *Server) planted(p op.Planted) {
	if s.opts.Planted != nil {
		s.opts.Planted(p)
	}
	said := []any{"workspace", p.Workspace, "sandbox", p.Sandbox, "principal", p.Principal}
	if len(p.Git) > 0 {
		s.opts.Logger.Warn("commands added to their copy of git's configuration: paddock git accept -w WORKSPACE takes it over", append([]any{"settings", p.Git}, said...)...)
	}
	if len(p.Paths) > 0 {
		said = append([]any{"paths", p.Names()}, said...)
	}
	if len(p.Programs) > 0 {
		said = append(said, "programs", p.ProgramNames())
	}
	if len(p.Unseen) > 0 {
		said = append(said, "unseen", p.Unseen)
	}
	if p.Late {
		said = append(said, "owner", "was killed")
	}
	switch {
	case len(p.Paths) > 0:
		s.opts.Logger.Warn("commands made or changed files that programs on the host run or obey: look before you use them", said...)
	case len(p.Unseen) > 0:
		s.opts.Logger.Warn("not all that commands may have changed for programs on the host was compared", said...)
	case len(p.Programs) > 0:
		s.opts.Logger.Info("commands made or changed files that run when they are named: look before you run them", said...)
	}
}

// held is why no call is answered any more, nil where they are. What was started ends
// then: what the operator looks at stays as it is.
func (v *view) held() error {
	if v.server.opts.Hold == nil {
		return nil
	}
	err := v.server.opts.Hold()
	if err != nil {
		v.hold.Do(func() {
			if err := v.close(); err != nil {
				v.server.opts.Logger.Error(err.Error())
			}
		})
		return v.server.opts.Hold() // the end may have brought more to light
	}
	return nil
}
