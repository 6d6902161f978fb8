package script

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/paddock-dev/paddock/internal/testkit/boxtest"
)

// What the host side reads of a workspace, or beside it, by name.
var plantedNames = []string{".git", ".git/config", ".git/HEAD", ".git/commondir", ".git/hooks", ".git/hooks/pre-commit", ".gitmodules", ".envrc", ".husky",
	".vscode", ".mcp.json", ".claude/settings.json", "spec.yaml", ".paddock.yaml", "config.json", "sub", "sub/.git"}

// plant puts something in the place of a name, whatever was there. It follows no
// link out of the directory itself.
func plant(root *os.Root, outside string) {
	name := plantedNames[rand.N(len(plantedNames))]
	_ = root.MkdirAll(path.Dir(name), 0o755)
	_ = root.RemoveAll(name)
	made := filepath.Join(root.Name(), "made") // beside the names, and then moved there
	_ = os.RemoveAll(made)
	switch rand.N(128) {
	case 0:
		_ = os.Symlink(filepath.Join(outside, filepath.Base(name)), made)
	case 1:
		_ = os.Symlink(outside, made)
	case 2:
		_ = syscall.Mkfifo(made, 0o644)
	case 3:
		if l, err := net.Listen("unix", made); err == nil {
			l.(*net.UnixListener).SetUnlinkOnClose(false)
			_ = l.Close()
		}
	case 4:
		_ = errors.Join(os.WriteFile(made, nil, 0o644), os.Truncate(made, 10<<30))
	case 5:
		_ = os.Mkdir(made, 0o755)
	case 6:
		_ = os.Symlink(filepath.Base(name), made)
	case 7:
		_ = os.WriteFile(made, nil, 0o644)
	default: // nothing stays there, or no start would get far
		return
	}
	_ = root.Rename("made", name)
}

// However a workspace changes while sandboxes over it start, each start ends with
// success or with a clear error, in bounded memory, and none follows a link out.
func TestStartsAmidPlanting(t *testing.T) {
	boxtest.RequireWalls(t)
	const (
		starts    = 200
		workers   = 4
		mostBytes = 256 << 20
	)
	root := t.TempDir()
	dir, outside := filepath.Join(root, "ws"), filepath.Join(root, "outside")
	// What lies outside would show in what a start does.
	files := map[string]string{"spec.yaml": "hostname: evil\n", ".paddock.yaml": "hostname: evil\n", "config.json": `{"command": {"enabled": false}}`, "config": "[core]\n\thooksPath = evil\n", "canary": "canary\n"}
	if err := errors.Join(os.Mkdir(dir, 0o755), os.Mkdir(outside, 0o755)); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(outside, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	tree, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	run := func(args ...string) (string, error) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		cmd := exec.CommandContext(ctx, filepath.Join(binDir, "paddock"), args...)
		cmd.Dir, cmd.WaitDelay = root, time.Second
		cmd.Env = append(os.Environ(), "PADDOCK_STATE_DIR="+filepath.Join(root, "state"))
		out, err := cmd.CombinedOutput()
		if ctx.Err() != nil {
			return string(out), fmt.Errorf("it did not end: %w", ctx.Err())
		}
		if used := cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss << 10; used > mostBytes {
			return string(out), fmt.Errorf("it used %d MiB", used>>20)
		}
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			return string(out), err
		}
		if status := cmd.ProcessState.ExitCode(); status != 0 && !strings.Contains(string(out), "cannot ") {
			return string(out), fmt.Errorf("status %d without a clear error", status)
		}
		return string(out), nil
	}
	// The control: the same spec, named outside, is obeyed.
	if out, err := run("run", "-w", "ws", "--spec", "outside/spec.yaml", "--", "hostname"); err != nil || out != "evil\n" {
		t.Fatalf("%v: %s", err, out)
	}
	stop := make(chan struct{})
	var succeeded atomic.Int64
	var planting, starting sync.WaitGroup
	planting.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				plant(tree, outside)
			}
		}
	})
	forms := [][]string{
		{"run", "-w", "ws", "--", "hostname"}, {"run", "-w", "ws", "--spec", "ws/spec.yaml", "--", "hostname"}, {"plan", "-w", "ws"},
		{"execute", "-w", "ws", "--config", "ws/config.json", "hostname"}, {"run", "-w", "ws", "--rw", "ws/sub:/mnt/sub", "--", "sh", "-c", "cat /mnt/sub/canary; hostname"},
		{"run", "-w", "ws/sub", "--", "sh", "-c", "cat canary; hostname"},
	}
	for w := range workers {
		starting.Go(func() {
			for i := w; i < starts; i += workers {
				args := forms[i%len(forms)]
				out, err := run(args...)
				if strings.HasSuffix(out, "paddock\n") {
					succeeded.Add(1)
				}
				if err != nil || strings.Contains(out, "evil\n") || strings.Contains(out, "canary\n") {
					t.Errorf("%q: %v: %s", args, err, out)
				}
			}
		})
	}
	starting.Wait()
	close(stop)
	planting.Wait()
	if succeeded.Load() == 0 {
		t.Error("no start succeeded, so little was tried")
	}
	t.Logf("%d of %d commands ran", succeeded.Load(), starts)
	for name, text := range files {
		if got, err := os.ReadFile(filepath.Join(outside, name)); err != nil || string(got) != text {
			t.Errorf("%s was changed: %q, %v", name, got, err)
		}
	}
}
