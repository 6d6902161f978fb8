package policy

import (
	"net/textproto"
	"slices"
	"strconv"
	"strings"
)

// HTTPRule is what requests to a host must be like. All of them have to match one of the
// rule's, by method and by path. It needs interception: the egress process ends TLS.
type HTTPRule struct {
	// Methods are compared as they are written: "GET". Default: every one.
	Methods []string `json:"methods,omitempty"`
	// Paths begin with "/". A part "*" stands for one part, "**" at the end for everything
	// below: "/repos/acme/**" is never "/repos/acme" itself. Default: every one.
	Paths []string `json:"paths,omitempty"`
}

// NetworkSecret is a value that requests to a host get outside of the sandbox. It needs
// interception: the egress process ends TLS. No process inside ever has the value.
type NetworkSecret struct {
	// Name is that of a variable: "API_TOKEN". Rules for several hosts can share a secret.
	Name string `json:"name"`
	// Header is what has the value. Default: "Authorization".
	Header string `json:"header,omitempty"`
	// Format is the header's content, with "{}" for the value. Default: "Bearer {}" for
	// Authorization, else "{}".
	Format string `json:"format,omitempty"`
	// Source says where the value is read at the start of a sandbox, on the host:
	// "env:NAME", "file:PATH", "cmd:COMMAND" (by sh) or "fd:N".
	Source string `json:"source,omitempty"`
	// Substitute sets the variable Name inside to a random stand-in. Where the header has
	// it, the value takes its place. Without it the header is always set, and what commands
	// have sent is dropped.
	Substitute bool `json:"substitute,omitempty"`
}

// The kinds of sources of a [NetworkSecret], each before a colon.
const (
	SecretFromEnv     = "env"
	SecretFromFile    = "file"
	SecretFromCommand = "cmd"
	SecretFromFD      = "fd"
)

// The bounds of what interception needs.
const (
	// MaxIntercepted is how many rules of one sandbox can intercept.
	MaxIntercepted  = 64
	maxHTTPRules    = 16
	maxHTTPWords    = 32      // methods, and paths, of one
	maxHTTPPath     = 256     // bytes
	maxHTTPText     = 1 << 18 // bytes of all paths together
	maxSecretFormat = 256     // bytes
	maxSecretSource = 4095    // bytes
)

// Intercepts reports whether the egress process ends TLS to the host of the rule, at its ports.
func (n NetworkRule) Intercepts() bool { return len(n.HTTP) > 0 || n.Secret != nil }

// Matches reports whether a request may be sent. The path is unescaped and has no parts that
// servers understand in different ways.
func (h HTTPRule) Matches(method, path string) bool {
	return (len(h.Methods) == 0 || slices.Contains(h.Methods, method)) &&
		(len(h.Paths) == 0 || slices.ContainsFunc(h.Paths, func(pattern string) bool { return matchesPath(pattern, path) }))
}

// matchesPath compares part by part.
func matchesPath(pattern, path string) bool {
	for {
		want, moreWanted, wants := strings.Cut(pattern, "/")
		if want == "**" && !wants {
			return true
		}
		got, moreGot, gets := strings.Cut(path, "/")
		if want != got && (want != "*" || got == "") || wants != gets {
			return false
		}
		if !wants {
			return true
		}
		pattern, path = moreWanted, moreGot
	}
}

// contains reports whether h lets all requests through that other does.
func (h HTTPRule) contains(other HTTPRule) bool {
	subset := func(most, asked []string, contains func(most, asked string) bool) bool {
		if len(most) == 0 {
			return true
		}
		return len(asked) > 0 && !slices.ContainsFunc(asked, func(a string) bool {
			return !slices.ContainsFunc(most, func(m string) bool { return contains(m, a) })
		})
	}
	return subset(h.Methods, other.Methods, func(m, a string) bool { return m == a }) &&
		subset(h.Paths, other.Paths, func(m, a string) bool { return m == a || matchesPath(m, a) })
}

