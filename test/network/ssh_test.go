//go:build linux

package network

import (
	"bytes"
	"encoding/base64"
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

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/egress"
	"github.com/paddock-dev/paddock/internal/testkit"
	"github.com/paddock-dev/paddock/policy"
)

// sshHost is a host with a server of OpenSSH, and an operator who has a key for it in an agent.
type sshHost struct {
	dir     string
	public  string // the operator's key, as a line
	private string // the file with the other half
	hostKey string // the host's key, as in known_hosts
}

// newSSHHost starts a server as git.test, where user git can log in with the operator's key, and
// the operator's agent. The operator's known_hosts knows git.test and two other hosts.
func newSSHHost(t *testing.T, w *world) *sshHost {
	t.Helper()
	for _, program := range []string{"/usr/sbin/sshd", "/usr/bin/ssh", "/usr/bin/ssh-agent", "/usr/bin/ssh-add", "/usr/bin/ssh-keygen", "/usr/bin/git"} {
		if _, err := os.Stat(program); err != nil {
			t.Skip("there is no " + program)
		}
	}
	if found, _ := filepath.Glob("/usr/lib/*/libnss_wrapper.so"); len(found) == 0 {
		t.Skip("there is no libnss_wrapper.so")
	}
	h := &sshHost{dir: t.TempDir()}
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(h.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// The server's users are its own: this one need not have a name on the host.
	write("passwd", fmt.Sprintf("git:x:%d:%d::%s:/bin/sh\nsshd:x:64123:65534::/run/sshd:/usr/sbin/nologin\n", os.Geteuid(), os.Getegid(), h.dir))
	write("group", fmt.Sprintf("git:x:%d:\n", os.Getegid()))
	h.run(t, "/usr/bin/ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", "host")
	h.run(t, "/usr/bin/ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "operator@their-laptop", "-f", "key")
	h.public, h.private, h.hostKey = h.read(t, "key.pub"), h.read(t, "key"), h.read(t, "host.pub")
	fields := strings.Fields(h.hostKey)
	h.hostKey = fields[0] + " " + fields[1]
	write("authorized_keys", h.public)
	if err := os.Mkdir(filepath.Join(h.dir, ".ssh"), 0o700); err != nil {
		t.Fatal(err)
	}
	other := strings.Fields(h.run(t, "/bin/sh", "-c", "/usr/bin/ssh-keygen -q -t ed25519 -N '' -f other && cat other.pub"))
	write(".ssh/known_hosts", "git.test "+h.hostKey+"\nsecret.test "+h.hostKey+"\n[git.test]:2222 ssh-ed25519 "+other[1]+"\n")
	h.run(t, "/bin/sh", "-c", "git init -q --bare repo.git")

	reserved := listen(t)
	_, port, _ := net.SplitHostPort(reserved.Addr().String())
	_ = reserved.Close()
	if os.Geteuid() == 0 {
		if err := os.MkdirAll("/run/sshd", 0o755); err != nil { // as its service does
			t.Fatal(err)
		}
	}
	write("sshd_config", strings.ReplaceAll(`Port `+port+`
ListenAddress 127.0.0.1
HostKey DIR/host
AuthorizedKeysFile DIR/authorized_keys
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PidFile none
`, "DIR", h.dir))
	listens := func(network, address string) func() bool {
		return func() bool {
			conn, err := net.Dial(network, address)
			if err == nil {
				_ = conn.Close()
			}
			return err == nil
		}
	}
	h.start(t, "/usr/sbin/sshd", "-D", "-e", "-f", filepath.Join(h.dir, "sshd_config"))
	testkit.Eventually(t, "the server listens", listens("tcp", "127.0.0.1:"+port))
	w.mu.Lock()
	w.servers["git.test:22"] = "127.0.0.1:" + port
	w.servers["unknown.test:22"] = "127.0.0.1:" + port
	w.mu.Unlock()

	socket := filepath.Join(h.dir, "agent.sock")
	h.start(t, "/usr/bin/env", "-u", "LD_PRELOAD", "/usr/bin/ssh-agent", "-D", "-a", socket)
	t.Setenv("HOME", h.dir)
	t.Setenv("SSH_AUTH_SOCK", socket)
	testkit.Eventually(t, "the SSH agent listens", listens("unix", socket))
	h.run(t, "/usr/bin/ssh-add", "-q", "key")
	return h
}

func (h *sshHost) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir = h.dir
	cmd.Env = append(os.Environ(), "LD_PRELOAD=libnss_wrapper.so", "NSS_WRAPPER_PASSWD="+h.dir+"/passwd", "NSS_WRAPPER_GROUP="+h.dir+"/group")
	return cmd
}

func (h *sshHost) run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := h.command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// start starts a program that runs until the end of the test.
func (h *sshHost) start(t *testing.T, name string, args ...string) {
	t.Helper()
	cmd := h.command(name, args...)
	var log bytes.Buffer
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		if _ = cmd.Wait(); t.Failed() {
			t.Logf("%s: %s", name, log.String())
		}
	})
}

