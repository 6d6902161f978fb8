package agent

import (
	"slices"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock/wire"
)

func FuzzParsePath(f *testing.F) {
	for _, text := range []string{
		"", " ", ".", "/", "//", "///", "..", "/workspace", "/workspace/", "//workspace/a", "///workspace/a", "/workspacex",
		"/workspace/../etc", "a/..", "...", "a//b/./c/", " a ", "a /. ", "a /.", "a\u2003/. /.", " /.", "a\nb", "\n", "\x00", "a\x00b", "\xff\xfe", "caf\xe9/x",
		"\u00a0a\u0085", "/./workspace/a", "/etc/passwd", "workspace/a", "a\\..\\b", "~/x", "%2e%2e/x",
		strings.Repeat("d/", 300) + "f", strings.Repeat("../", 300), strings.Repeat("n", 255), strings.Repeat("n", 256),
		"/workspace/" + strings.Repeat("n/", maxPath/2), strings.Repeat("x", maxPath+1),
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := parsePath(text)
		if err != nil {
			if err.Code != wire.CodeBadRequest || err.Message == "" || len(err.Object) > maxPath || p.names != nil {
				t.Fatalf("%q: %#v, %#v", text, p, err)
			}
			return
		}
		for _, name := range p.names {
			if name == "" || name == "." || name == ".." || len(name) > maxFileName || strings.ContainsAny(name, "/\x00") {
				t.Fatalf("%q has the name %q", text, name)
			}
		}
		if want := strings.Join(append([]string{"/workspace"}, p.names...), "/"); p.text != want && p.text != want+"/." {
			t.Fatalf("%q is told as %q, want %q", text, p.text, want)
		}
		if !slices.Equal(append(slices.Clone(p.parent()), p.names[len(p.parent()):]...), p.names) || p.base() != "" && p.base() != p.names[len(p.names)-1] {
			t.Fatalf("%q: %q in %q", text, p.base(), p.parent())
		}
		// A told path leads to the same file.
		if again, err := parsePath(p.text); len(p.text) <= maxPath &&
			(err != nil || again.text != p.text || !slices.Equal(again.names, p.names)) {
			t.Fatalf("%q was told as %q, which is %#v, %v", text, p.text, again, err)
		}
	})
}
