//go:build linux

package engines

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
)

// Each engine runs a command in an image that was made on the spot, and
// leaves nothing behind.
func TestEngines(t *testing.T) {
	for name, start := range map[string]func(context.Context) (*Engine, error){"docker": OwnDocker, "podman": Podman} {
		t.Run(name, func(t *testing.T) {
			e, err := start(t.Context())
			var none *UnavailableError
			if errors.As(err, &none) {
				t.Skip("SKIPPED ALOUD: " + none.Error())
			}
			if err != nil {
				t.Fatal(err)
			}
			args := append([]string{"run", "--rm", "--network", "none"}, e.RunArgs...)
			out, err := e.Run(t.Context(), nil, append(args, Shell, "/bin/echo", "hello")...)
			if err != nil || out != "hello\n" {
				t.Errorf("%q, %v", out, err)
			}
			e.Close()
			if _, err := os.Stat(e.dir); err == nil {
				t.Errorf("%s is still there", e.dir)
			}
			if pids := e.processes(); len(pids) > 0 {
				t.Errorf("processes %v still run", pids)
			}
			mounts, _ := os.ReadFile("/proc/self/mounts")
			if strings.Contains(string(mounts), e.dir) {
				t.Errorf("something is still mounted in %s", e.dir)
			}
		})
	}
}
