//go:build linux

package docker

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/state"
	"github.com/paddock-dev/paddock/egress"
	"github.com/paddock-dev/paddock/internal/testkit"
	"github.com/paddock-dev/paddock/internal/testkit/engines"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

// outside is the operator's proxy, which leads api.test to a server of the test's, and everything
// else nowhere.
func outside(t *testing.T) {
	t.Helper()
	proxy := each(t, "tcp", "127.0.0.1:0", func(conn net.Conn) {
		r := bufio.NewReader(conn)
		if request, err := http.ReadRequest(r); err != nil || !strings.HasPrefix(request.Host, "api.test:") {
			return
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n")
		if request, err := http.ReadRequest(r); err == nil {
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello from "+request.Host+"\n")
		}
	})
	useProxy(t, proxy)
}

// useProxy makes an address that of the operator's proxy.
func useProxy(t *testing.T, address string) {
	t.Helper()
	for _, name := range []string{"HTTPS_PROXY", "ALL_PROXY"} {
		t.Setenv(name, "http://"+address)
		t.Setenv(strings.ToLower(name), "")
	}
	t.Setenv("NO_PROXY", "")
	t.Setenv("no_proxy", "")
}

func allow(rules ...policy.NetworkRule) func(*policy.Spec) {
	return func(s *policy.Spec) { s.Network = policy.Network{Allow: rules} }
}

// TestByName: commands of a container reach the hosts that rules name, and no other, and rules
// can be replaced.
func TestByName(t *testing.T) {
	eachEngine(t, func(t *testing.T, e *engines.Engine) {
		outside(t)
		req := request(t, e, allow(policy.NetworkRule{Host: "api.test"}))
		b := start(t, req)
		iso := b.Isolation()
		if !iso.Verified || iso.Network != "allow" || iso.Egress == nil || iso.Egress.How != "inside" || !slices.Equal(iso.Egress.Allow, []string{"api.test"}) || len(iso.Lost) > 2+strings.Count(strings.Join(e.RunArgs, " "), "--cgroup-parent") {
			t.Errorf("%+v", iso)
		}
		b.want("wget -q -O - http://api.test/", "hello from api.test\n")
		b.want("ls /sys/class/net", "lo\n")
		for _, tt := range []struct{ command, says string }{
			{"wget -q -O - http://evil.test/", "bad address"},
			{"wget -q -O - --header 'Host: evil.test' http://api.test/", ""},
			{"wget -q -O - http://192.0.2.1/", "Network is unreachable"},
			{"wget -q -O - http://169.254.169.254/", "Network is unreachable"},
			{"wget -q -O - http://127.0.0.1/", ""},
			{"wget -q -O - http://127.64.9.9/", ""},
			{"wget -q -O - http://api.test:8080/", "Connection refused"},
			{"nslookup evil.test", "NXDOMAIN"},
			{"nc -l -p 80", "Address already in use"},
			{"echo nameserver 192.0.2.1 >/etc/resolv.conf", "Read-only"},
		} {
			if out, status := b.sh(tt.command); status == 0 || !strings.Contains(out, tt.says) || strings.Contains(out, "hello") {
				t.Errorf("%s: status %d: %s", tt.command, status, out)
			}
		}
		client := b.Sandbox.(*sandbox).Egress()
		if _, err := client.Set(t.Context(), rules(t, policy.NetworkRule{Host: "api.test", Ports: []policy.Port{80, 8081}})); err != nil {
			t.Fatal(err)
		}
		b.want("wget -q -O - http://api.test/ && wget -q -O - http://api.test:8081/", "hello from api.test\nhello from api.test:8081\n")
		// A command listens at the port of another rule: nothing changes.
		ends := b.listens("0.0.0.0", 8082)
		var refused *egress.Error
		if _, err := client.Set(t.Context(), rules(t, policy.NetworkRule{Host: "other.test", Ports: []policy.Port{80, 8082}})); !errors.As(err, &refused) ||
			!strings.Contains(refused.Message, "cannot open port 8082 in the sandbox: address already in use") || refused.Hint == "" {
			t.Errorf("with a port that is taken: %v", err)
		}
		b.want("wget -q -O - http://api.test:8081/", "hello from api.test:8081\n")
		ends()
		// Another process asks, too.
		attached, err := state.Attach(req.StateDir, b.ID())
		if err != nil {
			t.Fatal(err)
		}
		if state, err := attached.Egress().Show(t.Context()); err != nil || len(state.Network.Allow) != 1 || state.Connections < 4 || state.Denied < 1 {
			t.Errorf("%+v, %v", state, err)
		}
		b.stop()
		if ids := state.Names(must(t)(state.OpenDir(req.StateDir, state.IDsDir))); len(ids) > 0 {
			t.Errorf("ids are lent still: %v", ids)
		}
	})
}

// listens has a command listen at an address, and returns when it does. The command ends with
// the returned function.
func (b *box) listens(address string, port policy.Port) (end func()) {
	b.t.Helper()
	cmd, err := b.Start(b.t.Context(), wire.ExecRequest{Argv: []string{"httpd", "-f", "-p", fmt.Sprintf("%s:%d", address, port)}}, wire.Streams{})
	if err != nil {
		b.t.Fatal(err)
	}
	b.want(fmt.Sprintf("while ! grep -q ':%04X 00000000:0000 0A' /proc/net/tcp; do sleep 0.1; done", int(port)), "")
	return func() {
		_ = cmd.Signal("KILL")
		_, _ = cmd.Wait()
	}
}

func must(t *testing.T) func(*os.Root, error) *os.Root {
	return func(dir *os.Root, err error) *os.Root {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = dir.Close() })
		return dir
	}
}

