//go:build linux

package docker

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/internal/testkit"
	"github.com/paddock-dev/paddock/internal/testkit/engines"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

// A sandbox runs commands where the workspace is, and is gone afterwards.
func TestSandbox(t *testing.T) {
	eachEngine(t, func(t *testing.T, e *engines.Engine) {
		req := request(t, e)
		b := start(t, req)
		ws := req.Spec.Workspace.Source
		b.want("pwd", ws+"\n")
		b.want("echo one >made; cat made", "one\n")
		if text, err := os.ReadFile(filepath.Join(ws, "made")); string(text) != "one\n" {
			t.Errorf("the host sees %q, %v", text, err)
		}
		if r := b.exec(wire.ExecRequest{Argv: []string{"/bin/sh", "-c", "echo out; echo err >&2; exit 7"}}); r.Stdout != "out\n" || r.Stderr != "err\n" || r.ExitCode != 7 {
			t.Errorf("%+v", r)
		}
		if r := b.exec(wire.ExecRequest{Argv: []string{"/bin/sh", "-c", "kill -9 $$"}}); r.ExitCode != -9 {
			t.Errorf("killed: %+v", r)
		}
		b.want("hostname", "paddock\n")
		b.want("ls /sys/class/net", "lo\n")
		b.want(`grep -E "^(CapEff|CapPrm|CapBnd|NoNewPrivs)" /proc/self/status | tr -d "\t\n"`, "CapPrm:0000000000000000CapEff:0000000000000000CapBnd:0000000000000000NoNewPrivs:1")
		iso := b.Isolation()
		if !iso.Verified || iso.Level != "engine" || iso.Network != "none" || iso.Capabilities != "none" || !iso.NoNewPrivs || iso.Seccomp != "default" {
			t.Errorf("isolation %+v", iso)
		}
		for _, ns := range []string{"mount", "pid", "ipc", "uts", "net"} {
			if !slices.Contains(iso.Namespaces, ns) {
				t.Errorf("the %s namespace is shared", ns)
			}
		}
		name := b.name()
		b.stop()
		if left := containers(t, e, name); left != "" {
			t.Errorf("the container %s is left", left)
		}
		select {
		case <-b.Done():
		default:
			t.Error("the sandbox has ended, and Done is open")
		}
	})
}

func TestTerminal(t *testing.T) {
	eachEngine(t, func(t *testing.T, e *engines.Engine) {
		b := start(t, request(t, e))
		var out bytes.Buffer
		p, err := b.Start(t.Context(), wire.ExecRequest{Argv: []string{"/bin/sh", "-c", "tty && stty size"}, TTY: &wire.TTY{Rows: 30, Cols: 100}}, wire.Streams{Stdout: &out})
		if err != nil {
			t.Fatal(err)
		}
		if r, err := p.Wait(); err != nil || r.ExitCode != 0 || !strings.HasPrefix(out.String(), "/dev/pts/") || !strings.Contains(out.String(), "30 100") {
			t.Errorf("%q, %+v, %v", out.String(), r, err)
		}
	})
}

// A command that is over its time ends with all it has started.
func TestTimeout(t *testing.T) {
	eachEngine(t, func(t *testing.T, e *engines.Engine) {
		b := start(t, request(t, e))
		limit := 0.5
		began := time.Now()
		r := b.exec(wire.ExecRequest{Argv: []string{"/bin/sh", "-c", "echo begun; setsid sleep 1000 & sleep 1000"}, TimeoutSeconds: &limit})
		if !r.TimedOut || r.Stdout != "begun\n" || !r.DeathProved || time.Since(began) > time.Minute {
			t.Errorf("%+v after %v", r, time.Since(began))
		}
		b.want("ps -o args | grep -c '[s]leep 1000' || true", "0\n")
	})
}

func TestLimits(t *testing.T) {
	eachEngine(t, func(t *testing.T, e *engines.Engine) {
		b := start(t, request(t, e, func(s *policy.Spec) {
			s.Limits = policy.Limits{Memory: 64 << 20, Processes: 40, Tmp: 1 << 20, FileSize: 2 << 20, CPUs: 500}
		}))
		if out, code := b.sh("head -c 200000000 /dev/zero | tail -c 190000000 | wc -c"); code == 0 && strings.Contains(out, "190000000") {
			t.Errorf("more memory than allowed was used: %q", out)
		}
		b.want("until grep -q 500 /proc/$$/oom_score_adj; do :; done; echo set", "set\n") // or the agent could be ended in a command's place
		b.refuses("head -c 3000000 /dev/zero >/tmp/x", "")
		b.refuses("head -c 3000000 /dev/zero >big", "")
		if out, _ := b.sh("i=0; while [ $i -lt 60 ]; do sleep 100 & i=$((i+1)); done; wait"); !strings.Contains(out, "fork") {
			t.Errorf("60 processes were made: %q", out)
		}
		b.want("echo well", "well\n")
		iso := b.Isolation()
		for _, limit := range []string{"memory", "cpus", "processes"} {
			if iso.Limits[limit] == "" {
				t.Errorf("by what %s is kept is not said: %v", limit, iso.Limits)
			}
		}
	})
}

