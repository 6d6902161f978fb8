//go:build linux

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/paddock-dev/paddock/privilege"
	"github.com/paddock-dev/paddock/privilege/redis"
)

const (
	grants = 200 // principals in the larger file
	checks = 100 // in each round
)

// measurePrivileges checks a privilege with each kind of store. The file is
// also opened anew for each check, as the command line does.
func measurePrivileges(ctx context.Context, b *bench) (err error) {
	path := filepath.Join(b.dir, "privileges", "p.json")
	small := filepath.Join(b.dir, "privileges", "small.json")
	file, err := filled(ctx, path, grants)
	if err != nil {
		return err
	}
	defer file.Close()
	few, err := filled(ctx, small, 10)
	if err != nil {
		return err
	}
	_ = few.Close() // it is opened anew
	first := &benchCase{name: "the file, 10 principals, first opened", run: func(ctx context.Context) (time.Duration, error) {
		return repeat(func() error {
			s, err := privilege.OpenFile(small)
			if err != nil {
				return err
			}
			return errors.Join(allowed(ctx, s), s.Close())
		})
	}}
	again := checkCase(fmt.Sprintf("the file, %d principals", grants), file)
	remote := missing("Redis on loopback", "redis-server is not installed; make redis-deps installs it")
	if notInstalled("redis-server") == "" {
		store, stop, err := startRedis(ctx, b.dir)
		if err != nil {
			return err
		}
		defer func() {
			err = errors.Join(err, store.Close())
			stop()
		}()
		remote = checkCase("Redis on loopback", store)
	}
	rounds := b.rounds(50, 10)
	if err := interleave(ctx, warmups, rounds, again, first, remote); err != nil {
		return err
	}
	b.add(times(fmt.Sprintf("a privilege check, %d rounds of %d", rounds, checks), time.Microsecond, again, again, first, remote),
		atMost("privilege check from the file store", micros(again), 50, "µs"),
		atMost("privilege check from a file just opened", micros(first), 50, "µs"),
		atMost("privilege check from Redis on loopback", micros(remote)/1000, 1, "ms").unless(remote.absent))
	return nil
}

func micros(c *benchCase) float64 { return float64(c.sample.median()) / float64(time.Microsecond) }

// filled is a store in a file with so many principals, which was last changed
// a while ago.
func filled(ctx context.Context, path string, principals int) (privilege.Store, error) {
	s, err := privilege.OpenFile(path)
	if err != nil {
		return nil, err
	}
	for i := range principals {
		if err := grantBench(ctx, s, i); err != nil {
			return nil, err
		}
	}
	old := time.Now().Add(-time.Hour)
	return s, os.Chtimes(path, old, old)
}

func grantBench(ctx context.Context, s privilege.Store, i int) error {
	_, _, err := s.Update(ctx, fmt.Sprintf("user:%d", i), func(privilege.Set) privilege.Set { return privilege.UnsandboxedExec })
	return err
}

func checkCase(name string, s privilege.Store) *benchCase {
	return &benchCase{name: name, run: func(ctx context.Context) (time.Duration, error) {
		return repeat(func() error { return allowed(ctx, s) })
	}}
}

// allowed checks somebody who holds the privilege.
func allowed(ctx context.Context, s privilege.Store) error {
	return privilege.Check(ctx, s, &privilege.Principal{Name: "user:7"}, privilege.UnsandboxedExec)
}

// repeat is how long one of many takes.
func repeat(do func() error) (time.Duration, error) {
	began := time.Now()
	for range checks {
		if err := do(); err != nil {
			return 0, err
		}
	}
	return time.Since(began) / checks, nil
}

// startRedis starts a server on loopback and fills it.
func startRedis(ctx context.Context, dir string) (_ privilege.Store, stop func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	_ = l.Close() // its port is for the server
	cmd := exec.CommandContext(ctx, "redis-server", "--dir", dir, "--port", port, "--bind", "127.0.0.1", "--save", "", "--daemonize", "no")
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	stop = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it says that it was killed
	}
	defer func() {
		if err != nil {
			stop()
		}
	}()
	if err := awaitRedis(out); err != nil {
		return nil, nil, err
	}
	s, err := redis.Open("redis://127.0.0.1:" + port)
	if err != nil {
		return nil, nil, err
	}
	for i := range 10 {
		if err := grantBench(ctx, s, i); err != nil {
			return nil, nil, err
		}
	}
	return s, stop, nil
}

// awaitRedis reads until the server says that it is ready, and on from there.
func awaitRedis(out io.Reader) error {
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if strings.Contains(lines.Text(), "eady to accept connections") {
			go func() { _, _ = io.Copy(io.Discard, out) }()
			return nil
		}
	}
	return errors.New("redis-server ended before it was ready")
}
