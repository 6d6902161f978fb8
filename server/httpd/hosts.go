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

// names decides whether a request was meant for this server. A page of the web
// can make its own name lead here, but then Host has that name, and Origin too.
type names struct {
	hosts   []string // in small letters
	origins []string
	local   bool // only this host can reach the address
	leaf    *x509.Certificate
}

// checkNames refuses what would let in nobody, or be read otherwise than it was
// meant.
func checkNames(opts Options) error {
	for _, host := range opts.AllowHosts {
		if host == "" || !strings.EqualFold(host, hostOnly(host)) || strings.ContainsAny(host, "*/@ ,") || strings.Contains(host, ":") && net.ParseIP(host) == nil {
			return &policy.FieldError{Field: "allow_host", Value: host, Reason: "it is not the name of a host", Hint: "mcp.example, without a scheme, a port or a path"}
		}
	}
	for _, origin := range opts.AllowOrigins {
		u, err := url.Parse(strings.TrimSuffix(origin, "/"))
		if err != nil || u.Scheme == "" || u.Host == "" || u.Path != "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil || strings.ContainsAny(u.Host, "* ,") {
			return &policy.FieldError{Field: "allow_origin", Value: origin, Reason: "it is not an origin", Hint: "https://app.example, and the port where it is not the usual one; each page by its own name"}
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

// host says whether the name in Host may lead here: this host's own where nobody
// else reaches the address, the address itself, what was allowed, and what the
// certificate proves. A number is as good as the one that was connected to.
func (n names) host(r *http.Request) bool {
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

// hostOnly is the name in a Host header, in small letters, without the port and
// the brackets.
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

// fromPage reports whether a browser may send the request, and whether it is to be
// told so. Programs send neither Origin nor Sec-Fetch-Site. Beside the origins that
// the operator allows, a page must come from this very server: another port of this
// host is somebody else's.
func (n names) fromPage(r *http.Request) (ok, tell bool) {
	origins, sites := r.Header.Values("Origin"), r.Header.Values("Sec-Fetch-Site")
	if len(origins) > 1 || len(sites) > 1 {
		return false, false
	}
	if len(origins) == 1 {
		origin := strings.ToLower(origins[0])
		if slices.Contains(n.origins, origin) {
			return true, true // of another site, as the browser may say, too
		}
		own := "http://" + strings.ToLower(r.Host) // Host was looked at before
		if n.leaf != nil {
			own = "https://" + strings.ToLower(r.Host)
		}
		if origin != own {
			return false, false
		}
	}
	return len(sites) == 0 || sites[0] == "none" || sites[0] == "same-origin", false
}
