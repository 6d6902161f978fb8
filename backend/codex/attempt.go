//go:build linux

package codex

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

// attemptName is the prefix of the files that attempts make and remove.
const attemptName = ".paddock-attempt-"

// kernelFiles are files that only root can write. New versions of the CLI take root's
// capabilities away, but writing these needs none.
var kernelFiles = []string{"/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sysrq-trigger"}

// reached is the result of an attempt, as observed by the host side.
type reached struct {
	inside, outside []string // directories in which a file was made
	refused         []string // directories in which none could be made
	kernel          bool     // files that the kernel obeys can be written
	network         bool
	why             map[string]string // the error in each directory, as reported from inside
}

// attempt runs the agent's program behind the wall, which tries operations that must work
// and operations that must fail, and checks the results from outside.
func (w *wall) attempt(ctx context.Context) (*reached, error) {
	nonce := rand.Text()
	port, err := listen(nonce)
	if err != nil {
		return nil, cannot("listen on", "127.0.0.1", err.Error(), "")
	}
	defer port.end()
	outside, inside := w.elsewhere(), w.writable()
	a := wire.Attempt{Nonce: nonce, Open: kernelFiles, Dial: []string{port.address()}}
	for _, dir := range slices.Concat(inside, outside) {
		a.Write = append(a.Write, filepath.Join(dir, attemptName+nonce))
	}
	defer func() {
		for _, file := range a.Write {
			_ = os.Remove(file)
		}
	}()
	line, err := json.Marshal(a)
	if err != nil {
		return nil, err
	}
	p, err := run(ctx, w.home, w.dir, string(line)+"\n", append(w.command(), w.req.Agent, "attempt"))
	var done wire.Attempted
	answered := false
	for line := range bytes.Lines(p.out.Bytes()) { // among banners
		done = wire.Attempted{}
		if json.Unmarshal(line, &done) == nil && done.Nonce == nonce && len(done.Write) == len(a.Write) && len(done.Open) == len(kernelFiles) {
			answered = true
			break
		}
	}
	if err != nil || !answered {
		if err == nil {
			err = errors.New("the program inside did not answer")
		}
		return nil, failedRun("run a program behind", w.id.path, p, err)
	}
	r := &reached{network: port.end(), why: map[string]string{}}
	r.kernel = slices.Contains(done.Open, "")
	for i, dir := range slices.Concat(inside, outside) {
		_, err := os.Lstat(a.Write[i])
		switch {
		case err == nil && i < len(inside):
			r.inside = append(r.inside, dir)
		case err == nil:
			r.outside = append(r.outside, dir)
		case i < len(inside):
			r.refused = append(r.refused, dir)
			r.why[dir] = shorten(done.Write[i])
		}
	}
	return r, nil
}

// elsewhere returns directories that the caller can write, if they exist, and that
// commands must not be able to write.
func (w *wall) elsewhere() []string {
	dirs := []string{w.home.outside, os.TempDir(), "/tmp", "/dev/shm", filepath.Dir(w.workspace)}
	if dir, err := os.UserHomeDir(); err == nil {
		dirs = append(dirs, dir)
	}
	if w.dir != w.workspace {
		dirs = append(dirs, w.workspace)
	}
	slices.Sort(dirs)
	return slices.DeleteFunc(slices.Compact(dirs), func(dir string) bool {
		return !filepath.IsAbs(dir) || slices.ContainsFunc(w.writable(), func(root string) bool {
			_, inside := hostpath.Within(hostpath.Real(dir), root)
			return inside
		})
	})
}

// judge returns an error if the wall is not as it must be. Access that the overrides allow
// is not an error, but is recorded as lost.
func (w *wall) judge(r *reached) error {
	w.kernel = r.kernel
	network := w.req.Spec.Network.Mode == networkHost
	switch {
	case slices.Contains(r.outside, w.home.outside):
		return w.open("a file could be written in " + w.home.outside)
	case len(r.outside) > 0 && !w.custom:
		return w.open("a file could be written in " + strings.Join(r.outside, ", "))
	case r.network && !network:
		return w.open("a port of the host could be called")
	case network && !r.network:
		return &policy.FieldError{Field: "network", Value: networkHost, Reason: "behind the sandbox of codex no port of the host could be called",
			Hint: "leave `codex.config_overrides` out, or use backend linux"}
	}
	for _, dir := range r.outside {
		w.lost = append(w.lost, "Commands can write "+dir+", as codex.config_overrides have it.")
	}
	for _, dir := range r.refused {
		if dir == w.home.scratch {
			w.temporary = false
			w.lost = append(w.lost, "Commands have no directory for temporary files.")
			continue
		}
		e := &policy.FieldError{Field: "workspace.access", Value: "rw", Reason: "behind the sandbox of codex nothing can be written in " + dir + ": " + r.why[dir]}
		if w.custom {
			e.Hint = "write workspace.access: ro, or leave `codex.config_overrides` out"
		}
		return e
	}
	return nil
}

const hintNoWall = "this version of the codex CLI builds no wall on this kernel: use backend linux"

// open returns the error of a wall that lets commands do something that it must not.
func (w *wall) open(what string) error {
	hint := hintNoWall
	if w.custom {
		hint = "`codex.config_overrides` open its sandbox: leave them out, or use backend host, which promises no wall"
	}
	return cannot("confine with", w.id.path, "its sandbox does not hold: "+what, hint)
}

// port is a loopback port that records whether a client with the nonce has connected.
type port struct {
	listener net.Listener
	nonce    string
	last     string // the nonce of the host side's own connection, at the end
	once     sync.Once
	done     chan bool
	called   bool
}

// callTimeout is how long one connection can keep the port busy.
const callTimeout = time.Second

// listen opens a port and serves it.
func listen(nonce string) (*port, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &port{listener: l, nonce: nonce, last: rand.Text(), done: make(chan bool, 1)}
	go func() {
		called := false
		defer func() { p.done <- called }()
		for { // one connection after the other, in their order
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.SetDeadline(time.Now().Add(callTimeout))
			got := make([]byte, len(p.nonce))
			_, _ = io.ReadFull(c, got)
			_ = c.Close()
			switch string(got) {
			case p.nonce:
				called = true
			case p.last:
				return
			}
		}
	}()
	return p, nil
}

func (p *port) address() string { return p.listener.Addr().String() }

// end closes the port and reports whether there was a connection from inside. Its own
// connection comes after all that were made before.
func (p *port) end() bool {
	p.once.Do(func() {
		c, err := net.Dial("tcp", p.address())
		if err == nil {
			_, err = io.WriteString(c, p.last)
			_ = c.Close()
		}
		if err != nil {
			_ = p.listener.Close()
		}
		p.called = <-p.done
		_ = p.listener.Close()
	})
	return p.called
}
