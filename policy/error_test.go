package policy

import (
	"os/exec"
	"testing"
)

// What is pasted is one word, whatever it holds.
func TestShellWord(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("bash is not installed")
	}
	for _, word := range []string{"", "a", "/usr/bin", "a b", "it's", "$(id)", "q;touch${IFS}x;:", "`id`", "~", "~root", "a\nb", "\x1b[31m", "a\xffb'\\", "é", "\u202ex", "-n", "*", "\\n", "x`network`;touch y;`rm`", "`network`\x1b", "it's `mounts.rw`"} {
		out, err := exec.Command("bash", "-c", "printf %s "+ShellWord(word)).Output()
		if err != nil || string(out) != word && word != "-n" {
			t.Errorf("%q is written %s and read as %q, %v", word, ShellWord(word), out, err)
		}
	}
	for word, want := range map[string]string{"/tmp/a-b_c.d": "/tmp/a-b_c.d", "a b": "'a b'", "it's": `'it'\''s'`, "a\nb'": `$'a\012b\''`} {
		if got := ShellWord(word); got != want {
			t.Errorf("%q: %s, want %s", word, got, want)
		}
	}
}

// A hint names fields of a spec, and files that commands may have named like them. Only the
// fields are rendered.
func TestRenderHintSparesNames(t *testing.T) {
	for _, name := range []string{"`network`", "x`network`;touch y;`network`z", "`network`\x1b`network`", "'`network`'", "``network``"} {
		hint := RenderHint("use `network` host, chmod +x "+ShellWord(name), func(path string) string { return "the operator's " + path })
		if want := "use the operator's network host, chmod +x " + ShellWord(name); hint != want {
			t.Errorf("%q gives %s, want %s", name, hint, want)
		}
	}
}
