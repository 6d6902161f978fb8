//go:build linux

package wrapper

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/internal/descent"
	"github.com/paddock-dev/paddock/internal/testkit"
	"github.com/paddock-dev/paddock/internal/testkit/boxtest"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

func TestMain(m *testing.M) { boxtest.Main(m) }

// need gives the path of a program of the host, or skips.
func need(t *testing.T, program string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		path = "/usr/sbin/" + program
		if _, err = os.Stat(path); err != nil {
			t.Skip(program + " is not installed here")
		}
	}
	return path
}

func request(t *testing.T, w policy.Wrapper, change ...func(*policy.Spec)) backend.Request {
	t.Helper()
	s := policy.Spec{Backend: policy.BackendWrapper, Wrapper: &w}
	if filepath.Base(w.Command[0]) != "ssh" { // which leads to where none is seen
		s.Workspace.Source = t.TempDir()
	}
	for i, word := range w.Command {
		w.Command[i] = strings.ReplaceAll(word, "WORKSPACE", s.Workspace.Source)
	}
	for _, c := range change {
		c(&s)
	}
	return boxtest.Request(t, s)
}

// bwrap is a wall of bubblewrap's. It sees this test's agent.
func bwrap(more ...string) []string {
	return append([]string{"bwrap", "--ro-bind", "/", "/", "--tmpfs", "/run", "--dev", "/dev", "--proc", "/proc", "--bind", "WORKSPACE", "WORKSPACE",
		"--unshare-all", "--die-with-parent"}, more...)
}

func TestBubblewrap(t *testing.T) {
	need(t, "bwrap")
	req := request(t, policy.Wrapper{Command: bwrap()}, func(s *policy.Spec) { s.Env = map[string]string{"A": "b"} })
	box := boxtest.Open(t, New(), req)
	r := boxtest.Sh(t, box, `pwd; echo $A; echo x >made; : >/usr/made && echo wrote; ls /proc | grep -c '^[0-9]'`)
	lines := strings.Split(r.Stdout, "\n")
	if lines[0] != req.Spec.Workspace.Source || lines[1] != "b" || slices.Contains(lines, "wrote") {
		t.Errorf("%+v", r)
	}
	if _, err := os.Stat(filepath.Join(req.Spec.Workspace.Source, "made")); err != nil {
		t.Error(err)
	}
	i := box.Isolation()
	for _, ns := range []string{"mount", "pid", "net", "ipc"} {
		if !slices.Contains(i.Namespaces, ns) {
			t.Errorf("no %s namespace in %+v", ns, i)
		}
	}
	if !i.Verified || i.Network != "none" || !i.NoNewPrivs || i.Seccomp != "default" || len(i.Lost) != 1 {
		t.Errorf("%+v", i)
	}
}

// Who names a command that runs nothing learns what a wrapper has to do.
func TestRunsNothing(t *testing.T) {
	_, err := New().Start(t.Context(), request(t, policy.Wrapper{Command: []string{"true"}}))
	var e *backend.StartError
	if !errors.As(err, &e) || !strings.Contains(e.Hint, "appended") {
		t.Errorf("%v", err)
	}
}

// A keeper that is killed takes what has left its command's tree with it.
func TestKeeperKilled(t *testing.T) {
	box, err := New().Start(t.Context(), request(t, policy.Wrapper{Command: []string{"env"}}))
	if err != nil {
		t.Fatal(err)
	}
	tag := boxtest.Token()
	client := wire.Client{Dial: box.Dial}
	_, err = client.Exec(t.Context(), wire.ExecRequest{Detach: true, Argv: []string{"/bin/sh", "-c",
		`(setsid sh -c 'while :; do sleep 1000; done' "$0" >/dev/null 2>&1 &); sleep 0.1`, tag}})
	if err != nil || len(boxtest.Carriers(tag)) == 0 {
		t.Fatalf("nothing outlives its command: %v", err)
	}
	for _, p := range descent.Below(os.Getpid()) {
		if text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.PID)); strings.HasSuffix(string(text), "\x00keep\x00") {
			_ = syscall.Kill(p.PID, syscall.SIGKILL)
		}
	}
	boxtest.AwaitNone(t, tag)
	if death, err := box.Stop(t.Context(), 0); err != nil || death.Proved {
		t.Errorf("%+v, %v", death, err)
	}
}

