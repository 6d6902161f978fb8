//go:build linux

package linux

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/backend/keep"
	"github.com/paddock-dev/paddock/backend/state"
	"github.com/paddock-dev/paddock/confine"
	"github.com/paddock-dev/paddock/egress"
	"github.com/paddock-dev/paddock/internal/testkit"
	"github.com/paddock-dev/paddock/internal/testkit/boxtest"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

// traces is everything that a start could leave behind.
type traces struct {
	children, mounts, state string
	files                   int
}

func traced(t *testing.T, stateDir string) traces {
	t.Helper()
	var tr traces
	tasks, _ := filepath.Glob("/proc/self/task/*/children")
	for _, task := range tasks {
		text, _ := os.ReadFile(task) // a thread may be gone by now
		tr.children += string(text)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if !strings.Contains(line, "/pd-engine-") { // of container engines that tests beside this one run
			tr.mounts += line
		}
	}
	for _, sub := range []string{"sandboxes", "ids"} {
		found, _ := filepath.Glob(filepath.Join(stateDir, sub, "*"))
		tr.state += strings.Join(found, " ")
	}
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	tr.files = len(fds)
	return tr
}

// check fails if there is more now than before. There may be fewer open files: a start before this one
// closes some late.
func (before traces) check(t *testing.T, stateDir string) {
	t.Helper()
	after := traced(t, stateDir)
	before.files = min(before.files, after.files)
	if after != before {
		t.Errorf("before %+v\nafter %+v", before, after)
	}
}

// Whatever stops a start, it is told as a typed error, soon, and nothing is left.
func TestStartErrors(t *testing.T) {
	boxtest.RequireWalls(t)
	warm := launchBox(t, request(t)) // opens what the runtime opens once
	if _, err := warm.Stop(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	fake := func(name string) string { return filepath.Join(fakesDir, name) }
	notProgram := filepath.Join(tempDir(t), "text")
	testkit.Write(t, notProgram, "no program\n", 0o644)
	if err := os.Chmod(notProgram, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, agent, stage, cause string
		errno                     unix.Errno
	}{
		{"no agent", "/nonexistent/agent", "agent", "", unix.ENOENT},
		{"no program", notProgram, "clone", "", unix.ENOEXEC},
		{"dies at once", fake("dead"), "boot", "last words", 0},
		{"garbage", fake("garbage"), "boot", "another version's format", 0},
		{"flood", fake("flood"), "boot", "another version's format", 0},
		{"empty answer", fake("empty"), "boot", "another version of the protocol", 0},
		{"liar", fake("liar"), "verify", "", 0},
		{"another program", "/bin/true", "boot", "", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			req := request(t)
			req.Agent = tt.agent
			before := traced(t, req.StateDir)
			began := time.Now()
			box, err := New().Start(t.Context(), req)
			if err == nil {
				_, _ = box.Stop(t.Context(), 0)
				t.Fatal("it started")
			}
			e := startError(t, err)
			if e.Stage != tt.stage || e.Errno != int(tt.errno) && tt.errno != 0 || !strings.Contains(e.Cause, tt.cause) {
				t.Errorf("stage %q, errno %d, cause %q: %v", e.Stage, e.Errno, e.Cause, err)
			}
			if took := time.Since(began); took > 15*time.Second {
				t.Errorf("it took %v", took)
			}
			before.check(t, req.StateDir)
		})
	}
}

// A link that comes into a path after it was looked at is not followed.
func TestSwappedSource(t *testing.T) {
	boxtest.RequireWalls(t)
	for _, link := range []string{"a", "a/b"} { // a parent, and the source itself
		dir := tempDir(t)
		testkit.Write(t, dir+"/a/b/f", "", 0o644)
		testkit.Write(t, dir+"/other/b/f", "", 0o644)
		req := request(t, func(s *policy.Spec) { s.Workspace.Source = dir + "/a/b" })
		mounts, err := hostpath.Mounts(req, workspaceDir)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.Rename(filepath.Join(dir, link), dir+"/gone"), os.Symlink(dir+"/other", filepath.Join(dir, link))); err != nil {
			t.Fatal(err)
		}
		made, err := newStateDir(req.StateDir, "")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(made.remove)
		id, err := chooseIdentity()
		if err != nil {
			t.Fatal(err)
		}
		box, err := start(t.Context(), req, made, id, mounts)
		if err == nil {
			box.kill()
			t.Fatal("the link was followed")
		}
		if !errors.Is(err, unix.ELOOP) {
			t.Errorf("%s: %v", link, err)
		}
		var e *backend.StartError
		if errors.As(err, &e) && (e.Stage != "setup" || e.Object != dir+"/a/b" || !strings.Contains(e.Hint, "symbolic link")) {
			t.Errorf("%s: %+v", link, e)
		}
	}
}

