package paddock

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/paddock-dev/paddock/egress"
	"github.com/paddock-dev/paddock/internal/namedhosts"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/policy"
)

// changeAttempts is how often ChangeNetwork reads the rules again that others have changed.
const changeAttempts = 16

// named is what the library knows of a network of mode "allow". Its zero value is of a sandbox
// without one.
type named struct {
	client *egress.Client // nil: there is none

	mu    sync.Mutex
	rules policy.Network // as the egress process had them last
	last  uint64         // the number of the last record that was read
}

// openNamed prepares the network of a wall that has one of mode "allow".
func (s *Sandbox) openNamed() {
	if wall, ok := s.wall.(interface{ Egress() *egress.Client }); ok {
		s.named.client, s.named.rules = wall.Egress(), s.spec.Network
	}
}

// Network asks which hosts commands can reach at the moment, and what they have used. It fails
// unless the sandbox's network is "allow".
func (s *Sandbox) Network(ctx context.Context) (egress.State, error) {
	client, err := s.egress("look at the network")
	if err != nil {
		return egress.State{}, err
	}
	state, err := client.Show(ctx)
	if err != nil {
		return egress.State{}, s.egressError("look at the network", err)
	}
	s.named.set(state.Network)
	return state, nil
}

// SetNetwork replaces all rules of a sandbox whose network is "allow", which a sandbox keeps
// for its life. Connections that the new rules do not open are cut. If it fails, nothing has
// changed. Secrets of rules are those that the sandbox was started with. The error of invalid
// rules is one or more *policy.FieldError, joined.
func (s *Sandbox) SetNetwork(ctx context.Context, network Network) error {
	return s.ChangeNetwork(ctx, func(egress.State) (Network, error) { return network, nil })
}

// ChangeNetwork replaces all rules of a sandbox whose network is "allow" as SetNetwork does, by
// those that change makes of what the sandbox has at the moment. If others replace these
// meanwhile, change is asked again. It fails if they do so again and again, or if change does.
func (s *Sandbox) ChangeNetwork(ctx context.Context, change func(now egress.State) (Network, error)) error {
	client, err := s.egress("change the network")
	if err != nil {
		return err
	}
	for range changeAttempts {
		now, err := client.Show(ctx)
		if err != nil {
			return s.egressError("change the network", err)
		}
		network, err := change(now)
		if err == nil {
			network, err = network.Resolve()
		}
		added := slices.DeleteFunc(slices.Clone(network.HostPorts), func(port policy.Port) bool { return slices.Contains(now.Network.HostPorts, port) })
		if err == nil {
			err = refuseOwnPorts(s.state, added)
		}
		if err != nil {
			return err
		}
		set, err := client.SetAt(ctx, network.WithoutSources(), now.Revision)
		if failed := (*egress.Error)(nil); errors.As(err, &failed) && failed.Changed {
			continue
		}
		if err != nil {
			return s.egressError("change the network", err)
		}
		// A server that has begun to listen meanwhile may have looked before the change.
		if err = refuseOwnPorts(s.state, added); err != nil {
			var back error
			if set, back = client.SetAt(ctx, now.Network, set.Revision); back != nil {
				return errors.Join(err, s.egressError("take the change back", back))
			}
		}
		s.named.set(set.Network)
		return err
	}
	return &Error{Message: "cannot change the network: others change it at the same time", Hint: "try again"}
}

// AddNetwork adds rules to those of a sandbox whose network is "allow". If it fails, nothing has
// changed. It fails too if others replace the rules at the same time, again and again.
func (s *Sandbox) AddNetwork(ctx context.Context, allow []NetworkRule, deny []NetworkDenial) error {
	if len(allow) > 0 {
		checked, err := Network{Allow: allow}.Resolve()
		if err != nil {
			return err
		}
		allow = checked.Allow
	}
	return s.ChangeNetwork(ctx, func(now egress.State) (Network, error) {
		network := now.Network.Clone()
		if network.Mode == policy.NetworkObserve {
			return network, &Error{Message: "cannot add rules to sandbox " + s.called() + ": its network is observed, and every public name is open", Hint: "paddock network set " + s.called() + " `network.allow` HOST ends that, with rules in its place"}
		}
		for _, rule := range allow {
			if !network.Has(network.Keep(rule)) {
				network.Allow = append(network.Allow, rule)
			}
		}
		for _, d := range deny {
			if !slices.Contains(network.Deny, d) {
				network.Deny = append(network.Deny, d)
			}
		}
		return network, nil
	})
}

// NetworkLog calls each with the records after the number of one, the oldest first: what
// commands asked for by name or address, and what became of it. Of many the newest 4096 are
// kept. With follow it waits for more until ctx ends or the sandbox does.
func (s *Sandbox) NetworkLog(ctx context.Context, after uint64, follow bool, each func(egress.Record) error) error {
	client, err := s.egress("read the network's log")
	if err != nil {
		return err
	}
	own := error(nil) // an error of each stays as it is
	err = client.Log(ctx, after, follow, func(r egress.Record) error {
		own = each(r)
		return own
	})
	if err == nil || own != nil || ctx.Err() != nil {
		return err
	}
	select {
	case <-s.Done():
		if follow {
			return nil
		}
	default:
	}
	return s.egressError("read the network's log", err)
}

