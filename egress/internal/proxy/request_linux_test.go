package proxy

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock/egress"
	"github.com/paddock-dev/paddock/policy"
)

// TestInject: the header that commands send is dropped, and the host gets the secret's, of
// which no answer has a byte.
func TestInject(t *testing.T) {
	for name, two := range protocols {
		t.Run(name, func(t *testing.T) {
			l := look(t, nil, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("X-Echo", r.Header.Get("Authorization"))
				w.Header().Set("Alt-Svc", `h3=":443"`)
				body, _ := io.ReadAll(r.Body)
				fmt.Fprintf(w, "%s %s %s %s", r.Method, r.URL, r.Header.Get("Authorization"), body)
			})
			answer, text := l.do(l.client(two), "POST", l.url("/a%20b?x=1;2&y"), strings.NewReader("body"), "Authorization", "mine", "authorization_", "x", "Cookie", "c=1", "X-Forwarded-For", "192.0.2.1", "X-Forwarded-Proto", "https")
			stars := "Bearer ghp_Zyxwvutsrqpo9876543210"
			if want := "POST /a%20b?x=1;2&y " + stars + " body"; text != want || answer.Header.Get("X-Echo") != stars || answer.StatusCode != http.StatusOK || answer.Header.Get("Alt-Svc") != "" {
				t.Errorf("the answer is %v %q, want %q", answer, text, want)
			}
			if int64(len(text)) != answer.ContentLength {
				t.Errorf("Content-Length is %d", answer.ContentLength)
			}
			r := l.last()
			if got := r.Header["Authorization"]; !slices.Equal(got, []string{"Bearer " + tokenValue}) || r.Header.Get("Cookie") != "c=1" || r.Header.Get("X-Forwarded-For") != "192.0.2.1" || r.Header.Get("X-Forwarded-Proto") != "https" || (r.ProtoMajor == 2) != two {
				t.Errorf("the host got %v %v", r.Proto, r.Header)
			}
			record := l.record(0, func(r egress.Record) bool { return r.Kind == egress.KindRequest })
			if record.Method != http.MethodPost || record.Path != "/a%20b" || record.Status != 200 || record.Host != "api.test" || record.Rule != "api.test" || record.Port != l.tls {
				t.Errorf("the record is %+v", record)
			}
		})
	}
}

// TestSubstitute: the stand-in becomes the value in the header of the rule alone, and goes
// nowhere else.
func TestSubstitute(t *testing.T) {
	const standIn = "ghp_Zyxwvutsrqpo9876543210"
	substitute := func(r *policy.NetworkRule) { r.Secret.Substitute = true }
	l := look(t, substitute, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s|%s", r.Header.Get("Authorization"), body)
	})
	c := l.client(true)
	encode := func(s string) string { return "Basic " + base64.StdEncoding.EncodeToString([]byte(s)) }
	for sent, want := range map[string]string{
		"Bearer " + standIn:            "Bearer " + tokenValue,
		"token " + standIn + ", x":     "token " + tokenValue + ", x",
		"something else":               "something else",
		encode("git:" + standIn):       encode("git:" + tokenValue),
		encode("git:another password"): encode("git:another password"),
	} {
		_, text := l.do(c, "POST", l.url("/"), strings.NewReader("in a body "+standIn), "Authorization", sent)
		if got := l.last().Header.Get("Authorization"); got != want {
			t.Errorf("of %q the host got %q, want %q", sent, got, want)
		}
		if text != sent+"|in a body "+standIn {
			t.Errorf("of %q the answer is %q", sent, text)
		}
	}
	before := l.count()
	other := fmt.Sprintf("https://other.test:%d", l.tls)
	for i, try := range []struct {
		url    string
		header []string
	}{
		{other + "/", []string{"Authorization", "Bearer " + standIn}},
		{other + "/", []string{"Authorization", encode("x:" + standIn)}},
		{other + "/?q=" + standIn, nil},
		{other + "/" + standIn, nil},
		{l.url("/"), []string{"X-Other", standIn}},
		{l.url("/?q=%67hp_Zyxwvutsrqpo9876543210"), nil},
	} {
		if answer, text := l.do(c, "GET", try.url, nil, try.header...); answer.StatusCode != http.StatusForbidden || !strings.Contains(text, "stand-in of TOKEN") || strings.Contains(text, standIn) {
			t.Errorf("%d: %d %s", i, answer.StatusCode, text)
		}
	}
	if l.count() != before {
		t.Error("a host got a stand-in")
	}
	l.record(0, func(r egress.Record) bool {
		return r.Kind == egress.KindDenied && r.Host == "other.test" && strings.Contains(r.Reason, "stand-in of TOKEN")
	})
	for _, r := range l.kept() {
		if text := fmt.Sprintf("%+v", r); strings.Contains(text, tokenValue) || strings.Contains(text, standIn) {
			t.Errorf("a record has the value or its stand-in: %s", text)
		}
	}
}

