//go:build linux

package backends

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"testing"

	"github.com/paddock-dev/paddock/backend/wrapper"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/test/backendtest"
)

func TestWrapperBwrap(t *testing.T) {
	wrapped(t, backendtest.Config{Name: "wrapper=bwrap"}, "bwrap", "--ro-bind", "/usr", "/usr", "--ro-bind", "/etc", "/etc", "--symlink", "usr/bin", "/bin",
		"--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp",
		"--ro-bind", "AGENT", "AGENT", "--bind", "WORKSPACE", "WORKSPACE", "--unshare-all", "--die-with-parent", "--")
}

func TestWrapperFirejail(t *testing.T) {
	// It has a /var/tmp of its own.
	wrapped(t, backendtest.Config{Name: "wrapper=firejail", Base: "/tmp"}, "firejail", "--quiet", "--noprofile", "--net=none", "--read-only=/", "--read-write=WORKSPACE", "--")
}

func wrapped(t *testing.T, c backendtest.Config, command ...string) {
	t.Helper()
	c.Backend, c.Spec.Wrapper = wrapper.New(), &policy.Wrapper{Command: command}
	if _, err := exec.LookPath(command[0]); err != nil {
		c.Missing = command[0] + " is not installed here"
	}
	backendtest.Run(t, c)
}

// TestWrapperSSH has a server of its own for each connection, without a port:
// the client starts it.
func TestWrapperSSH(t *testing.T) {
	const name = "wrapper=ssh"
	server, err := exec.LookPath("/usr/sbin/sshd")
	if err != nil {
		backendtest.Run(t, backendtest.Config{Name: name, Missing: "sshd is not installed here"})
		return
	}
	if os.Geteuid() == 0 {
		if err := os.MkdirAll("/run/sshd", 0o755); err != nil { // it wants that of root
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	file := func(name string) string { return filepath.Join(dir, name) }
	for _, key := range []string{"host", "user"} {
		if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", file(key)).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	config := fmt.Sprintf("HostKey %s\nAuthorizedKeysFile %s\nStrictModes no\nUsePAM no\nPermitRootLogin yes\nPidFile none\nPrintMotd no\n", file("host"), file("user.pub"))
	if err := os.WriteFile(file("config"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	wrapped(t, backendtest.Config{Name: name, Remote: true}, "ssh", "-F", "none", "-i", file("user"), "-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes", "-o", "LogLevel=ERROR",
		"-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "ProxyCommand="+server+" -i -f "+file("config"), me.Username+"@localhost")
}