// containsRequests reports whether a rule of a ceiling lets all requests through that a rule
// does, and has its secret. A rule that does not intercept is no rule below one that does:
// what is in TLS would not be seen.
func (n NetworkRule) containsRequests(rule NetworkRule) bool {
	if rule.Secret != nil {
		if n.Secret == nil || n.Host != rule.Host {
			return false
		}
		most, asked := n.Secret.complete(), rule.Secret.complete()
		if asked.Source == "" { // it has been read already
			asked.Source = most.Source
		}
		if most != asked {
			return false
		}
	}
	if n.Intercepts() && !rule.Intercepts() {
		return false
	}
	if len(n.HTTP) == 0 {
		return true
	}
	return len(rule.HTTP) > 0 && !slices.ContainsFunc(rule.HTTP, func(asked HTTPRule) bool {
		return !slices.ContainsFunc(n.HTTP, func(most HTTPRule) bool { return most.contains(asked) })
	})
}

// complete fills in the defaults of a secret.
func (s NetworkSecret) complete() NetworkSecret {
	s.Header = textproto.CanonicalMIMEHeaderKey(s.Header)
	fill(&s.Header, "Authorization")
	if s.Header == "Authorization" {
		fill(&s.Format, "Bearer {}")
	}
	fill(&s.Format, "{}")
	return s
}

// Keep returns a rule in its short form as the network has it: if one of its rules intercepts
// for the same host, at all ports of the short form, the requests that may be sent and the
// secret stay.
func (n Network) Keep(rule NetworkRule) NetworkRule {
	host, reason, _ := CanonicalHost(rule.Host)
	if reason != "" || rule.Intercepts() {
		return rule
	}
	for _, own := range n.Allow {
		ports := rule.Ports
		if len(ports) == 0 {
			ports = own.Ports
		}
		if own.Intercepts() && own.Host == host && !slices.ContainsFunc(ports, func(p Port) bool { return !slices.Contains(own.Ports, p) }) {
			kept := Network{Allow: []NetworkRule{own}}.Clone().Allow[0]
			kept.Ports = slices.Clone(ports)
			return kept
		}
	}
	return rule
}

// Has reports whether the network's rules open all that a rule does, whose host is canonical, so
// that adding it would change nothing. A rule with http or a secret counts for its host before
// wider ones.
func (n Network) Has(rule NetworkRule) bool {
	has := false
	for _, own := range n.Allow {
		contains := own.contains(rule)
		if !contains && own.Intercepts() && own.Host == rule.Host && own.sharesPort(rule) {
			return false
		}
		has = has || contains
	}
	return has
}

// HTTPSHint says what to use in place of plain HTTP to a host, by its canonical name, if a rule
// has a secret for it or looks into its requests; "" if none does.
func (n Network) HTTPSHint(host string) string {
	for _, own := range n.Allow {
		if !own.Intercepts() || own.Host != host {
			continue
		}
		why, url := "a rule says which requests it gets, and reads them", "https://"+host
		if own.Secret != nil {
			why = "a rule has a secret for it, which goes"
		}
		if len(own.Ports) > 0 && !slices.Contains(own.Ports, 443) {
			url += ":" + strconv.Itoa(int(own.Ports[0]))
		}
		return why + " over https alone: use " + url
	}
	return ""
}

// Secrets returns the secrets of all rules, each once by its name.
func (n Network) Secrets() []NetworkSecret {
	var all []NetworkSecret
	for _, rule := range n.Allow {
		if s := rule.Secret; s != nil && !slices.ContainsFunc(all, func(other NetworkSecret) bool { return other.Name == s.Name }) {
			all = append(all, *s)
		}
	}
	return all
}

// Intercepts reports whether a rule does.
func (n Network) Intercepts() bool { return slices.ContainsFunc(n.Allow, NetworkRule.Intercepts) }

// WithoutSources returns a copy whose secrets do not say where their values are.
func (n Network) WithoutSources() Network {
	n = n.Clone()
	for i := range n.Allow {
		if s := n.Allow[i].Secret; s != nil {
			s.Source = ""
		}
	}
	return n
}

