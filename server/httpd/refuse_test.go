package httpd

import (
	"net/http"
	"strings"
	"testing"
)

// TestWhoComesIn is every way to be refused, and what is let in beside it.
func TestWhoComesIn(t *testing.T) {
	w := begin(t, Options{AllowHosts: []string{"Paddock.example"}, AllowOrigins: []string{"https://app.example/"}})
	expired := addExpired(t, w.store, "ann")
	port := w.f.listener.Addr().String()[len("127.0.0.1"):]
	basic := http.Header{"Authorization": {"Basic " + w.ann}}
	for name, tt := range map[string]struct {
		ask    ask
		status int
		body   string // a part of it
		header string // "Name: a part of its value"
	}{
		"a token":                    {ask{token: w.ann}, 200, "ann 0", "Mcp-Session-Id: s"},
		"another's token":            {ask{token: w.bob, body: "none"}, 200, "bob 4", ""},
		"bearer in small letters":    {ask{header: http.Header{"Authorization": {"bearer " + w.ann}}, body: "none"}, 200, "ann", ""},
		"no token":                   {ask{}, 401, "cannot serve: a bearer token is needed\n", `WWW-Authenticate: Bearer realm="paddock"`},
		"another scheme":             {ask{header: basic}, 401, "bearer token", `WWW-Authenticate: error="invalid_token"`},
		"two tokens":                 {ask{header: http.Header{"Authorization": {"Bearer " + w.ann, "Bearer " + w.bob}}}, 401, "one bearer token", ""},
		"an empty token":             {ask{header: http.Header{"Authorization": {"Bearer "}}}, 401, "", ""},
		"a wrong token":              {ask{token: w.ann[:len(w.ann)-4] + "aaaa"}, 401, "the token is not known", `WWW-Authenticate: error_description="the token is not known"`},
		"an expired token":           {ask{token: expired}, 401, "the token has expired", ""},
		"a token in the address":     {ask{path: Path + "?access_token=" + w.ann}, 401, "", ""},
		"another path":               {ask{path: "/", token: w.ann}, 404, "the server is at /mcp", ""},
		"below the path":             {ask{path: "/mcp/x", token: w.ann}, 404, "", ""},
		"another method":             {ask{method: "PUT", token: w.ann}, 405, "", "Allow: GET, POST, DELETE"},
		"health":                     {ask{method: "GET", path: "/healthz"}, 200, "", ""},
		"health by another host":     {ask{method: "GET", path: "/healthz", host: "10.0.0.1"}, 200, "", ""},
		"health is only read":        {ask{path: "/healthz"}, 405, "", "Allow: GET, HEAD"},
		"localhost":                  {ask{token: w.ann, host: "localhost" + port, body: "none"}, 200, "ann", ""},
		"localhost in capitals":      {ask{token: w.ann, host: "LOCALHOST", body: "none"}, 200, "ann", ""},
		"six":                        {ask{token: w.ann, host: "[::1]" + port, body: "none"}, 200, "ann", ""},
		"an allowed host":            {ask{token: w.ann, host: "paddock.example", body: "none"}, 200, "ann", ""},
		"a page's own name":          {ask{token: w.ann, host: "evil.example" + port}, 403, "the name in Host", ""},
		"a page's name, no token":    {ask{host: "evil.example"}, 403, "the name in Host", ""},
		"a name that begins well":    {ask{token: w.ann, host: "localhost.evil.example"}, 403, "", ""},
		"a number elsewhere":         {ask{token: w.ann, host: "10.1.2.3" + port}, 403, "", ""},
		"any address":                {ask{token: w.ann, host: "0.0.0.0" + port}, 403, "", ""},
		"a page of this host":        {ask{token: w.ann, origin: "http://localhost:3000"}, 403, "--allow-origin ORIGIN", ""},
		"the same, by number":        {ask{token: w.ann, origin: "http://127.0.0.1:3000"}, 403, "Origin", ""},
		"the same, six":              {ask{token: w.ann, origin: "http://[::1]:3000"}, 403, "Origin", ""},
		"the usual port":             {ask{token: w.ann, origin: "http://127.0.0.1"}, 403, "Origin", ""},
		"its own port, TLS":          {ask{token: w.ann, origin: "https://127.0.0.1" + port}, 403, "Origin", ""},
		"by its other name":          {ask{token: w.ann, origin: "http://localhost" + port}, 403, "Origin", ""},
		"a browser, across sites":    {ask{token: w.ann, header: site("cross-site")}, 403, "--allow-origin ORIGIN", ""},
		"a browser, the same site":   {ask{token: w.ann, header: site("same-site")}, 403, "Origin", ""},
		"a browser of some day":      {ask{token: w.ann, header: site("other")}, 403, "Origin", ""},
		"a browser that says two":    {ask{token: w.ann, header: site("none", "cross-site")}, 403, "Origin", ""},
		"its own page across sites":  {ask{token: w.ann, origin: "http://127.0.0.1" + port, header: site("cross-site")}, 403, "Origin", ""},
		"an address that was typed":  {ask{token: w.ann, header: site("none"), body: "none"}, 200, "ann", ""},
		"its own page, by a browser": {ask{token: w.ann, origin: "http://127.0.0.1" + port, header: site("same-origin"), body: "none"}, 200, "ann", ""},
		"an allowed page's browser":  {ask{token: w.ann, origin: "https://app.example", header: site("cross-site"), body: "none"}, 200, "ann", "Access-Control-Allow-Origin: https://app.example"},
		"its own page":               {ask{token: w.ann, origin: "http://127.0.0.1" + port, body: "none"}, 200, "ann", ""},
		"an allowed page":            {ask{token: w.ann, origin: "https://app.example", body: "none"}, 200, "ann", "Access-Control-Allow-Origin: https://app.example"},
		"a foreign page":             {ask{token: w.ann, origin: "https://evil.example"}, 403, "Origin", ""},
		"an allowed page, no TLS":    {ask{token: w.ann, origin: "http://app.example"}, 403, "Origin", ""},
		"an allowed page, a port":    {ask{token: w.ann, origin: "https://app.example:8443"}, 403, "Origin", ""},
		"a page that has none":       {ask{token: w.ann, origin: "null"}, 403, "Origin", ""},
		"a page that lies":           {ask{token: w.ann, origin: "http://localhost@evil.example"}, 403, "Origin", ""},
		"a page with a path":         {ask{token: w.ann, origin: "http://localhost/x"}, 403, "Origin", ""},
		"a page with a question":     {ask{token: w.ann, origin: "http://localhost?x"}, 403, "Origin", ""},
		"a file":                     {ask{token: w.ann, origin: "file://"}, 403, "Origin", ""},
		"two origins":                {ask{token: w.ann, header: http.Header{"Origin": {"http://localhost", "https://evil.example"}}}, 403, "Origin", ""},
		"a browser asks before":      {ask{method: "OPTIONS", origin: "https://app.example"}, 204, "", "Access-Control-Allow-Headers: Authorization"},
		"a foreign page asks before": {ask{method: "OPTIONS", origin: "https://evil.example"}, 403, "", ""},
		"a session that is none":     {ask{token: w.ann, session: "nope"}, 404, "there is no such session", ""},
		"two sessions":               {ask{token: w.ann, header: http.Header{sessionHeader: {"s1", "s2"}}}, 400, "several sessions", ""},
	} {
		t.Run(name, func(t *testing.T) {
			a := w.do(tt.ask)
			if a.status != tt.status || !strings.Contains(a.body, tt.body) {
				t.Errorf("%d %q, want %d %q", a.status, a.body, tt.status, tt.body)
			}
			if key, value, _ := strings.Cut(tt.header, ": "); !strings.Contains(a.header.Get(key), value) {
				t.Errorf("%s is %q", tt.header, a.header.Get(key))
			}
			if tt.ask.origin != "https://app.example" && a.header.Get("Access-Control-Allow-Origin") != "" {
				t.Error("a browser is told that it may read")
			}
			for _, secret := range []string{w.ann[13:], w.bob[13:]} {
				if strings.Contains(a.body, secret) || strings.Contains(w.logged(), secret) {
					t.Error("a token was told")
				}
			}
		})
	}
	if log := w.logged(); !strings.Contains(log, "refused a request without a valid token") || !strings.Contains(log, "refused a Host") || !strings.Contains(log, "refused an Origin") {
		t.Errorf("the log is %s", log)
	}
}

