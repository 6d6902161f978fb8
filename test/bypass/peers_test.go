//go:build linux

package bypass

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// programs has the sandboxes of others, by make bypass-deps.
const programs = "../../.cache/bypass/node_modules/.bin/"

// peers are sandboxes of others that have rules by name. Each is given the names that ours
// allow, and its results are shown, and not judged.
var peers = []struct {
	name, program string
	// settings writes what the sandbox reads into a directory.
	settings func(dir string, hosts []string) error
	// command are the words that run a program in the sandbox.
	command func(dir, program string) []string
}{
	{
		name: "sandbox-runtime", program: "srt",
		settings: func(dir string, hosts []string) error {
			text, err := json.Marshal(map[string]any{
				"network":    map[string]any{"allowedDomains": hosts, "deniedDomains": []string{}},
				"filesystem": map[string]any{"denyRead": []string{}, "allowWrite": []string{dir}, "denyWrite": []string{}},
			})
			return errors.Join(err, os.WriteFile(filepath.Join(dir, "settings.json"), text, 0o600))
		},
		command: func(dir, program string) []string {
			return []string{"--settings", filepath.Join(dir, "settings.json"), "-c", program + " still"}
		},
	},
	{
		// Its lists of names count only with its proxy, which is a feature that is off by default.
		// Where commands may write, it makes names in /tmp for a while, which other tests see.
		name: "codex", program: "codex",
		settings: func(dir string, hosts []string) error {
			var text strings.Builder
			fmt.Fprint(&text, "default_permissions = \"names\"\n[features]\nnetwork_proxy = true\n[permissions.names]\nextends = \":read-only\"\n",
				"[permissions.names.network]\nenabled = true\n[permissions.names.network.domains]\n")
			for _, host := range hosts {
				fmt.Fprintf(&text, "%q = \"allow\"\n", host)
			}
			return os.WriteFile(filepath.Join(dir, "config.toml"), []byte(text.String()), 0o600)
		},
		command: func(_, program string) []string {
			return []string{"sandbox", "--permission-profile", "names", "--", program, "still"}
		},
	},
}

// peers adds the columns of sandboxes of others.
func (g *grid) peers(t *testing.T, attacker string) {
	t.Helper()
	hosts := []string{}
	for _, rule := range looking(allowed()).Allow {
		hosts = append(hosts, rule.Host)
	}
	for _, p := range peers {
		cli, err := filepath.Abs(programs + p.program)
		if err == nil {
			_, err = os.Stat(cli)
		}
		if err != nil {
			t.Logf("there is no %s to compare with (make bypass-deps): %v", p.name, err)
			continue
		}
		// Not in /tmp, where codex makes no programs of its own.
		dir, err := os.MkdirTemp("/var/tmp", "peer-") //nolint:usetesting // see above
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		if err := p.settings(dir, hosts); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(cli, p.command(dir, attacker)...)
		cmd.Dir = dir
		var out strings.Builder
		if err := driveTo(&out, cmd, []string{"HOME=" + dir, "CODEX_HOME=" + dir}); err != nil {
			t.Logf("%s: %v", p.name, err)
		}
		g.read(t, p.name, strings.NewReader(out.String()))
	}
}
