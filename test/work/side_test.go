//go:build linux

package work

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// systemPath is the PATH of a sandbox.
const systemPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// patience is for a job that hangs.
const patience = 5 * time.Minute

// toolchain is what a job needs beyond the system: a directory of programs
// that is mounted read-only, and other such mounts.
type toolchain struct {
	path   string            // to look in first, on the host
	mounts map[string]string // from the host's path to the one inside
	env    []string          // with paths of the host
}

// side is a copy of a job's directory, with all that one run of it writes.
type side struct {
	toolchain
	dir, home, tmp, state string
}

func newSide(t *testing.T, j job) *side {
	t.Helper()
	base, err := os.MkdirTemp("", "paddock-work-") //nolint:usetesting // the identity of a sandbox must reach it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(base); err != nil {
			t.Error(err)
		}
	})
	s := &side{dir: base + "/dir", home: base + "/home", tmp: base + "/tmp", state: base + "/state"}
	err = errors.Join(os.Chmod(base, 0o755), os.CopyFS(s.dir, os.DirFS(filepath.Join("testdata", j.name))),
		os.Mkdir(s.home, 0o700), os.Mkdir(s.tmp, 0o700))
	if err != nil {
		t.Fatal(err)
	}
	if j.prepare != nil {
		s.toolchain = j.prepare(t, s.dir)
	}
	return s
}

const script = `umask 022; set -eu; . ./job.sh`

// host runs the job as it is, with the variables of a sandbox.
func (s *side) host(ctx context.Context) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", script)
	cmd.Env = append([]string{
		"HOME=" + s.home, "TMPDIR=" + s.tmp, "LANG=C.UTF-8", "LOGNAME=agent", "USER=agent", "SHELL=/bin/sh",
		"PATH=" + strings.TrimPrefix(s.path+":"+systemPath, ":"),
	}, s.env...)
	return cmd
}

// paddock runs the job inside.
func (s *side) paddock(ctx context.Context) *exec.Cmd {
	args := []string{"run"}
	moved := func(text string) string {
		for from, to := range s.mounts {
			text = strings.ReplaceAll(text, from, to)
		}
		return text
	}
	for from, to := range s.mounts {
		args = append(args, "--ro", from+":"+to)
	}
	for _, variable := range s.env {
		args = append(args, "--env", moved(variable))
	}
	if s.path != "" {
		args = append(args, "--env", "PATH="+moved(s.path)+":"+systemPath)
	}
	cmd := exec.CommandContext(ctx, filepath.Join(binDir, "paddock"), append(args, "--", "/bin/sh", "-c", script)...)
	cmd.Env = append(os.Environ(), paddockState+s.state)
	return cmd
}

const paddockState = "PADDOCK_STATE_DIR="

// result is what came of a job.
type result struct {
	status         int
	stdout, stderr string
	tree           string // of the files in its directory
	took           time.Duration
}

// finish runs the job to its end.
func (s *side) finish(t *testing.T, cmd *exec.Cmd) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.dir, &stdout, &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = time.Second
	began := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(patience, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	err := cmd.Wait()
	if !late.Stop() {
		t.Fatalf("the job hangs: %s\n%s%s", cmd, &stdout, &stderr)
	}
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return result{
		status: cmd.ProcessState.ExitCode(), stdout: s.normal(stdout.String()), stderr: stderr.String(),
		tree: s.tree(t), took: time.Since(began),
	}
}

// seconds are never the same twice.
var seconds = regexp.MustCompile(`\t\d+\.\d+s\b`)

// normal is a text with the paths of a sandbox and without times.
func (s *side) normal(text string) string {
	text = strings.NewReplacer(s.dir, "/workspace", s.home, "/home/agent", s.tmp, "/tmp").Replace(text)
	return seconds.ReplaceAllString(text, "\tTIME")
}

// tree lists mode and name of every file, all of which have the owner of the
// directory.
func (s *side) tree(t *testing.T) string {
	t.Helper()
	var list strings.Builder
	err := filepath.WalkDir(s.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if owner := info.Sys().(*syscall.Stat_t).Uid; int(owner) != os.Geteuid() {
			t.Errorf("%s belongs to uid %d", path, owner)
		}
		fmt.Fprintf(&list, "%v .%s\n", info.Mode(), strings.TrimPrefix(path, s.dir))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return list.String()
}
