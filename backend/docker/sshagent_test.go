//go:build linux

package docker

import (
	"bufio"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/state"
	"github.com/paddock-dev/paddock/egress"
	"github.com/paddock-dev/paddock/internal/testkit/engines"
	"github.com/paddock-dev/paddock/policy"
)

// operator is one with a key in an SSH agent, and a host where it can log in.
type operator struct {
	socket string     // of the agent
	key    ssh.Signer // which the agent has, too
	host   ssh.Signer
}

// newOperator starts the agent, and a proxy that leads git.test:22 to the host and everything
// else nowhere.
func newOperator(t *testing.T) *operator {
	t.Helper()
	seed := func() (ed25519.PrivateKey, ssh.Signer) {
		_, private, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		signer, err := ssh.NewSignerFromKey(private)
		if err != nil {
			t.Fatal(err)
		}
		return private, signer
	}
	o := &operator{socket: filepath.Join(t.TempDir(), "agent.sock")}
	private, signer := seed()
	o.key = signer
	_, o.host = seed()
	ring := agent.NewKeyring()
	if err := ring.Add(agent.AddedKey{PrivateKey: private, Comment: "operator@their-laptop"}); err != nil {
		t.Fatal(err)
	}
	each(t, "unix", o.socket, func(conn net.Conn) { _ = agent.ServeAgent(ring, conn) })
	proxy := each(t, "tcp", "127.0.0.1:0", func(conn net.Conn) {
		request, err := http.ReadRequest(bufio.NewReader(conn))
		if err != nil || request.Host != "git.test:22" {
			return
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n")
		o.serve(conn)
	})
	useProxy(t, proxy)
	return o
}

// each serves each connection to an address, and returns the address.
func each(t *testing.T, network, address string, serve func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				serve(conn)
			}()
		}
	}()
	return l.Addr().String()
}

// serve lets user git log in with the operator's key, and answers commands with a line.
func (o *operator) serve(conn net.Conn) {
	config := &ssh.ServerConfig{PublicKeyCallback: func(meta ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		if meta.User() != "git" || string(key.Marshal()) != string(o.key.PublicKey().Marshal()) {
			return nil, fmt.Errorf("%s is nobody", meta.User())
		}
		return &ssh.Permissions{}, nil
	}}
	config.AddHostKey(o.host)
	server, channels, requests, err := ssh.NewServerConn(conn, config)
	if err != nil {
		return
	}
	defer server.Close()
	go ssh.DiscardRequests(requests)
	for offered := range channels {
		channel, requests, err := offered.Accept()
		if err != nil {
			return
		}
		for r := range requests {
			_ = r.Reply(r.Type == "exec", nil)
			if r.Type == "exec" {
				_, _ = io.WriteString(channel, "welcome, "+server.User()+"\n")
				_, _ = channel.SendRequest("exit-status", false, []byte{0, 0, 0, 0})
				_ = channel.Close()
			}
		}
	}
}

// known returns a line of known_hosts.
func (o *operator) known(host string) string {
	return host + " " + string(ssh.MarshalAuthorizedKey(o.host.PublicKey()))
}

// withSSH mounts the host's OpenSSH, and a list of users without which it does not work.
func withSSH(t *testing.T) func(*policy.Spec) {
	t.Helper()
	for _, program := range []string{"/usr/bin/ssh", "/usr/bin/ssh-add", "/usr/bin/ssh-keygen"} {
		if _, err := os.Stat(program); err != nil {
			t.Skip("there is no " + program)
		}
	}
	users := filepath.Join(t.TempDir(), "passwd")
	if err := os.WriteFile(users, fmt.Appendf(nil, "me:x:%d:%d::/tmp:/bin/sh\n", os.Geteuid(), os.Getegid()), 0o644); err != nil {
		t.Fatal(err)
	}
	args := []string{"--volume=" + users + ":/etc/passwd:ro"}
	for _, dir := range []string{"/usr", "/lib", "/lib64"} {
		if source, err := filepath.EvalSymlinks(dir); err == nil {
			args = append(args, "--volume="+source+":"+dir+":ro")
		}
	}
	return func(s *policy.Spec) { s.Docker.ExtraRunArgs = append(slices.Clip(s.Docker.ExtraRunArgs), args...) }
}

// ask returns a request for a sandbox with the operator's agent, and a rule for git.test.
func (o *operator) ask(t *testing.T, e *engines.Engine, change ...func(*policy.Spec)) backend.Request {
	t.Helper()
	change = append([]func(*policy.Spec){allow(policy.NetworkRule{Host: "git.test", Ports: []policy.Port{22}}), func(s *policy.Spec) { s.SSHAgent = &policy.SSHAgent{} }}, change...)
	req := request(t, e, change...)
	req.SSHAgent, req.KnownHosts = o.socket, []byte(o.known("git.test")+o.known("secret.test"))
	return req
}

