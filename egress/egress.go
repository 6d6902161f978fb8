// Package egress lets commands of a sandbox reach hosts by name, and nothing else. It has the
// protocol between Paddock and the egress process of a sandbox (program paddock-egress), and
// the rules that this process applies.
//
// The process runs outside of the sandbox. It holds sockets that the agent made in a network
// namespace of the sandbox's own, the gateway, where every address is local and where no
// process is; or, in a container, in the commands' own. Names exist only inside: the process
// answers a question for a name that a rule opens with an address that stands for it
// ([GatewayNames], [InsideNames]), and every other one with NXDOMAIN. A
// connection to such an address is one to that name: it is resolved and dialed outside, and
// copied. So programs need no setting, and no name leaves that a rule does not open.
//
// The owner of the sandbox starts the process and passes, over its control socket, a [Config]
// and the sockets. Other processes of the user ask it by [Client].
package egress

import (
	"net/netip"
	"time"

	"github.com/paddock-dev/paddock/policy"
)

// The addresses that stand for names inside. Of each range the first is where names are asked
// for. GatewayNames are those of a gateway, where every address is local. InsideNames are those
// where the sockets are in the namespace of the commands themselves, as in a container: they
// are local there without a route.
var (
	GatewayNames = policy.NetworkNames
	InsideNames  = netip.MustParsePrefix("127.64.0.0/10")
)

// Descriptors of the egress process, besides standard input and output (empty) and error (its
// log).
const (
	// ControlFD is one end of a socket pair. The owner sends a line with a [Config], then
	// the sockets (SCM_RIGHTS, with bytes of [SocketsMark]); the process answers with a
	// line with a [Ready]. After that the socket is a lifeline.
	ControlFD = 3
	// ListenFD is a listening socket for [Client].
	ListenFD = 4
)

// SocketsMark is each byte that sockets are passed with, at most MaxSockets with each.
const (
	SocketsMark = 's'
	MaxSockets  = 200
)

// Stock is how many unbound TCP sockets the agent makes: one for each port of
// rules, one for names, and some that are kept for rules that are added later.
const Stock = 64

// Config is what the egress process is started with.
type Config struct {
	Build   string         `json:"build"` // wire.Build of the owner
	Network policy.Network `json:"network"`
	// Names is GatewayNames or InsideNames.
	Names netip.Prefix `json:"names"`
	// Sockets is how many follow: one UDP socket, then TCP sockets, all unbound and of one
	// network namespace.
	Sockets int `json:"sockets"`
	// Proxy are the operator's variables that say how the host itself reaches others:
	// HTTPS_PROXY, ALL_PROXY, NO_PROXY, by their names in capitals.
	Proxy map[string]string `json:"proxy,omitempty"`
	// SSHAgent, if not nil, is what commands may use of the operator's SSH agent. Two more
	// sockets follow: a listening Unix socket of the sandbox, and a connection to the agent.
	SSHAgent *SSHAgent `json:"ssh_agent,omitempty"`
	// Authority signs certificates of hosts that rules intercept, and Secrets are the values
	// of their secrets. Both are nil if no rule intercepts: then none ever can.
	Authority *Authority `json:"authority,omitempty"`
	Secrets   []Secret   `json:"secrets,omitempty"`
	// Roots are the certificates, as PEM, that hosts are trusted by. Default: the system's.
	Roots []byte `json:"roots,omitempty"`
}

// SSHAgent says what commands may use of the operator's SSH agent.
type SSHAgent struct {
	policy.SSHAgent
	// KnownHosts are the operator's known_hosts and the host's.
	KnownHosts []byte `json:"known_hosts"`
}

// Secret is a [policy.NetworkSecret] with its value. It is nowhere but in the memory of the
// sandbox's owner and of the egress process.
type Secret struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	// StandIn is what commands have in its place; empty if they have nothing.
	StandIn string `json:"stand_in,omitempty"`
}

// Ready is the answer: names are answered and connections accepted, or Error says why not.
type Ready struct {
	Build string `json:"build"`
	Error *Error `json:"error,omitempty"`
}

// Error is a failure of the egress process.
type Error struct {
	Message string `json:"error"`
	Hint    string `json:"hint,omitempty"`
	// Changed says that the rules are not those of the revision that was named.
	Changed bool `json:"changed,omitempty"`
}

// Error returns what could not be done, and why.
func (e *Error) Error() string { return e.Message }

// Record is what commands asked for.
type Record struct {
	Seq  uint64    `json:"seq"` // from 1, in the order in which they ended
	Time time.Time `json:"time"`
	// Kind is "connection" (which has ended), "request" (one of an intercepted connection,
	// answered), "denied", "failed" (a rule opens it, and it could not be reached),
	// "rules" (they were replaced) or "ssh" (the SSH agent was used).
	Kind string `json:"kind"`
	// Host is the name, or the address if no name was asked for.
	Host string `json:"host,omitempty"`
	Port uint16 `json:"port,omitempty"`
	// Address is what the name was resolved to, by the process itself.
	Address string `json:"address,omitempty"`
	// Rule is the host of the rule that opened or closed it.
	Rule string `json:"rule,omitempty"`
	// Key is the fingerprint of the key of the SSH agent that has signed.
	Key string `json:"key,omitempty"`
	// Reason says why it was denied or has failed, why it ended early, or what the SSH
	// agent has done.
	Reason string `json:"reason,omitempty"`
	// Count is how many denials in a row the record stands for, if more than one.
	Count uint64 `json:"count,omitempty"`
	// Sent and Received are bytes, as commands see them.
	Sent     int64           `json:"sent,omitempty"`
	Received int64           `json:"received,omitempty"`
	Duration policy.Duration `json:"duration,omitempty"`
	// Method, Path (without its query) and Status are those of a request.
	Method string `json:"method,omitempty"`
	Path   string `json:"path,omitempty"`
	Status int    `json:"status,omitempty"`
}

// The kinds of records.
const (
	KindConnection = "connection"
	KindRequest    = "request"
	KindDenied     = "denied"
	KindFailed     = "failed"
	KindRules      = "rules"
	KindSSH        = "ssh"
)

// RuleSSHAgent is [Record].Rule of what was asked of the SSH agent, and denied.
const RuleSSHAgent = "ssh_agent"

// Parts of [Record].Reason of what was asked of the SSH agent, and that other settings allow.
const (
	SSHNoHost = "for no host that a rule opens"
	SSHNoSign = "signatures for git are not allowed"
)

// State is what the egress process does at the moment.
type State struct {
	Network policy.Network `json:"network"`
	// Revision is how often the rules were replaced.
	Revision uint64 `json:"revision"`
	// Open are the connections that are open.
	Open int `json:"open"`
	// Connections, Denied, Sent and Received are totals since the start.
	Connections uint64 `json:"connections"`
	Denied      uint64 `json:"denied"`
	Sent        int64  `json:"sent"`
	Received    int64  `json:"received"`
	// Last is the number of the last record; Lost is how many older records are not kept
	// any more.
	Last uint64 `json:"last"`
	Lost uint64 `json:"lost"`
}