// kept returns all records.
func (l *looking) kept() (all []egress.Record) {
	_ = l.records.each(l.t.Context(), 0, false, func(r egress.Record) error { all = append(all, r); return nil })
	return all
}

// TestRequestsOfRules: what a rule does not name reaches no host, however it is written.
func TestRequestsOfRules(t *testing.T) {
	l := look(t, func(r *policy.NetworkRule) {
		r.HTTP = []policy.HTTPRule{{Methods: []string{"GET"}, Paths: []string{"/repos/acme/**", "/user"}}, {Methods: []string{"POST"}, Paths: []string{"/repos/*/issues"}}}
	}, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.RequestURI) })
	for _, tt := range []struct {
		line, header string
		want         int
	}{
		{"GET /repos/acme/a", "", 200},
		{"GET /repos/acme/a/b?x=/../y", "", 200},
		{"GET /repos/acme/", "", 200},
		{"GET /repos/%61cme/x%20y", "", 200},
		{"GET /repos/acme/100%25", "", 200},
		{"GET /user", "", 200},
		{"POST /repos/x/issues", "Content-Length: 0", 200},
		{"GET https://api.test:PORT/user", "", 200},
		{"GET /repos/acme", "", 403},
		{"GET /repos/other/a", "", 403},
		{"GET /REPOS/acme/a", "", 403},
		{"GET /user/", "", 403},
		{"PUT /user", "Content-Length: 0", 403},
		{"get /user", "", 403},
		{"HEAD /user", "", 403},
		{"POST /repos/x/y/issues", "Content-Length: 0", 403},
		{"POST /repos//issues", "Content-Length: 0", 400},
		{"GET /repos/acme/../other", "", 400},
		{"GET /repos/acme/./a", "", 400},
		{"GET /repos/acme/%2e%2e/other", "", 400},
		{"GET /repos/acme/%2E./other", "", 400},
		{"GET /repos/acme/..%2fother", "", 400},
		{"GET /repos/acme%2f..%2f..%2fother", "", 400},
		{"GET /repos/acme/..;/other", "", 400},
		{"GET /repos/acme/..;x=y/other", "", 400},
		{"GET /repos/acme/%2e%2e%3b/other", "", 400},
		{"GET /repos/acme/;/other", "", 400},
		{"GET /repos/acme/..%5cother", "", 400},
		{"GET /repos/acme/..\\other", "", 400},
		{"GET /repos/acme/%252e%252e/other", "", 400},
		{"GET /repos/acme/%25%32e%25%32e/other", "", 400},
		{"GET /repos/acme/%c0%ae%c0%ae/other", "", 400},
		{"GET /repos/acme/%00", "", 400},
		{"GET /repos/acme/a%0d%0aX: y", "", 400},
		{"GET //repos/acme/a", "", 400},
		{"GET /repos//acme/a", "", 400},
		{"GET /repos/acme//a", "", 400},
		{"GET /repos/acme/%zz", "", 400},
		{"GET /repos/acme/..%20/other", "", 400},
		{"OPTIONS *", "", 403},
		{"GET /user", "X-HTTP-Method-Override: DELETE", 403},
		{"GET /user", "X_HTTP_Method: DELETE", 403},
		{"GET /user", "X-Original-URL: /admin", 403},
		{"GET /user", "X-Rewrite-Url: /admin", 403},
		{"GET /user", "X-Forwarded-Method: DELETE", 403},
		{"GET /user", "X-Forwarded-Prefix: /admin", 403},
		{"GET /user", "X-Original-Method: DELETE", 403},
		{"GET /user", "X-Envoy-Original-Path: /admin", 403},
	} {
		before := l.count()
		conn := l.raw("api.test")
		line := strings.ReplaceAll(tt.line, "PORT", fmt.Sprint(l.tls))
		fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: api.test:%d\r\nConnection: close\r\n%s\r\n", line, l.tls, strings.TrimPrefix(tt.header+"\r\n", "\r\n"))
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		if answer.StatusCode != tt.want || (l.count() > before) != (tt.want == 200) {
			t.Errorf("%s %s: %d, and %d requests reached the host", line, tt.header, answer.StatusCode, l.count()-before)
		}
		_ = conn.Close()
	}
	// Also over HTTP/2, with the path as it is.
	c := l.client(true)
	if answer, _ := l.do(c, "GET", l.url("/repos/acme/%2e%2e/other"), nil); answer.StatusCode != http.StatusBadRequest {
		t.Errorf("over HTTP/2: %d", answer.StatusCode)
	}
	r := l.record(0, func(r egress.Record) bool { return r.Kind == egress.KindDenied && r.Method == http.MethodPut })
	if r.Path != "/user" || r.Status != 403 || !strings.Contains(r.Reason, "does not let the method PUT through") {
		t.Errorf("the record is %+v", r)
	}
}