// TestSSHAgent: commands of a container log in with the operator's key to a host that a rule opens
// and known_hosts has, and have the agent do nothing else.
func TestSSHAgent(t *testing.T) {
	eachEngine(t, func(t *testing.T, e *engines.Engine) {
		o := newOperator(t)
		b := start(t, o.ask(t, e, withSSH(t)))
		if iso := b.Isolation(); !iso.Verified || iso.SSHAgent == nil || iso.SSHAgent.Sign {
			t.Errorf("%+v", iso)
		}
		b.want("cat /etc/ssh/ssh_known_hosts", o.known("git.test"))
		digest := ssh.FingerprintSHA256(o.key.PublicKey())
		if out, status := b.sh("/usr/bin/ssh-add -l"); status != 0 || !strings.Contains(out, digest) || strings.Contains(out, "laptop") {
			t.Errorf("listed inside: status %d: %s", status, out)
		}
		b.want("/usr/bin/ssh -o BatchMode=yes git@git.test hello", "welcome, git\n")
		for _, tt := range []struct{ what, command, says string }{
			{"another user", "/usr/bin/ssh -o BatchMode=yes root@git.test hello", "Permission denied"},
			{"removing keys", "/usr/bin/ssh-add -D", "Failed to remove all identities"},
			{"a signature of a file", "/usr/bin/ssh-add -L >/tmp/k.pub && echo x >/tmp/x && /usr/bin/ssh-keygen -Y sign -n file -f /tmp/k.pub /tmp/x", "agent refused"},
			{"replacing the socket", "rm -f /.paddock-ssh-agent", ""},
			{"replacing the known hosts", "echo >/etc/ssh/ssh_known_hosts", "Read-only"},
		} {
			if out, status := b.sh(tt.command); status == 0 || !strings.Contains(out, tt.says) {
				t.Errorf("%s: status %d: %s", tt.what, status, out)
			}
		}
		client := b.Sandbox.(*sandbox).Egress()
		var used []egress.Record
		if err := client.Log(t.Context(), 0, false, func(r egress.Record) error { used = append(used, r); return nil }); err != nil {
			t.Fatal(err)
		}
		for _, want := range []egress.Record{
			{Kind: egress.KindSSH, Host: "git.test", Key: digest, Reason: "signed in as git"},
			{Kind: egress.KindDenied, Rule: egress.RuleSSHAgent, Reason: "removes keys"},
			{Kind: egress.KindDenied, Rule: egress.RuleSSHAgent, Reason: `namespace "file"`},
		} {
			if !slices.ContainsFunc(used, func(r egress.Record) bool {
				return r.Kind == want.Kind && (want.Host == "" || r.Host == want.Host) && r.Key == want.Key && strings.Contains(r.Reason, want.Reason)
			}) {
				t.Errorf("%q is not on record: %+v", want.Reason, used)
			}
		}
		// Rules that change close the host for keys, too.
		if _, err := client.Set(t.Context(), rules(t, policy.NetworkRule{Host: "other.test", Ports: []policy.Port{22}})); err != nil {
			t.Fatal(err)
		}
		if out, status := b.sh("/usr/bin/ssh -o BatchMode=yes git@git.test hello"); status == 0 {
			t.Errorf("after the rule has gone: %s", out)
		}
		b.stop()
		if left, _ := filepath.Glob(filepath.Join(b.req.StateDir, "*", "*", state.SSHAgentName)); len(left) > 0 {
			t.Errorf("left: %q", left)
		}
	})
}

// TestSSHAgentEnds: an agent that is not there is an error by name, before there is a container,
// and one that ends is reported to commands at once.
func TestSSHAgentEnds(t *testing.T) {
	eachEngine(t, func(t *testing.T, e *engines.Engine) {
		o := newOperator(t)
		req := o.ask(t, e, withSSH(t))
		req.SSHAgent = filepath.Join(t.TempDir(), "none.sock")
		if _, err := New().Start(t.Context(), req); err == nil || !strings.Contains(err.Error(), "none.sock") {
			t.Errorf("without an agent: %v", err)
		}
		if left, _ := os.ReadDir(filepath.Join(req.StateDir, "sandboxes")); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
		conns := make(chan net.Conn, 1)
		req.SSHAgent = each(t, "unix", filepath.Join(t.TempDir(), "silent.sock"), func(conn net.Conn) {
			conns <- conn
			_, _ = io.Copy(io.Discard, conn)
		})
		b := start(t, req)
		_ = (<-conns).Close()
		if out, status := b.sh("/usr/bin/ssh-add -l"); status == 0 || !strings.Contains(out, "agent refused") {
			t.Errorf("status %d: %s", status, out)
		}
	})
}

// TestSSHAgentPlace: a mount in the place of the socket, or of the known hosts, is refused.
func TestSSHAgentPlace(t *testing.T) {
	for _, target := range []string{sshAgentPath, knownHostsPath} {
		spec := policy.Spec{Workspace: policy.Workspace{Source: t.TempDir(), Mode: policy.ModeBind}, Mounts: []policy.Mount{{Source: t.TempDir(), Target: target}}, SSHAgent: &policy.SSHAgent{}}
		var refused *policy.FieldError
		if _, err := lookAt(backend.Request{Spec: spec}); !errors.As(err, &refused) || refused.Value != target {
			t.Errorf("%s: %v", target, err)
		}
	}
}
