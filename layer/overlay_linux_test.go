package layer

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// What a child of the tests does in a mount namespace of its own.
const (
	inOverlay   = "PADDOCK_TEST_OVERLAY" // the directory that has source, upper, work and merged
	withMarks   = "PADDOCK_TEST_MARKS"
	runsScript  = "PADDOCK_TEST_SCRIPT"
	changesTree = "PADDOCK_TEST_SEED" // change the tree at random
	cannotMount = 77                  // the exit code
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(inOverlay); dir != "" {
		os.Exit(insideOverlay(dir))
	}
	os.Exit(m.Run())
}

// insideOverlay mounts the overlay, and changes what is in it.
func insideOverlay(dir string) int {
	_ = unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
	options := "lowerdir=source,upperdir=upper,workdir=work,index=off,metacopy=off,"
	if os.Getenv(withMarks) == string(UserMarks) {
		options += "userxattr"
	} else {
		options += "redirect_dir=on"
	}
	err := os.Chdir(dir)
	if err == nil {
		err = unix.Mount("overlay", "merged", "overlay", 0, options)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "mount:", err)
		return cannotMount
	}
	if err := os.Chdir("merged"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if seed := os.Getenv(changesTree); seed != "" {
		n, _ := strconv.ParseInt(seed, 10, 64)
		changeAtRandom(".", n, 40)
	} else {
		cmd := exec.Command("/bin/sh", "-euc", os.Getenv(runsScript))
		cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
		err = cmd.Run()
	}
	if err == nil {
		err = exec.Command("cp", "-a", ".", "../result").Run() // what commands saw
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// overlay is a source with an upper directory.
type overlay struct {
	dir   string
	marks Marks
}

func newOverlay(t *testing.T, marks Marks) *overlay {
	t.Helper()
	o := &overlay{t.TempDir(), marks}
	for _, name := range []string{"source", "upper", "work", "merged"} {
		if err := os.Mkdir(filepath.Join(o.dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { _ = exec.Command("chmod", "-R", "u+rwX", o.dir).Run() }) // the kernel makes one unreadable, and so do scripts
	return o
}

func (o *overlay) source() string { return filepath.Join(o.dir, "source") }
func (o *overlay) upper() string  { return filepath.Join(o.dir, "upper") }

// below runs a shell script in the source.
func (o *overlay) below(t *testing.T, script string) {
	t.Helper()
	cmd := exec.Command("/bin/sh", "-euc", script)
	cmd.Dir = o.source()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// change runs a shell script in the mounted overlay.
func (o *overlay) change(t *testing.T, script string) { o.inside(t, runsScript+"="+script) }

func (o *overlay) inside(t *testing.T, env string) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), inOverlay+"="+o.dir, withMarks+"="+string(o.marks), env)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS}
	if o.marks == UserMarks {
		cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	switch {
	case err == nil:
	case errors.Is(err, unix.EPERM):
		t.Skip("no overlay can be had here: ", err)
	case errors.As(err, &exit) && exit.ExitCode() == cannotMount:
		t.Skipf("no overlay can be had here: %s", out)
	default:
		t.Fatalf("%v\n%s", err, out)
	}
}

func (o *overlay) layer(t *testing.T) *Layer {
	t.Helper()
	l := &Layer{Marks: o.marks}
	for path, f := range map[string]**os.File{o.source(): &l.Source, o.upper(): &l.Upper} {
		fd, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		*f = os.NewFile(uintptr(fd), path)
		t.Cleanup(func() { (*f).Close() })
	}
	return l
}

func (o *overlay) changes(t *testing.T) []Change {
	t.Helper()
	changes, err := o.layer(t).Changes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return changes
}

// bothMarks runs a test with a layer of root's and one of an ordinary user's.
func bothMarks(t *testing.T, test func(t *testing.T, o *overlay)) {
	for _, marks := range []Marks{TrustedMarks, UserMarks} {
		t.Run(string(marks), func(t *testing.T) { test(t, newOverlay(t, marks)) })
	}
}

// list returns changes as lines.
func list(changes []Change) string {
	var b strings.Builder
	for _, c := range changes {
		fmt.Fprintf(&b, "%c %q", c.Kind, c.Path)
		if c.From != "" {
			fmt.Fprintf(&b, " from %q", c.From)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
