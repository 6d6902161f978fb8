package resolve

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// How long one name server is waited for, how often all of them are asked, and
// how many of them and of endings to a name are used.
const (
	wait       = 2 * time.Second
	rounds     = 2
	maxServers = 3
	maxSearch  = 6
)

var errNone = errors.New("no name server knows it")

// conf is what resolv.conf says.
type conf struct {
	servers []netip.AddrPort
	search  []string
	ndots   int
}

// fromServers asks the name servers for a name, with the endings that
// resolv.conf has for names that are not whole.
func (f files) fromServers(ctx context.Context, name string, whole, v4 bool) ([]netip.Addr, error) {
	c := f.readConf()
	for _, full := range c.names(name, whole) {
		addrs, err := c.ask(ctx, full, typeA)
		if !v4 && ctx.Err() == nil {
			more, err6 := c.ask(ctx, full, typeAAAA)
			if addrs = append(addrs, more...); err == nil {
				err = err6
			}
		}
		if len(addrs) > 0 {
			return addrs, nil
		}
		if err != nil {
			return nil, err
		}
	}
	return nil, errNone
}

// readConf reads resolv.conf. Without one, this machine is asked.
func (f files) readConf() conf {
	c := conf{ndots: 1}
	_ = words(f.conf, func(words []string) {
		switch words[0] {
		case "nameserver":
			if addr, err := netip.ParseAddr(words[len(words)-1]); err == nil && len(c.servers) < maxServers {
				c.servers = append(c.servers, netip.AddrPortFrom(addr, f.port))
			}
		case "domain", "search":
			c.search = words[1:min(len(words), 1+maxSearch)]
		case "options":
			for _, option := range words[1:] {
				if text, ok := strings.CutPrefix(option, "ndots:"); ok {
					n, _ := strconv.Atoi(text)
					c.ndots = max(0, min(n, 15))
				}
			}
		}
	})
	if len(c.servers) == 0 {
		c.servers = []netip.AddrPort{netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), f.port)}
	}
	return c
}

// names are the names that are asked for, one after the other.
func (c *conf) names(name string, whole bool) (all []string) {
	if whole {
		return []string{name}
	}
	for _, ending := range c.search {
		all = append(all, name+"."+strings.Trim(ending, "."))
	}
	if strings.Count(name, ".") >= c.ndots {
		return append([]string{name}, all...)
	}
	return append(all, name)
}

// ask gives the addresses of one type; none, without an error, where a server
// says that there are none.
func (c *conf) ask(ctx context.Context, name string, kind uint16) (addrs []netip.Addr, err error) {
	for range rounds {
		for _, server := range c.servers {
			if addrs, err = ask(ctx, server, name, kind); err == nil || ctx.Err() != nil {
				return addrs, err
			}
		}
	}
	return nil, err
}

// ask asks one server once.
func ask(ctx context.Context, server netip.AddrPort, name string, kind uint16) ([]netip.Addr, error) {
	id, err := randomID()
	if err != nil {
		return nil, err
	}
	question, err := question(id, name, kind)
	if err != nil {
		return nil, err
	}
	conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(server))
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	deadline := time.Now().Add(wait)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	_ = conn.SetDeadline(deadline)
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if _, err := conn.Write(question); err != nil {
		return nil, err
	}
	answer := make([]byte, 4096)
	for {
		n, err := conn.Read(answer)
		if err != nil {
			return nil, err
		}
		// What does not answer this question is not from the server.
		if n >= len(question) && binary.BigEndian.Uint16(answer) == id && sameQuestion(answer, question) {
			return addresses(answer[:n], len(question), kind)
		}
	}
}