// Commands of root's behind a wall that leaves root all it has hold none of it,
// and write nothing that the kernel obeys.
func TestRootHoldsNothing(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root has what is to be taken")
	}
	need(t, "bwrap")
	for _, command := range [][]string{bwrap("--cap-add", "ALL"), {"env"}} {
		box := boxtest.Open(t, New(), request(t, policy.Wrapper{Command: command}))
		r := boxtest.Sh(t, box, `grep -E '^Cap(Inh|Prm|Eff|Bnd|Amb)' /proc/self/status | grep -v 0000000000000000
			for f in /proc/sys/kernel/core_pattern /proc/sys/kernel/modprobe /proc/sysrq-trigger; do (: >>$f) 2>/dev/null && echo $f; done; true`)
		if r.ExitCode != 0 || strings.Contains(r.Stdout, "Cap") || keepsKernelFiles(policy.Spec{}) && r.Stdout != "" {
			t.Errorf("%q: %+v", command, r)
		}
		if i := box.Isolation(); i.Capabilities != "none" || keepsKernelFiles(policy.Spec{}) && i.Landlock == "none" {
			t.Errorf("%q: %+v", command, i)
		}
	}
}

// Without a network namespace it says so.
func TestBubblewrapNetwork(t *testing.T) {
	need(t, "bwrap")
	box := boxtest.Open(t, New(), request(t, policy.Wrapper{Command: bwrap("--share-net")}))
	if i := box.Isolation(); i.Network != "host" || len(i.Lost) != 2 || !strings.Contains(i.Lost[1], "network") {
		t.Errorf("%+v", i)
	}
}

// mayUse skips where firejail is for others: its administrator lists users.
func mayUse(t *testing.T, wrapper string) {
	t.Helper()
	if filepath.Base(wrapper) != "firejail" {
		return
	}
	if out, err := exec.Command(wrapper, "--quiet", "--noprofile", "true").CombinedOutput(); err != nil {
		t.Skipf("firejail does not work here: %s", out)
	}
}

func TestFirejail(t *testing.T) {
	firejail := need(t, "firejail")
	mayUse(t, firejail)
	box := boxtest.Open(t, New(), request(t, policy.Wrapper{Command: []string{firejail, "--quiet", "--noprofile", "--net=none"}}))
	if r := boxtest.Sh(t, box, "echo out; echo err >&2; exit 3"); r.ExitCode != 3 || r.Stdout != "out\n" || r.Stderr != "err\n" {
		t.Errorf("%+v", r)
	}
	if i := box.Isolation(); !i.Verified || !slices.Contains(i.Namespaces, "pid") || i.Network != "none" {
		t.Errorf("%+v", i)
	}
}

// A wrapper that is no wall is seen to be none.
func TestNoWall(t *testing.T) {
	for _, command := range [][]string{{"env"}, {"nice", "-n", "1"}} {
		box := boxtest.Open(t, New(), request(t, policy.Wrapper{Command: command}))
		i := box.Isolation()
		text := strings.Join(i.Lost, "\n")
		if i.Level != "wrapper" || len(i.Namespaces) != 0 || !i.Verified || i.Network != "host" ||
			!strings.Contains(text, "no mount namespace") || !strings.Contains(text, "no pid namespace") || !strings.Contains(text, "no network namespace") {
			t.Errorf("%q: %+v", command, i)
		}
	}
}

// What commands leave behind ends, behind walls of different kinds; and so
// does all where the wall is killed.
func TestDeath(t *testing.T) {
	for name, command := range map[string][]string{
		"env": {"env"}, "bwrap": bwrap(), "bwrap that outlives its parent": slices.DeleteFunc(bwrap(), func(s string) bool { return s == "--die-with-parent" }),
		"firejail": {"firejail", "--quiet", "--noprofile"},
	} {
		t.Run(name, func(t *testing.T) {
			mayUse(t, need(t, command[0]))
			box := boxtest.Open(t, New(), request(t, policy.Wrapper{Command: command}))
			tag := boxtest.Token()
			client := wire.Client{Dial: box.Dial}
			_, err := client.Exec(t.Context(), wire.ExecRequest{Detach: true, Argv: []string{"/bin/sh", "-c",
				`(setsid sh -c 'trap "" TERM HUP; while :; do sleep 1000; done' "$0" >/dev/null 2>&1 &); sleep 0.1`, tag}})
			if err != nil || len(boxtest.Carriers(tag)) == 0 {
				t.Fatalf("nothing outlives its command: %v", err)
			}
			began := time.Now()
			if death, err := box.Stop(t.Context(), 0); err != nil || !death.Proved {
				t.Errorf("%+v, %v", death, err)
			}
			if left := boxtest.Carriers(tag); len(left) > 0 {
				t.Errorf("there still runs %q", left)
			}
			if took := time.Since(began); took > time.Minute {
				t.Errorf("it took %v", took)
			}
		})
	}
}

