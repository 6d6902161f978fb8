package mcp

import "github.com/paddock-dev/paddock/op"

// planted logs for the operator, at the default level, what a sandbox has left for the host to
// run or obey. The model learns it too, but may be the one that did it.
func (s *Server) planted(p op.Planted) {
	if s.opts.Planted != nil {
		s.opts.Planted(p)
	}
	said := []any{"workspace", p.Workspace, "sandbox", p.Sandbox, "principal", p.Principal}
	if len(p.Git) > 0 {
		s.opts.Logger.Warn("commands added to their copy of git's configuration: paddock git accept SANDBOX takes it over", append([]any{"settings", p.Git}, said...)...)
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

// checkHold returns why calls are not answered any more, or nil. In that case everything that
// was started is ended, so that what the operator inspects does not change.
func (v *view) checkHold() error {
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
		return v.server.opts.Hold() // the end may have revealed more
	}
	return nil
}
