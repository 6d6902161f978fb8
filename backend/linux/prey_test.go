//go:build linux

package linux

import (
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/internal/testkit"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

// preyID is the identity of commands where root runs these tests.
const preyID = 65531

// prey is what attacks on one mechanism are after.
type prey struct {
	dir   string
	names []string
}

func newPrey(t *testing.T) *prey {
	t.Helper()
	h := &prey{dir: tempDir(t)}
	tools := filepath.Join(h.dir, "tools")
	for _, dir := range []string{tools, h.dir + "/ws/.git/hooks", h.dir + "/state"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	build := exec.Command("go", "build", "-buildvcs=false", "-o", tools+"/", "./test/escape/attacker")
	build.Dir = filepath.Join("..", "..")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("cannot build the attacker: %v\n%s", err, out)
	}
	canary, token := filepath.Join(h.dir, "canary"), newToken()
	testkit.Write(t, canary, "the host's", 0o644)
	testkit.Write(t, filepath.Join(h.dir, "ws", ".envrc"), "true\n", 0o644)
	packets := filepath.Join(h.dir, "p")
	conn, err := net.ListenPacket("unixgram", packets)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	socket := serve(t, "unix", filepath.Join(h.dir, "s"))
	if err := errors.Join(os.Chmod(packets, 0o777), os.Chmod(socket, 0o777)); err != nil {
		t.Fatal(err)
	}
	shm := 0x5b000000 | os.Getpid()&0xffffff
	id, err := unix.SysvShmGet(shm, 4096, unix.IPC_CREAT|0o666)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = unix.SysvShmCtl(id, unix.IPC_RMID, nil) })
	h.names = []string{"{canary}", canary, "{token}", token, "{hostdir}", h.dir, "{suid}", filepath.Join(tools, "set-id"), "{shm}", strconv.Itoa(shm),
		"{tcp}", serve(t, "tcp", "127.0.0.1:0"), "{abstract}", strings.TrimPrefix(serve(t, "unix", "@"+token), "@"),
		"{socket}", socket, "{packets}", packets}
	h.lend(t)
	return h
}

func serve(t *testing.T, network, address string) string {
	t.Helper()
	ln, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	return ln.Addr().String()
}

// lend gives all of it to the commands' identity, but for a set-id program of root's.
func (h *prey) lend(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		return
	}
	program, err := os.ReadFile(filepath.Join(h.dir, "tools", "attacker"))
	if err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir(h.dir, func(path string, d fs.DirEntry, err error) error {
		if d.Name() == "state" {
			return err
		}
		return errors.Join(err, os.Lchown(path, preyID, preyID))
	})
	suid := filepath.Join(h.dir, "tools", "set-id")
	err = errors.Join(err, os.WriteFile(suid, program, 0o755), os.Chmod(suid, 0o755|os.ModeSetuid))
	if err != nil {
		t.Fatal(err)
	}
}

// victim is a process of the commands' identity.
func (h *prey) victim(t *testing.T) string {
	t.Helper()
	cmd := exec.Command(filepath.Join(h.dir, "tools", "attacker"), "hold", h.expand([]string{"{token}"})[0])
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if os.Geteuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: preyID, Gid: preyID}
	}
	said, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_, _ = said.Read(make([]byte, 8))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // at once, for its death to be seen
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
	})
	return strconv.Itoa(cmd.Process.Pid)
}

// box starts a sandbox with a part of its plan.
func (h *prey) box(t *testing.T, m alone) *sandbox {
	t.Helper()
	req := request(t, func(s *policy.Spec) {
		s.Level, s.Limits = m.level, m.limits
		s.Workspace.Source = filepath.Join(h.dir, "ws")
		s.Mounts = []policy.Mount{{Source: filepath.Join(h.dir, "tools")}}
	})
	req.Guards = guards(t, req)
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
	if m.level == policy.LevelLandlock {
		id, err = landlockIdentity(req.Spec, mounts)
		err = errors.Join(err, dir.makeScratch(id, nil))
	} else if err == nil && id.kind == idmap {
		id.uid, err = dir.lendUID()
		id.gid = id.uid
	}
	if err != nil {
		t.Fatal(err)
	}
	l := &launch{dir: dir, id: id}
	if m.level == policy.LevelFull {
		l.namespaces = namespaces(req.Spec)
	}
	defer l.close()
	if err := l.open(req.Agent); err != nil {
		t.Fatal(err)
	}
	s, err := l.clone(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.kill() })
	if err := s.prepare(req, id, mounts, hierarchy{}); err != nil {
		t.Fatal(err)
	}
	steps := s.plan.plan.Spawn
	s.plan.plan.Spawn = nil
	for _, step := range steps {
		if step, ok := m.keep(step); ok {
			s.plan.plan.Spawn = append(s.plan.plan.Spawn, step)
		}
	}
	booted, err := s.handOver() // what is left out is not looked for afterwards
	s.closeFiles()
	if err != nil {
		t.Fatal(s.explain(err))
	}
	if booted.Failed != nil {
		t.Fatal(booted.Failed)
	}
	return s
}

// without tries an attack where nothing, or little, is in its way.
func (h *prey) without(t *testing.T, free *sandbox, m alone, a solo) string {
	t.Helper()
	switch {
	case a.control != nil:
		return h.attack(t, free, a.control)
	case a.over != nil:
		free = h.box(t, alone{level: m.level, keep: a.over})
	case slices.Contains(a.args, "{agent}"): // which does not survive it
		free = h.box(t, alone{level: policy.LevelLandlock, keep: nothing})
	}
	return h.attack(t, free, a.args)
}

// attack runs the attacker in a sandbox. One that takes the sandbox with it
// has succeeded.
func (h *prey) attack(t *testing.T, s *sandbox, args []string) string {
	t.Helper()
	side := []string{"{agent}", strconv.Itoa(s.pid), "{ws}", s.plan.plan.Workspace}
	if slices.Contains(args, "{host}") {
		side = append(side, "{host}", h.victim(t))
	}
	client := wire.Client{Dial: s.Dial}
	limit := 120.0 // seconds, for emulated machines
	res, err := client.Exec(t.Context(), wire.ExecRequest{
		Argv: append([]string{filepath.Join(h.dir, "tools", "attacker")}, h.expand(args, side...)...), TimeoutSeconds: &limit,
	})
	if err != nil {
		select {
		case <-s.done:
			return "succeeded"
		case <-time.After(5 * time.Second):
			t.Fatal(err)
		}
	}
	var v struct {
		Succeeded     bool
		Errno, Detail string
	}
	if err := json.Unmarshal([]byte(res.Stdout), &v); err != nil {
		t.Fatalf("%+v", res)
	}
	if v.Succeeded {
		return "succeeded"
	}
	if v.Errno != "" {
		return v.Errno
	}
	return v.Detail
}

func (h *prey) expand(args []string, side ...string) []string {
	r := strings.NewReplacer(append(side, h.names...)...)
	out := make([]string, len(args))
	for i, a := range args {
		out[i] = r.Replace(a)
	}
	return out
}
