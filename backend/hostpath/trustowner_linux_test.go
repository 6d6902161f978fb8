package hostpath

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// In a user namespace that has one user alone, what the host's root keeps in a directory with
// the sticky bit belongs to nobody, and is trusted; elsewhere what belongs to nobody is not.
func TestStickyInUserNamespace(t *testing.T) {
	dirs := []Dir{{Path: "/shared", Mode: unix.S_IFDIR | 0o1777}, {Path: "/shared/place", Mode: unix.S_IFDIR | 0o755, UID: nobody}}
	why, _ := openToAll(dirs, uint32(os.Geteuid()), true, false)
	if os.Getenv("PADDOCK_TEST_ONE_USER") != "" {
		if why != "" {
			t.Error(why)
		}
		return
	}
	if !nobodyUnmapped() && why == "" {
		t.Error("what nobody may replace is trusted")
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), "PADDOCK_TEST_ONE_USER=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}}}
	out, err := cmd.CombinedOutput()
	if err != nil && len(out) == 0 {
		t.Skip("user namespaces are forbidden here: " + err.Error())
	}
	if err != nil || strings.Contains(string(out), "no tests to run") {
		t.Errorf("%v\n%s", err, out)
	}
}