// intercepted checks rules that intercept, and those beside them, whose hosts and ports are
// canonical. It fills in defaults in place. Rules that a sandbox starts with have to say where
// their secrets are.
func (r *resolver) intercepted(field string, rules []NetworkRule, sources bool) {
	type opening struct {
		host string
		port Port
	}
	open := map[opening]int{}
	sourceOf := map[string]NetworkSecret{}
	count, text := 0, 0
	for i := range rules {
		rule, at := &rules[i], index(field, i)
		for _, port := range rule.Ports {
			here := opening{rule.Host, port}
			if other, there := open[here]; there && (rule.Intercepts() || rules[other].Intercepts()) {
				reason := "another rule, " + index(field, other) + ", opens port " + strconv.Itoa(int(port)) + " of it too, and one of the two has `http` or `secret`"
				r.refuse(at+".host", rule.Host, reason, "write one rule for this host and port")
				break
			}
			open[here] = i
		}
		if !rule.Intercepts() {
			continue
		}
		if count++; count == MaxIntercepted+1 {
			r.refuse(field, "", "more than "+strconv.Itoa(MaxIntercepted)+" rules have `http` or `secret`", "")
		}
		r.interceptable(at, *rule)
		r.httpRules(at+".http", rule.HTTP)
		for _, h := range rule.HTTP {
			for _, p := range h.Paths {
				text += len(p)
			}
		}
		if rule.Secret != nil {
			*rule.Secret = r.secret(at+".secret", *rule.Secret, sources)
			s := *rule.Secret
			if first, there := sourceOf[s.Name]; there && (first.Source != s.Source || first.Substitute != s.Substitute) {
				r.refuse(at+".secret.name", s.Name, "another rule has a secret of this name with another source, or used in another way", "give it a name of its own")
			}
			sourceOf[s.Name] = s
		}
	}
	if text > maxHTTPText {
		r.refuse(field, "", "the paths of all rules together are longer than 256KiB", "")
	}
}

// interceptable refuses rules whose hosts can have no certificate of the sandbox's, or that are
// not about TLS.
func (r *resolver) interceptable(at string, rule NetworkRule) {
	key := "http"
	if rule.Secret != nil {
		key = "secret"
	}
	if rule.Host == "**" || strings.HasPrefix(rule.Host, "*.") || IsAddress(rule.Host) {
		r.refuse(at+"."+key, "", "a rule with "+key+" is for one host by its whole name, and this one is for "+quoteShort(rule.Host),
			"write a rule for each host")
	}
	for j, port := range rule.Ports {
		if port == 80 {
			r.refuse(index(at+".ports", j), "80", "it is plain text, and a rule with "+key+" is for TLS alone",
				"leave it out; the host's port 80 can have a rule of its own")
		}
	}
}

// httpRules checks what requests must be like.
func (r *resolver) httpRules(field string, rules []HTTPRule) {
	if len(rules) > maxHTTPRules {
		r.refuse(field, "", "it has more than "+strconv.Itoa(maxHTTPRules)+" entries", "")
		return
	}
	for i, rule := range rules {
		at := index(field, i)
		if len(rule.Methods) > maxHTTPWords || len(rule.Paths) > maxHTTPWords {
			r.refuse(at, "", "it has more than "+strconv.Itoa(maxHTTPWords)+" methods or paths", "")
			continue
		}
		for j, method := range rule.Methods {
			if reason, hint := checkMethod(method); reason != "" {
				r.refuse(index(at+".methods", j), method, reason, hint)
			}
		}
		for j, pattern := range rule.Paths {
			if reason, hint := checkPattern(pattern); reason != "" {
				r.refuse(index(at+".paths", j), pattern, reason, hint)
			}
		}
	}
}

// checkMethod returns why a text is no method of requests.
func checkMethod(method string) (reason, hint string) {
	switch {
	case method == "" || len(method) > 32 || strings.ContainsFunc(method, func(c rune) bool { return !isLetterOrDigit(c) && c != '-' && c != '_' }):
		return "a method is letters, digits, hyphens and underscores, at most 32", ""
	case method == "CONNECT":
		return "a tunnel cannot be looked into", "leave it out"
	case method != strings.ToUpper(method):
		return "methods are compared as they are written", "write " + strings.ToUpper(method)
	}
	return "", ""
}

