package policy

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func token(change func(*NetworkSecret)) *NetworkSecret {
	s := &NetworkSecret{Name: "API_TOKEN", Source: "env:API_TOKEN"}
	if change != nil {
		change(s)
	}
	return s
}

func TestRulesThatIntercept(t *testing.T) {
	const host = "api.example.com"
	secret := func(change func(*NetworkSecret)) []NetworkRule {
		return []NetworkRule{{Host: host, Secret: token(change)}}
	}
	paths := func(paths ...string) []NetworkRule {
		return []NetworkRule{{Host: host, HTTP: []HTTPRule{{Paths: paths}}}}
	}
	for name, tt := range map[string]struct {
		rules []NetworkRule
		want  string // a part of the error; "" for none
	}{
		"a secret":               {secret(nil), ""},
		"requests":               {[]NetworkRule{{Host: host, HTTP: []HTTPRule{{Methods: []string{"GET"}, Paths: []string{"/", "/a/*/b", "/a/**"}}}}}, ""},
		"its port 80 apart":      {[]NetworkRule{{Host: host, Secret: token(nil)}, {Host: host, Ports: []Port{80}}}, ""},
		"beside a wildcard":      {[]NetworkRule{{Host: host, Secret: token(nil)}, {Host: "*.example.com"}}, ""},
		"two hosts, one secret":  {[]NetworkRule{{Host: host, Secret: token(nil)}, {Host: "b.example.com", Secret: token(nil)}}, ""},
		"two ports":              {[]NetworkRule{{Host: host, Ports: []Port{443}, Secret: token(nil)}, {Host: host, Ports: []Port{8443}, Secret: token(func(s *NetworkSecret) { s.Name = "B" })}}, ""},
		"a wildcard":             {[]NetworkRule{{Host: "*.example.com", Secret: token(nil)}}, "allow[0].secret: a rule with secret is for one host"},
		"every name":             {[]NetworkRule{{Host: "**", HTTP: []HTTPRule{{}}}}, "allow[0].http: a rule with http is for one host"},
		"an address":             {[]NetworkRule{{Host: "10.0.0.5", Secret: token(nil)}}, "is for one host"},
		"plain text":             {[]NetworkRule{{Host: host, Ports: []Port{443, 80}, Secret: token(nil)}}, `allow[0].ports[1] "80": it is plain text`},
		"overlapping secrets":    {[]NetworkRule{{Host: host, Secret: token(nil)}, {Host: host + ".", Secret: token(func(s *NetworkSecret) { s.Name = "B" })}}, "opens port 443 of it too"},
		"a rule that widens":     {[]NetworkRule{{Host: host, HTTP: []HTTPRule{{}}}, {Host: host}}, "opens port 443 of it too"},
		"a name twice":           {[]NetworkRule{{Host: host, Secret: token(nil)}, {Host: "b.example.com", Secret: token(func(s *NetworkSecret) { s.Source = "env:B" })}}, "allow[1].secret.name \"API_TOKEN\": another rule"},
		"no name":                {secret(func(s *NetworkSecret) { s.Name = "" }), "secret.name: a name is letters"},
		"no variable":            {secret(func(s *NetworkSecret) { s.Name = "A-B" }), "secret.name \"A-B\": a name is letters"},
		"Host":                   {secret(func(s *NetworkSecret) { s.Header = "hOsT" }), "says how a request is sent"},
		"Connection":             {secret(func(s *NetworkSecret) { s.Header = "connection" }), "says how a request is sent"},
		"a header with a line":   {secret(func(s *NetworkSecret) { s.Header = "a\r\nb" }), "a header is letters"},
		"a format without place": {secret(func(s *NetworkSecret) { s.Format = "Bearer" }), "must have {} once"},
		"a format with two":      {secret(func(s *NetworkSecret) { s.Format = "{}{}" }), "must have {} once"},
		"a format with a line":   {secret(func(s *NetworkSecret) { s.Format = "{}\r\nHost: x" }), "characters of ASCII"},
		"no source":              {secret(func(s *NetworkSecret) { s.Source = "" }), "secret.source: it is missing"},
		"the value as source":    {secret(func(s *NetworkSecret) { s.Source = "hunter2-is-it" }), "it is none of env:NAME"},
		"an empty variable":      {secret(func(s *NetworkSecret) { s.Source = "env:" }), "needs the name of a variable"},
		"an empty file":          {secret(func(s *NetworkSecret) { s.Source = "file:" }), "it is empty"},
		"no command":             {secret(func(s *NetworkSecret) { s.Source = "cmd: " }), "cmd: needs a command"},
		"standard output":        {secret(func(s *NetworkSecret) { s.Source = "fd:1" }), "fd: needs the number"},
		"no requests":            {[]NetworkRule{{Host: host, HTTP: []HTTPRule{}}}, "allow[0].http: it is empty"},
		"no path":                {paths("a"), `a path begins with "/"`},
		"a query":                {paths("/a?b"), "it has a query"},
		"an encoded path":        {paths("/a%20b"), "it is encoded"},
		"dots":                   {paths("/a/../b"), `it has a part ".."`},
		"two slashes":            {paths("/a//b"), "a part between slashes is empty"},
		"stars in the middle":    {paths("/**/b"), "can only be the last part"},
		"a star in a part":       {paths("/a*"), "can only be a whole part"},
		"a method in small":      {[]NetworkRule{{Host: host, HTTP: []HTTPRule{{Methods: []string{"get"}}}}}, "methods are compared as they are written"},
		"a tunnel":               {[]NetworkRule{{Host: host, HTTP: []HTTPRule{{Methods: []string{"CONNECT"}}}}}, "cannot be looked into"},
		"too many paths":         {paths(strings.Split(strings.Repeat("/a,", 33)+"/a", ",")...), "more than 32 methods or paths"},
	} {
		_, err := Spec{Network: Network{Allow: tt.rules}}.Resolve(Base{Dir: "/d", Home: "/h"})
		switch {
		case (err == nil) != (tt.want == ""):
			t.Errorf("%s: %v; want %q", name, err, tt.want)
		case err != nil && !strings.Contains(err.Error(), tt.want):
			t.Errorf("%s: %v; want %q", name, err, tt.want)
		case err != nil && strings.Contains(err.Error(), "hunter2"):
			t.Errorf("%s: the error repeats a source: %v", name, err)
		}
	}
}

