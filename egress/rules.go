package egress

import (
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/paddock-dev/paddock/policy"
)

// Table answers what rules open. It never changes: new rules are a new table.
type Table struct {
	network policy.Network
	ports   []uint16
	// open and closed have names as they are written in rules: "api.example.com",
	// "*.example.com", "**".
	open   map[string][]uint16
	closed map[string]string // reasons
	// intercept are the rules of open that intercept.
	intercept map[hostPort]*policy.NetworkRule
	// Addresses and networks are compared one by one: they are few.
	openAddresses   []addressRule
	closedAddresses []addressRule
}

type hostPort struct {
	host string
	port uint16
}

// addressRule is a rule or a denial whose host is an address or a network.
type addressRule struct {
	network netip.Prefix
	host    string
	ports   []uint16
	reason  string
}

// Decision says whether a connection is open.
type Decision struct {
	Open bool
	// Rule is the host of the rule or the denial that decided. It is empty if no rule is
	// about the host.
	Rule string
	// Reason says why it is not open.
	Reason string
	// Intercept is the rule if TLS ends in the egress process, else nil.
	Intercept *policy.NetworkRule
}

// Check returns an error unless the fields of network are canonical, as a resolved policy has
// them. Other rules would open what nobody meant, or close nothing.
func Check(network policy.Network) error {
	const most = 1024
	if !policy.ByName(network.Mode) {
		return fmt.Errorf("invalid mode %q: it must be %q", network.Mode, policy.NetworkAllow)
	}
	if len(network.Allow) > most || len(network.Deny) > most {
		return errors.New("there are more rules than 1024")
	}
	for i, rule := range network.Allow {
		if err := checkHost(rule.Host); err != nil {
			return fmt.Errorf("allow[%d].host: %w", i, err)
		}
		if rule.HTTP != nil && len(rule.HTTP) == 0 {
			return fmt.Errorf("allow[%d].http: it is empty", i)
		}
		for j, port := range rule.Ports {
			if port < 1 || port > 65535 {
				return fmt.Errorf("allow[%d].ports[%d]: a port must be from 1 to 65535", i, j)
			}
		}
	}
	if len(network.HostPorts) > most {
		return errors.New("there are more ports of the host than 1024")
	}
	for i, port := range network.HostPorts {
		if port < 1 || port > 65535 {
			return fmt.Errorf("host_ports[%d]: a port must be from 1 to 65535", i)
		}
	}
	for i, denial := range network.Deny {
		if err := checkHost(denial.Host); err != nil {
			return fmt.Errorf("deny[%d].host: %w", i, err)
		}
	}
	if network.Limits.BytesOut < 0 {
		return errors.New("limits.bytes_out: it must not be negative")
	}
	if !network.Intercepts() {
		return nil
	}
	resolved, err := network.Resolve()
	if err != nil {
		return err
	}
	for i, rule := range network.Allow {
		if rule.Intercepts() && !reflect.DeepEqual(rule, resolved.Allow[i]) {
			return fmt.Errorf("allow[%d]: it is not as a resolved policy has it", i)
		}
	}
	return nil
}

// checkHost refuses a host that is not canonical. Which addresses make sense in a rule is for
// those who write rules: one that no connection has opens nothing.
func checkHost(host string) error {
	if address, err := netip.ParseAddr(host); err == nil && address.Is4() {
		return nil
	}
	canonical, reason, _ := policy.CanonicalHost(host)
	if reason != "" {
		return fmt.Errorf("invalid host %q: %s", host, reason)
	}
	if canonical != host {
		return fmt.Errorf("invalid host %q: it must be written as %q", host, canonical)
	}
	return nil
}

// NewTable returns the table of rules that pass [Check].
func NewTable(network policy.Network) *Table {
	t := &Table{network: network, open: map[string][]uint16{}, closed: map[string]string{}, intercept: map[hostPort]*policy.NetworkRule{}}
	for i, rule := range network.Allow {
		written := rule.Ports
		if len(written) == 0 {
			written = policy.DefaultPorts()
		}
		var ports []uint16
		for _, port := range written {
			ports = append(ports, uint16(port))
		}
		t.ports = append(t.ports, ports...)
		if addresses, ok := hostAddresses(rule.Host); ok {
			t.openAddresses = append(t.openAddresses, addressRule{network: addresses, host: rule.Host, ports: ports})
		} else {
			t.open[rule.Host] = append(t.open[rule.Host], ports...)
			for _, port := range ports {
				if rule.Intercepts() {
					t.intercept[hostPort{rule.Host, port}] = &network.Allow[i]
				}
			}
		}
	}
	for _, port := range network.HostPorts {
		t.open[policy.HostName] = append(t.open[policy.HostName], uint16(port))
		t.ports = append(t.ports, uint16(port))
	}
	slices.Sort(t.ports)
	t.ports = slices.Compact(t.ports)
	for _, denial := range network.Deny {
		reason := denial.Reason
		if reason == "" {
			reason = "it is denied"
		}
		if addresses, ok := hostAddresses(denial.Host); ok {
			t.closedAddresses = append(t.closedAddresses, addressRule{network: addresses, host: denial.Host, reason: reason})
		} else if _, ok := t.closed[denial.Host]; !ok {
			t.closed[denial.Host] = reason
		}
	}
	return t
}

