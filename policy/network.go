package policy

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The modes of a network.
const (
	NetworkNone    = "none"
	NetworkAllow   = "allow"
	NetworkObserve = "observe"
	NetworkHost    = "host"
)

// Network is what commands can reach. In a spec it can be the mode alone: "none".
type Network struct {
	// Mode is "none" (default: loopback only), "allow" (the hosts of Allow by name, and
	// nothing else; the default if there are rules), "observe" (as "allow" with every public
	// name at ports 443, 80 and 22, to learn which rules commands need; for operators alone)
	// or "host" (the host's own network, with everything that listens there).
	Mode string `json:"mode,omitempty" scalar:"ok"`
	// Allow are the hosts that mode "allow" opens, at most 1024. Those of mode "observe" are
	// opened besides.
	Allow []NetworkRule `json:"allow,omitempty"`
	// Deny are exceptions, which win over Allow, at most 1024.
	Deny []NetworkDenial `json:"deny,omitempty"`
	// Limits bound mode "allow".
	Limits NetworkLimits `json:"limits,omitzero"`
	// HostPorts are ports of the host's own loopback that commands reach in mode "allow", as
	// [HostName]; they imply that mode. At most 16.
	HostPorts []Port `json:"host_ports,omitempty"`
	// Publish are ports of the sandbox that the host listens for, whatever the mode: "3000"
	// (at any free port of the host), "8080:3000", "127.0.0.1:8080:3000", or [PublishAny]. At
	// most 64.
	Publish []string `json:"publish,omitempty"`
}

// NetworkRule opens ports of hosts.
type NetworkRule struct {
	// Host is a name ("api.example.com"), all names below one ("*.example.com", which is
	// never "example.com" itself), all public names ("**"), or an IPv4 address or network
	// in CIDR notation. Only an address that a rule names can be private or the host's.
	Host string `json:"host"`
	// Ports are TCP ports. Default: 443 and 80, or 443 alone with HTTP or Secret.
	Ports []Port `json:"ports,omitempty"`
	// HTTP are the requests that may be sent. Default: every one.
	HTTP []HTTPRule `json:"http,omitempty"`
	// Secret is what requests get outside of the sandbox.
	Secret *NetworkSecret `json:"secret,omitempty"`
}

// NetworkDenial closes hosts that a rule of [Network].Allow would open.
type NetworkDenial struct {
	// Host is as in [NetworkRule].
	Host string `json:"host"`
	// Reason is told to commands and models: "not needed: set DO_NOT_TRACK=1".
	Reason string `json:"reason,omitempty"`
}

// NetworkLimits are the limits of mode "allow".
type NetworkLimits struct {
	// Connections is how many may be open at once. Default: 256. At most 4096.
	Connections uint64 `json:"connections,omitempty"`
	// BytesOut bounds what all connections of the sandbox together send. Default: no bound.
	BytesOut Size `json:"bytes_out,omitempty"`
}

// Port is a TCP port, from 1 to 65535.
type Port uint64

const (
	// DefaultConnections is the default of [NetworkLimits].Connections.
	DefaultConnections = 256
	maxConnections     = 4096
	maxNetworkRules    = 1024
	// MaxNetworkPorts is how many different ports the rules of one sandbox can have.
	MaxNetworkPorts = 60
	maxReason       = 256 // bytes
	// maxRefused bounds how many rules of one list are refused by name.
	maxRefused = 16
)

// The values of [IsolationEgress].How.
const (
	EgressGateway = "gateway"
	EgressInside  = "inside"
)

// NetworkNames are the addresses that stand for names inside, where the network is "allow".
// No rule can name one.
var NetworkNames = netip.MustParsePrefix("198.18.0.0/15")

// ByName reports whether commands reach hosts by name in a mode, by rules.
func ByName(mode string) bool { return mode == NetworkAllow || mode == NetworkObserve }

// ObservedPorts are the ports at which mode "observe" opens every public name.
func ObservedPorts() []Port { return []Port{443, 80, 22} }

// DefaultPorts are the ports of a rule that names none, and that has neither HTTP nor Secret.
func DefaultPorts() []Port { return []Port{443, 80} }

