package gitconfig

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const hostConfig = "[core]\n\tbare = false\n[remote \"origin\"]\n\turl = https://example.com/a\n"

func TestCompareGit(t *testing.T) {
	for name, tt := range map[string]struct {
		copied       string
		added, other []string
	}{
		"nothing":                    {copied: hostConfig},
		"in other words":             {copied: "[core]\nbare=false\n[remote \"origin\"] url = \"https://example.com/a\"\n"},
		"a remote and a branch":      {copied: hostConfig + "[remote \"b\"]\nurl = git@example.com:b\nfetch = +refs/heads/*:refs/remotes/b/*\n[branch \"m\"]\nremote = b\nmerge = refs/heads/m\n", added: []string{"remote.b.url=git@example.com:b", "remote.b.fetch=+refs/heads/*:refs/remotes/b/*", "branch.m.remote=b", "branch.m.merge=refs/heads/m"}},
		"a branch of the host's":     {copied: hostConfig + "[branch \"m\"]\nremote = origin\n", added: []string{"branch.m.remote=origin"}},
		"a branch of no remote":      {copied: hostConfig + "[branch \"m\"]\nremote = evil\n", other: []string{"branch.m.remote"}},
		"a branch of a refused one":  {copied: hostConfig + "[remote \"evil\"]\nurl = ../evil\n[branch \"m\"]\nremote = evil\n", other: []string{"remote.evil.url", "branch.m.remote"}},
		"what no remote fetches":     {copied: hostConfig + "[remote \"evil\"]\nfetch = +refs/heads/*:refs/remotes/evil/*\n", other: []string{"remote.evil.fetch"}},
		"what the host's fetches":    {copied: hostConfig + "[remote \"origin\"]\nfetch = +refs/heads/*:refs/remotes/origin/*\n", added: []string{"remote.origin.fetch=+refs/heads/*:refs/remotes/origin/*"}},
		"what a refused one fetches": {copied: hostConfig + "[remote \"evil\"]\nurl = ../evil\nfetch = +refs/heads/*:refs/remotes/evil/*\n", other: []string{"remote.evil.url", "remote.evil.fetch"}},
		"a changed value":            {copied: strings.Replace(hostConfig, "/a", "/b", 1), other: []string{"remote.origin.url"}},
		"a second value":             {copied: hostConfig + "[remote \"origin\"]\nurl = https://example.com/b\n", other: []string{"remote.origin.url"}},
		"a removed value":            {copied: "[core]\nbare = false\n", other: []string{"remote.origin.url"}},
		"one good value and one bad": {copied: hostConfig + "[remote \"b\"]\nurl = https://example.com/b\nurl = ext::sh\n", other: []string{"remote.b.url"}},
		"what git runs":              {copied: hostConfig + "[core]\nfsmonitor = x\n[alias]\nx = !y\n[include]\npath = z\n", other: []string{"core.fsmonitor", "alias.x", "include.path"}},
		"a control character":        {copied: hostConfig + "[user]\nname = \x1b[31m\nemail = a@example.com\n[branch \"m\"]\nmerge = refs/heads/m\n", added: []string{"user.email=a@example.com", "branch.m.merge=refs/heads/m"}, other: []string{"user.name"}},
		"one in a section":           {copied: hostConfig + "[remote \"b\x1b\"]\nurl = https://example.com/b\n[user]\nemail = a@example.com\n", added: []string{"user.email=a@example.com"}, other: []string{"line 5"}},
		"a continued line":           {copied: hostConfig + "[user]\nname = a\\\\\\\n[remote \"c\"] url = https://example.com/c\nemail = a@example.com\n", added: []string{"user.email=a@example.com"}, other: []string{"user.name"}},
		"a good value and an odd":    {copied: hostConfig + "[user]\nname = Ann\nname = Ann\ufeff\n", other: []string{"user.name"}},
		"an odd one of the host's":   {copied: strings.Replace(hostConfig, "/a", "/a\x01", 1), other: []string{"remote.origin.url"}},
		"lines that git refuses":     {copied: "x = y\n" + hostConfig + "[user]\n= z\nemail = a@example.com\n", added: []string{"user.email=a@example.com"}, other: []string{"line 1", "line 7"}},
		"a section that git refuses": {copied: hostConfig + "[a.b]\nc = d\n[user]\nemail = a@example.com\n", added: []string{"user.email=a@example.com"}, other: []string{"line 5"}},
		"an encoded line end":        {copied: hostConfig + "[remote \"b\"]\nurl = https://example.com/%0ahost=example.org\n[remote \"c\"]\nurl = https://example.com/a%20b\n", added: []string{"remote.c.url=https://example.com/a%20b"}, other: []string{"remote.b.url"}},
		"a letter that nobody sees":  {copied: hostConfig + "[user]\nname = Ann\u3164\n", added: []string{"user.name=Ann<U+3164>"}},
		"a bare key":                 {copied: hostConfig + "[user]\nname\n", other: []string{"user.name"}},
	} {
		found, err := Compare([]byte(hostConfig), []byte(tt.copied))
		var added []string
		for _, s := range found.Settings {
			added = append(added, s.String())
		}
		if err != nil || !slices.Equal(added, tt.added) || !slices.Equal(found.Other, tt.other) {
			t.Errorf("%s: %q, %q, %v", name, added, found.Other, err)
		}
	}
	var many strings.Builder
	for i := range MaxAdded + 1 {
		many.WriteString("[branch \"b" + strconv.Itoa(i) + "\"]\nmerge = refs/heads/x\n")
	}
	same := "[branch \"b\"]\n" + strings.Repeat("merge=refs/heads/x\n", 50_000) // values of one key are each judged once
	for _, text := range []string{many.String(), same, strings.Repeat("#", 2<<20)} {
		if found, err := Compare([]byte(hostConfig), []byte(text)); err == nil {
			t.Errorf("%.20q: %+v", text, found)
		}
	}
}