// checkPattern returns why a text is no path of an [HTTPRule].
func checkPattern(pattern string) (reason, hint string) {
	parts := strings.Split(pattern, "/")
	switch {
	case pattern == "" || pattern[0] != '/':
		return `a path begins with "/"`, "write " + ShellWord("/"+pattern)
	case len(pattern) > maxHTTPPath:
		return "it is longer than 256 bytes", ""
	case strings.ContainsAny(pattern, "?#"):
		return "it has a query, which rules do not look at", "leave it out"
	case strings.Contains(pattern, "%"):
		return "it is encoded", "write the characters themselves: paths are compared decoded"
	}
	for _, c := range pattern {
		if c <= ' ' || c == 127 || c == '\\' || c == ';' || c == '\uFFFD' {
			return "a path has no spaces, control characters, backslashes and semicolons", ""
		}
	}
	for i, part := range parts[1:] {
		last := i == len(parts)-2
		switch {
		case part == "" && !last:
			return "a part between slashes is empty", ""
		case part == "." || part == "..":
			return "it has a part " + strconv.Quote(part), "write where that leads"
		case part == "**" && !last:
			return `"**" can only be the last part`, `"*" is any one part`
		case strings.Contains(part, "*") && part != "*" && part != "**":
			return `"*" can only be a whole part`, `"/v1/*" is every path one below /v1, and "/v1/**" all paths below it`
		}
	}
	return "", ""
}

// secret checks a secret and fills in its defaults.
func (r *resolver) secret(field string, s NetworkSecret, sources bool) NetworkSecret {
	s = s.complete()
	if !isEnvName(s.Name) || len(s.Name) > maxRuleName {
		r.refuse(field+".name", s.Name, "a name is letters, digits and underscores, at most 64, and begins with no digit", "API_TOKEN, say")
	}
	if reason := checkSecretHeader(s.Header); reason != "" {
		r.refuse(field+".header", s.Header, reason, "")
	}
	switch {
	case strings.Count(s.Format, "{}") != 1:
		r.refuse(field+".format", s.Format, "it must have {} once, which stands for the value", `"Bearer {}", say`)
	case len(s.Format) > maxSecretFormat || strings.ContainsFunc(s.Format, func(c rune) bool { return c < ' ' || c > '~' }) || strings.TrimSpace(s.Format) != s.Format:
		r.refuse(field+".format", s.Format, "it must be at most 256 characters of ASCII, without spaces around them", "")
	}
	switch {
	case s.Source != "":
		s.Source = r.secretSource(field+".source", s.Source)
	case sources:
		r.refuse(field+".source", "", "it is missing", "say where the value is: env:NAME, file:PATH, cmd:COMMAND or fd:N")
	}
	return s
}

// checkSecretHeader returns why a header cannot have a secret: it says how a request is sent,
// or what it is for.
func checkSecretHeader(header string) (reason string) {
	switch {
	case len(header) > 64 || strings.ContainsFunc(header, func(c rune) bool { return !isLetterOrDigit(c) && c != '-' && c != '_' }):
		return "a header is letters, digits, hyphens and underscores, at most 64"
	case slices.Contains([]string{"Host", "Content-Length", "Transfer-Encoding", "Content-Encoding", "Content-Type", "Connection", "Keep-Alive", "Proxy-Connection",
		"Te", "Trailer", "Upgrade", "Expect", "Range", "Accept-Encoding", "Proxy-Authorization", "Http2-Settings"}, header),
		strings.HasPrefix(header, "Sec-Websocket-"):
		return "this header says how a request is sent"
	}
	return ""
}

// secretSource checks the source of a secret, and makes the path of a file absolute. No error
// repeats a source: somebody may have written the value.
func (r *resolver) secretSource(field, source string) string {
	kind, rest, _ := strings.Cut(source, ":")
	refuse := func(reason, hint string) string {
		r.refuse(field, "", reason, hint)
		return source
	}
	if len(source) > maxSecretSource || strings.ContainsFunc(source, func(c rune) bool { return c < ' ' || c == 127 || c == '\uFFFD' }) {
		return refuse("it must be one line of at most 4095 bytes", "")
	}
	switch kind {
	case SecretFromEnv:
		if !isEnvName(rest) {
			return refuse("env: needs the name of a variable", "env:API_TOKEN, say")
		}
	case SecretFromFile:
		path, ok := r.hostPath(field, rest)
		if !ok {
			return source
		}
		return SecretFromFile + ":" + path
	case SecretFromCommand:
		if strings.TrimSpace(rest) == "" {
			return refuse("cmd: needs a command", "cmd:pass show api-token, say")
		}
	case SecretFromFD:
		if n, err := strconv.ParseUint(rest, 10, 16); err != nil || n > 1023 || n == 1 || n == 2 {
			return refuse("fd: needs the number of a descriptor that can be read, up to 1023", "fd:3, say")
		}
	default:
		return refuse("it is none of env:NAME, file:PATH, cmd:COMMAND and fd:N", "a spec never has the value itself")
	}
	return source
}
