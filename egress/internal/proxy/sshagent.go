package proxy

import (
	"context"
	"net"

	"github.com/paddock-dev/paddock/egress"
	"github.com/paddock-dev/paddock/egress/internal/sshagent"
	"github.com/paddock-dev/paddock/egress/knownhosts"
)

// SSHAgent is the operator's SSH agent for commands.
type SSHAgent struct {
	Allowed egress.SSHAgent
	// Listener is a socket inside, Agent a connection to the agent. Serve closes both.
	Listener net.Listener
	Agent    net.Conn
}

// serveSSHAgent lets commands use the operator's SSH agent until ctx ends.
func (s *Server) serveSSHAgent(ctx context.Context, a *SSHAgent) {
	sshagent.New(sshagent.Options{
		Agent: a.Agent, Keys: a.Allowed.Keys, Sign: a.Allowed.Sign,
		Hosts: knownhosts.Parse(a.Allowed.KnownHosts), Rules: s.rules, Record: s.records.add,
	}).Serve(ctx, a.Listener)
}