// egress returns the client of the egress process.
func (s *Sandbox) egress(what string) (*egress.Client, error) {
	if s.named.client != nil {
		return s.named.client, nil
	}
	mode := s.Isolation().Network
	if mode == "" {
		mode = s.spec.Network.Mode
	}
	return nil, &Error{Message: "cannot " + what + " of sandbox " + s.called() + ": it has network " + mode + ", without rules",
		Hint: "a new sandbox has rules with `network.allow` HOST"}
}

// egressError returns an error of the egress process for callers.
func (s *Sandbox) egressError(what string, err error) error {
	failed := (*egress.Error)(nil)
	if errors.As(err, &failed) {
		return &Error{Message: "cannot " + what + ": " + failed.Message, Hint: failed.Hint}
	}
	return &Error{Message: "cannot " + what + ": " + err.Error(), Hint: "if the process that holds the network has ended, this sandbox has none any more: open a new one"}
}

func (n *named) set(rules policy.Network) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.rules = rules
}

func (n *named) current() policy.Network {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.rules
}

const (
	// logTime bounds how long the start and the end of a command wait for the log.
	logTime = time.Second
	// maxNetworkDenials is how many refusals of the network a result lists.
	maxNetworkDenials = 16
)

// mark reads the log up to its end, and returns the number of the last record, for
// [Sandbox.networkDenials] at the end of a command that begins now. What is denied later is in
// records of its own.
func (n *named) mark(ctx context.Context) uint64 {
	if n.client == nil {
		return 0
	}
	ctx, cancel := context.WithTimeout(ctx, logTime)
	defer cancel()
	last := n.passed(0)
	_ = n.client.Log(ctx, last, false, func(r egress.Record) error { // the command's end reports a failure
		last = max(last, r.Seq)
		return nil
	})
	return n.passed(last)
}

// passed notes the number of a record that was read, and returns the highest one so far.
func (n *named) passed(seq uint64) uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.last = max(n.last, seq)
	return n.last
}

// unreachable is the rule in the denial of a host that a rule opens, and that could not be reached.
const unreachable = "unreachable"

// networkDenials returns what the network has refused since mark, or could not reach: for the
// command, or for others at the same time.
func (s *Sandbox) networkDenials(ctx context.Context, mark uint64) []Denial {
	n := &s.named
	if n.client == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), logTime)
	defer cancel()
	var denied []egress.Record
	changed, last, more := false, mark, 0
	err := n.client.Log(ctx, mark, false, func(r egress.Record) error {
		last = max(last, r.Seq)
		switch r.Count = max(r.Count, 1); r.Kind {
		case egress.KindRules:
			changed = true
		case egress.KindDenied, egress.KindFailed:
			i := slices.IndexFunc(denied, func(d egress.Record) bool {
				return d.Kind == r.Kind && d.Host == r.Host && d.Port == r.Port && d.Rule == r.Rule &&
					(d.Reason == r.Reason || r.Method == "" && r.Rule != egress.RuleSSHAgent) // a request has its own
			})
			switch {
			case i >= 0:
				denied[i].Count += r.Count
			case len(denied) < maxNetworkDenials:
				denied = append(denied, r)
			default:
				more++
			}
		}
		return nil
	})
	n.passed(last)
	if changed && err == nil {
		if state, err := n.client.Show(ctx); err == nil {
			n.set(state.Network)
		}
	}
	list := make([]Denial, 0, len(denied)+1)
	named := sync.OnceValue(func() []namedhosts.Named { return namedhosts.Find(ctx, s.spec.Workspace.Source) })
	for _, r := range denied {
		list = append(list, s.networkDenial(r, n.current(), named))
	}
	if more > 0 {
		list = append(list, Denial{Layer: "network", Rule: policy.NetworkAllow, Object: strconv.Itoa(more) + " more"})
	}
	select {
	case <-s.Done():
	default:
		if err != nil {
			list = append(list, Denial{Layer: "network", Rule: policy.NetworkAllow,
				Hint: "the process that holds the network does not answer, and without it no host can be reached: open a new sandbox"})
		}
	}
	return list
}

