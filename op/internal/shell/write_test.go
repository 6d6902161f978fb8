package shell

import "testing"

func TestKeys(t *testing.T) {
	for want, names := range map[string][]string{
		"\x03": {"ctrl-c"}, "\x1b[A\r": {"up", "ENTER"}, "\x1a\x1c\x00": {"Ctrl-Z", `ctrl-\`, "ctrl-space"}, "": nil,
	} {
		if got, err := pressed(names); got != want || err != nil {
			t.Errorf("%q is %q, %v", names, got, err)
		}
	}
	for _, none := range []string{"", "c", "ctrl-", "ctrl-cc", "ctrl-1"} {
		if got, err := pressed([]string{none}); err == nil {
			t.Errorf("%q is %q", none, got)
		}
	}
}
