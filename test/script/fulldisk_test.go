package script

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock/internal/testkit/boxtest"
)

// With a disk that is full at any step, a persistent sandbox is made, or nothing of it is left
// and the error says why.
func TestCreateOnAFullDisk(t *testing.T) {
	boxtest.RequireWalls(t)
	if os.Geteuid() != 0 {
		t.Skip("needs root: it mounts small file systems")
	}
	made, refused := 0, 0
	for kib := 4; kib <= 400 && made < 3; kib += 12 {
		state, ws := t.TempDir(), t.TempDir()
		if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "mode=700,size="+strconv.Itoa(kib)+"k", "small", state).CombinedOutput(); err != nil {
			t.Skipf("no mount can be made here: %s", out)
		}
		t.Cleanup(func() { _ = exec.Command("umount", "-l", state).Run() })
		out, err := inState(t, state, "create", "full", "--workspace-mode", "overlay", "--cache", "none", "-w", ws).CombinedOutput()
		t.Cleanup(func() { _ = inState(t, state, "rm", "--force", "full").Run() })
		if err == nil {
			made++
			if out, err := inState(t, state, "stop", "full").CombinedOutput(); err != nil && !strings.Contains(string(out), "no space left") {
				t.Errorf("%d KiB: stop: %v: %s", kib, err, out)
			}
			continue
		}
		refused++
		if !strings.Contains(string(out), "no space left") {
			t.Errorf("%d KiB: %v: %s", kib, err, out)
		}
		// More room, and everything works.
		if out, err := exec.Command("mount", "-o", "remount,size=4m", state).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if listed := outputOf(t, inState(t, state, "list", "--all", "--quiet")); listed != "" {
			t.Errorf("%d KiB: after %s there is %q", kib, out, listed)
		}
		if out, err := inState(t, state, "create", "full", "--workspace-mode", "overlay", "--cache", "none", "-w", ws).CombinedOutput(); err != nil {
			t.Errorf("%d KiB: with room: %v: %s", kib, err, out)
		}
		if layers := strings.Count(outputOf(t, inState(t, state, "layers")), "pd-"); layers != 1 {
			t.Errorf("%d KiB: there are %d layers", kib, layers)
		}
	}
	if made == 0 || refused < 3 {
		t.Errorf("made %d, refused %d: the sizes are wrong", made, refused)
	}
}