// Commands that use up the bound of processes, which the engine counts the
// agent's threads to, cost them new processes alone.
func TestNoProcessLeft(t *testing.T) {
	eachEngine(t, func(t *testing.T, e *engines.Engine) {
		b := start(t, request(t, e, func(s *policy.Spec) { s.Limits = policy.Limits{Processes: 40} }))
		full := "i=0; while [ $i -lt 60 ]; do sleep 1000 & i=$((i+1)); done"
		if r, err := b.Exec(t.Context(), wire.ExecRequest{Argv: []string{"/bin/sh", "-c", full}, Detach: true}); err != nil || !strings.Contains(r.Stderr, "fork") {
			t.Fatalf("60 processes were made: %+v, %v", r, err)
		}
		var asked sync.WaitGroup
		for range 64 {
			asked.Go(func() {
				_, err := b.Exec(t.Context(), wire.ExecRequest{Argv: []string{"/bin/true"}})
				if refused := (*wire.Error)(nil); err != nil && !errors.As(err, &refused) {
					t.Errorf("the agent did not answer: %v", err)
				}
				if _, err := wire.Call(t.Context(), &b.Client, wire.Stat, wire.StatRequest{Path: "/workspace"}); err != nil {
					t.Errorf("a file: %v", err)
				}
			})
		}
		asked.Wait()
	})
}

func TestReadOnlyRoot(t *testing.T) {
	eachEngine(t, func(t *testing.T, e *engines.Engine) {
		b := start(t, request(t, e, func(s *policy.Spec) { s.Docker.ReadOnlyRootFS = true }))
		b.refuses("echo x >/bin/x", "Read-only")
		b.want("echo x >/tmp/x && cp /bin/busybox /tmp/busybox && /tmp/busybox echo y", "y\n")
		b.want("echo x >$HOME/x && echo $HOME", "/home/agent\n")
		b.refuses("echo x >/.paddock-agent", "Read-only")
		for _, dir := range []string{"/run", "/var/tmp", "/etc"} {
			if out, code := b.sh("echo x >" + dir + "/x"); code == 0 {
				t.Errorf("%s can be written to: %q", dir, out)
			}
		}
	})
}

// An image's own entry point, user, volume and environment do not decide.
func TestTrap(t *testing.T) {
	eachEngine(t, func(t *testing.T, e *engines.Engine) {
		b := start(t, request(t, e, func(s *policy.Spec) { s.Docker.Image = engines.Trap }))
		b.refuses("ls /trapped", "No such file")
		b.want("id -u", "0\n")
		b.want("echo $TRAPPED", "yes\n")
		b.want("grep ' /data ' /proc/mounts | cut -d ' ' -f 3", "tmpfs\n")
		if lost := b.Isolation().Lost; !slices.ContainsFunc(lost, func(s string) bool { return strings.Contains(s, "/data") }) {
			t.Errorf("nobody says what becomes of the volume: %q", lost)
		}
	})
}

func TestNoShell(t *testing.T) {
	eachEngine(t, func(t *testing.T, e *engines.Engine) {
		b := start(t, request(t, e, func(s *policy.Spec) { s.Docker.Image = engines.Empty }))
		if r := b.exec(wire.ExecRequest{Argv: []string{agentFile, "--version"}}); !strings.HasPrefix(r.Stdout, "paddock-agent") {
			t.Errorf("%+v", r)
		}
		if _, err := b.Exec(t.Context(), wire.ExecRequest{Argv: []string{"sh"}}); err == nil || !strings.Contains(err.Error(), "not found") {
			t.Errorf("%v", err)
		}
	})
}

func TestNoImage(t *testing.T) {
	eachEngine(t, func(t *testing.T, e *engines.Engine) {
		_, err := New().Start(t.Context(), request(t, e, func(s *policy.Spec) { s.Docker.Image = "paddock-test/absent:1" }))
		var failed *backend.StartError
		if !errors.As(err, &failed) || !strings.Contains(failed.Hint, " pull paddock-test/absent:1") {
			t.Errorf("%v, %+v", err, failed)
		}
	})
}

