// Package knownhosts reads files of OpenSSH's known_hosts, and finds the keys of hosts that
// rules of a network open.
//
//	file := knownhosts.Parse(data)
//	at, ok := file.Find(table, key)      // the host that a key is for
//	text := file.Opened(table)           // the lines of all such hosts
//
// It compares names and keys as bytes, and verifies nothing. A line counts with its names,
// patterns and hashed names; hashed names can be compared only with names that rules have in
// full. Authorities for certificates (@cert-authority) are passed over, and a key that is
// revoked (@revoked) is nobody's.
package knownhosts

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // OpenSSH hashes names with it
	"encoding/base64"
	"encoding/binary"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/paddock-dev/paddock/egress"
	"github.com/paddock-dev/paddock/policy"
)

// MaxSize bounds the files that are read, in bytes, all together.
const MaxSize = 1 << 20

// maxHashes bounds how many hashed names [File.Opened] compares, which takes less than a second.
const maxHashes = 1 << 16

// File is a list of hosts and their keys. It never changes.
type File struct {
	lines   []line
	revoked map[string]bool // keys
}

type line struct {
	names []string // patterns, in lower case; hashed names as they are
	kind  string   // of the key
	key   string   // its bytes
}

// Host is a host that a rule opens.
type Host struct {
	Name string // or its address
	Port uint16
	Rule string // the host of the rule
}

// Parse reads lines of known_hosts. Those that are invalid are passed over, as OpenSSH does.
func Parse(data []byte) *File {
	f := &File{revoked: map[string]bool{}}
	for text := range bytes.Lines(data) {
		fields := strings.Fields(string(text))
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		marker := ""
		if strings.HasPrefix(fields[0], "@") {
			marker, fields = fields[0], fields[1:]
		}
		if len(fields) < 3 {
			continue
		}
		key, err := base64.StdEncoding.DecodeString(fields[2])
		if err != nil || !isKey(key, fields[1]) {
			continue
		}
		switch marker {
		case "":
			l := line{kind: fields[1], key: string(key)}
			for name := range strings.SplitSeq(fields[0], ",") {
				if !strings.HasPrefix(name, "|") {
					name = strings.ToLower(name)
				}
				l.names = append(l.names, name)
			}
			f.lines = append(f.lines, l)
		case "@revoked":
			f.revoked[string(key)] = true
		}
	}
	return f
}

// isKey reports whether a key begins with the name of its kind.
func isKey(key []byte, kind string) bool {
	return len(key) >= 4+len(kind) && uint64(binary.BigEndian.Uint32(key)) == uint64(len(kind)) && string(key[4:4+len(kind)]) == kind
}

// Find returns the host that has a key, if the table opens it at a port where SSH can be.
func (f *File) Find(table *egress.Table, key []byte) (Host, bool) {
	if f.revoked[string(key)] {
		return Host{}, false
	}
	var named []Host
	for i, l := range f.lines {
		if l.key != string(key) {
			continue
		}
		if named == nil {
			named = candidates(table)
		}
		if hosts := f.lines[i].hosts(table, named, len(named)); len(hosts) > 0 {
			return hosts[0], true
		}
	}
	return Host{}, false
}

// Opened returns a file with the hosts that the table opens, and nothing else: the names are
// those of rules, or were readable in the file.
func (f *File) Opened(table *egress.Table) []byte {
	named, hashes := candidates(table), maxHashes
	var text []byte
	for _, l := range f.lines {
		if f.revoked[l.key] {
			continue
		}
		hashed := 0
		for _, name := range l.names {
			if strings.HasPrefix(name, "|") {
				hashed++
			}
		}
		tried := len(named)
		if hashed > 0 {
			tried = min(tried, hashes/hashed)
			hashes -= tried * hashed
		}
		for _, host := range l.hosts(table, named, tried) {
			text = append(text, pattern(host.Name, host.Port)+" "+l.kind+" "+base64.StdEncoding.EncodeToString([]byte(l.key))+"\n"...)
		}
	}
	return text
}

