package shell

import (
	"strings"
	"testing"
)

// No terminal is asked anything by output that is shown again.
func TestWithoutQueries(t *testing.T) {
	for name, query := range map[string]string{
		"enquiry": "\x05", "device attributes": "\x1b[c", "secondary ones": "\x1b[>0c", "with 8 bits": "\u009bc", "with a control character": "\x1b[\nc",
		"in an older way": "\x1bZ", "the cursor": "\x1b[6n", "a mode": "\x1b[?2026$p", "its version": "\x1b[>q", "keys": "\x1b[?u", "the window's title": "\x1b[21t",
		"parameters": "\x1b[1x", "a colour": "\x1b]11;?\x07", "a colour of the palette": "\x1b]4;1;?\x1b\\", "the clipboard": "\x1b]52;c;?\x07", "a setting": "\x1bP$qm\x1b\\",
		"a capability": "\x1bP+q544e\x1b\\", "graphics": "\x1b_Gi=31,s=1,v=1,a=q,t=d,f=24;AAAA\x1b\\",
	} {
		if got := queries().ReplaceAllString("a"+query+"b", can); strings.ContainsAny(strings.ReplaceAll(got, can, ""), "\x05\x1b\u009b") || !strings.HasPrefix(got, "a") || !strings.HasSuffix(got, "b") {
			t.Errorf("%s: %q", name, got)
		}
	}
	if got := queries().ReplaceAllString("\x1b[\x1b[cc", can); got != "\x1b[\x18c" { // CAN ends what came before it
		t.Errorf("%q", got)
	}
	for _, kept := range []string{"\x1b[31mred\x1b[0m", "\x1b[2J\x1b[H", "\x1b[?25l", "\x1b]0;a title\x07", "\x1b[2 q", "naïve ☃"} {
		if got := queries().ReplaceAllString(kept, can); got != kept {
			t.Errorf("%q became %q", kept, got)
		}
	}
}
