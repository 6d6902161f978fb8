package agent

import (
	"strings"
	"testing"
)

func FuzzParsePath(f *testing.F) {
	for _, seed := range []string{"", " ", "/", "//workspace/a", "///workspace", "/workspace", "/workspacex", "a/../b", "a\nb", "caf\xe9", "a\x00b",
		".", "./a//b/", "/workspace/./x", strings.Repeat("d/", 300) + "f", strings.Repeat("x", 256)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := parsePath(text)
		if err != nil {
			return
		}
		if p.text != "/workspace" && !strings.HasPrefix(p.text, "/workspace/") {
			t.Fatalf("%q became %q", text, p.text)
		}
		for _, name := range p.names {
			if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") || len(name) > maxFileName {
				t.Fatalf("%q has the name %q", text, name)
			}
		}
		// What was normalized stays as it is, but for white space at its ends.
		if again, err := parsePath(p.text); strings.TrimSpace(p.text) == p.text && (err != nil || again.text != p.text) {
			t.Fatalf("%q became %q and then %q, %v", text, p.text, again.text, err)
		}
	})
}