// Commands run as the owner of the workspace, and gain nothing.
func TestOwner(t *testing.T) {
	eachEngine(t, func(t *testing.T, e *engines.Engine) {
		req := request(t, e)
		ws := req.Spec.Workspace.Source
		if err := os.Chown(ws, 4242, 4343); err != nil {
			t.Fatal(err)
		}
		b := start(t, req)
		b.want("id -u; id -g; echo x >made", "4242\n4343\n")
		var st syscall.Stat_t
		if err := syscall.Stat(filepath.Join(ws, "made"), &st); err != nil || st.Uid != 4242 || st.Gid != 4343 {
			t.Errorf("the host sees an owner %d:%d, %v", st.Uid, st.Gid, err)
		}
		if iso := b.Isolation(); iso.UIDInside != 4242 || iso.UIDHost != 4242 {
			t.Errorf("%+v", iso)
		}
	})
}

// Root without capabilities is no root.
func TestRootInside(t *testing.T) {
	eachEngine(t, func(t *testing.T, e *engines.Engine) {
		req := request(t, e)
		secret := filepath.Join(req.Spec.Workspace.Source, "theirs")
		if err := errors.Join(os.WriteFile(secret, []byte("x"), 0o600), os.Chown(secret, 4242, 4242)); err != nil {
			t.Fatal(err)
		}
		b := start(t, req)
		b.want("id -u", "0\n")
		b.refuses("cat theirs", "denied")
		b.refuses("chown 1 .", "not permitted")
		b.refuses("mount -t tmpfs x /tmp", "")
		b.refuses("cp /bin/busybox s; chmod 4755 s", "not permitted")
		b.sh("kill -9 1; kill -STOP 1")
		b.want("echo alive", "alive\n")
	})
}

func TestProtected(t *testing.T) {
	eachEngine(t, func(t *testing.T, e *engines.Engine) {
		req := request(t, e)
		ws := req.Spec.Workspace.Source
		if err := errors.Join(os.MkdirAll(ws+"/.git/hooks", 0o755), os.WriteFile(ws+"/.git/config", nil, 0o644), os.WriteFile(ws+"/.envrc", nil, 0o644)); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{".git/hooks", ".git/config", ".envrc"} {
			req.Guards = append(req.Guards, backend.Guard{File: filepath.Join(ws, name), Why: "a test"})
		}
		b := start(t, req)
		b.refuses("echo x >.git/hooks/pre-commit", "Read-only")
		b.refuses("echo x >>.git/config", "Read-only")
		b.refuses("echo x >>.envrc", "Read-only")
		b.refuses("mv .git other", "busy")
		b.refuses("rm -rf .git", "busy")
		b.refuses("mv .git/hooks .git/x", "busy")
		b.want("echo x >.git/index && mkdir .vscode && echo y", "y\n")
	})
}

func TestMountsOfASpec(t *testing.T) {
	eachEngine(t, func(t *testing.T, e *engines.Engine) {
		req := request(t, e)
		for _, dir := range []string{"plain", "a,b", `q"q`, "a:b", "ä b"} {
			source := filepath.Join(filepath.Dir(req.Spec.Workspace.Source), dir)
			if err := errors.Join(os.Mkdir(source, 0o755), os.WriteFile(source+"/f", []byte(dir), 0o644)); err != nil {
				t.Fatal(err)
			}
			req.Spec.Mounts = []policy.Mount{{Source: source, Target: "/mnt/" + dir, Mode: "ro"}}
			s, err := New().Start(t.Context(), req)
			if err != nil {
				if strings.ContainsAny(dir, `,"`) && strings.HasPrefix(t.Name(), "TestMountsOfASpec/podman") {
					continue // an older podman takes such paths apart; it is an error, and never another mount
				}
				t.Errorf("%s: %v", dir, err)
				continue
			}
			b := &box{Sandbox: s, Client: wire.Client{Dial: s.Dial}, t: t, req: req}
			b.want(fmt.Sprintf("cat '/mnt/%s/f'", dir), dir)
			b.refuses(fmt.Sprintf("echo x >'/mnt/%s/f'", dir), "Read-only")
			b.stop()
		}
	})
}

func TestReadOnlyWorkspace(t *testing.T) {
	eachEngine(t, func(t *testing.T, e *engines.Engine) {
		b := start(t, request(t, e, func(s *policy.Spec) { s.Workspace.Access = "ro" }))
		b.refuses("echo x >x", "Read-only")
	})
}