// Wherever the agent finds itself, it serves, or says what is missing.
func TestOddWalls(t *testing.T) {
	need(t, "bwrap")
	if link, err := os.Readlink("/bin"); err != nil || link != "usr/bin" {
		t.Skip("the host's /bin is a directory of its own")
	}
	bare := []string{"bwrap", "--unshare-all", "--die-with-parent", "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib",
		"--symlink", "usr/lib64", "/lib64", "--ro-bind", "AGENTDIR", "AGENTDIR", "--bind", "WORKSPACE", "WORKSPACE"}
	for _, tt := range []struct {
		name    string
		command []string
		says    string
		hint    string
	}{
		{"no /tmp, /etc and /dev/shm", append(slices.Clone(bare), "--proc", "/proc", "--dev", "/dev", "--remount-ro", "/"), "", ""},
		{"no /dev", append(slices.Clone(bare), "--proc", "/proc"), "/dev/null", "show"},
		{"no /proc", append(slices.Clone(bare), "--dev", "/dev"), "/proc", "mount a proc"},
		{"another's /proc", append(slices.Clone(bare), "--dev", "/dev", "--ro-bind", "/proc", "/proc"), "another pid namespace", "mount a proc"},
		{"process 1", append(slices.Clone(bare), "--as-pid-1", "--proc", "/proc", "--dev", "/dev"), "", ""},
		{"no workspace", append(slices.Clone(bare[:len(bare)-3]), "--proc", "/proc", "--dev", "/dev"), "cannot use the workspace", "must show it"},
		{"no agent", []string{"bwrap", "--unshare-all", "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin"}, "No such file", "does not show the agent"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for i, word := range tt.command {
				tt.command[i] = strings.ReplaceAll(word, "AGENTDIR", filepath.Dir(boxtest.Agent))
			}
			req := request(t, policy.Wrapper{Command: tt.command})
			box, err := New().Start(t.Context(), req)
			if tt.says != "" {
				var e *backend.StartError
				if !errors.As(err, &e) || !strings.Contains(err.Error(), tt.says) || !strings.Contains(e.Hint, tt.hint) {
					t.Fatalf("%v, %+v", err, e)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer boxtest.Stop(t, req, box)
			r := boxtest.Sh(t, box, "(sleep 0.05 & exit) ; echo out")
			if r.Stdout != "out\n" || r.ExitCode != 0 {
				t.Errorf("%+v", r)
			}
		})
	}
}

// An image without a shell, and what is not asked of it.
func TestWithoutShell(t *testing.T) {
	need(t, "bwrap")
	dir := filepath.Dir(boxtest.Agent)
	box := boxtest.Open(t, New(), request(t, policy.Wrapper{Command: []string{"bwrap", "--unshare-all", "--die-with-parent", "--ro-bind", dir, dir,
		"--bind", "WORKSPACE", "WORKSPACE", "--proc", "/proc", "--dev", "/dev"}}))
	client := wire.Client{Dial: box.Dial}
	if _, err := client.Exec(t.Context(), wire.ExecRequest{Command: "true"}); err == nil || !strings.Contains(err.Error(), "/bin/sh") {
		t.Errorf("a shell that is not there: %v", err)
	}
	r, err := client.Exec(t.Context(), wire.ExecRequest{Argv: []string{boxtest.Agent, "--version"}})
	if err != nil || !strings.HasPrefix(r.Stdout, "paddock-agent") {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestRefusals(t *testing.T) {
	req := request(t, policy.Wrapper{Command: []string{"env"}})
	req.Agent = filepath.Join(req.Spec.Workspace.Source, "paddock-agent")
	_, err := New().Start(t.Context(), req)
	var field *policy.FieldError
	if !errors.As(err, &field) || field.Field != "workspace.source" {
		t.Errorf("an agent that commands can change: %v", err)
	}
	req = request(t, policy.Wrapper{Command: []string{"env"}})
	req.Spec.Wrapper = nil
	if _, err := New().Start(t.Context(), req); !errors.As(err, &field) || field.Field != "wrapper.command" {
		t.Errorf("no command: %v", err)
	}
}

func TestPlan(t *testing.T) {
	req := request(t, policy.Wrapper{Command: []string{"some", "wall"}})
	p, err := New().Plan(t.Context(), req)
	if err != nil || !slices.Equal(p.Command, []string{"some", "wall", boxtest.Agent, "guest"}) || p.Holds.Verified || p.Workspace != req.Spec.Workspace.Source {
		t.Errorf("%+v, %v", p, err)
	}
	if r := New().Probe(t.Context()); !r.Usable {
		t.Errorf("%+v", r)
	}
}

// sshd starts a server of the test's own, and gives the command that reaches it.
func sshd(t *testing.T, options ...string) []string {
	t.Helper()
	server, keygen := need(t, "sshd"), need(t, "ssh-keygen")
	need(t, "ssh")
	dir := t.TempDir()
	for _, name := range []string{"host", "user"} {
		if out, err := exec.Command(keygen, "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(dir, name)).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	key, err := os.ReadFile(filepath.Join(dir, "user.pub"))
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	keys := write("keys", string(key))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	_ = l.Close()
	config := write("config", fmt.Sprintf("Port %d\nListenAddress 127.0.0.1\nHostKey %s/host\nAuthorizedKeysFile %s\nStrictModes no\nPidFile none\nUsePAM no\nPermitRootLogin yes\n%s\n",
		port, dir, keys, strings.Join(options, "\n")))
	if os.Geteuid() == 0 {
		_ = os.MkdirAll("/run/sshd", 0o755) // where the server separates its privileges
	}
	cmd := exec.Command(server, "-D", "-e", "-f", config)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var log strings.Builder
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
		if t.Failed() {
			t.Log(log.String())
		}
	})
	testkit.Eventually(t, "the server listens", func() bool {
		conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	command := []string{"ssh", "-F", "none", "-p", fmt.Sprint(port), "-i", filepath.Join(dir, "user"), "-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes",
		"-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR", "127.0.0.1"}
	if out, err := exec.Command(command[0], append(command[1:], "true")...).CombinedOutput(); err != nil {
		t.Skipf("the SSH server does not let this account in: %s", out)
	}
	return command
}

func TestSSH(t *testing.T) {
	banner := filepath.Join(t.TempDir(), "banner")
	if err := os.WriteFile(banner, []byte("authorised use only\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	command := sshd(t, "Banner "+banner)
	began := time.Now()
	box := boxtest.Open(t, New(), request(t, policy.Wrapper{Command: command}))
	t.Logf("the start took %v", time.Since(began))
	r := boxtest.Sh(t, box, "pwd; echo err >&2; exit 3")
	if r.ExitCode != 3 || r.Stderr != "err\n" || !strings.Contains(r.Stdout, "paddock-guest-") {
		t.Errorf("%+v", r)
	}
	i := box.Isolation()
	if i.Verified || !strings.Contains(strings.Join(i.Lost, "\n"), "nothing of the wall is verified") {
		t.Errorf("%+v", i)
	}
}

// A connection that breaks fails every call at once.
func TestSSHBreaks(t *testing.T) {
	req := request(t, policy.Wrapper{Command: sshd(t)})
	box, err := New().Start(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	tag := boxtest.Token()
	client := wire.Client{Dial: box.Dial}
	failed := make(chan error, 1)
	go func() {
		_, err := client.Exec(t.Context(), wire.ExecRequest{Argv: []string{"/bin/sh", "-c", "sleep 1000; :", tag}})
		failed <- err
	}()
	testkit.Eventually(t, "the command runs", func() bool { return len(boxtest.Carriers(tag)) > 0 })
	port := req.Spec.Wrapper.Command[4]
	for _, found := range boxtest.Carriers(port) { // the client
		var pid int
		if _, err := fmt.Sscanf(found, "/proc/%d/cmdline ssh -F", &pid); err == nil {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	var e *wire.Error
	if err := <-failed; !errors.As(err, &e) || e.Code != wire.CodeGone {
		t.Errorf("%v", err)
	}
	<-box.Done()
	boxtest.AwaitNone(t, tag)
	if death, err := box.Stop(t.Context(), 0); err != nil || death.Proved {
		t.Errorf("an end that nobody has seen is proved: %+v, %v", death, err)
	}
}

func TestSSHRefuses(t *testing.T) {
	command := sshd(t)
	i := slices.Index(command, "-i") + 1
	command[i] = filepath.Join(t.TempDir(), "other")
	if out, err := exec.Command(need(t, "ssh-keygen"), "-q", "-t", "ed25519", "-N", "", "-f", command[i]).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	_, err := New().Start(t.Context(), request(t, policy.Wrapper{Command: command}))
	var e *backend.StartError
	if !errors.As(err, &e) || e.Stage != "upload" || !strings.Contains(err.Error(), "it ended with status 255") || !strings.Contains(err.Error(), "Permission denied (publickey") || !strings.Contains(e.Hint, "ssh -i") {
		t.Errorf("%v, %+v", err, e)
	}
}

// A wrapper that leads to another release is told so.
func TestAnotherBuild(t *testing.T) {
	other := filepath.Join(t.TempDir(), "paddock-agent")
	cmd := exec.Command("go", "build", "-buildvcs=false", "-ldflags", "-X github.com/paddock-dev/paddock/wire.Build=other", "-o", other, "../../cmd/paddock-agent")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatal(string(out))
	}
	defer func(b string) { wire.Build = b }(wire.Build)
	wire.Build = "this"
	_, err := New().Start(t.Context(), request(t, policy.Wrapper{Command: []string{"env"}, Agent: other}))
	var e *backend.StartError
	if !errors.As(err, &e) || !strings.Contains(err.Error(), "the host side is build this, this agent other") || !strings.Contains(e.Hint, "one release") {
		t.Errorf("%v, %+v", err, e)
	}
}
