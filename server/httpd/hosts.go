package httpd

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/paddock-dev/paddock/policy"
)

// names decides by Host and Origin whether a request was meant for this server. A web page
// can make its own name resolve to this host (DNS rebinding), but then both headers hold
// that name.
type names struct {
	hosts   []string // in lower case
	origins []string
	local   bool // only this host can reach the address
	leaf    *x509.Certificate
}

// checkNames returns an error for hosts and origins that no request can have, or that look
// like patterns.
func checkNames(opts Options) error {
	for _, host := range opts.AllowHosts {
		if host == "" || !strings.EqualFold(host, hostOnly(host)) || strings.ContainsAny(host, "*/@ ,") || strings.Contains(host, ":") && net.ParseIP(host) == nil {
			return &policy.FieldError{Field: "allow_host", Value: host, Reason: "it is not the name of a host", Hint: "mcp.example, without a scheme, a port or a path"}
		}
	}
	for _, origin := range opts.AllowOrigins {
		u, err := url.Parse(strings.TrimSuffix(origin, "/"))
		if err != nil || u.Scheme == "" || u.Host == "" || u.Path != "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil || strings.ContainsAny(u.Host, "* ,") {
			return &policy.FieldError{Field: "allow_origin", Value: origin, Reason: "it is not an origin", Hint: "https://app.example, with its port unless it is the default one; patterns do not work"}
		}
	}
	return nil
}

func newNames(opts Options, a address, config *tls.Config) names {
	n := names{local: a.local()}
	if a.host != "" && !net.ParseIP(a.host).IsUnspecified() {
		n.hosts = append(n.hosts, strings.ToLower(a.host))
	}
	for _, host := range opts.AllowHosts {
		n.hosts = append(n.hosts, strings.ToLower(host))
	}
	for _, origin := range opts.AllowOrigins {
		n.origins = append(n.origins, strings.ToLower(strings.TrimSuffix(origin, "/")))
	}
	if config != nil {
		n.leaf = config.Certificates[0].Leaf
	}
	return n
}

// allowHost reports whether Host names this server: by a name of the local host if only
// the local host can reach the address, by the address that the server listens on or the
// client has connected to, by an allowed name, or by a name in the certificate.
func (n names) allowHost(r *http.Request) bool {
	name := hostOnly(r.Host)
	switch {
	case name == "":
		return false
	case n.local && isLocalName(name), slices.Contains(n.hosts, name):
		return true
	case n.leaf != nil && n.leaf.VerifyHostname(name) == nil:
		return true
	}
	at, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	ip := net.ParseIP(name)
	return ok && ip != nil && ip.Equal(at.IP)
}

// hostOnly returns the name in a Host header in lower case, without port and brackets.
func hostOnly(header string) string {
	host := header
	if h, _, err := net.SplitHostPort(header); err == nil {
		host = h
	} else if strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]") {
		host = host[1 : len(host)-1]
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

func isLocalName(name string) bool {
	return name == "localhost" || net.ParseIP(name).IsLoopback()
}

// allowOrigin reports whether the origin of a request is allowed, and whether it is on the
// operator's list. Programs send neither Origin nor Sec-Fetch-Site. A page that is not on the
// list must come from this very server: other ports of this host may belong to other users.
func (n names) allowOrigin(r *http.Request) (ok, listed bool) {
	origins, sites := r.Header.Values("Origin"), r.Header.Values("Sec-Fetch-Site")
	if len(origins) > 1 || len(sites) > 1 {
		return false, false
	}
	if len(origins) == 1 {
		origin := strings.ToLower(origins[0])
		if slices.Contains(n.origins, origin) {
			return true, true // the browser may call it cross-site
		}
		own := "http://" + strings.ToLower(r.Host) // Host was checked before
		if n.leaf != nil {
			own = "https://" + strings.ToLower(r.Host)
		}
		if origin != own {
			return false, false
		}
	}
	return len(sites) == 0 || sites[0] == "none" || sites[0] == "same-origin", false
}
