package policy

import (
	"errors"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// PublishAny is the entry of [Network].Publish that publishes nothing by itself, and lets
// callers below the spec's ceiling publish any port of a running sandbox.
const PublishAny = "any"

// HostName is the name of the host's own loopback inside, for [Network].HostPorts.
const HostName = "host.paddock.internal"

const (
	// MaxPublished is how many ports of one sandbox one process can publish.
	MaxPublished = 64
	maxHostPorts = 16
)

// Publish is a port of a sandbox that is published on the host.
type Publish struct {
	// IP is the host's address to listen on. It is not valid for a loopback address of the
	// sandbox's own.
	IP netip.Addr
	// Host is the port to listen on; 0 is any free one.
	Host Port
	// Guest is the port inside.
	Guest Port
}

// ParsePublish reads GUEST, HOST:GUEST, IP:HOST:GUEST or IP::GUEST, perhaps with /tcp at the
// end. An IPv6 address is written in brackets. The error is a [*FieldError] whose field is
// "network.publish".
func ParsePublish(text string) (Publish, error) {
	refuse := func(reason, hint string) (Publish, error) {
		return Publish{}, &FieldError{Field: "network.publish", Value: text, Reason: reason, Hint: hint}
	}
	const forms = "write 8080:3000 (HOST:GUEST), 127.0.0.1:8080:3000, or 3000 for any free port of the host"
	rest, protocol, _ := strings.Cut(text, "/")
	if protocol != "" && protocol != "tcp" || strings.HasSuffix(text, "/") {
		return refuse("only TCP ports can be published", "leave "+quoteShort("/"+protocol)+" out")
	}
	var p Publish
	guest := rest
	if i := strings.LastIndexByte(rest, ':'); i >= 0 {
		rest, guest = rest[:i], rest[i+1:]
		host := rest
		if i = strings.LastIndexByte(rest, ':'); i >= 0 {
			ip := rest[:i]
			if host = rest[i+1:]; strings.HasPrefix(ip, "[") && strings.HasSuffix(ip, "]") {
				ip = ip[1 : len(ip)-1]
			}
			address, err := netip.ParseAddr(ip)
			if err != nil || address.Zone() != "" {
				return refuse("it does not begin with an IP address", forms)
			}
			p.IP = address.Unmap()
		}
		if host != "" || !p.IP.IsValid() {
			if p.Host = parsePort(host); p.Host == 0 {
				return refuse("a port must be a number from 1 to 65535", forms)
			}
		}
	}
	if p.Guest = parsePort(guest); p.Guest == 0 {
		return refuse("a port must be a number from 1 to 65535", forms)
	}
	return p, nil
}

// parsePort returns a port, or 0 if the text is none.
func parsePort(text string) Port {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return 0
	}
	return Port(n)
}

// String returns the form that [ParsePublish] reads.
func (p Publish) String() string {
	host, guest := "", strconv.FormatUint(uint64(p.Guest), 10)
	if p.Host != 0 {
		host = strconv.FormatUint(uint64(p.Host), 10)
	}
	switch {
	case p.IP.Is6():
		return "[" + p.IP.String() + "]:" + host + ":" + guest
	case p.IP.IsValid():
		return p.IP.String() + ":" + host + ":" + guest
	case host != "":
		return host + ":" + guest
	}
	return guest
}

// publish checks the ports that are published, and returns them in their canonical form.
func (r *resolver) publish(field string, list []string) []string {
	if len(list) > MaxPublished {
		r.refuse(field, "", "it has more than "+strconv.Itoa(MaxPublished)+" entries", "")
		return nil
	}
	var all []string
	for i, text := range list {
		if text == PublishAny {
			all = append(all, text)
			continue
		}
		p, err := ParsePublish(text)
		for _, wrong := range FieldErrors(err) {
			r.refuse(index(field, i), text, wrong.Reason, wrong.Hint)
		}
		if err != nil {
			continue
		}
		if p.Host != 0 && slices.ContainsFunc(all, func(other string) bool {
			o, err := ParsePublish(other)
			return err == nil && o.Host == p.Host && o.IP == p.IP
		}) {
			r.refuse(index(field, i), text, "its port of the host is there twice", "name another one")
		}
		all = append(all, p.String())
	}
	return all
}