func TestDefaultsOfSecrets(t *testing.T) {
	s, err := Spec{Network: Network{Allow: []NetworkRule{
		{Host: "a.example", Secret: &NetworkSecret{Name: "A", Source: "file:a"}},
		{Host: "b.example", Secret: &NetworkSecret{Name: "B", Header: "x-api-key", Source: "file:~/b"}},
	}}}.Resolve(Base{Dir: "/d", Home: "/h"})
	if err != nil {
		t.Fatal(err)
	}
	want := []NetworkRule{
		{Host: "a.example", Ports: []Port{443}, Secret: &NetworkSecret{Name: "A", Header: "Authorization", Format: "Bearer {}", Source: "file:/d/a"}},
		{Host: "b.example", Ports: []Port{443}, Secret: &NetworkSecret{Name: "B", Header: "X-Api-Key", Format: "{}", Source: "file:/h/b"}},
	}
	if diff := cmp.Diff(want, s.Network.Allow); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"a.example:443 Authorization A", "b.example:443 X-Api-Key B"}, s.Network.Egress("gateway").Injected); diff != "" {
		t.Error(diff)
	}
	again, err := s.Resolve(Base{})
	if diff := cmp.Diff(s, again); err != nil || diff != "" {
		t.Error(err, diff)
	}
	bare := s.Network.WithoutSources()
	if bare.Allow[0].Secret.Source != "" || s.Network.Allow[0].Secret.Source == "" {
		t.Errorf("the copy without sources has %q, and the network %q", bare.Allow[0].Secret.Source, s.Network.Allow[0].Secret.Source)
	}
	if _, err := bare.Resolve(); err != nil {
		t.Errorf("rules of a sandbox that runs: %v", err)
	}
}

func TestPathsOfRequests(t *testing.T) {
	for _, tt := range []struct {
		pattern, path string
		want          bool
	}{
		{"/", "/", true},
		{"/", "/a", false},
		{"/a", "/a", true},
		{"/a", "/a/", false},
		{"/a/", "/a/", true},
		{"/a", "/A", false},
		{"/a/*", "/a/b", true},
		{"/a/*", "/a/", false},
		{"/a/*", "/a/b/c", false},
		{"/a/*/c", "/a/b/c", true},
		{"/a/**", "/a", false},
		{"/a/**", "/a/", true},
		{"/a/**", "/a/b/c", true},
		{"/a/**", "/ab", false},
		{"/**", "/", true},
		{"/**", "/a/b", true},
	} {
		if got := (HTTPRule{Paths: []string{tt.pattern}}).Matches("GET", tt.path); got != tt.want {
			t.Errorf("%s of %s is %v", tt.path, tt.pattern, got)
		}
	}
	if !(HTTPRule{}).Matches("PUT", "/x") || (HTTPRule{Methods: []string{"GET"}}).Matches("HEAD", "/x") {
		t.Error("methods are not compared as they are written")
	}
}