// hostAddresses returns the addresses that the host of a rule names, unless it is a name.
func hostAddresses(host string) (netip.Prefix, bool) {
	if address, err := netip.ParseAddr(host); err == nil {
		return netip.PrefixFrom(address, address.BitLen()), true
	}
	network, err := netip.ParsePrefix(host)
	return network, err == nil
}

// Network returns the rules of the table.
func (t *Table) Network() policy.Network { return t.network }

// Ports returns the ports that any rule opens, in order.
func (t *Table) Ports() []uint16 { return slices.Clone(t.ports) }

// Known decides whether a name may be asked for: a rule opens a port of it. The name must be
// canonical, as [CanonicalName] returns it.
func (t *Table) Known(name string) Decision {
	if d, ok := t.denied(name); ok {
		return d
	}
	for rule := range openers(name) {
		if _, ok := t.open[rule]; ok {
			return Decision{Open: true, Rule: rule}
		}
	}
	return Decision{Reason: "no rule opens it"}
}

// Name decides about a connection to a name, which must be canonical.
func (t *Table) Name(name string, port uint16) Decision {
	if d, ok := t.denied(name); ok {
		return d
	}
	closed := Decision{Reason: "no rule opens it"}
	for rule := range openers(name) {
		ports, ok := t.open[rule]
		if ok && slices.Contains(ports, port) {
			return Decision{Open: true, Rule: rule, Intercept: t.intercept[hostPort{rule, port}]}
		}
		if ok && closed.Rule == "" {
			closed = closedPort(rule, port)
		}
	}
	return closed
}

// Intercepted returns the names of all hosts whose connections are intercepted, each once and
// in order.
func (t *Table) Intercepted() []string {
	var names []string
	for at := range t.intercept {
		names = append(names, at.host)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func closedPort(rule string, port uint16) Decision {
	return Decision{Rule: rule, Reason: "no rule opens its port " + strconv.Itoa(int(port))}
}

// denied returns the denial that closes a name.
func (t *Table) denied(name string) (Decision, bool) {
	for rule := range rulesFor(name) {
		if reason, ok := t.closed[rule]; ok {
			return Decision{Rule: rule, Reason: reason}, true
		}
	}
	reason, ok := t.closed["**"] // also names without a dot
	return Decision{Rule: "**", Reason: reason}, ok
}

// openers yields the hosts of rules that can open a name: of the host's own loopback, ports are
// opened one by one.
func openers(name string) func(yield func(string) bool) {
	if name == policy.HostName {
		return func(yield func(string) bool) { yield(name) }
	}
	return rulesFor(name)
}

// rulesFor yields the hosts of rules that a canonical name can match, the narrowest first. A
// name without a dot matches only itself.
func rulesFor(name string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		if !yield(name) {
			return
		}
		rest := name
		for {
			_, below, ok := strings.Cut(rest, ".")
			if !ok {
				break
			}
			if rest = below; !yield("*." + rest) {
				return
			}
		}
		if rest != name {
			yield("**")
		}
	}
}

// Address decides about a connection to an address for which no name was asked.
func (t *Table) Address(address netip.Addr, port uint16) Decision {
	if d, ok := t.DeniedAddress(address); ok {
		return d
	}
	closed := Decision{Reason: "no rule opens this address, and hosts are reached by name"}
	for _, rule := range t.openAddresses {
		if !rule.network.Contains(address) {
			continue
		}
		if slices.Contains(rule.ports, port) {
			return Decision{Open: true, Rule: rule.host}
		}
		if closed.Rule == "" {
			closed = closedPort(rule.host, port)
		}
	}
	return closed
}

// DeniedAddress returns the denial that closes an address, also one that a name has.
func (t *Table) DeniedAddress(address netip.Addr) (Decision, bool) {
	for _, denial := range t.closedAddresses {
		if denial.network.Contains(address) {
			return Decision{Rule: denial.host, Reason: denial.reason}, true
		}
	}
	return Decision{}, false
}

// Names reports whether a rule for addresses opens a port of an address: exactly, if the rule
// names this address alone.
func (t *Table) Names(address netip.Addr, port uint16) (named, exactly bool) {
	for _, rule := range t.openAddresses {
		if rule.network.Contains(address) && slices.Contains(rule.ports, port) {
			named = true
			exactly = exactly || rule.network.IsSingleIP()
		}
	}
	return named, exactly
}

// CanonicalName returns the form in which names are compared: lower case, without a trailing
// dot. It reports false for what can be no name of a host, such as an address, a name with
// control characters, or one of the sandbox's own loopback.
func CanonicalName(name string) (string, bool) {
	name = strings.TrimSuffix(name, ".")
	if name == "" || len(name) > 253 {
		return "", false
	}
	lower := []byte(name)
	start, digits := 0, true // of the last label
	for i, c := range lower {
		switch {
		case c >= 'A' && c <= 'Z':
			lower[i], digits = c+'a'-'A', false
		case c >= 'a' && c <= 'z', c == '-', c == '_':
			digits = false
		case c >= '0' && c <= '9':
		case c == '.' && i > start && i-start <= 63:
			start, digits = i+1, true
		default:
			return "", false
		}
	}
	name = string(lower)
	last := name[start:]
	if last == "" || len(last) > 63 || digits || strings.HasPrefix(last, "0x") || last == "localhost" {
		return "", false
	}
	return name, true
}
