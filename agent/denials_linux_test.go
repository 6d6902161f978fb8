package agent_test

import (
	"strings"
	"testing"

	"github.com/paddock-dev/paddock/wire"
)

// What the filter refuses is told with the result of the command whose tree it
// was, daemons and threads included, and of no other.
func TestDenials(t *testing.T) {
	b := start(t)
	res := b.sh(`touch f; chmod 4755 f; chmod 2755 f; (setsid sh -c 'chmod 4755 f; touch done' &); while ! test -e done; do :; done; unshare -m true`)
	found := map[string]wire.Denial{}
	for _, d := range res.Denials {
		found[d.Rule+" "+d.Object] = d
	}
	if d := found["set-id files fchmodat"]; len(found) != 2 || d.Count != 3 || d.Layer != "seccomp" || d.Guess || d.Hint == "" {
		t.Errorf("%+v", res.Denials)
	}
	if d := found["namespaces unshare"]; d.Count != 0 || !strings.Contains(d.Hint, "--level landlock") {
		t.Errorf("%+v", res.Denials)
	}
	if res.DenialsComplete {
		t.Error("the list claims to be complete")
	}
	if other := b.sh("true"); len(other.Denials) != 0 {
		t.Errorf("another command's denials: %+v", other.Denials)
	}
}

// Whoever is refused without end does not keep others from their work, and is
// refused all the same.
func TestDenialsWithoutEnd(t *testing.T) {
	b := start(t)
	program := `
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
seen = set()
for i in range(70000):
    libc.mount(0, 0, 0, 0, 0)
    seen.add(ctypes.get_errno())
print(sorted(seen))
`
	if b.sh("command -v python3").Stdout == "" {
		t.Skip("python3 is not installed: it makes the calls")
	}
	res, err := b.client.Exec(b.context(), wire.ExecRequest{Argv: []string{"python3", "-c", program}})
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.TrimSpace(res.Stdout); got != "[1, 38]" { // EPERM, and ENOSYS once nobody listens any more
		t.Errorf("errors: %s %s", got, res.Stderr)
	}
	if len(res.Denials) != 1 || res.Denials[0].Count < 60000 {
		t.Errorf("%+v", res.Denials)
	}
	b.works()
}