// A copy has all that a workspace can hold, and nothing comes back.
func TestCopy(t *testing.T) {
	eachEngine(t, func(t *testing.T, e *engines.Engine) {
		req := request(t, e, func(s *policy.Spec) { s.Workspace.Mode, s.Limits.Disk = policy.ModeCopy, 4<<20 })
		ws := req.Spec.Workspace.Source
		if err := errors.Join(os.MkdirAll(ws+"/bin/deep", 0o755), os.WriteFile(ws+"/bin/run", []byte("#!/bin/sh\necho ran\n"), 0o755),
			os.Symlink("../bin/run", ws+"/bin/link"), os.Symlink("/etc/nowhere", ws+"/absolute")); err != nil {
			t.Fatal(err)
		}
		b := start(t, req)
		b.want("pwd; bin/link; readlink absolute; ls -d bin/deep", "/workspace\nran\n/etc/nowhere\nbin/deep\n")
		b.want("rm -rf bin; echo new >made; cat made", "new\n")
		b.refuses("head -c 8000000 /dev/zero >big", "")
		if _, err := os.Stat(ws + "/bin/run"); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(ws + "/made"); err == nil {
			t.Error("a file of the copy is in the original")
		}
		b.refuses("echo x >/.paddock-source/x", "Read-only")
	})
}

