package agent_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Contract 001.0: where the agent listens, and its roots.
func TestConformListener(t *testing.T) {
	t.Parallel()
	conform(t)
	t.Run("roots", func(t *testing.T) {
		conform(t)
		b := bare(t)
		for _, root := range []string{b.workspace, b.shells, b.services, b.secrets} {
			if info, err := os.Stat(root); err != nil || !info.IsDir() {
				t.Errorf("%s: %v", root, err)
			}
		}
	})
	t.Run("default_roots", func(t *testing.T) {
		conform(t)
		text, _ := exec.Command(agentPath, "--help").CombinedOutput()
		for _, word := range []string{"vsock://:5005", "/workspace", "/run/pyro-shells", "/run/pyro-services", "/run/pyro-secrets"} {
			if !strings.Contains(string(text), word) {
				t.Errorf("%s is not among the defaults:\n%s", word, text)
			}
		}
	})
	t.Run("default", func(t *testing.T) {
		conform(t)
		if busy, err := vsockBusy(); err == nil && busy {
			eventually(t, "another's agent leaves the port", func() bool { busy, _ := vsockBusy(); return !busy })
		}
		dir := t.TempDir()
		var log bytes.Buffer
		cmd := exec.Command(agentPath, "--workspace", filepath.Join(dir, "w"), "--shell-root", filepath.Join(dir, "a"),
			"--service-root", filepath.Join(dir, "b"), "--secret-root", filepath.Join(dir, "c"))
		cmd.Stderr = &log
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() { _ = cmd.Wait(); close(ended) }()
		defer func() { _ = cmd.Process.Kill(); <-ended }()
		if _, err := vsockBusy(); err != nil {
			<-ended
			if cmd.ProcessState.Success() || !strings.Contains(log.String(), "AF_VSOCK is unavailable") {
				t.Errorf("it ended with %v and said %s", cmd.ProcessState, &log)
			}
			return
		}
		eventually(t, "it listens on port 5005", func() bool {
			select {
			case <-ended:
				t.Fatalf("it ended with %v and said %s", cmd.ProcessState, &log)
			default:
			}
			busy, _ := vsockBusy()
			return busy
		})
	})
}

// vsockBusy says whether somebody listens on vsock port 5005; its error is
// that there is no vsock.
func vsockBusy() (bool, error) {
	fd, err := unix.Socket(unix.AF_VSOCK, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false, err
	}
	defer unix.Close(fd)
	err = unix.Bind(fd, &unix.SockaddrVM{CID: unix.VMADDR_CID_ANY, Port: 5005})
	return errors.Is(err, unix.EADDRINUSE), nil
}