// networkDenial returns the denial of a record, with the rule that would open what was asked
// for, and the file of the workspace that names it, if one does.
func (s *Sandbox) networkDenial(r egress.Record, rules policy.Network, named func() []namedhosts.Named) Denial {
	d := Denial{Layer: "network", Rule: r.Rule, Object: text.Escape(text.Prefix(r.Host, 256)), Hint: text.Escape(text.Prefix(r.Reason, 512))}
	if d.Rule == "" {
		d.Rule = policy.NetworkAllow
	}
	if r.Kind == egress.KindFailed {
		d.Rule = unreachable
	}
	if r.Port > 0 {
		d.Object += ":" + strconv.Itoa(int(r.Port))
	}
	if r.Count > 1 {
		d.Count = int(min(r.Count, 1<<30))
	}
	if r.Kind == egress.KindFailed {
		return d
	}
	if r.Rule == egress.RuleSSHAgent {
		if d.Object == "" {
			d.Object = "the SSH agent"
		}
		switch {
		case strings.Contains(r.Reason, egress.SSHNoHost):
			d.Hint += "; `network.allow` HOST:22 opens a host, and one login outside makes it known"
		case strings.Contains(r.Reason, egress.SSHNoSign):
			d.Hint += "; `ssh_agent`=sign allows them"
		}
		return d
	}
	if slices.ContainsFunc(rules.Deny, func(deny policy.NetworkDenial) bool { return deny.Host == r.Rule }) {
		d.Hint = strings.TrimPrefix(d.Hint+"; leaving out `network.deny` "+policy.ShellWord(r.Rule)+" opens it", "; ")
		return d
	}
	if r.Host == policy.HostName && !slices.Contains(rules.HostPorts, policy.Port(r.Port)) {
		word := "PORT"
		if r.Port > 0 {
			word = strconv.Itoa(int(r.Port))
		}
		d.Hint = strings.TrimPrefix(d.Hint+"; `network.host_ports` "+word+" opens a port of the host", "; ")
	}
	if host, _ := egress.CanonicalName(r.Host); r.Port == 80 { // plain HTTP
		if hint := rules.HTTPSHint(host); hint != "" {
			d.Hint = strings.TrimPrefix(d.Hint+"; "+hint, "; ")
			return d
		}
	}
	if word := opening(r, rules); word != "" {
		opens := "`network.allow` " + policy.ShellWord(word) + " opens it"
		if s.attached { // the flag is for a start
			opens = "paddock network add " + s.called() + " " + opens
		}
		d.Hint = strings.TrimPrefix(d.Hint+"; "+opens, "; ")
		host, _ := egress.CanonicalName(r.Host)
		if i := slices.IndexFunc(named(), func(n namedhosts.Named) bool { return n.Rule.Host == host }); i >= 0 {
			d.Hint += "; " + named()[i].File + " of the workspace names it"
		}
	}
	return d
}

// opening returns the rule, in its short form, that would open what a record asked for; "" if
// none would, or if it is an address that no command should reach: those of link-local
// networks, where clouds have their metadata.
func opening(r egress.Record, rules policy.Network) string {
	if r.Host == policy.HostName {
		return ""
	}
	host, reason, _ := policy.CanonicalHost(r.Host)
	if r.Address != "" {
		host, reason, _ = policy.CanonicalHost(r.Address)
	}
	if address, err := netip.ParseAddr(host); reason != "" || err == nil && address.IsLinkLocalUnicast() {
		return ""
	}
	if slices.ContainsFunc(rules.Allow, func(rule policy.NetworkRule) bool {
		return rule.Intercepts() && rule.Host == host && slices.Contains(rule.Ports, policy.Port(r.Port))
	}) {
		return "" // one for the same host and port would contradict it
	}
	rule := policy.NetworkRule{Host: host}
	if r.Port > 0 && !slices.Contains(policy.DefaultPorts(), policy.Port(r.Port)) {
		rule.Ports = []policy.Port{policy.Port(r.Port)}
	}
	asked := rule
	if r.Port > 0 {
		asked.Ports = []policy.Port{policy.Port(r.Port)}
	}
	if (&policy.Ceiling{NetworkRules: rules.Allow}).Opens([]policy.NetworkRule{asked}) == nil {
		return "" // it is refused for another reason
	}
	return rule.String()
}

// Observed is a host that commands have reached, at one port.
type Observed struct {
	Host        string `json:"host"`
	Port        uint16 `json:"port"`
	Connections int    `json:"connections"`
	Sent        int64  `json:"sent"`
	Received    int64  `json:"received"`
}

// observeTime bounds how long Observed waits for connections to end.
const observeTime = 500 * time.Millisecond

// Observed returns what commands have reached by connections that have ended, those with the
// fewest connections first, and how many records are not kept any more, so that they are not
// counted. It is for a sandbox whose network is "observe" or "allow".
func (s *Sandbox) Observed(ctx context.Context) (found []Observed, lost uint64, err error) {
	for end := time.Now().Add(observeTime); ; time.Sleep(10 * time.Millisecond) {
		state, err := s.Network(ctx)
		if err != nil {
			return nil, 0, err
		}
		if lost = state.Lost; state.Open == 0 || time.Now().After(end) {
			break
		}
	}
	err = s.NetworkLog(ctx, 0, false, func(r egress.Record) error {
		if r.Kind != egress.KindConnection {
			return nil
		}
		i := slices.IndexFunc(found, func(o Observed) bool { return o.Host == r.Host && o.Port == r.Port })
		if i < 0 {
			i = len(found)
			found = append(found, Observed{Host: r.Host, Port: r.Port})
		}
		found[i].Connections++
		found[i].Sent += r.Sent
		found[i].Received += r.Received
		return nil
	})
	slices.SortStableFunc(found, func(a, b Observed) int {
		return cmp.Or(cmp.Compare(a.Connections, b.Connections), cmp.Compare(a.Host, b.Host))
	})
	return found, lost, err
}
