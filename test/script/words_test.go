package script

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock/internal/testkit/boxtest"
)

// smallDisk mounts a file system of 2 MiB from which nothing can be executed.
func smallDisk(t *testing.T) string {
	t.Helper()
	boxtest.RequireWalls(t)
	if os.Geteuid() != 0 {
		t.Skip("needs root: it mounts small file systems")
	}
	dir := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "mode=700,size=2m,noexec", "small", dir).CombinedOutput(); err != nil {
		t.Skipf("no mount can be made here: %s", out)
	}
	t.Cleanup(func() { _ = exec.Command("umount", "-l", dir).Run() })
	return dir
}

// TestFullDiskTold: what is told about a full file system is about the one that is full.
func TestFullDiskTold(t *testing.T) {
	disk, caches, layers, roomy := smallDisk(t), smallDisk(t), smallDisk(t), t.TempDir()
	const workspace, tmp = "perhaps denied: mount: disk full, /workspace (this host's file system of the workspace has no room left", "perhaps denied: limit: tmp"
	for _, tt := range []struct {
		name, script string
		args         []string
		told         string
	}{
		{"workspace", "cat /dev/zero >f", []string{"-w", disk}, workspace},
		{"workspace, named", "dd if=/dev/zero of=/workspace/f bs=64k; s=$?; rm f; exit $s", []string{"-w", disk}, workspace},
		{"tmp beside a workspace with room", "cat /dev/zero >/tmp/f", []string{"-w", roomy, "--tmp", "1MiB"}, tmp + " (the private file systems are bounded: --tmp)"},
		{"tmp, named", "dd if=/dev/zero of=/tmp/f bs=64k", []string{"-w", roomy, "--tmp", "1MiB"}, tmp + ", /tmp ("},
		{"copied workspace", "dd if=/dev/zero of=/workspace/f bs=64k", []string{"-w", roomy, "--workspace-mode", "copy", "--disk", "1MiB"}, "perhaps denied: limit: disk, /workspace (the copied workspace is bounded: --disk)"},
		{"mount", "dd if=/dev/zero of=/mnt/f bs=64k", []string{"-w", roomy, "--rw", disk + ":/mnt"}, "perhaps denied: mount: disk full, /mnt ("},
		{"run", "dd if=/dev/zero of=/run/f bs=1M", []string{"-w", roomy}, "perhaps denied: limit: run, /run (/run is small, and no setting makes it larger: write to /tmp)"},
		{"kept home", "dd if=/dev/zero of=$HOME/f bs=64k; s=$?; rm $HOME/f; exit $s", []string{"-w", roomy, "--home", "keep"}, "perhaps denied: mount: disk full, /home/agent (this host's file system of the HOME that is kept has no room left"},
		{"layer", "cat /dev/zero >f", []string{"-w", roomy, "--workspace-mode", "overlay", "--layers", layers}, "perhaps denied: mount: disk full, /workspace (this host's file system of the layer, which has the changes, has no room left"},
		{"cache", "mkdir -p $GOCACHE; dd if=/dev/zero of=$GOCACHE/f bs=64k; s=$?; rm $GOCACHE/f; exit $s", []string{"-w", roomy, "--cache", "go"}, "perhaps denied: mount: disk full, " + caches},
	} {
		t.Run(tt.name, func(t *testing.T) {
			defer os.Remove(filepath.Join(disk, "f"))
			cmd := paddockCommand(t, append(append([]string{"run"}, tt.args...), "--", "sh", "-c", tt.script)...)
			cmd.Env = append(cmd.Environ(), "PADDOCK_CACHE_DIR="+caches)
			out, err := cmd.CombinedOutput()
			if err == nil || !strings.Contains(string(out), tt.told) || strings.Count(string(out), "denied: ") != 1 {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}

// TestFileSize: a limit on the size of files that was met is told and is in the result, whoever has
// met it, and whether it died of it.
func TestFileSize(t *testing.T) {
	boxtest.RequireWalls(t)
	for _, script := range []string{
		"exec dd if=/dev/zero of=f bs=2M count=1",
		"dd if=/dev/zero of=f bs=2M count=1; exit 1",
		"dd if=/dev/zero of=f bs=2M count=1",
		"trap '' XFSZ; dd if=/dev/zero of=f bs=1M count=3", // File too large
	} {
		ws := t.TempDir()
		out, err := paddockCommand(t, "run", "-w", ws, "--file-size", "1MiB", "--", "sh", "-c", script).CombinedOutput()
		if err == nil || !strings.Contains(string(out), "denied: limit: file_size (let it write larger files: --file-size)") {
			t.Errorf("%s: %v: %s", script, err, out)
		}
		out, _ = paddockCommand(t, "run", "-w", ws, "--file-size", "1MiB", "--json", "--", "sh", "-c", script).Output()
		if !strings.Contains(string(out), `"denials":[{"layer":"limit","rule":"file_size"`) {
			t.Errorf("%s: %s", script, out)
		}
	}
}

// TestNoExec: a program on a file system from which nothing can be executed needs no chmod.
func TestNoExec(t *testing.T) {
	disk := smallDisk(t)
	for name, mode := range map[string]os.FileMode{"executable": 0o755, "plain": 0o644} {
		if err := os.WriteFile(filepath.Join(disk, name), []byte("#!/bin/sh\n"), mode); err != nil {
			t.Fatal(err)
		}
		out, err := paddockCommand(t, "run", "-w", disk, "--", "./"+name).CombinedOutput()
		if noexec := strings.Contains(string(out), "mounted noexec"); err == nil || noexec != (name == "executable") || noexec == strings.Contains(string(out), "chmod") {
			t.Errorf("%s: %v: %s", name, err, out)
		}
	}
}

// TestAuditFilter: the filters that the documents and the help have find what was denied.
func TestAuditFilter(t *testing.T) {
	boxtest.RequireWalls(t)
	jq, err := exec.LookPath("jq")
	if err != nil {
		t.Skip("jq is not installed here")
	}
	state, ws := t.TempDir(), t.TempDir()
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(rules, []byte("commands: {allow: [ls]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"run", "-w", ws, "--", "true"}, {"run", "-w", ws, "--", "sh", "-c", "unshare -U true; exit 1"}, {"run", "-w", ws, "--spec", rules, "--", "curl"}, {"unshare", "--", "true"},
	} {
		_ = inState(t, state, args...).Run() // all but the first are refused something
	}
	doc, err := os.ReadFile("../../docs/audit.md")
	if err != nil {
		t.Fatal(err)
	}
	help := outputOf(t, inState(t, state, "audit", "--help"))
	filter := regexp.MustCompile(`paddock audit --raw \| jq -c '(.*)'`)
	records := outputOf(t, inState(t, state, "audit", "--raw"))
	for name, text := range map[string]string{"docs": string(doc), "help": help} {
		found := filter.FindStringSubmatch(text)
		if found == nil {
			t.Errorf("%s has no filter", name)
			continue
		}
		cmd := exec.Command(jq, "-c", found[1])
		cmd.Stdin = strings.NewReader(records)
		out := outputOf(t, cmd)
		if strings.Count(out, "\n") != 3 || !strings.Contains(out, "'curl' is not allowed") || !strings.Contains(out, "UNSANDBOXED_EXEC") || !strings.Contains(out, `"namespaces"`) {
			t.Errorf("%s: %s finds\n%s", name, found[1], out)
		}
	}
}

// TestServiceThatDies: a service that dies at once is not told to run.
func TestServiceThatDies(t *testing.T) {
	boxtest.RequireWalls(t)
	state, ws := t.TempDir(), t.TempDir()
	outputOf(t, inState(t, state, "create", "dying", "-w", ws, "--cache", "none"))
	t.Cleanup(func() { _ = inState(t, state, "rm", "--force", "dying").Run() })
	for _, tt := range []struct{ name, script, told string }{
		{"failed", "echo dies; exit 3", "cannot start service failed: it ended at once: exit status 3\npaddock: hint: the last that it printed: dies\n"},
		{"killed", "kill -9 $$", "cannot start service killed: it ended at once: ended by SIGKILL\n"},
		{"done", "exit 0", "service done: exited, exit status 0\n"},
		{"running", "exec sleep 1000", "service running: running, ready\n"},
	} {
		out, err := inState(t, state, "service", "start", "dying", "--name", tt.name, "--", "sh", "-c", tt.script).CombinedOutput()
		if !strings.Contains(string(out), tt.told) || (err == nil) != strings.HasPrefix(tt.told, "service ") {
			t.Errorf("%s: %v: %s", tt.name, err, out)
		}
	}
}

// TestRunHelpOnSecrets: the help does not recommend variables for secrets, as the documents do not.
func TestRunHelpOnSecrets(t *testing.T) {
	help := strings.Join(strings.Fields(outputOf(t, paddockCommand(t, "run", "--help"))), " ")
	if strings.Contains(help, "use --env-pass for secrets") || !strings.Contains(help, "belongs in a rule of the spec's network (secret)") {
		t.Errorf("%s", help)
	}
}