// TestAnotherHostInside: TLS to an intercepted name carries requests to it alone.
func TestAnotherHostInside(t *testing.T) {
	l := look(t, nil, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Host) })
	for name, tt := range map[string]struct {
		request string
		want    int
	}{
		"the host":                        {"GET / HTTP/1.1\r\nHost: api.test\r\n\r\n", 200},
		"with its port":                   {"GET / HTTP/1.1\r\nHost: API.test.:PORT\r\n\r\n", 200},
		"forwarded":                       {"GET / HTTP/1.1\r\nHost: api.test\r\nX-Forwarded-Host: api.test, API.test:PORT\r\nX-Forwarded-For: 192.0.2.1\r\nForwarded: for=192.0.2.1;host=\"api.test\";proto=https\r\n\r\n", 200},
		"forwarded to another, before":    {"GET / HTTP/1.1\r\nHost: api.test\r\nX-Forwarded-Host: evil.test, api.test\r\n\r\n", 421},
		"forwarded to another":            {"GET / HTTP/1.1\r\nHost: api.test\r\nX_Forwarded-Host: evil.test\r\n\r\n", 421},
		"forwarded to nobody":             {"GET / HTTP/1.1\r\nHost: api.test\r\nX-Forwarded-Host: \r\n\r\n", 421},
		"for another, of the standard":    {"GET / HTTP/1.1\r\nHost: api.test\r\nForwarded: for=\"[2001:db8::1]\"; Host = \"evil.test\"\r\n\r\n", 421},
		"for another, in the second part": {"GET / HTTP/1.1\r\nHost: api.test\r\nForwarded: host=api.test,host=evil.test\r\n\r\n", 421},
		"another":                         {"GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n", 421},
		"an allowed one":                  {"GET / HTTP/1.1\r\nHost: other.test\r\n\r\n", 421},
		"another port":                    {"GET / HTTP/1.1\r\nHost: api.test:1\r\n\r\n", 421},
		"absolute":                        {"GET https://evil.test/ HTTP/1.1\r\nHost: api.test\r\n\r\n", 421},
		"absolute of http":                {"GET http://api.test/ HTTP/1.1\r\nHost: api.test\r\n\r\n", 421},
		"a tunnel":                        {"CONNECT evil.test:443 HTTP/1.1\r\nHost: evil.test:443\r\n\r\n", 421},
		"a tunnel to itself":              {"CONNECT api.test:443 HTTP/1.1\r\nHost: api.test:443\r\n\r\n", 421},
		"two":                             {"GET / HTTP/1.1\r\nHost: api.test\r\nHost: evil.test\r\n\r\n", 400},
		"none":                            {"GET / HTTP/1.0\r\n\r\n", 421},
		"with a user":                     {"GET / HTTP/1.1\r\nHost: api.test@evil.test\r\n\r\n", 400},
		"two lengths":                     {"POST / HTTP/1.1\r\nHost: api.test\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", 400},
		"an unknown coding":               {"POST / HTTP/1.1\r\nHost: api.test\r\nTransfer-Encoding: gzip\r\n\r\n", 501},
		"a coding with another line":      {"POST / HTTP/1.1\r\nHost: api.test\r\nTransfer_Encoding: chunked\r\n\r\n", 400},
		"a length with another line":      {"POST / HTTP/1.1\r\nHost: api.test\r\nContent-Length: 1\r\ncontent_LENGTH: 0\r\n\r\nx", 400},
		"another header with a line":      {"GET / HTTP/1.1\r\nHost: api.test\r\nX_Content-Length: 1\r\n\r\n", 200},
		"a folded header":                 {"GET / HTTP/1.1\r\nHost: api.test\r\n Host: evil.test\r\n\r\n", 400},
		"a space in a header":             {"GET / HTTP/1.1\r\nHost : evil.test\r\nHost: api.test\r\n\r\n", 400},
	} {
		conn := l.raw("api.test")
		before := l.count()
		_, _ = io.WriteString(conn, strings.ReplaceAll(tt.request, "PORT", fmt.Sprint(l.tls)))
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if answer.StatusCode != tt.want || (l.count() > before) != (tt.want == 200) {
			t.Errorf("%s: %d", name, answer.StatusCode)
		}
		_ = conn.Close()
	}
	// What is for the connection to Paddock alone ends there.
	conn := l.raw("api.test")
	_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: api.test\r\nX-Forwarded-For: 192.0.2.1\r\nConnection: close, x-forwarded-for\r\n\r\n")
	if answer, err := http.ReadResponse(bufio.NewReader(conn), nil); err != nil || answer.StatusCode != http.StatusOK || l.last().Header.Get("X-Forwarded-For") != "" {
		t.Errorf("%v, %v", answer, err)
	}
	_ = conn.Close()
	// A browser may use one connection for all names of a certificate.
	c := l.client(true)
	r, err := http.NewRequest(http.MethodGet, l.url("/"), nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = fmt.Sprintf("other.test:%d", l.tls)
	if answer, err := c.Do(r); err != nil || answer.StatusCode != http.StatusMisdirectedRequest {
		t.Errorf("another :authority: %v, %v", answer, err)
	}
	if answer, text := l.do(c, "GET", l.url("/"), nil, "Transfer_Encoding", "chunked"); answer.StatusCode != http.StatusBadRequest {
		t.Errorf("a coding with another line: %d %s", answer.StatusCode, text)
	}
}

