//go:build linux

package proxy

import (
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock/policy"
)

// FuzzPlainPath: a path that is accepted is the same for servers that decode it once more,
// resolve dots, merge slashes, or leave out what follows a semicolon.
func FuzzPlainPath(f *testing.F) {
	for _, path := range []string{"/", "/a/b", "/a/../b", "/a/%2e%2e/b", "/a%2fb", "/a//b", "/a/..;x/b", "/%252e%252e", "/%c0%ae", "/a\\b", "/100%25", "/a%20b;c=d/", "/%2", "*", ""} {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, escaped string) {
		path, reason := plainPath(escaped)
		if reason != "" {
			return
		}
		decoded, err := url.PathUnescape(escaped)
		if err != nil || decoded != path {
			t.Fatalf("%q is %q, and decoded %q, %v", escaped, path, decoded, err)
		}
		var forms []string
		if again, err := url.PathUnescape(decoded); err == nil {
			forms = append(forms, again)
		}
		var bare []string
		for part := range strings.SplitSeq(decoded, "/") {
			name, _, _ := strings.Cut(part, ";")
			bare = append(bare, strings.TrimRight(name, " "))
		}
		forms = append(forms, decoded, strings.Join(bare, "/"), strings.ReplaceAll(decoded, "\\", "/"))
		for _, form := range forms {
			parts := strings.Split(strings.TrimSuffix(form, "/"), "/")
			if slices.Contains(parts, "..") || slices.Contains(parts, ".") || slices.Contains(parts[min(1, len(parts)):], "") {
				t.Fatalf("%q passes, and may be understood as %q", escaped, form)
			}
			if strings.Count(form, "/") != strings.Count(escaped, "/") {
				t.Fatalf("%q passes, and may have other parts: %q", escaped, form)
			}
		}
	})
}

// FuzzRequestOfRules: what passes is of a method and below a path that the rule names.
func FuzzRequestOfRules(f *testing.F) {
	f.Add("GET", "/repos/acme/a", "X-Http-Method", "GET")
	f.Add("POST", "/repos/acme/%2e%2e/b", "X_Original_Url", "/")
	f.Add("PUT", "/repos/acme/", "A", "b")
	rules := []policy.HTTPRule{{Methods: []string{"GET", "PUT"}, Paths: []string{"/repos/acme/**"}}}
	f.Fuzz(func(t *testing.T, method, target, header, value string) {
		u, err := url.ParseRequestURI(target)
		if err != nil {
			return
		}
		r := &http.Request{Method: method, URL: u, Header: http.Header{header: {value}}}
		if checkRequest(rules, r) != nil {
			return
		}
		sent := u.EscapedPath()
		decoded, err := url.PathUnescape(sent)
		if err != nil || method != "GET" && method != "PUT" || !strings.HasPrefix(decoded, "/repos/acme/") || strings.Contains(decoded, "/../") {
			t.Fatalf("%q %q passes", method, target)
		}
	})
}

// FuzzSearched: whatever the pieces in which a text comes, no secret is left in it, and nothing
// else has changed.
func FuzzSearched(f *testing.F) {
	f.Add("a secret-value b", uint8(3))
	f.Add("secret-secret-valuesecret-valu", uint8(1))
	f.Add("value-twosecret-value-two", uint8(7))
	f.Fuzz(func(t *testing.T, text string, size uint8) {
		r := redactor{}.add("secret-value", "").add("value-two", "")
		got, err := io.ReadAll(r.body(&pieces{text, int(size) + 1}))
		if err != nil || len(got) != len(text) {
			t.Fatalf("%q became %q, %v", text, got, err)
		}
		if strings.Contains(string(got), "secret-value") || strings.Contains(string(got), "value-two") {
			t.Fatalf("%q became %q", text, got)
		}
		if !strings.Contains(text, "secret-value") && !strings.Contains(text, "value-two") && string(got) != text {
			t.Fatalf("%q became %q", text, got)
		}
	})
}