func rules(t *testing.T, allow ...policy.NetworkRule) policy.Network {
	t.Helper()
	n, err := policy.Network{Allow: allow}.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestByNameEnds: without its egress process a container reaches nothing, at once, and says so;
// and the process, whose id is no other's, ends with the container.
func TestByNameEnds(t *testing.T) {
	eachEngine(t, func(t *testing.T, e *engines.Engine) {
		outside(t)
		for _, signal := range []unix.Signal{unix.SIGKILL, unix.SIGSTOP} {
			b := start(t, request(t, e, allow(policy.NetworkRule{Host: "api.test"})))
			b.want("wget -q -O - http://api.test/", "hello from api.test\n")
			pid := egressProcess(t)
			if os.Geteuid() == 0 {
				var st unix.Stat_t
				if err := unix.Stat("/proc/"+strconv.Itoa(pid)+"/status", &st); err != nil {
					t.Fatal(err)
				}
				status, err := state.ReadStatus("/proc/" + strconv.Itoa(pid) + "/status")
				if uid, _, _ := strings.Cut(status["Uid"], "\t"); err != nil || uid == "0" || status["CapEff"] != "0000000000000000" {
					t.Errorf("its uid is %s, %v", uid, err)
				}
			}
			if err := unix.Kill(pid, signal); err != nil {
				t.Fatal(err)
			}
			if signal == unix.SIGKILL {
				testkit.Eventually(t, "telling the loss", func() bool {
					return strings.Contains(strings.Join(b.Isolation().Lost, "\n"), "egress process has ended")
				})
				if out, status := b.sh("wget -q -O - http://127.64.0.2/"); status == 0 || !strings.Contains(out, "Connection refused") {
					t.Errorf("status %d: %s", status, out)
				}
			}
			if out, status := b.sh("wget -T 2 -q -O - http://api.test/"); status == 0 {
				t.Errorf("after %v: %s", signal, out)
			}
			b.stop()
			if err := unix.Kill(pid, 0); !errors.Is(err, unix.ESRCH) {
				t.Errorf("the process is left: %v", err)
			}
		}
	})
}

// egressProcess returns the egress process that this process has started last.
func egressProcess(t *testing.T) (pid int) {
	t.Helper()
	tasks, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		children, _ := os.ReadFile(task)
		for word := range strings.FieldsSeq(string(children)) {
			if name, err := os.ReadFile("/proc/" + word + "/cmdline"); err == nil && bytes.HasPrefix(name, []byte("paddock-egress")) {
				n, _ := strconv.Atoi(word)
				pid = max(pid, n)
			}
		}
	}
	if pid == 0 {
		t.Fatal("there is no egress process")
	}
	return pid
}

// TestByNameRefused: what would open another way out is refused, and so is an engine that
// cannot be had for it.
func TestByNameRefused(t *testing.T) {
	local := engine{client: &client{name: "docker"}, kind: docker, local: true}
	for _, tt := range []struct {
		name   string
		change func(*engine, *build)
		want   string
	}{
		{"nerdctl", func(e *engine, _ *build) { e.kind = nerdctl }, "network"},
		{"another machine", func(e *engine, _ *build) { e.local = false }, "network"},
		{"a network", func(_ *engine, b *build) { b.extra = []string{"--network=bridge"} }, "docker.extra_run_args"},
		{"a network, in two words", func(_ *engine, b *build) { b.extra = []string{"--net", "host"} }, "docker.extra_run_args"},
		{"a pod", func(_ *engine, b *build) { b.extra = []string{"--pod", "x"} }, "docker.extra_run_args"},
		{"low ports", func(_ *engine, b *build) { b.extra = []string{"--sysctl", "net.ipv4.ip_unprivileged_port_start=1024"} }, "docker.extra_run_args"},
	} {
		e, b := local, build{}
		tt.change(&e, &b)
		err := b.nameHosts(policy.Spec{Network: rules(t, policy.NetworkRule{Host: "api.test"})}, &e, "/state")
		var refused *policy.FieldError
		if !errors.As(err, &refused) || refused.Field != tt.want || refused.Hint == "" {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	b := build{}
	if err := b.nameHosts(policy.Spec{Network: rules(t, policy.NetworkRule{Host: "10.0.0.5"})}, &local, "/state"); err != nil || len(b.lost) != 1 || !b.lowPorts || len(b.mounts) != 2 {
		t.Errorf("%+v, %v", b, err)
	}
}

var _ backend.Sandbox = (*sandbox)(nil)