func (h *sshHost) read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(h.dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// open opens a sandbox with rules and the SSH agent.
func (h *sshHost) open(t *testing.T, w *world, agent policy.SSHAgent, hosts ...string) *paddock.Sandbox {
	t.Helper()
	return w.openWith(t, allow(t, hosts...), func(s *paddock.Spec) { s.SSHAgent = &agent })
}

// commit makes a repository with a commit in it.
const commit = `export GIT_CONFIG_GLOBAL=/tmp/gitconfig
git config --global user.name me && git config --global user.email me@example.com && git config --global init.defaultBranch main
rm -rf /tmp/r && git init -q /tmp/r && cd /tmp/r && echo hello >file && git add file && git commit -qm first && `

// TestSSHPush: git pushes over ssh with nothing set up inside, while the key stays in the
// operator's agent, and its uses are on record.
func TestSSHPush(t *testing.T) {
	w := newWorld(t)
	h := newSSHHost(t, w)
	box := h.open(t, w, policy.SSHAgent{}, "git.test:22")
	if out, status := sh(t, box, commit+"git push -q ssh://git@git.test"+h.dir+"/repo.git main 2>&1"); status != 0 {
		t.Fatalf("push: status %d: %s\n%+v", status, out, records(t, box))
	}
	if got, want := h.run(t, "/bin/sh", "-c", "git -C repo.git log -1 --format=%s main"), "first\n"; got != want {
		t.Errorf("the repository has %q, want %q", got, want)
	}
	digest := strings.Fields(h.run(t, "/usr/bin/ssh-keygen", "-lf", "key.pub"))[1]
	if used := records(t, box); !slices.ContainsFunc(used, func(r egress.Record) bool {
		return r.Kind == egress.KindSSH && r.Host == "git.test" && r.Port == 22 && r.Rule == "git.test" && r.Key == digest && r.Reason == "signed in as git"
	}) {
		t.Errorf("no login is on record: %+v", used)
	}
	if out, _ := sh(t, box, "cat /etc/ssh/ssh_known_hosts"); out != "git.test "+h.hostKey+"\n" {
		t.Errorf("known inside: %s", out)
	}
	if out, _ := sh(t, box, "ssh-add -l"); !strings.Contains(out, digest) || strings.Contains(out, "laptop") {
		t.Errorf("listed inside: %s", out)
	}
	if held := box.Isolation().SSHAgent; held == nil || held.Sign {
		t.Errorf("isolation says %+v", held)
	}
	// Nothing inside has the key's other half, in either form.
	block, _, _ := bytes.Cut([]byte(strings.SplitN(h.private, "\n", 2)[1]), []byte("-----"))
	raw, err := base64.StdEncoding.DecodeString(strings.ReplaceAll(string(block), "\n", ""))
	if err != nil {
		t.Fatal(err)
	}
	public, _ := base64.StdEncoding.DecodeString(strings.Fields(h.public)[1])
	at := bytes.LastIndex(raw, public[len(public)-32:]) // the seed is right before the public half
	if at < 32 {
		t.Fatal("the private key has another form")
	}
	const search = `
import os, sys
want = [bytes.fromhex(sys.stdin.readline()), sys.stdin.readline().strip().encode()]
want = [w[::-1] for w in want]
n = 0
def look(path):
    global n
    try:
        with open(path, "rb") as f: data = f.read(64 << 20)
    except OSError: return
    n += 1
    for w in want:
        if w[::-1] in data: print("found in", path)
for top in ["/workspace", "/home", "/root", "/run", "/tmp", "/etc", "/dev/shm", "/var"]:
    for dir, _, names in os.walk(top):
        for name in names:
            if os.path.isfile(os.path.join(dir, name)): look(os.path.join(dir, name))
for pid in os.listdir("/proc"):
    if pid.isdigit() and int(pid) != os.getpid():
        for name in ["environ", "cmdline"]: look("/proc/%s/%s" % (pid, name))
print("searched", n > 10)
`
	cmd := box.Command(t.Context(), "python3", "-c", search)
	cmd.Stdin = strings.NewReader(fmt.Sprintf("%x\n%s\n", raw[at-32:at], strings.Split(h.private, "\n")[2]))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil || out.String() != "searched True\n" {
		t.Errorf("%v: %s", err, out.String())
	}
	// It ends with the sandbox.
	if err := box.Close(); err != nil {
		t.Error(err)
	}
}

// TestSSHRefused: what the agent does for nobody inside.
func TestSSHRefused(t *testing.T) {
	w := newWorld(t)
	h := newSSHHost(t, w)
	box := h.open(t, w, policy.SSHAgent{}, "git.test:22", "unknown.test:22")
	refused := func(what, text, reason string) {
		t.Helper()
		before := len(records(t, box))
		out, status := sh(t, box, text)
		if status == 0 {
			t.Errorf("%s: %s", what, out)
		}
		if later := records(t, box)[before:]; !slices.ContainsFunc(later, func(r egress.Record) bool {
			return r.Kind == egress.KindDenied && r.Rule == egress.RuleSSHAgent && strings.Contains(r.Reason, reason)
		}) {
			t.Errorf("%s: %s\nnot on record: %+v", what, out, later)
		}
	}
	if out, status := sh(t, box, "ssh -o BatchMode=yes git@unknown.test true"); status == 0 || !strings.Contains(out, "Host key verification failed") {
		t.Errorf("a host that is not known: status %d: %s", status, out)
	}
	// The host's key is known, but not as this host's: it is git.test's.
	if out, status := sh(t, box, "ssh -o BatchMode=yes -o StrictHostKeyChecking=no git@unknown.test echo in"); status != 0 || !strings.Contains(out, "in") {
		t.Errorf("another name of a host that is known: status %d: %s", status, out)
	}
	refused("adding a key", "ssh-keygen -q -t ed25519 -N '' -f /tmp/new && ssh-add /tmp/new", "adds a key")
	refused("removing all keys", "ssh-add -D", "removes keys")
	refused("locking", `python3 -c '
import os, socket, sys
s = socket.socket(socket.AF_UNIX); s.connect(os.environ["SSH_AUTH_SOCK"])
s.sendall(b"\0\0\0\x06\x16\0\0\0\x01x"); sys.exit(s.recv(100) != b"\0\0\0\1\6")'`, "locks or unlocks")
	refused("a signature of a file", "ssh-add -L >/tmp/k.pub && echo x >/tmp/x && ssh-keygen -Y sign -n file -f /tmp/k.pub /tmp/x", `namespace "file"`)
	refused("a commit", commit+"git -c gpg.format=ssh -c gpg.ssh.defaultKeyCommand='ssh-add -L' commit --allow-empty -q -S -m signed", "signatures for git are not allowed")

	// Rules that change close hosts for keys, too.
	if err := box.SetNetwork(t.Context(), allow(t, "unknown.test:22")); err != nil {
		t.Fatal(err)
	}
	refused("a host that no rule opens any more", "ssh -o BatchMode=yes -o StrictHostKeyChecking=no git@unknown.test true", "for no host that a rule opens")

	cmd := box.Command(t.Context(), "ssh-add", "-D")
	err := cmd.Run()
	exit := (*paddock.ExitError)(nil)
	if !errors.As(err, &exit) || len(exit.Result.Denials) == 0 || exit.Result.Denials[0].Rule != "ssh_agent" {
		t.Errorf("the result: %+v", err)
	}
}

// TestSSHSign: with sign, commits are signed; keys that are not named are not there.
func TestSSHSign(t *testing.T) {
	w := newWorld(t)
	h := newSSHHost(t, w)
	h.run(t, "/usr/bin/ssh-add", "-q", "other")
	digest := strings.Fields(h.run(t, "/usr/bin/ssh-keygen", "-lf", "key.pub"))[1]
	box := h.open(t, w, policy.SSHAgent{Keys: []string{digest}, Sign: true})
	if out, _ := sh(t, box, "ssh-add -L | cut -d' ' -f1,2"); strings.TrimSpace(out) != strings.Join(strings.Fields(h.public)[:2], " ") {
		t.Errorf("listed inside: %s", out)
	}
	const sign = `ssh-add -L | sed 's/^/me@example.com /' >/tmp/signers
git config --global gpg.format ssh && git config --global gpg.ssh.defaultKeyCommand 'ssh-add -L' && git config --global gpg.ssh.allowedSignersFile /tmp/signers
git commit --allow-empty -q -S -m signed && git verify-commit HEAD 2>&1`
	if out, status := sh(t, box, commit+sign); status != 0 || !strings.Contains(out, `Good "git" signature`) {
		t.Errorf("status %d: %s\n%+v", status, out, records(t, box))
	}
	if used := records(t, box); !slices.ContainsFunc(used, func(r egress.Record) bool {
		return r.Kind == egress.KindSSH && r.Key == digest && r.Reason == "signed for git"
	}) {
		t.Errorf("no signature is on record: %+v", used)
	}
}

// TestSSHAgentGone: an operator's agent that ends is told, and nothing hangs.
func TestSSHAgentGone(t *testing.T) {
	w := newWorld(t)
	h := newSSHHost(t, w)
	l, err := net.Listen("unix", filepath.Join(h.dir, "silent.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conns := make(chan net.Conn, 1)
	go func() {
		if conn, err := l.Accept(); err == nil {
			conns <- conn
		}
	}()
	t.Setenv("SSH_AUTH_SOCK", filepath.Join(h.dir, "silent.sock"))
	box := h.open(t, w, policy.SSHAgent{}, "git.test:22")
	select {
	case conn := <-conns:
		_ = conn.Close()
	case <-time.After(testkit.Patience):
		t.Fatal("nobody has connected to the operator's agent")
	}
	if out, status := sh(t, box, "ssh-add -l"); status == 0 {
		t.Errorf("ssh-add: %s", out)
	}
	if all := records(t, box); !slices.ContainsFunc(all, func(r egress.Record) bool {
		return r.Kind == egress.KindDenied && strings.Contains(r.Reason, "your SSH agent did not do it")
	}) {
		t.Errorf("not on record: %+v", all)
	}
}

// TestSSHAgentStarts: what is missing or cannot be trusted is an error by name.
func TestSSHAgentStarts(t *testing.T) {
	w := newWorld(t)
	home := t.TempDir()
	t.Setenv("HOME", home)
	spec := paddock.Spec{Workspace: paddock.Workspace{Source: t.TempDir()}, Network: allow(t, "git.test:22"), SSHAgent: &policy.SSHAgent{}}
	fails := func(what, want string, spec paddock.Spec) {
		t.Helper()
		box, err := paddock.Open(t.Context(), spec, w.options())
		if err == nil {
			_ = box.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", what, err, want)
		}
	}
	t.Setenv("SSH_AUTH_SOCK", "")
	fails("no agent", "SSH_AUTH_SOCK does not say where it is", spec)
	t.Setenv("SSH_AUTH_SOCK", filepath.Join(home, "none.sock"))
	fails("an agent that is gone", "none.sock", spec)
	if err := os.Mkdir(filepath.Join(home, ".ssh"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(home, ".ssh", "known_hosts"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	known := filepath.Join(home, ".ssh", "known_hosts")
	if err := os.Truncate(known, 1<<40); err != nil {
		t.Fatal(err)
	}
	fails("endless known_hosts", "larger than 1MiB", spec)
	if err := errors.Join(os.Remove(known), syscall.Mkfifo(known, 0o600)); err != nil {
		t.Fatal(err)
	}
	fails("known_hosts that nobody writes", "not a regular file", spec)
	if err := errors.Join(os.Remove(known), os.WriteFile(known, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	within := spec
	within.Workspace.Source = home
	fails("known_hosts in the workspace", "the list of known hosts", within)
}
