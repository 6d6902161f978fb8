//go:build linux

package backendtest

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/internal/testkit/boxtest"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

// host is what the boxes of one wall have in common.
type host struct {
	Config
	dir     string // for everything; everybody may pass through
	state   string
	outside string // a directory that no sandbox is shown
}

func newHost(t *testing.T, c Config) *host {
	t.Helper()
	dir, err := os.MkdirTemp(cmp.Or(c.Base, "/var/tmp"), "paddock-backend-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	h := &host{Config: c, dir: dir, state: filepath.Join(dir, "state"), outside: filepath.Join(dir, "outside")}
	t.Setenv("TMPDIR", filepath.Join(dir, "tmp"))
	err = errors.Join(os.Chmod(dir, 0o755), os.Mkdir(filepath.Join(dir, "tmp"), 0o700), os.Mkdir(h.outside, 0o777), os.Chmod(h.outside, 0o777),
		os.WriteFile(filepath.Join(h.outside, "secret"), []byte("of the host\n"), 0o666))
	if err == nil {
		err = os.Chmod(filepath.Join(h.outside, "secret"), 0o666)
	}
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// box is a sandbox under test.
type box struct {
	*host
	s      *paddock.Sandbox
	wire   *wire.Client
	dir    string // the workspace on the host, empty where it is elsewhere
	closed bool
	// unjoined has why connections to published ports were not joined.
	unjoined chan error
}

// open starts a sandbox with the probe in its workspace. change may be nil.
func (h *host) open(ctx context.Context, change func(*policy.Spec)) (*box, error) {
	spec := h.Spec
	spec.Backend = h.Backend.Name()
	spec.Env = map[string]string{"PD_SPEC": "from the spec"}
	b := &box{host: h, unjoined: make(chan error, 1)}
	if !h.Remote {
		dir, err := os.MkdirTemp(h.dir, "workspace-")
		if err != nil {
			return nil, err
		}
		b.dir, spec.Workspace.Source = dir, dir
	}
	if w := spec.Wrapper; w != nil {
		own := *w
		own.Command = nil
		for _, word := range w.Command {
			own.Command = append(own.Command, strings.NewReplacer("WORKSPACE", b.dir, "AGENT", programs.agent).Replace(word))
		}
		spec.Wrapper = &own
	}
	if change != nil {
		change(&spec)
	}
	s, err := paddock.Open(ctx, spec, h.options())
	if err != nil {
		return nil, err
	}
	b.s, b.wire = s, s.Client()
	if err := b.upload(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return b, nil
}

func (h *host) options() paddock.Options {
	return paddock.Options{Backend: h.Backend, StateDir: h.state, Agent: programs.agent}
}

// upload puts the probe into the workspace.
func (b *box) upload(ctx context.Context) error {
	if spec := b.s.Spec(); spec.Workspace.Access == "ro" {
		return nil
	}
	program, err := os.ReadFile(programs.probe)
	if err != nil {
		return err
	}
	mode := uint32(0o755)
	_, err = wire.Upload(ctx, b.wire, wire.WriteFile,
		wire.WriteFileRequest{Path: "/workspace/probe", ContentSize: int64(len(program)), Mode: &mode}, bytes.NewReader(program))
	return err
}

func (b *box) ended() bool {
	select {
	case <-b.s.Done():
		return true
	default:
		return b.closed
	}
}

func (b *box) close() error {
	if b.closed {
		return nil
	}
	b.closed = true
	return b.s.Close()
}

// output runs a command and gives what it prints.
func (b *box) output(ctx context.Context, argv ...string) (string, error) {
	out, err := b.s.Command(ctx, argv[0], argv[1:]...).CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("%s: %w: %.200s", strings.Join(argv, " "), err, out)
	}
	return string(out), nil
}

// sh runs a shell text and wants it to print this.
func (b *box) sh(ctx context.Context, text, want string) error {
	out, err := b.output(ctx, "sh", "-c", text)
	if err != nil {
		return err
	}
	return same(out, want)
}

func same[T comparable](got, want T) error {
	if got != want {
		return fmt.Errorf("got %.200q, want %.200q", fmt.Sprint(got), fmt.Sprint(want))
	}
	return nil
}

// must says what is wrong where something does not hold.
func must(ok bool, format string, args ...any) error {
	if ok {
		return nil
	}
	return fmt.Errorf(format, args...)
}

// newMark returns an argument that no other process has.
func newMark() string { return "pd-mark-" + strings.ToLower(rand.Text()) }

// marked returns the processes of the host that have the mark as an argument.
func marked(mark string) []string {
	var found []string
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err == nil && bytes.Contains(text, []byte(mark)) {
			found = append(found, filepath.Base(filepath.Dir(file)))
		}
	}
	return found
}

// await looks until the number of marked processes is as wanted: the kernel
// tells nobody of a process of others that ends.
func await(ctx context.Context, mark string, enough func(n int) bool) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		found := marked(mark)
		if enough(len(found)) {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("there are %d processes with the mark: %v", len(found), found)
		}
	}
}

func none(n int) bool { return n == 0 }
func some(n int) bool { return n > 0 }

// programs are built once.
var programs struct{ dir, agent, probe string }

func build() error {
	if programs.dir != "" {
		return nil
	}
	dir, err := os.MkdirTemp("/tmp", "paddock-backend-bin-")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		return err
	}
	// Sandboxes may have had this tree, with programs of the host in it, as their workspace.
	usual := boxtest.Usual(filepath.Join(dir, "usual"))
	cmd := exec.Command("go", "build", "-buildvcs=false", usual, "-o", dir+"/", "./cmd/paddock", "./cmd/paddock-server", "./cmd/paddock-agent", "./cmd/paddock-egress", "./cmd/paddock-keeper", "./test/backendtest/probe")
	cmd.Dir = filepath.Join("..", "..")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("cannot build the programs: %w\n%s", err, out)
	}
	programs.dir, programs.agent, programs.probe = dir, filepath.Join(dir, "paddock-agent"), filepath.Join(dir, "probe")
	return nil
}
