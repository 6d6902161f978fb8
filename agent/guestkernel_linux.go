package agent

import (
	"fmt"
	"os"
	"path"

	"github.com/paddock-dev/paddock/confine"
)

// kernelFiles is the step that keeps commands from writing below /proc and
// /sys. The files there ask who somebody is, not what capabilities they have:
// who is root on the host, and nothing more, may write what the kernel executes.
// Landlock has no exceptions, so everything else is named.
func kernelFiles() (confine.Step, error) {
	entries, err := os.ReadDir("/")
	if err != nil {
		return confine.Step{}, fmt.Errorf("cannot keep commands from the kernel's files: %w", err)
	}
	rules := []confine.PathRule{{Path: "/", Access: confine.AccessExec}}
	for _, e := range entries {
		name := path.Join("/", e.Name())
		if info, err := os.Stat(name); err != nil || name == "/proc" || name == "/sys" || !info.IsDir() {
			continue
		}
		rules = append(rules, confine.PathRule{Path: name, Access: confine.AccessAll})
	}
	return confine.Step{Do: confine.OpLandlock, Rules: rules}, nil
}
