package privilege

import (
	"os"
	"strings"
	"testing"
)

// TestLocal: who one is does not depend on what one says.
func TestLocal(t *testing.T) {
	for _, name := range []string{"USER", "LOGNAME", "HOME"} {
		t.Setenv(name, "somebody-else")
	}
	p := Local()
	if err := CheckName(p.Name); err != nil || strings.Contains(p.Name, "somebody") || p.Admin != (os.Geteuid() == 0) {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestNameIn(t *testing.T) {
	const list = `root:x:0:0:root:/root:/bin/sh
# a comment: with colons: 1000: in it
toor:x:0:0::/root:/bin/sh

ann:x:1000:1000:Ann:/home/ann:/bin/sh
bob:x:1001:1001::/home/bob:/bin/sh
bob:x:1002:1002::/home/bob:/bin/sh
short:x
+::::::
`
	for uid, want := range map[string]string{"0": "root", "1000": "ann", "1001": "", "1002": "", "1003": ""} {
		if got := nameIn(strings.NewReader(list), uid); got != want {
			t.Errorf("uid %q is %q, want %q", uid, got, want)
		}
	}
}

func TestModelOf(t *testing.T) {
	for user, want := range map[string]string{"user:root": "model:root", "uid:1000": "model:uid:1000"} {
		got := ModelOf(&Principal{Name: user, Admin: true})
		if got.Name != want || got.Admin || CheckName(got.Name) != nil {
			t.Errorf("the model of %s is %+v, want %s", user, got, want)
		}
	}
}
