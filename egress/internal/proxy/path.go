package proxy

import (
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/paddock-dev/paddock/policy"
)

// plainPath returns the decoded path of a request, of which escaped is what is sent. Servers
// understand some paths in different ways: one with "..", empty parts, encoded slashes, or what
// is encoded twice. For these it says why they are refused.
func plainPath(escaped string) (path, reason string) {
	if !strings.HasPrefix(escaped, "/") {
		return "", "its path does not begin with /"
	}
	decoded := make([]byte, 0, len(escaped))
	for i := 0; i < len(escaped); i++ {
		c, encoded := escaped[i], false
		if c == '%' {
			if i+2 >= len(escaped) || unhex(escaped[i+1]) < 0 || unhex(escaped[i+2]) < 0 {
				return "", "its path has % without two digits"
			}
			c, encoded = byte(unhex(escaped[i+1])<<4|unhex(escaped[i+2])), true
			i += 2
		}
		switch {
		case c < ' ' || c == 127:
			return "", "its path has control characters"
		case c == '\\':
			return "", "its path has a backslash"
		case encoded && c == '/':
			return "", "its path has an encoded slash"
		}
		decoded = append(decoded, c)
	}
	if !utf8.Valid(decoded) {
		return "", "its path is not UTF-8"
	}
	path = string(decoded)
	for rest := path; ; {
		_, after, found := strings.Cut(rest, "%")
		if !found {
			break
		}
		if rest = after; len(rest) >= 2 && unhex(rest[0]) >= 0 && unhex(rest[1]) >= 0 {
			return "", "its path is encoded twice"
		}
	}
	parts := strings.Split(path[1:], "/")
	for i, part := range parts {
		name, _, _ := strings.Cut(part, ";") // servers leave out what follows
		name = strings.TrimRight(name, " ")
		switch {
		case name == "." || name == "..":
			return "", "its path has a part " + name
		case name == "" && (part != "" || i < len(parts)-1):
			return "", "its path has an empty part"
		}
	}
	return path, ""
}

// unhex returns the value of a digit, or a negative number.
func unhex(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return int(c|0x20-'a') + 10
	}
	return -1
}

// Headers with which a request asks for another method, another path or another host than its own.
var (
	methodHeaders = []string{"X-Http-Method-Override", "X-Http-Method", "X-Method-Override", "X-Forwarded-Method", "X-Original-Method"}
	pathHeaders   = []string{
		"X-Original-Url", "X-Rewrite-Url", "X-Override-Url", "X-Original-Uri", "X-Forwarded-Uri",
		"X-Original-Path", "X-Envoy-Original-Path", "X-Forwarded-Path", "X-Forwarded-Prefix",
	}
	hostHeaders = []string{"X-Forwarded-Host", "X-Original-Host", "X-Host", "X-Http-Host-Override", "Forwarded-Host"}
)

var (
	// Headers that ask for parts of an answer. Apache takes the second one for the first.
	rangeHeaders = []string{"Range", "Request-Range", "If-Range"}
	// Headers that say what a request is, and can only stand at its beginning.
	headHeaders = []string{"Host", "Content-Length", "Transfer-Encoding", "Forwarded"}
	// Headers that say where a request ends.
	framingHeaders = []string{"Content-Length", "Transfer-Encoding"}
)

// checkFraming returns an error if a header is not one that says where a request ends, and servers
// may take it for one.
func checkFraming(name string) *httpError {
	if strings.Contains(name, "_") && isOneOf(name, framingHeaders) {
		return badRequest("its header has " + name + ", which servers may take for " + strings.ReplaceAll(name, "_", "-"))
	}
	return nil
}

// checkForwarded returns an error if a request says that it was forwarded for another host than
// the target of its connection. Servers behind a proxy of their own may believe that.
func checkForwarded(h http.Header, to target) *httpError {
	check := func(name, host string) *httpError {
		if checkHost(strings.Trim(host, " \t\""), to) != nil {
			return &httpError{421, "its header " + name + " names another host"}
		}
		return nil
	}
	for _, name := range hostHeaders {
		for _, value := range headerValues(h, name) {
			for host := range strings.SplitSeq(value, ",") {
				if err := check(name, host); err != nil {
					return err
				}
			}
		}
	}
	for _, value := range headerValues(h, "Forwarded") {
		for pair := range strings.FieldsFuncSeq(value, func(c rune) bool { return c == ',' || c == ';' }) {
			key, host, _ := strings.Cut(pair, "=")
			if !strings.EqualFold(strings.Trim(key, " \t"), "host") {
				continue
			}
			if err := check("Forwarded", host); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkRequest returns an error unless rules let a request through.
func checkRequest(rules []policy.HTTPRule, r *http.Request) *httpError {
	if len(rules) == 0 {
		return nil
	}
	for _, name := range methodHeaders {
		if values := headerValues(r.Header, name); len(values) > 0 && !slices.Equal(values, []string{r.Method}) {
			return &httpError{403, "its header " + name + " asks for another method"}
		}
	}
	byMethod := slices.DeleteFunc(slices.Clone(rules), func(rule policy.HTTPRule) bool {
		return len(rule.Methods) > 0 && !slices.Contains(rule.Methods, r.Method)
	})
	if len(byMethod) == 0 {
		return &httpError{403, "the rule of this host does not let the method " + r.Method + " through: network.allow[].http[].methods does not name it"}
	}
	if slices.ContainsFunc(byMethod, func(rule policy.HTTPRule) bool { return len(rule.Paths) == 0 }) {
		return nil
	}
	for _, name := range pathHeaders {
		if len(headerValues(r.Header, name)) > 0 {
			return &httpError{403, "its header " + name + " asks for another path"}
		}
	}
	path, reason := plainPath(r.URL.EscapedPath())
	if reason != "" {
		return badRequest(reason)
	}
	if !slices.ContainsFunc(byMethod, func(rule policy.HTTPRule) bool { return rule.Matches(r.Method, path) }) {
		return &httpError{403, "the rule of this host does not let " + r.Method + " of this path through: network.allow[].http[].paths does not name it"}
	}
	return nil
}

// headerValues returns the values of all headers that servers may take for one of this name:
// some do not tell underscores from hyphens.
func headerValues(h http.Header, name string) []string {
	var all []string
	for key, values := range h {
		if sameHeader(key, name) {
			all = append(all, values...)
		}
	}
	return all
}

// isOneOf reports whether servers may take a header for one of these.
func isOneOf(name string, lists ...[]string) bool {
	return slices.ContainsFunc(slices.Concat(lists...), func(other string) bool { return sameHeader(name, other) })
}

func sameHeader(a, b string) bool {
	return strings.EqualFold(strings.ReplaceAll(a, "_", "-"), strings.ReplaceAll(b, "_", "-"))
}
