package core

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
		p, err := ParsePath(text)
		if err != nil {
			if err.Code != wire.CodeBadRequest || err.Message == "" || len(err.Object) > maxPath || p.Names != nil {
				t.Fatalf("%q: %#v, %#v", text, p, err)
			}
			return
		}
		for _, name := range p.Names {
			if name == "" || name == "." || name == ".." || len(name) > MaxFileName || strings.ContainsAny(name, "/\x00") {
				t.Fatalf("%q has the name %q", text, name)
			}
		}
		if want := strings.Join(append([]string{"/workspace"}, p.Names...), "/"); p.Text != want && p.Text != want+"/." {
			t.Fatalf("%q is told as %q, want %q", text, p.Text, want)
		}
		if !slices.Equal(append(slices.Clone(p.Parent()), p.Names[len(p.Parent()):]...), p.Names) || p.Base() != "" && p.Base() != p.Names[len(p.Names)-1] {
			t.Fatalf("%q: %q in %q", text, p.Base(), p.Parent())
		}
		// A told path leads to the same file.
		if again, err := ParsePath(p.Text); len(p.Text) <= maxPath &&
			(err != nil || again.Text != p.Text || !slices.Equal(again.Names, p.Names)) {
			t.Fatalf("%q was told as %q, which is %#v, %v", text, p.Text, again, err)
		}
	})
}
