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
	for _, word := range []string{"", "a", "/usr/bin", "a b", "it's", "$(id)", "q;touch${IFS}x;:", "`id`", "~", "~root", "a\nb", "\x1b[31m", "a\xffb'\\", "é", "\u202ex", "-n", "*", "\\n"} {
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