// Who may not name a source through a link cannot put one there later either,
// at neither level.
func TestNoLinks(t *testing.T) {
	dir := tempDir(t)
	testkit.Write(t, dir+"/a/b/f", "", 0o644)
	testkit.Write(t, dir+"/other/f", "", 0o644)
	if err := errors.Join(os.Symlink(dir+"/other", dir+"/a/link"), os.Symlink("a", dir+"/to-a")); err != nil {
		t.Fatal(err)
	}
	named := func(change func(*policy.Spec)) error {
		req := request(t, change)
		req.NoLinks = true
		_, err := New().Plan(t.Context(), req)
		return err
	}
	for _, tt := range []struct {
		source, field string // no field: it is taken
	}{{dir + "/a/b", ""}, {dir + "/a/link", "mounts[0].source"}, {dir + "/to-a/b", "mounts[0].source"}} {
		err := named(func(s *policy.Spec) {
			s.Workspace.Source = dir + "/a/b"
			s.Mounts = []policy.Mount{{Source: tt.source, Target: "/data", Mode: "ro"}}
		})
		if fields := policy.FieldErrors(err); tt.field == "" && err != nil || tt.field != "" && (len(fields) != 1 || fields[0].Field != tt.field) {
			t.Errorf("%s as a mount: %v", tt.source, err)
		}
		err = named(func(s *policy.Spec) { s.Workspace.Source = tt.source })
		if (err == nil) != (tt.field == "") {
			t.Errorf("%s as a workspace: %v", tt.source, err)
		}
	}
	rule := confine.PathRule{Path: dir + "/a/link/f", Access: confine.AccessRead, Resolved: true}
	err := (&confine.Applier{}).Spawn(&confine.Plan{Spawn: []confine.Step{{Do: confine.OpLandlock, Rules: []confine.PathRule{rule}}}})
	if err == nil || !strings.Contains(err.Error(), unix.ELOOP.Error()) {
		t.Errorf("a rule for a path with a link: %v", err)
	}
}

// An agent of another build is refused by name.
func TestOtherBuild(t *testing.T) {
	boxtest.RequireWalls(t)
	wire.Build = "this"
	defer func() { wire.Build = "" }()
	req := request(t)
	req.Agent = otherAgent
	_, err := New().Start(t.Context(), req)
	e := startError(t, err)
	if e.Stage != "handshake" || e.Op != "build" || !strings.Contains(e.Cause, "this") || !strings.Contains(e.Cause, "another") || e.Hint == "" {
		t.Errorf("%+v", e)
	}
}

// Whoever waits no longer gets the context's error, and nothing is left.
func TestStartCancelled(t *testing.T) {
	boxtest.RequireWalls(t)
	for name, start := range map[string]func() (context.Context, context.CancelFunc){
		"before": func() (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			return ctx, cancel
		},
		"meanwhile": func() (context.Context, context.CancelFunc) {
			return context.WithTimeout(t.Context(), 200*time.Millisecond)
		},
	} {
		t.Run(name, func(t *testing.T) {
			req := request(t)
			req.Agent = filepath.Join(fakesDir, "mute")
			before := traced(t, req.StateDir)
			ctx, cancel := start()
			defer cancel()
			began := time.Now()
			_, err := New().Start(ctx, req)
			if took := time.Since(began); !errors.Is(err, ctx.Err()) || took > bootTimeout {
				t.Errorf("%v after %v, want %v", err, took, ctx.Err())
			}
			before.check(t, req.StateDir)
		})
	}
}