// TestSmuggling: what servers understand in different ways is not sent on as it is.
func TestSmuggling(t *testing.T) {
	l := look(t, nil, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%d %v %q", r.ContentLength, r.TransferEncoding, body)
	})
	conn := l.raw("api.test")
	inner := "0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: api.test\r\n\r\n"
	fmt.Fprintf(conn, "POST /first HTTP/1.1\r\nHost: api.test\r\nContent-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n%s", len(inner), inner)
	in := bufio.NewReader(conn)
	for range 2 { // both are requests of the command's, checked and on record
		answer, err := http.ReadResponse(in, nil)
		if err != nil {
			break
		}
		_, _ = io.Copy(io.Discard, answer.Body)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.seen {
		if r.Header.Get("Content-Length") != "" && len(r.TransferEncoding) > 0 {
			t.Errorf("the host got both lengths: %v", r.Header)
		}
		if r.Header.Get("Authorization") != "Bearer "+tokenValue {
			t.Errorf("%s came past the proxy", r.URL)
		}
	}
}

// TestTrailers: fields after a body go both ways, but none that is a secret's, or that the header was checked for.
func TestTrailers(t *testing.T) {
	for name, two := range protocols {
		t.Run(name, func(t *testing.T) {
			got := make(chan http.Header, 1)
			l := look(t, nil, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				got <- r.Trailer
				w.Header().Set("Trailer", "X-Sum, X-Leak")
				_, _ = io.WriteString(w, "body")
				w.Header().Set("X-Sum", "7")
				w.Header().Set("X-Leak", tokenValue)
			})
			r, err := http.NewRequest(http.MethodPost, l.url("/"), struct{ io.Reader }{strings.NewReader("body")})
			if err != nil {
				t.Fatal(err)
			}
			r.Trailer = http.Header{"X-Own": {"1"}, "X-Http-Method-Override": {"DELETE"}, "X_Forwarded_Host": {"evil.test"}}
			if !two { // there servers refuse it themselves
				r.Trailer["Authorization"] = []string{"mine"}
			}
			answer, err := l.client(two).Do(r)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(answer.Body)
			if err != nil || string(body) != "body" || answer.Trailer.Get("X-Sum") != "7" || strings.Contains(answer.Trailer.Get("X-Leak"), tokenValue) {
				t.Errorf("the answer is %q with %v, %v", body, answer.Trailer, err)
			}
			if sent := <-got; sent.Get("X-Own") != "1" || sent.Get("Authorization") != "" || sent.Get("X-Http-Method-Override") != "" || strings.Join(sent["X_forwarded_host"], "") != "" {
				t.Errorf("the host got the trailer %v", sent)
			}
		})
	}
}
