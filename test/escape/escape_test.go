//go:build linux

package escape

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/paddock-dev/paddock/wire"
)

func TestGrid(t *testing.T) {
	requireWalls(t)
	h := newHost(t)
	h.run(t, "attacks without a network", h.sandbox(t, "none"), attacks())
}

func TestGridHostNetwork(t *testing.T) {
	requireWalls(t)
	h := newHost(t)
	h.run(t, "attacks with the host's network", h.sandbox(t, "host"), hostNetworkAttacks())
}

// Two sandboxes of one user, one workspace between them, see nothing else of
// each other.
func TestTwoSandboxes(t *testing.T) {
	requireWalls(t)
	h := newHost(t)
	victim, attacker := h.sandbox(t, "none"), h.sandbox(t, "none")
	holder := start(t, victim, "hold", h.token+"-inside", "/tmp/"+h.token)
	defer holder.Close()
	for _, r := range []row{
		{name: "its process", args: []string{"find-process", h.token + "-inside"}, want: "not visible"},
		{name: "its temporary file", args: []string{"read", "/tmp/" + h.token}, want: "ENOENT"},
		{name: "its socket", args: []string{"list", "{ws}/state"}, want: "empty"},
	} {
		t.Run(r.name, func(t *testing.T) { h.within(t, attacker, r) })
	}
	// The control: the process is there to be found by its own sandbox.
	if got, err := attack(t.Context(), victim, []string{"find-process", h.token + "-inside"}); err != nil || got != "succeeded" {
		t.Errorf("its own sandbox finds the process: %s, %v", got, err)
	}
}

// start runs an attack that stays, and returns when it has said a line.
func start(t *testing.T, client *wire.Client, args ...string) *wire.Process {
	t.Helper()
	said := make(chan struct{}, 1)
	p, err := client.Start(t.Context(), wire.ExecRequest{Argv: append([]string{attackerDir + "/attacker"}, args...)},
		wire.Streams{Stdout: writerFunc(func(b []byte) (int, error) {
			select {
			case said <- struct{}{}:
			default:
			}
			return len(b), nil
		})})
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-said:
	case <-time.After(20 * time.Second):
		t.Fatal("the attacker says nothing")
	}
	return p
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// Whatever a command does to every process that it can name, the next command runs.
func TestKillEverything(t *testing.T) {
	requireWalls(t)
	h := newHost(t)
	client := h.sandbox(t, "none")
	for _, text := range []string{"kill -9 -1; kill -9 1", "kill -STOP -1; kill -STOP 1", "kill -9 1; exec /bin/true"} {
		if _, err := client.Exec(t.Context(), wire.ExecRequest{Command: text}); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		res, err := client.Exec(t.Context(), wire.ExecRequest{Argv: []string{"echo", "alive"}})
		if err != nil || strings.TrimSpace(res.Stdout) != "alive" {
			t.Fatalf("after %q: %+v, %v", text, res, err)
		}
	}
}

// A set-id file that was there before stays one only as long as nobody has
// written to it.
func TestExistingSetID(t *testing.T) {
	requireWalls(t)
	h := newHost(t)
	client := h.sandbox(t, "none")
	for _, how := range []string{"append", "overwrite"} {
		path := h.inside + "/set-id-" + how
		write(t, path, "true program", 0o755)
		if err := os.Chmod(path, 0o755|os.ModeSetuid); err != nil {
			t.Fatal(err)
		}
		if got, err := attack(t.Context(), client, []string{how, "/workspace/set-id-" + how}); err != nil || got != "succeeded" {
			t.Fatalf("%s: %s, %v", how, got, err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode()&os.ModeSetuid != 0 {
			t.Errorf("%s: the file is another, and still set-id: %v", how, info.Mode())
		}
	}
}

// What commands make belongs to the owner of the workspace, and is nobody's
// way to another identity.
func TestOwnership(t *testing.T) {
	requireWalls(t)
	h := newHost(t)
	client := h.sandbox(t, "none")
	if res, err := client.Exec(t.Context(), wire.ExecRequest{Command: "umask 0; mkdir d && echo x > d/f && ln -s /etc/shadow d/l"}); err != nil || res.ExitCode != 0 {
		t.Fatalf("%+v, %v", res, err)
	}
	for _, name := range []string{"d", "d/f", "d/l"} {
		info, err := os.Lstat(h.inside + "/" + name)
		if err != nil {
			t.Fatal(err)
		}
		st := info.Sys().(*syscall.Stat_t)
		if int(st.Uid) != os.Geteuid() || info.Mode()&(os.ModeSetuid|os.ModeSetgid) != 0 {
			t.Errorf("%s: uid %d, %v", name, st.Uid, info.Mode())
		}
	}
}