// A person who decides about a setting sees all of it, on one line.
func TestSettingIsSeen(t *testing.T) {
	for value, want := range map[string]string{
		"https://a.example/%0ahost=b%7F%1B%41": "https://a.example/%0a<U+000A>host=b%7F<U+007F>%1B<U+001B>%41",
		"Ann\u202e\u200b\u2066 \u00e9\u2800":   "Ann<U+202E><U+200B><U+2066> \u00e9<U+2800>",
		"a\r\n\tb\u2028\x1b[2J\xff":            "a^M<U+000A><U+0009>b<U+2028>^[[2J<FF>",
	} {
		if got := (Setting{"k", value}).String(); got != "k="+want {
			t.Errorf("%q is shown as %q, want %q", value, got, want)
		}
	}
}

// What a file includes may have the same keys, and a remote with two URLs is pushed to
// both.
func TestCompareGitIncludes(t *testing.T) {
	for _, include := range []string{"[include]\n\tpath = other\n", "[Include]\nPath=/other\n", "[includeIf \"gitdir:/x/\"]\n\tpath = other\n"} {
		host := "[core]\n\tbare = false\n" + include
		found, err := Compare([]byte(host), []byte(host+"[remote \"origin\"]\n\turl = https://example.com/evil\n"))
		if !errors.Is(err, errIncludes) || len(found.Settings) > 0 {
			t.Errorf("%q: %+v, %v", include, found, err)
		}
	}
}

func FuzzCompareGit(f *testing.F) {
	f.Add(hostConfig, hostConfig+"[user]\n\tname = \"a # b\"\n")
	f.Add("[user]", "[branch \"a\\b\"]\nmerge=refs/heads/x")
	f.Fuzz(func(t *testing.T, host, copied string) {
		found, err := Compare([]byte(host), []byte(copied))
		if err != nil {
			return
		}
		old, _ := Parse([]byte(host))
		added := gitText(found.Settings)
		if host != "" && !strings.HasSuffix(host, "\n") {
			added = "\n" + added
		}
		all, err := Parse([]byte(host + added))
		if err != nil || len(all) != len(old)+len(found.Settings) {
			t.Fatalf("%q gives %q: %v, %v", found.Settings, added, all, err)
		}
		for i, s := range found.Settings {
			if got := all[len(old)+i]; got.Key != s.Key || got.Value != s.Value {
				t.Fatalf("%q is read as %+v", s, got)
			}
		}
	})
}