// hostPorts checks the ports of the host's loopback that commands may reach, and returns each
// once.
func (r *resolver) hostPorts(field string, list []Port) []Port {
	var all []Port
	for i, port := range list {
		if port < 1 || port > 65535 {
			r.refuse(index(field, i), strconv.FormatUint(uint64(port), 10), "a port must be from 1 to 65535", "")
		} else if !slices.Contains(all, port) {
			all = append(all, port)
		}
	}
	if len(all) > maxHostPorts {
		r.refuse(field, "", "it has more than "+strconv.Itoa(maxHostPorts)+" ports", "each needs a socket of its own: name fewer")
	}
	return all
}

// Deaf returns why no command of a sandbox can listen on a port, or "". The fields must have
// their defaults.
func (s Spec) Deaf() (reason, hint string) {
	switch {
	case s.Network.Mode != NetworkNone:
	case s.Backend == BackendCodex:
		return "behind the sandbox of codex network none leaves no sockets to listen with", "use backend linux, or `network` host"
	case s.Level == LevelLandlock:
		return "at the landlock level network none leaves no sockets to listen with", "use `level` full, or `network` host"
	}
	return "", ""
}

// PublishedPort is a port of a sandbox that the host listens for.
type PublishedPort struct {
	// Address is where the host listens: "127.161.20.5:8080".
	Address string `json:"address"`
	// Port is the port inside.
	Port Port `json:"port"`
	// URL leads to a web server at that port.
	URL string `json:"url"`
}

// publishes reports whether an entry of a ceiling allows that a port is published.
func publishes(entry string, p Publish) bool {
	if entry == PublishAny {
		return !p.IP.IsValid()
	}
	most, err := ParsePublish(entry)
	if err != nil || most.Guest != p.Guest {
		return false
	}
	return !p.IP.IsValid() || p == most
}

// publish refuses ports that the ceiling does not allow to be published.
func (a *applier) publish(list []string) {
	for i, text := range list[:min(len(list), MaxPublished)] { // Resolve refuses more
		p, err := ParsePublish(text)
		if text == PublishAny && slices.Contains(a.c.Publish, PublishAny) || err != nil && text != PublishAny { // Resolve refuses the latter
			continue
		}
		if err == nil && slices.ContainsFunc(a.c.Publish, func(entry string) bool { return publishes(entry, p) }) {
			continue
		}
		hint := "no port may be published"
		if len(a.c.Publish) > 0 {
			hint = "what may be published: " + strings.Join(a.c.Publish, ", ")
		}
		switch {
		case p.IP.IsValid():
			hint += "; leave the address out"
		case err == nil:
			hint += "; `" + OfCeiling + "network.publish` " + p.String() + " allows it"
		}
		a.refuse(index("network.publish", i), "publish", text, "the ceiling does not allow it", hint)
	}
}

// hostPorts refuses ports of the host that the ceiling does not name.
func (a *applier) hostPorts(list []Port) {
	for i, port := range list[:min(len(list), maxHostPorts)] { // Resolve refuses more
		if !slices.Contains(a.c.HostPorts, port) {
			a.refuse(index("network.host_ports", i), "host_ports", strconv.FormatUint(uint64(port), 10), "the ceiling does not name it", "")
		}
	}
}

// Publishes returns a [*CeilingError] unless a port may be published. A nil ceiling allows
// everything.
func (c *Ceiling) Publishes(text string) error {
	if c == nil {
		return nil
	}
	a := applier{c: c}
	a.publish([]string{text})
	if len(a.errs) > 0 {
		return a.errs[0]
	}
	return nil
}

// ReachesHost returns an error that joins one [*CeilingError] for each port of the host's
// loopback that the ceiling does not name. A nil ceiling allows everything.
func (c *Ceiling) ReachesHost(ports []Port) error {
	if c == nil {
		return nil
	}
	a := applier{c: c}
	a.hostPorts(ports)
	return errors.Join(a.errs...)
}