func TestACeilingContainsRequests(t *testing.T) {
	const host = "api.example.com"
	get := HTTPRule{Methods: []string{"GET"}, Paths: []string{"/a/**"}}
	intercepted := NetworkRule{Host: host, HTTP: []HTTPRule{get}, Secret: token(nil)}
	without := intercepted
	without.Secret = nil
	other := intercepted
	other.Secret = token(func(s *NetworkSecret) { s.Source = "file:/etc/shadow" })
	read := intercepted
	read.Secret = token(func(s *NetworkSecret) { s.Source = "" })
	moved := intercepted
	moved.Host = "b.example.com"
	header := intercepted
	header.Secret = token(func(s *NetworkSecret) { s.Header = "X-Echo" })
	post := intercepted
	post.HTTP = []HTTPRule{get, {Methods: []string{"POST"}}}
	narrower := intercepted
	narrower.HTTP = []HTTPRule{{Methods: []string{"GET"}, Paths: []string{"/a/b", "/a/c/**"}}}
	plain := NetworkRule{Host: host, Ports: []Port{443}}
	wild := NetworkRule{Host: "*.example.com", Ports: []Port{443}}
	for name, tt := range map[string]struct {
		most, rules []NetworkRule
		want        bool
	}{
		"the same":                   {[]NetworkRule{intercepted}, []NetworkRule{intercepted}, true},
		"its value that is read":     {[]NetworkRule{intercepted}, []NetworkRule{read}, true},
		"less requests":              {[]NetworkRule{intercepted}, []NetworkRule{narrower}, true},
		"without its secret":         {[]NetworkRule{intercepted}, []NetworkRule{without}, true},
		"another source":             {[]NetworkRule{intercepted}, []NetworkRule{other}, false},
		"another host":               {[]NetworkRule{intercepted, wild}, []NetworkRule{moved}, false},
		"another header":             {[]NetworkRule{intercepted}, []NetworkRule{header}, false},
		"more requests":              {[]NetworkRule{intercepted}, []NetworkRule{post}, false},
		"not intercepted":            {[]NetworkRule{intercepted}, []NetworkRule{plain}, false},
		"not intercepted, by a wide": {[]NetworkRule{intercepted, wild}, []NetworkRule{plain}, false},
		"wide alone":                 {[]NetworkRule{intercepted, wild}, []NetworkRule{wild}, false},
		"wide and narrow":            {[]NetworkRule{intercepted, wild}, []NetworkRule{wild, intercepted}, true},
		"wide at another port":       {[]NetworkRule{intercepted, wild, {Host: "*.example.com", Ports: []Port{22}}}, []NetworkRule{{Host: "*.example.com", Ports: []Port{22}}}, true},
		"requests of an open host":   {[]NetworkRule{plain}, []NetworkRule{without}, true},
		"a secret of an open host":   {[]NetworkRule{plain}, []NetworkRule{intercepted}, false},
	} {
		c := &Ceiling{Workspace: []Place{{Source: "/w"}}, Network: []string{"allow"}, NetworkRules: tt.most}
		if err := c.Validate(); err != nil {
			t.Fatal(err)
		}
		if err := c.Opens(tt.rules); (err == nil) != tt.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestKeep(t *testing.T) {
	n, err := Network{Allow: []NetworkRule{
		{Host: "api.example.com", Ports: []Port{443, 8443}, HTTP: []HTTPRule{{Methods: []string{"GET"}}}, Secret: token(nil)},
		{Host: "b.example.com"},
	}}.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	for text, kept := range map[string]bool{
		"api.example.com": true, "API.example.com.": true, "api.example.com:8443": true, "api.example.com:443,80": false,
		"b.example.com": false, "*.example.com": false,
	} {
		rule, err := ParseNetworkRule(text)
		if err != nil {
			t.Fatal(err)
		}
		got := n.Keep(rule)
		if got.Intercepts() != kept || kept && (got.Secret == n.Allow[0].Secret || *got.Secret != *n.Allow[0].Secret) {
			t.Errorf("%s: %+v", text, got)
		}
	}
}

// TestHas: what a network has already. A rule for a host decides about it before wider ones.
func TestHas(t *testing.T) {
	n, err := Network{Allow: []NetworkRule{
		{Host: "api.example.com", Ports: []Port{443}, HTTP: []HTTPRule{{Methods: []string{"GET"}}}, Secret: token(nil)},
		{Host: "*.example.com", Ports: []Port{443, 8443}},
		{Host: "10.0.0.0/8", Ports: []Port{5432}},
	}}.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	for text, has := range map[string]bool{
		"api.example.com:443": true, "api.example.com:8443": true, "api.example.com:443,8443": false,
		"*.example.com:443": true, "*.example.com:443,8443": true, "*.example.com": false, // port 80
		"*.b.example.com:443": true, "b.example.com:8443": true, "example.com:443": false, "**:443": false,
		"10.0.0.5:5432": true, "10.0.0.5:443": false, "11.0.0.0/8:5432": false,
	} {
		rule, err := ParseNetworkRule(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := n.Has(n.Keep(rule)); got != has {
			t.Errorf("%s: %v", text, got)
		}
	}
	own := n.Allow[0]
	if own.HTTP = nil; n.Has(own) {
		t.Error("it has all requests of a host that gets only some")
	}
}