// A context that has ended before the agent boots ends the wait for it at once.
func TestBootCancelled(t *testing.T) {
	boxtest.RequireWalls(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 8 { // what was wrong was a race
		req := request(t)
		req.Agent = filepath.Join(fakesDir, "mute")
		mounts, err := hostpath.Mounts(req, workspaceDir)
		if err != nil {
			t.Fatal(err)
		}
		dir, err := newStateDir(req.StateDir, "")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(dir.remove)
		id, err := chooseIdentity()
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		_, err = start(ctx, req, dir, id, mounts)
		if took := time.Since(began); !errors.Is(err, context.Canceled) || took > bootTimeout/2 {
			t.Fatalf("%v after %v", err, took)
		}
	}
}

func TestStop(t *testing.T) {
	req := request(t)
	box := launchBox(t, req)
	testkit.Write(t, filepath.Join(req.Spec.Workspace.Source, "keep"), "", 0o644)
	token := newToken()
	client := wire.Client{Dial: box.Dial}
	p, err := client.Start(t.Context(), wire.ExecRequest{Argv: []string{"sh", "-c", "sleep 1000", token}}, wire.Streams{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	var wg sync.WaitGroup
	for _, grace := range []time.Duration{0, time.Second, 0, time.Millisecond} {
		wg.Go(func() {
			death, err := box.Stop(context.Background(), grace)
			if err != nil || !death.Proved || death.Log != "" {
				t.Errorf("%+v, %v", death, err)
			}
			if pids := carriers(token); len(pids) != 0 {
				t.Errorf("Stop has returned, and %v run", pids)
			}
		})
	}
	wg.Wait()
	select {
	case <-box.Done():
	default:
		t.Error("Done is open")
	}
	if _, err := box.Dial(t.Context()); !errors.Is(err, backend.ErrGone) {
		t.Errorf("Dial: %v", err)
	}
	if dirs := sandboxDirs(t, req.StateDir); len(dirs) != 0 {
		t.Errorf("state is left: %v", dirs)
	}
	if !state.Exists(filepath.Join(req.Spec.Workspace.Source, "keep")) {
		t.Error("the workspace was touched")
	}
}

// A sandbox that ends by itself is known to have ended.
func TestAgentKilled(t *testing.T) {
	box := launchBox(t, request(t))
	if err := unix.Kill(box.(*sandbox).pid, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-box.Done()
	if _, err := box.Dial(t.Context()); !errors.Is(err, backend.ErrGone) {
		t.Errorf("Dial: %v", err)
	}
	if death, err := box.Stop(t.Context(), time.Second); err != nil || !death.Proved {
		t.Errorf("%+v, %v", death, err)
	}
}

func TestManySandboxes(t *testing.T) {
	boxtest.RequireWalls(t)
	const many = 50
	state := filepath.Join(tempDir(t), "state")
	uids := make([]uint32, many)
	var wg, started sync.WaitGroup
	started.Add(many)
	for i := range many {
		req := request(t)
		req.StateDir = state
		wg.Go(func() {
			box, err := New().Start(t.Context(), req)
			started.Done()
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _, _ = box.Stop(context.Background(), 0) }()
			started.Wait() // an id is free again once its sandbox has ended
			uids[i] = box.Isolation().UIDHost
			client := wire.Client{Dial: box.Dial}
			want := fmt.Sprint(i)
			res, err := client.Exec(t.Context(), wire.ExecRequest{Argv: []string{"echo", want}})
			if err != nil || strings.TrimSpace(res.Stdout) != want {
				t.Errorf("%d: %+v, %v", i, res, err)
			}
		})
	}
	wg.Wait()
	if os.Geteuid() == 0 {
		slices.Sort(uids)
		if n := len(slices.Compact(uids)); n != many {
			t.Errorf("%d host ids for %d sandboxes", n, many)
		}
	}
	if dirs := sandboxDirs(t, state); len(dirs) != 0 {
		t.Errorf("state is left: %v", dirs)
	}
}

// Names that a table, an option or mountinfo could trip over.
func TestNames(t *testing.T) {
	for _, name := range []string{"with space", "ünïcödé", `back\slash`, `a\040b`, "tab\tinside", "quote'\"", "-dash", "colon:comma,", "#hash", "long-" + strings.Repeat("x", 240)} {
		t.Run(strings.ToValidUTF8(name[:min(len(name), 20)], ""), func(t *testing.T) {
			req := request(t)
			ws := filepath.Join(tempDir(t), name)
			testkit.Write(t, filepath.Join(ws, ".git", "config"), "x\n", 0o644)
			req.Spec.Workspace.Source = ws
			req.Spec.Mounts = []policy.Mount{{Source: ws, Target: "/mnt/" + name, Mode: "rw"}}
			box := launchBox(t, req)
			if out, status := sh(t, box, "cat .git/config && touch made && ls /mnt"); status != 0 || !strings.HasPrefix(out, "x\n") {
				t.Errorf("status %d: %s", status, out)
			}
			if !state.Exists(filepath.Join(ws, "made")) {
				t.Error("the file is not in the workspace")
			}
		})
	}
}

// A socket's address has room for 107 bytes; a state directory need not mind.
func TestLongStateDir(t *testing.T) {
	req := request(t)
	req.StateDir = filepath.Join(tempDir(t), strings.Repeat("long/", 60), strings.Repeat("x", 200))
	box := launchBox(t, req)
	if out, _ := sh(t, box, "echo hi"); out != "hi" {
		t.Errorf("it says %q", out)
	}
}

// The connection that is made ahead is not given to a caller who comes late:
// the agent may have given up on it.
func TestSpareConnection(t *testing.T) {
	for name, age := range map[string]time.Duration{"soon": 0, "late": time.Hour} {
		s := launchBox(t, request(t)).(*sandbox)
		s.mu.Lock()
		if s.spare == nil {
			t.Fatal("there is none")
		}
		s.spareAt = s.spareAt.Add(-age)
		if age > 0 {
			_ = s.spare.SetDeadline(time.Unix(1, 0)) // of no use to anybody
		}
		s.mu.Unlock()
		for range 2 {
			if out, status := sh(t, s, "echo hi"); status != 0 || out != "hi" {
				t.Errorf("%s: status %d: %s", name, status, out)
			}
		}
	}
}

// The agent's program is never on a number on which the agent gets something else.
func TestAgentDescriptor(t *testing.T) {
	f, err := keep.OpenProgram(agentPath, "")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if f.Fd() < keep.FirstOwn {
		t.Errorf("it is open on %d", f.Fd())
	}
}

// TestVarTmp: what is mounted below /var/tmp, which is a link to /tmp otherwise, is there.
func TestVarTmp(t *testing.T) {
	source := tempDir(t)
	if err := os.WriteFile(filepath.Join(source, "f"), []byte("here"), 0o644); err != nil {
		t.Fatal(err)
	}
	for target, link := range map[string]bool{"/var/tmp/a/b": false, "/var/tmp": false, "/mnt/x": true} {
		box := launchBox(t, request(t, func(s *policy.Spec) { s.Mounts = []policy.Mount{{Source: source, Target: target}} }))
		out, _ := sh(t, box, "cat "+target+"/f; [ -L /var/tmp ] && echo a link; [ -L /var/tmp ] || [ "+target+" = /var/tmp ] || echo written > /var/tmp/f")
		want := "here"
		if link {
			want += "a link"
		}
		if out != want {
			t.Errorf("%s: %q, want %q", target, out, want)
		}
	}
}

// The agent's table of descriptors has room for the sockets of a gateway from the beginning: it would
// grow among threads else, which takes as long as the rest of a start.
func TestRoomForGateway(t *testing.T) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	l := &launch{exe: null, null: null, channels: &state.Channels{Log: null, Theirs: null, Listen: null}}
	c, _, err := l.command()
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range c.Files {
		_ = unix.Close(fd)
	}
	if own := 48; c.Room < own+egress.Stock+1 { // the agent's own are below
		t.Errorf("there is room for %d descriptors, want %d", c.Room, own+egress.Stock+1)
	}
}
