package policy

import (
	"encoding/json"
	"errors"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// The modes of a network.
const (
	NetworkNone  = "none"
	NetworkAllow = "allow"
	NetworkHost  = "host"
)

// Network is what commands can reach. In a spec it can be the mode alone: "none".
type Network struct {
	// Mode is "none" (default: loopback only), "allow" (the hosts of Allow by name, and
	// nothing else; the default if Allow is not empty) or "host" (the host's own network,
	// with everything that listens there).
	Mode string `json:"mode,omitempty" scalar:"ok"`
	// Allow are the hosts that mode "allow" opens, at most 1024.
	Allow []NetworkRule `json:"allow,omitempty"`
	// Deny are exceptions, which win over Allow, at most 1024.
	Deny []NetworkDenial `json:"deny,omitempty"`
	// Limits bound mode "allow".
	Limits NetworkLimits `json:"limits,omitzero"`
}

// NetworkRule opens ports of hosts.
type NetworkRule struct {
	// Host is a name ("api.example.com"), all names below one ("*.example.com", which is
	// never "example.com" itself), all public names ("**"), or an IPv4 address or network
	// in CIDR notation. Only an address that a rule names can be private or the host's.
	Host string `json:"host"`
	// Ports are TCP ports. Default: 443 and 80.
	Ports []Port `json:"ports,omitempty"`
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
)

// DefaultPorts are the ports of a rule that names none.
func DefaultPorts() []Port { return []Port{443, 80} }

// plainNetwork is a Network without its methods.
type plainNetwork Network

// MarshalJSON writes a network that is a mode alone as its word.
func (n Network) MarshalJSON() ([]byte, error) {
	if len(n.Allow) == 0 && len(n.Deny) == 0 && n.Limits == (NetworkLimits{}) {
		return json.Marshal(n.Mode)
	}
	return json.Marshal(plainNetwork(n))
}

// UnmarshalJSON reads a word or an object.
func (n *Network) UnmarshalJSON(data []byte) error {
	*n = Network{}
	if len(data) > 0 && data[0] == '"' {
		return json.Unmarshal(data, &n.Mode)
	}
	return json.Unmarshal(data, (*plainNetwork)(n))
}

// IsZero reports whether nothing is written.
func (n Network) IsZero() bool {
	return n.Mode == "" && len(n.Allow) == 0 && len(n.Deny) == 0 && n.Limits == (NetworkLimits{})
}

// ParseNetworkRule reads HOST or HOST:PORT[,PORT…], the short form of flags.
func ParseNetworkRule(text string) (NetworkRule, error) {
	host, list, found := strings.Cut(text, ":")
	rule := NetworkRule{Host: host}
	if !found {
		return rule, nil
	}
	if strings.Contains(list, ":") {
		return rule, errors.New("it is not HOST or HOST:PORT; IPv6 addresses cannot be named: commands reach hosts by name")
	}
	for word := range strings.SplitSeq(list, ",") {
		n, err := strconv.ParseUint(word, 10, 16)
		if err != nil || n == 0 {
			return rule, errors.New("a port must be a number from 1 to 65535: write " + ShellWord(host+":443"))
		}
		rule.Ports = append(rule.Ports, Port(n))
	}
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
	case strings.Contains(name, "/"):
		if _, rest, ok := strings.Cut(name, "://"); ok {
			rest, _, _ = strings.Cut(rest, "/")
			return "", "it is a URL", "name the host alone: " + ShellWord(rest)
		}
		network, err := netip.ParsePrefix(name)
		switch {
		case err != nil:
			return "", "it is neither a host name nor a network in CIDR notation", "a network is written as 10.0.0.0/8"
		case !network.Addr().Is4():
			return "", "IPv6 networks cannot be named", "name hosts: commands reach them by name, whatever address they have"
		}
		return network.Masked().String(), "", ""
	}
	if address, err := netip.ParseAddr(name); err == nil {
		if !address.Is4() {
			return "", "IPv6 addresses cannot be named", "name the host: commands reach it by name, whatever address it has"
		}
		return name, "", ""
	}
	labels := strings.TrimPrefix(name, "*.")
	switch {
	case strings.Contains(labels, "*"):
		return "", `"*" can only be the whole first label`, `"*.example.com" is every name below example.com, and "**" every public name`
	case labels == "localhost" || strings.HasSuffix(labels, ".localhost"):
		return "", "this name is the sandbox's own loopback", ""
	case len(labels) > 253:
		return "", "it is longer than 253 bytes", ""
	}
	numeric := false // the last label
	for label := range strings.SplitSeq(labels, ".") {
		numeric = label != "" && strings.Trim(label, "0123456789") == "" || strings.HasPrefix(label, "0x")
		switch {
		case label == "":
			return "", "a part between dots is empty", ""
		case len(label) > 63:
			return "", "a part between dots is longer than 63 bytes", ""
		case strings.ContainsFunc(label, func(c rune) bool { return !isLetterOrDigit(c) && c != '-' && c != '_' }):
			if strings.ContainsFunc(label, func(c rune) bool { return c > 127 }) {
				return "", "a host name is ASCII", "write it in its encoded form, xn--…"
			}
			return "", "a host name is letters, digits, hyphens, underscores and dots", ""
		}
	}
	if numeric {
		return "", "it is not an IPv4 address", "write four decimal numbers: 192.0.2.1"
	}
	return name, "", ""
}