func TestCopyTooLarge(t *testing.T) {
	eachEngine(t, func(t *testing.T, e *engines.Engine) {
		const mark = "dev.paddock.test=copy-too-large" // other tests may use the same engine at this moment
		req := request(t, e, func(s *policy.Spec) {
			s.Workspace.Mode, s.Limits.Disk = policy.ModeCopy, 1<<20
			s.Docker.ExtraRunArgs = append(slices.Clone(s.Docker.ExtraRunArgs), "--label", mark)
		})
		if err := os.WriteFile(req.Spec.Workspace.Source+"/big", make([]byte, 3<<20), 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := New().Start(t.Context(), req)
		if err == nil || !strings.Contains(err.Error(), "no space left") {
			t.Errorf("%v", err)
		}
		// Where it is asked twice to remove a container, as with --rm, docker lists it
		// once more for a moment after it was gone.
		testkit.Eventually(t, "nothing is left", func() bool { // busy engines take longer
			left, err := e.Run(t.Context(), nil, "ps", "--all", "--quiet", "--filter", "label="+mark)
			return err == nil && left == ""
		})
	})
}

// Whose container it is can be seen by all; what it is given cannot.
func TestSecrets(t *testing.T) {
	eachEngine(t, func(t *testing.T, e *engines.Engine) {
		const secret = "sekrit-3141592653589793"
		b := start(t, request(t, e, func(s *policy.Spec) { s.Env = map[string]string{"TOKEN": secret} }))
		b.want("echo $TOKEN", secret+"\n")
		about, err := e.Run(t.Context(), nil, "container", "inspect", b.name())
		if err != nil || strings.Contains(about, secret) {
			t.Errorf("the engine knows the secret, %v", err)
		}
		found, _ := filepath.Glob("/proc/[0-9]*")
		for _, proc := range found {
			for _, file := range []string{"/cmdline", "/environ"} {
				if text, err := os.ReadFile(proc + file); err == nil && bytes.Contains(text, []byte(secret)) {
					t.Errorf("%s%s shows the secret", proc, file)
				}
			}
		}
	})
}

// What weakens is the user's word, and told.
func TestExtraArguments(t *testing.T) {
	eachEngine(t, func(t *testing.T, e *engines.Engine) {
		b := start(t, request(t, e, func(s *policy.Spec) {
			s.Docker.ExtraRunArgs = append(slices.Clone(s.Docker.ExtraRunArgs), "--cap-add", "NET_RAW", "--network", "host")
		}))
		iso := b.Isolation()
		if !strings.Contains(iso.Capabilities, "NET_RAW") || iso.Network != "host" || len(iso.Lost) == 0 || slices.Contains(iso.Namespaces, "net") {
			t.Errorf("%+v", iso)
		}
	})
}

// Arguments that weaken are in what is lost, and groups as the kernel has them.
func TestWeakeningArguments(t *testing.T) {
	eachEngine(t, func(t *testing.T, e *engines.Engine) {
		for _, tt := range []struct {
			args []string
			want []string // in what is lost
		}{
			{nil, nil}, // the control
			{[]string{"--group-add=4242", "--security-opt", unmasked(e), "--log-driver", "k8s-file", "--cgroupns=host", "--device-cgroup-rule=c 1:1 r", "--label", "a=b"},
				[]string{"--group-add=4242", "commands have the groups 4242", unmasked(e), "log driver", "--cgroupns=host", "--device-cgroup-rule=c 1:1 r", "--label=a=b"}},
		} {
			args := slices.Clone(tt.args)
			if i := slices.Index(args, "k8s-file"); i >= 0 && !strings.HasSuffix(e.Binary, "podman") {
				args[i] = "json-file"
			}
			b := start(t, request(t, e, func(s *policy.Spec) { s.Docker.ExtraRunArgs = append(slices.Clone(s.Docker.ExtraRunArgs), args...) }))
			lost := slices.DeleteFunc(b.Isolation().Lost, func(s string) bool { return strings.Contains(s, "--cgroup-parent") })
			text := strings.Join(lost, "\n")
			for _, want := range tt.want {
				if !strings.Contains(text, want) {
					t.Errorf("with %q %s is not among\n%s", args, want, text)
				}
			}
			if tt.args == nil && strings.Contains(text, "extra_run_args") || strings.Contains(text, "groups") != (tt.args != nil) {
				t.Errorf("with %q is lost\n%s", args, text)
			}
		}
	})
}

// unmasked is the security option of an engine that shows all of /proc and /sys.
func unmasked(e *engines.Engine) string {
	if strings.HasSuffix(e.Binary, "podman") {
		return "unmask=ALL"
	}
	return "systempaths=unconfined"
}

func TestKeptContainer(t *testing.T) {
	eachEngine(t, func(t *testing.T, e *engines.Engine) {
		keep := false
		b := start(t, request(t, e, func(s *policy.Spec) { s.Docker.RemoveContainerOnExit = &keep }))
		name := b.name()
		defer func() { _, _ = e.Run(t.Context(), nil, "rm", "--force", name) }()
		b.want("echo x", "x\n")
		b.stop()
		if state, err := e.Run(t.Context(), nil, "container", "inspect", "--format", "{{.State.Running}}", name); err != nil || strings.TrimSpace(state) != "false" {
			t.Errorf("%q, %v", state, err)
		}
	})
}

// What the kernel shows of a container is compared with what was looked at.
func TestLookAtProcess(t *testing.T) {
	eachEngine(t, func(t *testing.T, e *engines.Engine) {
		b := start(t, request(t, e))
		c, err := findClient(policy.Docker{Binary: e.Binary}, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := (&engine{client: c}).inspect(t.Context(), b.name())
		if err != nil {
			t.Fatal(err)
		}
		made := b.Sandbox.(*sandbox).build
		if s, err := made.readProcess(got.State.Pid); err != nil || s == nil {
			t.Fatalf("%+v, %v", s, err)
		}
		if s, err := made.readProcess(os.Getpid()); err != nil || s != nil {
			t.Errorf("another process is taken for the agent: %+v, %v", s, err)
		}
		swapped := *made
		swapped.mounts = slices.Clone(made.mounts)
		swapped.mounts[0].file.Ino++
		if _, err := swapped.readProcess(got.State.Pid); err == nil || !strings.Contains(err.Error(), "not what was") {
			t.Errorf("another directory in the workspace's place: %v", err)
		}
		strict := *made
		strict.mounts = slices.Clone(made.mounts)
		strict.mounts[0].readOnly = true
		if _, err := strict.readProcess(got.State.Pid); err == nil || !strings.Contains(err.Error(), "is writable") {
			t.Errorf("a writable mount: %v", err)
		}
	})
}

func TestProbe(t *testing.T) {
	eachEngine(t, func(t *testing.T, e *engines.Engine) {
		r := New().ProbeWith(t.Context(), policy.Docker{Binary: e.Binary, Image: engines.Shell})
		if !r.Usable {
			t.Errorf("%+v", r)
		}
		r = New().ProbeWith(t.Context(), policy.Docker{Binary: e.Binary, Image: "paddock-test/absent:1"})
		last := r.Abilities[0]
		if r.Usable || !slices.Equal(last.Missing, []string{"image paddock-test/absent:1"}) {
			t.Errorf("%+v", r)
		}
	})
	t.Run("no engine", func(t *testing.T) {
		t.Setenv("DOCKER_HOST", "unix:///nonexistent/docker.sock")
		if _, err := findClient(policy.Docker{}, "", nil); err != nil {
			t.Skip("SKIPPED ALOUD: no engine: docker is not installed here")
		}
		r := New().Probe(t.Context())
		if f := r.Features[len(r.Features)-1]; r.Usable || f.Name != "engine" || !strings.Contains(f.Remedy, "start the engine") {
			t.Errorf("%+v", r)
		}
	})
}