// site is what browsers tell of the page that a request comes from.
func site(values ...string) http.Header { return http.Header{"Sec-Fetch-Site": values} }

// TestGuessing: who guesses is held up, and nobody else.
func TestGuessing(t *testing.T) {
	w := begin(t, Options{})
	slowed := 0
	for range 3 * burst {
		a := w.do(ask{token: "pdk_aaaaaaaa_" + strings.Repeat("a", 52)})
		switch {
		case a.status == http.StatusTooManyRequests && a.header.Get("Retry-After") != "":
			slowed++
		case a.status != http.StatusUnauthorized:
			t.Fatalf("%+v", a)
		}
	}
	if slowed == 0 {
		t.Error("nobody was held up")
	}
	if a := w.do(ask{token: w.ann}); a.status != http.StatusOK {
		t.Errorf("who has a token: %+v", a)
	}
	if lines := strings.Count(w.logged(), "refused a request without a valid token"); lines > 3*burst-slowed+2 {
		t.Errorf("%d lines in the log", lines)
	}
}

// TestTokensGone: where tokens cannot be asked for, nobody comes in.
func TestTokensGone(t *testing.T) {
	w := begin(t, Options{})
	breakFile(t, w.store.Path())
	if a := w.do(ask{token: w.ann}); a.status != http.StatusServiceUnavailable || strings.Contains(a.body, w.store.Path()) {
		t.Errorf("%+v", a)
	}
}