// network fills in the mode that the rules or the backend give by default, and checks the
// rules.
func (r *resolver) network(s *Spec) {
	n := &s.Network
	if n.Mode == "" && len(n.Allow) > 0 {
		n.Mode = NetworkAllow
	}
	switch engine := s.Docker != nil && s.Docker.NetworkEnabled; {
	case n.Mode != "" && engine && s.Backend == BackendDocker:
		r.refuse("docker.network_enabled", "true", "network says something else: "+quoteShort(n.Mode), "leave one of the two out")
	case n.Mode != "":
		choose(r, "network", &n.Mode, NetworkNone, NetworkAllow, NetworkHost)
	default:
		n.Mode = defaultNetwork(*s)
	}
	if n.Mode != NetworkAllow {
		n.refuseRules(r)
		return
	}
	if s.Level == LevelLandlock {
		r.refuse("network", n.Mode, "the landlock level can restrict ports, and no names", "use `level` full, or `network` none")
	}
	n.Allow, n.Deny = slices.Clone(n.Allow), slices.Clone(n.Deny)
	r.networkRules("network.allow", n.Allow)
	if len(n.Deny) > maxNetworkRules {
		r.refuse("network.deny", "", "there are more rules than 1024", "")
		return
	}
	for i := range n.Deny {
		deny := &n.Deny[i]
		deny.Host = r.host(index("network.deny", i)+".host", deny.Host)
		if len(deny.Reason) > maxReason || strings.ContainsFunc(deny.Reason, func(c rune) bool { return c < ' ' || c == 127 }) {
			r.refuse(index("network.deny", i)+".reason", "", "it must be one line of at most 256 bytes", "")
		}
	}
	if n.Limits.Connections == 0 {
		n.Limits.Connections = DefaultConnections
	}
	if n.Limits.Connections > maxConnections {
		r.refuse("network.limits.connections", strconv.FormatUint(n.Limits.Connections, 10), "it must be at most 4096", "")
	}
	if n.Limits.BytesOut < 0 {
		r.refuse("network.limits.bytes_out", "", "it must not be negative", "")
	}
}

// networkRules checks rules, and fills in their defaults in place.
func (r *resolver) networkRules(field string, rules []NetworkRule) {
	if len(rules) > maxNetworkRules {
		r.refuse(field, "", "there are more rules than 1024", `"*.example.com" is every name below example.com`)
		return
	}
	ports := map[Port]bool{}
	for i := range rules {
		rule := &rules[i]
		rule.Host = r.host(index(field, i)+".host", rule.Host)
		if len(rule.Ports) == 0 {
			rule.Ports = DefaultPorts()
		}
		for j, port := range rule.Ports {
			if port < 1 || port > 65535 {
				r.refuse(index(index(field, i)+".ports", j), strconv.FormatUint(uint64(port), 10), "a port must be from 1 to 65535", "")
			}
			ports[port] = true
		}
	}
	if len(ports) > MaxNetworkPorts {
		r.refuse(field, "", "the rules name more than "+strconv.Itoa(MaxNetworkPorts)+" different ports", "")
	}
}

// contains reports whether a rule of a ceiling opens all that a rule opens, whose host is
// canonical.
func (n NetworkRule) contains(rule NetworkRule) bool {
	ports, asked := n.Ports, rule.Ports
	if len(ports) == 0 {
		ports = DefaultPorts()
	}
	if len(asked) == 0 {
		asked = DefaultPorts()
	}
	for _, port := range asked {
		if !slices.Contains(ports, port) {
			return false
		}
	}
	host, reason, _ := CanonicalHost(n.Host)
	if reason != "" {
		return false
	}
	if most, ok := hostNetwork(host); ok {
		network, ok := hostNetwork(rule.Host)
		return ok && most.Bits() <= network.Bits() && most.Contains(network.Addr())
	}
	if _, address := hostNetwork(rule.Host); address {
		return false
	}
	below, wild := strings.CutPrefix(host, "*")
	return host == rule.Host || host == "**" || wild && strings.HasSuffix(rule.Host, below) && rule.Host != "**"
}

// hostNetwork returns the addresses that a canonical host names, unless it is a name.
func hostNetwork(host string) (netip.Prefix, bool) {
	if address, err := netip.ParseAddr(host); err == nil {
		return netip.PrefixFrom(address, address.BitLen()), true
	}
	network, err := netip.ParsePrefix(host)
	return network, err == nil
}

// allowedHint says what a ceiling opens.
func allowedHint(rules []NetworkRule) string {
	if len(rules) == 0 {
		return "it opens no host"
	}
	words := make([]string, len(rules))
	for i, rule := range rules {
		words[i] = rule.String()
	}
	return "it opens " + strings.Join(words[:min(len(words), 16)], " ")
}

// refuseRules refuses rules that the mode does not use.
func (n *Network) refuseRules(r *resolver) {
	const hint = "leave the mode out, or use `network` allow"
	for _, list := range []struct {
		field   string
		written bool
	}{{"network.allow", len(n.Allow) > 0}, {"network.deny", len(n.Deny) > 0}, {"network.limits", n.Limits != (NetworkLimits{})}} {
		if list.written {
			r.refuse(list.field, "", "network "+n.Mode+" uses no rules", hint)
		}
	}
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
