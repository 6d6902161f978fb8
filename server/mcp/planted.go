package mcp

import "github.com/paddock-dev/paddock/op"

// planted tells the operator, at the default level, what a sandbox has left for
// the host to run or obey: the model that is told of it may be who did it.
func (s *Server) planted(p op.Planted) {
	s.opts.Logger.Warn("commands made or changed files that programs on the host run or obey: look before you use them",
		"paths", p.Names(), "workspace", p.Workspace, "sandbox", p.Sandbox, "principal", p.Principal)
}