// defaultPorts are the ports of this rule if it names none.
func (n NetworkRule) defaultPorts() []Port {
	if n.Intercepts() {
		return []Port{443}
	}
	return DefaultPorts()
}

// plainNetwork is a Network without its methods.
type plainNetwork Network

// MarshalJSON writes a network that is a mode alone as its word.
func (n Network) MarshalJSON() ([]byte, error) {
	if len(n.Allow)+len(n.Deny)+len(n.HostPorts)+len(n.Publish) == 0 && n.Limits == (NetworkLimits{}) {
		return json.Marshal(n.Mode)
	}
	return json.Marshal(plainNetwork(n))
}

// UnmarshalJSON reads a word or an object, and refuses unknown keys.
func (n *Network) UnmarshalJSON(data []byte) error {
	*n = Network{}
	if len(data) > 0 && data[0] == '"' {
		return json.Unmarshal(data, &n.Mode)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	return dec.Decode((*plainNetwork)(n))
}

// IsZero reports whether nothing is written.
func (n Network) IsZero() bool {
	return n.Mode == "" && n.Allow == nil && n.Deny == nil && n.HostPorts == nil && n.Publish == nil && n.Limits == (NetworkLimits{})
}

// Asked returns the mode that is written or, if none is, the one that rules imply; "" for
// neither.
func (n Network) Asked() string {
	if n.Mode == "" && len(n.Allow)+len(n.Deny)+len(n.HostPorts) > 0 {
		return NetworkAllow
	}
	return n.Mode
}

// Clone returns a copy that shares nothing with n.
func (n Network) Clone() Network {
	n.Allow, n.Deny = slices.Clone(n.Allow), slices.Clone(n.Deny)
	n.HostPorts, n.Publish = slices.Clone(n.HostPorts), slices.Clone(n.Publish)
	for i := range n.Allow {
		rule := &n.Allow[i]
		rule.Ports = slices.Clone(rule.Ports)
		rule.HTTP = slices.Clone(rule.HTTP)
		for j := range rule.HTTP {
			h := &rule.HTTP[j]
			h.Methods, h.Paths = slices.Clone(h.Methods), slices.Clone(h.Paths)
		}
		if rule.Secret != nil {
			own := *rule.Secret
			rule.Secret = &own
		}
	}
	return n
}

// Resolve returns a network of mode "allow" with its defaults, as [Spec.Resolve] does, for a
// sandbox that runs: its secrets have been read, and need no source. The error joins one
// [*FieldError] for each field that cannot be used.
func (n Network) Resolve() (Network, error) {
	r := resolver{}
	n = n.Clone()
	if n.Mode == "" {
		n.Mode = NetworkAllow
	}
	if len(n.Publish) > 0 {
		r.refuse("network.publish", n.Publish[0], "rules are replaced, and publish no ports", "leave it out: ports are published with paddock forward")
	}
	if n.Mode == NetworkAllow {
		r.rules(&n, false)
	} else {
		r.refuse("network.mode", n.Mode, `it must be "allow": the rules of a sandbox can change, and its mode cannot`, "")
	}
	return n, errors.Join(r.errs...)
}

// Egress returns what isolation says about a network of mode "allow" that is kept in the way
// of [IsolationEgress].How.
func (n Network) Egress(how string) *IsolationEgress {
	e := &IsolationEgress{How: how, Allow: []string{}}
	for _, rule := range n.Allow {
		e.Allow = append(e.Allow, rule.String())
		if rule.Intercepts() {
			e.Intercepted = append(e.Intercepted, rule.String())
		}
		if s := rule.Secret; s != nil {
			e.Injected = append(e.Injected, rule.String()+" "+s.Header+" "+s.Name)
		}
	}
	for _, port := range n.HostPorts {
		e.Allow = append(e.Allow, HostName+":"+strconv.FormatUint(uint64(port), 10))
	}
	for _, deny := range n.Deny {
		e.Deny = append(e.Deny, deny.Host)
	}
	return e
}

// ParseNetworkRule reads HOST or HOST:PORT[,PORT…], the short form of flags, and checks it as
// [Spec.Resolve] does. The error is a [*FieldError] whose field is "network.allow".
func ParseNetworkRule(text string) (NetworkRule, error) {
	refuse := func(reason, hint string) (NetworkRule, error) {
		return NetworkRule{}, &FieldError{Field: "network.allow", Value: text, Reason: reason, Hint: hint}
	}
	rule, host := NetworkRule{}, text
	if i := strings.LastIndexByte(text, ':'); i >= 0 && strings.Trim(text[i+1:], "0123456789,") == "" && strings.Count(text, ":") == 1 {
		host = text[:i]
		for word := range strings.SplitSeq(text[i+1:], ",") {
			n, err := strconv.ParseUint(word, 10, 16)
			if err != nil || n == 0 {
				return refuse("a port must be a number from 1 to 65535", "write "+ShellWord(host+":443")+", or the host alone for ports 443 and 80")
			}
			rule.Ports = append(rule.Ports, Port(n))
		}
	}
	if v6, _, closed := strings.Cut(strings.TrimPrefix(text, "["), "]"); closed && strings.Contains(v6, ":") && IsAddress(v6) {
		host = v6
	}
	canonical, reason, hint := CanonicalHost(host)
	switch {
	case reason != "" && strings.ContainsAny(text, ", "):
		return refuse("it is several", "name each by itself, with `network.allow` again for each")
	case reason != "" && strings.Contains(host, ":") && !strings.Contains(host, "://") && !strings.Contains(reason, "IPv6"):
		return refuse("it is not HOST or HOST:PORT[,PORT]", "a port is a number from 1 to 65535")
	case reason != "":
		return refuse(reason, hint)
	}
	rule.Host = canonical
	return rule, nil
}

// String returns the short form of a rule, without default ports.
func (n NetworkRule) String() string {
	if len(n.Ports) == 0 || slices.Equal(n.Ports, DefaultPorts()) {
		return n.Host
	}
	words := make([]string, len(n.Ports))
	for i, p := range n.Ports {
		words[i] = strconv.FormatUint(uint64(p), 10)
	}
	return n.Host + ":" + strings.Join(words, ",")
}

// CanonicalHost returns the form in which the host of a rule is compared: lower case,
// without a trailing dot; a network without host bits. reason says why it is invalid.
func CanonicalHost(host string) (canonical, reason, hint string) {
	name := strings.ToLower(strings.TrimSuffix(host, "."))
	switch {
	case host == "":
		return "", "it is empty", `name a host, such as "api.example.com"`
	case name == "**":
		return name, "", ""
	case strings.Contains(name, "://"):
		_, rest, _ := strings.Cut(host, "://")
		rest = rest[:cmp.Or(strings.IndexAny(rest, "/?#")+1, len(rest)+1)-1]
		return "", "it is a URL", "name the host alone: " + ShellWord(rest[strings.LastIndexByte(rest, '@')+1:])
	}
	if network, ok := hostNetwork(name); ok {
		reason, hint := checkNetwork(network)
		switch {
		case reason != "":
			return "", reason, hint
		case strings.Contains(name, "/"):
			return network.String(), "", ""
		}
		return network.Addr().String(), "", ""
	}
	if strings.Contains(name, "/") {
		return "", "it is neither a host name nor a network in CIDR notation", "a network is written as 10.0.0.0/8"
	}
	reason, hint = checkName(strings.TrimPrefix(name, "*."))
	if reason != "" {
		return "", reason, hint
	}
	return name, "", ""
}

// checkNetwork returns why no rule can name addresses.
func checkNetwork(network netip.Prefix) (reason, hint string) {
	const names = "name hosts: commands reach them by name, whatever address they have"
	first := network.Addr()
	covers := func(of string) bool {
		p := netip.MustParsePrefix(of)
		return p.Bits() <= network.Bits() && p.Contains(first)
	}
	switch {
	case !first.Is4():
		return "IPv6 addresses cannot be named", names
	case covers("127.0.0.0/8"), network.Bits() == 32 && first.IsUnspecified():
		return "this is the sandbox's own loopback", "a service inside can be reached without a rule, and `network.host_ports` opens a port of the host's"
	case covers("224.0.0.0/3"):
		return "there are no hosts at multicast and reserved addresses", ""
	case covers(NetworkNames.String()):
		return "inside, addresses of " + NetworkNames.String() + " stand for names", names
	}
	return "", ""
}

// checkName returns why a name, in lower case and without a wildcard before it, cannot be one.
func checkName(name string) (reason, hint string) {
	before, port, _ := strings.Cut(name, ":")
	switch {
	case strings.Contains(name, "*"):
		return `"*" can only be the whole first label`, `"*.example.com" is every name below example.com, and "**" every public name`
	case name == HostName:
		return "this is the host's own loopback", "open a port of it with `network.host_ports`"
	case name == "localhost" || strings.HasSuffix(name, ".localhost"):
		return "this is the sandbox's own loopback", "a service inside can be reached without a rule, and `network.host_ports` opens a port of the host's"
	case before != "" && port != "" && strings.Trim(port, "0123456789,") == "":
		return "it has a port", "name the host alone: " + ShellWord(before)
	case len(name) > 253:
		return "it is longer than 253 bytes", ""
	}
	number := false // the last label
	for label := range strings.SplitSeq(name, ".") {
		number = label != "" && strings.Trim(label, "0123456789") == "" || strings.HasPrefix(label, "0x")
		switch {
		case label == "":
			return "a part between dots is empty", ""
		case len(label) > 63:
			return "a part between dots is longer than 63 bytes", ""
		case strings.ContainsFunc(label, func(c rune) bool { return c > unicode.MaxASCII }):
			return "a host name is ASCII", "write it in its encoded form, xn--…"
		case strings.ContainsFunc(label, func(c rune) bool { return !isLetterOrDigit(c) && c != '-' && c != '_' }):
			return "a host name is letters, digits, hyphens, underscores and dots", ""
		}
	}
	if number {
		return "it is not an IPv4 address", "write four decimal numbers: 192.0.2.1"
	}
	return "", ""
}

// network fills in the mode that the rules or the backend give by default, and checks the
// rules.
func (r *resolver) network(s *Spec) {
	n := &s.Network
	if n.Mode == "" && n.Allow != nil && len(n.Allow) == 0 {
		r.refuse("network.allow", "", "it is empty, and opens nothing", "name a host, or use `network` none")
	}
	if n.Mode = n.Asked(); n.Mode == "" && s.SSHAgent != nil && r.keeps("ssh_agent") {
		n.Mode = NetworkAllow
	}
	switch engine := s.Docker != nil && s.Docker.NetworkEnabled; {
	case n.Mode != "" && engine && s.Backend == BackendDocker:
		r.refuse("docker.network_enabled", "true", "network says something else: "+quoteShort(n.Mode), "leave one of the two out")
	case n.Mode != "":
		before := len(r.errs)
		choose(r, "network", &n.Mode, NetworkNone, NetworkAllow, NetworkObserve, NetworkHost)
		if rule, err := ParseNetworkRule(n.Mode); len(r.errs) > before && err == nil && strings.ContainsAny(rule.Host, ".*") {
			FieldErrors(r.errs[before])[0].Hint = "`network.allow` " + ShellWord(n.Mode) + " opens one host"
		}
	default:
		n.Mode = defaultNetwork(*s)
	}
	n.Publish = r.publish("network.publish", n.Publish)
	if reason, hint := s.Deaf(); reason != "" && len(n.Publish) > 0 {
		r.refuse("network.publish", n.Publish[0], reason, hint)
	}
	if !ByName(n.Mode) {
		r.noRules(*n)
		n.Allow, n.Deny, n.HostPorts = nil, nil, nil
		return
	}
	if s.Level == LevelLandlock {
		field, value, without := "network", n.Mode, "`network` none"
		if n.Mode == NetworkAllow && len(n.Allow) > 0 { // which alone says the mode
			field, value, without = index("network.allow", 0), n.Allow[0].Host, "leave `network.allow` out"
		}
		r.refuse(field, value, "the landlock level can restrict ports, not names", "use `level` full, or "+without)
	}
	*n = n.Clone()
	if all := (NetworkRule{Host: "**", Ports: ObservedPorts()}); n.Mode == NetworkObserve && !slices.ContainsFunc(n.Allow, func(rule NetworkRule) bool { return rule.contains(all) }) {
		n.Allow = append(n.Allow, all)
	}
	r.rules(n, true)
	for _, secret := range n.Secrets() {
		if _, set := s.Env[secret.Name]; set && secret.Substitute {
			r.refuse(FieldPath("env", secret.Name), "", "it is the variable of a secret, which has a stand-in for it", "leave one of the two out")
		}
	}
}

// noRules refuses rules of a mode that uses none.
func (r *resolver) noRules(n Network) {
	const hint = "use `network` allow, or leave them out"
	for _, list := range []struct {
		field   string
		written bool
	}{{"network.allow", len(n.Allow) > 0}, {"network.deny", len(n.Deny) > 0}, {"network.limits", n.Limits != (NetworkLimits{})}, {"network.host_ports", len(n.HostPorts) > 0}} {
		if list.written {
			r.refuse(list.field, "", "network "+cmp.Or(n.Mode, "of this backend")+" uses no rules", hint)
		}
	}
}

// rules checks the rules of mode "allow", and fills in their defaults in place. sources says
// whether secrets need one.
func (r *resolver) rules(n *Network, sources bool) {
	r.networkRules("network.allow", n.Allow, sources)
	n.HostPorts = r.hostPorts("network.host_ports", n.HostPorts)
	ports := map[Port]bool{}
	for _, port := range n.HostPorts {
		ports[port] = true
	}
	for _, rule := range n.Allow {
		for _, port := range rule.Ports {
			ports[port] = true
		}
	}
	if len(ports) > MaxNetworkPorts {
		r.refuse("network.allow", "", "the rules name more than "+strconv.Itoa(MaxNetworkPorts)+" different ports", "each needs a socket of its own: name fewer")
	}
	if len(n.Deny) > 0 && len(n.Allow)+len(n.HostPorts) == 0 {
		r.refuse("network.deny", "", "no rule opens what it would close", "open hosts with `network.allow`, or leave it out")
	}
	r.each("network.deny", len(n.Deny), func(i int, field string) {
		deny := &n.Deny[i]
		deny.Host = r.host(field+".host", deny.Host)
		if len(deny.Reason) > maxReason || !utf8.ValidString(deny.Reason) || strings.ContainsFunc(deny.Reason, func(c rune) bool { return !unicode.IsPrint(c) }) {
			r.refuse(field+".reason", deny.Reason, "it must be one line of at most 256 bytes that can be printed", "")
		}
	})
	if len(n.Allow) == 0 {
		n.Allow = nil
	}
	if len(n.Deny) == 0 {
		n.Deny = nil
	}
	if n.Limits.Connections == 0 {
		n.Limits.Connections = DefaultConnections
	}
	if n.Limits.Connections > maxConnections {
		r.refuse("network.limits.connections", strconv.FormatUint(n.Limits.Connections, 10), "it must be at most "+strconv.Itoa(maxConnections), "")
	}
	if n.Limits.BytesOut < 0 {
		r.refuse("network.limits.bytes_out", "", "it must not be negative", "")
	}
}

// each calls check for every entry of a list, until too many are refused or if there are too
// many of them.
func (r *resolver) each(field string, n int, check func(i int, field string)) {
	if n > maxNetworkRules {
		r.refuse(field, "", "it has more than "+strconv.Itoa(maxNetworkRules)+" entries", `"*.example.com" is every name below example.com`)
		return
	}
	most := len(r.errs) + maxRefused
	for i := range n {
		if len(r.errs) >= most {
			r.refuse(field, "", "there may be more that cannot be used: this is the rest from number "+strconv.Itoa(i+1), "")
			return
		}
		check(i, index(field, i))
	}
}

// networkRules checks rules, and fills in their defaults in place.
func (r *resolver) networkRules(field string, rules []NetworkRule, sources bool) {
	before := len(r.errs)
	r.each(field, len(rules), func(i int, at string) {
		rule := &rules[i]
		rule.Host = r.host(at+".host", rule.Host)
		if rule.HTTP != nil && len(rule.HTTP) == 0 {
			r.refuse(at+".http", "", "it is empty, and would let no request through", "leave it out; {} is every request")
		}
		var ports []Port // each once, in their order
		for j, port := range rule.Ports {
			if port < 1 || port > 65535 {
				r.refuse(index(at+".ports", j), strconv.FormatUint(uint64(port), 10), "a port must be from 1 to 65535", "")
				return
			}
			if !slices.Contains(ports, port) {
				ports = append(ports, port)
			}
		}
		if rule.Ports = ports; len(ports) == 0 {
			rule.Ports = rule.defaultPorts()
		}
	})
	if len(r.errs) == before {
		r.intercepted(field, rules, sources)
	}
}

// contains reports whether a rule of a ceiling opens all that a rule opens, whose host is
// canonical.
func (n NetworkRule) contains(rule NetworkRule) bool {
	ports, asked := n.Ports, rule.Ports
	if len(ports) == 0 {
		ports = n.defaultPorts()
	}
	if len(asked) == 0 {
		asked = rule.defaultPorts()
	}
	for _, port := range asked {
		if !slices.Contains(ports, port) {
			return false
		}
	}
	host, reason, _ := CanonicalHost(n.Host)
	if n.Host = host; reason != "" || !n.containsRequests(rule) {
		return false
	}
	if most, ok := hostNetwork(host); ok {
		network, ok := hostNetwork(rule.Host)
		return ok && most.Bits() <= network.Bits() && most.Contains(network.Addr())
	}
	if _, address := hostNetwork(rule.Host); address {
		return false
	}
	below, wild := strings.CutPrefix(host, "*.")
	// "**" matches no name without a dot, which means whatever it means on the host.
	return host == rule.Host || host == "**" && strings.Contains(rule.Host, ".") || wild && strings.HasSuffix(rule.Host, "."+below)
}

// opensName reports whether a rule, whose host is canonical, is about a name.
func (n NetworkRule) opensName(name string) bool {
	below, wild := strings.CutPrefix(n.Host, "*.")
	return n.Host == name || n.Host == "**" || wild && strings.HasSuffix(name, "."+below)
}

// sharesPort reports whether two rules have a port in common.
func (n NetworkRule) sharesPort(other NetworkRule) bool {
	ports, others := n.Ports, other.Ports
	if len(ports) == 0 {
		ports = n.defaultPorts()
	}
	if len(others) == 0 {
		others = other.defaultPorts()
	}
	return slices.ContainsFunc(ports, func(p Port) bool { return slices.Contains(others, p) })
}

// IsAddress reports whether a host in its canonical form is an address or a network instead of
// a name.
func IsAddress(host string) bool {
	_, ok := hostNetwork(host)
	return ok
}

// hostNetwork returns the addresses that a host names, unless it is a name.
func hostNetwork(host string) (netip.Prefix, bool) {
	if address, err := netip.ParseAddr(host); err == nil {
		return netip.PrefixFrom(address.WithZone(""), address.BitLen()), true
	}
	network, err := netip.ParsePrefix(host)
	return network.Masked(), err == nil
}

// allowedHint says what a ceiling opens.
func allowedHint(rules []NetworkRule) string {
	if len(rules) == 0 {
		return "no host may be asked for"
	}
	var words []string
	for _, rule := range rules[:min(len(rules), 10)] {
		words = append(words, rule.String())
	}
	if more := len(rules) - len(words); more > 0 {
		words = append(words, strconv.Itoa(more)+" more")
	}
	return "what may be asked for: " + strings.Join(words, ", ")
}

// host returns the canonical form of a rule's host.
func (r *resolver) host(field, host string) string {
	canonical, reason, hint := CanonicalHost(host)
	if reason != "" {
		r.refuse(field, host, reason, hint)
		return host
	}
	return canonical
}