// candidates returns the hosts that rules name in full.
func candidates(table *egress.Table) []Host {
	var hosts []Host
	for _, rule := range table.Network().Allow {
		_, err := netip.ParseAddr(rule.Host)
		if err != nil && (policy.IsAddress(rule.Host) || strings.Contains(rule.Host, "*")) {
			continue
		}
		for _, port := range rule.Ports {
			if host, ok := opened(table, rule.Host, uint16(port)); ok {
				hosts = append(hosts, host)
			}
		}
	}
	return hosts
}

// opened returns a host if the table opens it at a port where SSH can be: at 443 and 80 there
// is TLS and HTTP, or nothing.
func opened(table *egress.Table, name string, port uint16) (Host, bool) {
	if port == 443 || port == 80 || port == 0 {
		return Host{}, false
	}
	d := egress.Decision{}
	if address, err := netip.ParseAddr(name); err == nil {
		d = table.Address(address, port)
	} else if canonical, ok := egress.CanonicalName(name); ok {
		name = canonical
		d = table.Name(name, port)
	}
	return Host{Name: name, Port: port, Rule: d.Rule}, d.Open
}

// hosts returns the hosts of a line that the table opens: the first tried of named, and those
// that the line names in full.
func (l line) hosts(table *egress.Table, named []Host, tried int) []Host {
	var hosts []Host
	add := func(host Host) {
		if !slices.Contains(hosts, host) && l.matches(pattern(host.Name, host.Port)) {
			hosts = append(hosts, host)
		}
	}
	for _, host := range named[:tried] {
		add(host)
	}
	for _, name := range l.names {
		if strings.ContainsAny(name, "*?!|") {
			continue
		}
		port := uint16(22)
		if strings.HasPrefix(name, "[") {
			host, digits, err := net.SplitHostPort(name)
			n, perr := strconv.ParseUint(digits, 10, 16)
			if err != nil || perr != nil {
				continue
			}
			name, port = host, uint16(n)
		}
		if host, ok := opened(table, name, port); ok {
			add(host)
		}
	}
	return hosts
}

// pattern returns a host as known_hosts has it.
func pattern(name string, port uint16) string {
	if port == 22 {
		return name
	}
	return "[" + name + "]:" + strconv.Itoa(int(port))
}

// matches reports whether a line is about a host: one of its names matches, and none that
// begins with "!".
func (l line) matches(host string) bool {
	found := false
	for _, name := range l.names {
		if strings.HasPrefix(name, "|") {
			found = found || isHash(name, host)
			continue
		}
		name, not := strings.CutPrefix(name, "!")
		switch {
		case !glob(name, host):
		case not:
			return false
		default: // a pattern without a port is for port 22 alone
			found = found || strings.HasPrefix(name, "[") == strings.HasPrefix(host, "[")
		}
	}
	return found
}

// isHash reports whether a hashed name, "|1|salt|hash", is that of a host.
func isHash(name, host string) bool {
	parts := strings.Split(name, "|")
	if len(parts) != 4 || parts[1] != "1" {
		return false
	}
	salt, err := base64.StdEncoding.DecodeString(parts[2])
	sum, serr := base64.StdEncoding.DecodeString(parts[3])
	if err != nil || serr != nil {
		return false
	}
	mac := hmac.New(sha1.New, salt)
	mac.Write([]byte(host))
	return hmac.Equal(mac.Sum(nil), sum)
}

// glob reports whether a pattern with "*" and "?" matches a whole name, in time that is bounded
// by the product of their lengths.
func glob(pattern, name string) bool {
	p, n, star, from := 0, 0, -1, 0
	for n < len(name) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, from = p, n
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == name[n]):
			p++
			n++
		case star >= 0: // the last star stands for one more
			from++
			p, n = star+1, from
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}
