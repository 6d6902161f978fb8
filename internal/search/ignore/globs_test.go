package ignore

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestGlobs(t *testing.T) {
	for _, tt := range []struct{ glob, yes, no string }{
		{"*.go", "a.go src/a.go .go", "a.gox go/a"},
		{"/*.go", "a.go", "src/a.go"},
		{"./*.go", "a.go src/a.go", "a.c"},
		{"src/*.go", "src/a.go", "a.go src/x/a.go x/src/a.go"},
		{"src/**/*.go", "src/a.go src/x/y/a.go", "a.go"},
		{"**/test/*", "test/a x/test/a", "test test/x/a"},
		{"*.{ts,tsx}", "a.ts b/a.tsx", "a.js a.t"},
		{"{a,b}{1,2}", "a1 a2 b1 b2", "a b 1 ab"},
		{"{a,b{c,d}}", "a bc bd", "b abc"},
		{"{a}", "{a}", "a"},
		{"a{,b}", "a ab", "a{,b}"},
		{`\{a,b\}`, "{a,b}", "a b"},
		{"[{,}]", "{ , }", "a"},
		{"{a,b", "{a,b", "a"},
		{"caf?.txt", "café.txt cafe.txt x/café.txt", "cafée.txt caf.txt"},
		{"docs/", "docs/", "docs x/docs"},
		{"docs", "docs docs/ x/docs", "docs/a"},
		{"a/docs/", "a/docs/", "a/docs docs/"},
		{"a/**", "a/b a/b/c", "a b"},
	} {
		g, err := ParseGlobs([]string{tt.glob})
		if err != nil {
			t.Errorf("%q: %v", tt.glob, err)
			continue
		}
		check := func(paths string, want bool) {
			for _, path := range strings.Fields(paths) {
				names := strings.Split(strings.TrimSuffix(path, "/"), "/")
				if got := g.Match(names, strings.HasSuffix(path, "/")); got != want {
					t.Errorf("%q matches %q: %v", tt.glob, path, got)
				}
			}
		}
		check(tt.yes, true)
		check(tt.no, false)
	}
	if none, err := ParseGlobs(nil); err != nil || !none.None() || none.Match([]string{"a"}, false) {
		t.Errorf("no globs: %v, %v", none, err)
	}
}

func TestGlobErrors(t *testing.T) {
	for _, tt := range []struct{ glob, want string }{
		{"", "it is empty"}, {"/", "it is empty"}, {"./", "it is empty"}, {"[a", "a [ is not closed"}, {"{a,[}", "a [ is not closed"},
		{"[[:nope:]]", "a [:class:] has a name that is none"}, {`a\`, `nothing follows the \ at its end`}, {"a\x00", "it has a NUL character"},
		{strings.Repeat("a", 5000), "it is longer than 4096 bytes"}, {strings.Repeat("{a,b}", 9), "its braces stand for more than 256 globs"},
		{strings.Repeat("{a,b}", 800), "its braces stand for more than 256 globs"},
	} {
		_, err := ParseGlobs([]string{"a", tt.glob})
		var wrong *GlobError
		if !errors.As(err, &wrong) || wrong.Index != 1 || wrong.Reason != tt.want {
			t.Errorf("%.40q: %v, want %q", tt.glob, err, tt.want)
		}
	}
}

// Rules are hostile: what would take others for ever is over at once.
func TestHostileRules(t *testing.T) {
	start := time.Now()
	name := strings.Repeat("a", 255)
	path := make([]string, 500)
	for i := range path {
		path[i] = name
	}
	r := Parse([]byte(strings.Repeat("*a", 1000) + "b\n" + strings.Repeat("**/*a*/", 500) + "b\n/" + strings.Repeat("**/a*a*b/", 300) + "\n"))
	if _, decided := r.Match(path, false); decided {
		t.Error("it matches")
	}
	if took := time.Since(start); took > 30*time.Second {
		t.Errorf("it took %v", took)
	}
	if n := len(Parse([]byte(strings.Repeat("a\n", 1<<20))).list); n != maxRules {
		t.Errorf("%d rules", n)
	}
}

// reference matches as the meaning of a glob says, in whatever time.
func reference(parts []part, names []string) bool {
	switch {
	case len(parts) == 0:
		return len(names) == 0
	case parts[0].deep && len(parts) == 1:
		return len(names) > 0
	case parts[0].deep:
		for i := range len(names) + 1 {
			if reference(parts[1:], names[i:]) {
				return true
			}
		}
		return false
	}
	return len(names) > 0 && referenceName(parts[0].units, names[0]) && reference(parts[1:], names[1:])
}

func referenceName(units []unit, name string) bool {
	switch {
	case len(units) == 0:
		return name == ""
	case units[0].kind == unitMany:
		return referenceName(units[1:], name) || name != "" && referenceName(units, name[1:])
	case name == "":
		return false
	}
	n := units[0].match(name)
	return n > 0 && referenceName(units[1:], name[n:])
}

func FuzzGlob(f *testing.F) {
	for _, glob := range []string{"a*b/**/[!x]?", "**/*.go", `\[[[:alpha:]]*`, "*a*a", "**/a/**/b/**"} {
		f.Add(glob, "a/b/c", true)
		f.Add(glob, "x/aab/é.go", false)
	}
	f.Fuzz(func(t *testing.T, glob, path string, characters bool) {
		if len(glob) > 12 || len(path) > 16 || path == "" {
			return
		}
		Parse([]byte(glob)).Match([]string{path}, true)
		_, _ = ParseGlobs([]string{glob})
		g, err := compile(glob, characters)
		if err != nil {
			return
		}
		names := strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
		if len(names) == 0 {
			return
		}
		if got, want := g.Match(names), reference(g.parts, names); got != want {
			t.Errorf("%q matches %q: %v", glob, names, got)
		}
	})
}
