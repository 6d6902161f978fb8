package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/paddock-dev/paddock/privilege"
)

const grantingEnv = "PADDOCK_TEST_GRANTS"

func TestMain(m *testing.M) {
	if address := os.Getenv(grantingEnv); address != "" {
		if err := grantMany(address, os.Getenv(grantingEnv+"_FIRST")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// grantMany grants, from 50 goroutines, one bit each to everybody, and
// something to a principal of its own.
func grantMany(address, first string) error {
	s, err := Open(address)
	if err != nil {
		return err
	}
	var bit int
	if _, err := fmt.Sscan(first, &bit); err != nil {
		return err
	}
	errs := make(chan error)
	for i := range 50 {
		go func() {
			err := insist(s, fmt.Sprintf("own:%d:%d", bit, i), 1)
			if err == nil && i < 16 {
				err = insist(s, "all", 1<<(bit+i))
			}
			errs <- err
		}()
	}
	for range 50 {
		err = errors.Join(err, <-errs)
	}
	return errors.Join(err, s.Close())
}

// insist grants again where the server was too slow: the machine may be busy.
func insist(s privilege.Store, principal string, set privilege.Set) (err error) {
	for range 20 {
		if _, _, err = s.Update(context.Background(), principal, add(set)); err == nil {
			return nil
		}
	}
	return err
}

func add(set privilege.Set) func(privilege.Set) privilege.Set {
	return func(old privilege.Set) privilege.Set { return old | set }
}

func TestRedis(t *testing.T) {
	for _, tcp := range []bool{false, true} {
		t.Run(map[bool]string{false: "unix socket", true: "loopback"}[tcp], func(t *testing.T) {
			server := start(t, tcp)
			s, ctx := server.open(), t.Context()
			if got, err := s.Get(ctx, "nobody"); got != 0 || err != nil {
				t.Errorf("Get of nobody = %v, %v", got, err)
			}
			const own = privilege.Set(1) << 40
			steps := []struct {
				who         string
				change      func(privilege.Set) privilege.Set
				after       privilege.Set
				shared, own string
			}{
				{"123", add(privilege.UnsandboxedExec), 4, "4", ""},
				{"123", add(1 << 63), 1<<63 | 4, "9223372036854775812", ""},
				{"123", add(own), 1<<63 | own | 4, "9223372036854775812", "1099511627776"},
				{"123", func(s privilege.Set) privilege.Set { return s &^ 4 }, 1<<63 | own, "9223372036854775808", "1099511627776"},
				{"123", func(privilege.Set) privilege.Set { return own }, own, "", "1099511627776"},
				{"user:ann", add(1), 1, "1", ""},
				{"user:ann", add(0), 1, "1", ""},
			}
			before := make(map[string]privilege.Set)
			for i, step := range steps {
				was, after, err := s.Update(ctx, step.who, step.change)
				if was != before[step.who] || after != step.after || err != nil {
					t.Errorf("step %d: %v to %v, %v", i, was, after, err)
				}
				before[step.who] = after
				if got, err := server.open().Get(ctx, step.who); got != step.after || err != nil {
					t.Errorf("step %d: another client reads %v, %v", i, got, err)
				}
				if shared, own := server.entry(s, SharedKey, step.who), server.entry(s, OwnKey, step.who); shared != step.shared || own != step.own {
					t.Errorf("step %d: the server holds %q and %q", i, shared, own)
				}
			}
			got, err := s.List(ctx)
			if diff := cmp.Diff(map[string]privilege.Set{"123": own, "user:ann": 1}, got); diff != "" || err != nil {
				t.Errorf("List: %v %s", err, diff)
			}
		})
	}
}

// TestSharedMasks has masks of another program, whose bits 32 to 47 are not ours.
func TestSharedMasks(t *testing.T) {
	server := start(t, false)
	s, ctx := server.open(), t.Context()
	server.set(s, SharedKey, "1", "281474976710660") // bits 2 and 48
	server.set(s, SharedKey, "2", "1099511627780")   // bits 2 and 40
	server.set(s, OwnKey, "2", "4294967300")         // bits 2 and 32
	server.set(s, SharedKey, "3", "0")
	want := map[string]privilege.Set{"1": 1<<48 | 4, "2": 1<<32 | 4}
	if got, err := s.List(ctx); cmp.Diff(want, got) != "" || err != nil {
		t.Errorf("List = %v, %v", got, err)
	}
	if _, after, err := s.Update(ctx, "2", func(privilege.Set) privilege.Set { return 1<<33 | 1 }); after != 1<<33|1 || err != nil {
		t.Errorf("Update = %v, %v", after, err)
	}
	if shared, own := server.entry(s, SharedKey, "2"), server.entry(s, OwnKey, "2"); shared != "1099511627777" || own != "8589934592" {
		t.Errorf("the server holds %q and %q", shared, own)
	}
	if _, _, err := s.Update(ctx, "3", add(1<<32)); err != nil || server.entry(s, SharedKey, "3") != "0" {
		t.Errorf("an entry that did not change is now %q, %v", server.entry(s, SharedKey, "3"), err)
	}
}

// TestBrokenEntries has what no program should have written.
func TestBrokenEntries(t *testing.T) {
	server := start(t, false)
	s, ctx := server.open(), t.Context()
	closed := func(what string, err error) {
		t.Helper()
		if u := (*privilege.Unavailable)(nil); !errors.As(err, &u) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, text := range []string{"", "-4", "0x4", "4.0", "all", " 4", "18446744073709551616", strings.Repeat("9", 1<<20)} {
		for _, key := range []string{SharedKey, OwnKey} {
			server.set(s, key, "a", text)
			_, err := s.Get(ctx, "a")
			closed("Get", err)
			_, _, err = s.Update(ctx, "a", add(4))
			closed("Update", err)
			if text != "" {
				_, err = s.List(ctx)
				closed("List", err)
			}
			if got := server.entry(s, key, "a"); got != text {
				t.Errorf("%.20q became %.20q", text, got)
			}
			s.client.HDel(ctx, key, "a")
		}
	}
	server.set(s, SharedKey, "a name", "4")
	_, err := s.List(ctx)
	closed("List of a name that is none", err)
	s.client.Set(ctx, OwnKey, "not a hash", 0)
	_, err = s.Get(ctx, "a")
	closed("Get from what is no hash", err)
	if err := privilege.Check(ctx, s, &privilege.Principal{Name: "a"}, 4); err == nil || err.Error() != "Privilege system unavailable." {
		t.Errorf("Check = %v", err)
	}
}

func TestListBounded(t *testing.T) {
	server := start(t, false)
	s, ctx := server.open(), t.Context()
	fill := func(first, n int) {
		values := make([]any, 0, 2*n)
		for i := range n {
			values = append(values, fmt.Sprint(first+i), "4")
		}
		if err := s.client.HSet(ctx, SharedKey, values...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 16 {
		fill(i*privilege.MaxPrincipals/16, privilege.MaxPrincipals/16)
	}
	if got, err := s.List(ctx); len(got) != privilege.MaxPrincipals || err != nil {
		t.Errorf("%d principals, %v", len(got), err)
	}
	fill(privilege.MaxPrincipals, 1)
	if _, err := s.List(ctx); err == nil || !strings.Contains(err.Error(), "more than 65536 principals") {
		t.Errorf("List = %v", err)
	}
}

// TestServerDies kills the server between two questions, and starts it again.
func TestServerDies(t *testing.T) {
	for _, tcp := range []bool{false, true} {
		server := start(t, tcp)
		s, ctx := server.open(), t.Context()
		who := &privilege.Principal{Name: "user:ann"}
		if _, _, err := s.Update(ctx, who.Name, add(privilege.UnsandboxedExec)); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if err := privilege.Check(ctx, s, who, privilege.UnsandboxedExec); err != nil {
				t.Fatal(err)
			}
			server.kill()
			began := time.Now()
			err := privilege.Check(ctx, s, who, privilege.UnsandboxedExec)
			if u := (*privilege.Unavailable)(nil); err == nil || err.Error() != "Privilege system unavailable." || !errors.As(err, &u) {
				t.Errorf("without a server: %v", err)
			}
			if _, _, err := s.Update(ctx, who.Name, add(1)); err == nil {
				t.Error("a grant was made without a server")
			}
			if took := time.Since(began); took > 20*time.Second {
				t.Errorf("it took %v to find out", took)
			}
			server.start()
			if got, err := s.Get(ctx, who.Name); got != privilege.UnsandboxedExec || err != nil {
				t.Errorf("after a new start: %v, %v", got, err)
			}
		}
	}
}

// TestServerHangs has a server that takes connections and says nothing.
func TestServerHangs(t *testing.T) {
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s, err := Open("unix://" + l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	began := time.Now()
	_, err = s.Get(t.Context(), "a")
	if u := (*privilege.Unavailable)(nil); !errors.As(err, &u) || time.Since(began) > 10*time.Second {
		t.Errorf("after %v: %v", time.Since(began), err)
	}
}

func TestManyWriters(t *testing.T) {
	server := start(t, false, "--appendonly", "no")
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			cmd := exec.CommandContext(t.Context(), os.Args[0])
			cmd.Env = append(os.Environ(), grantingEnv+"="+server.url, fmt.Sprintf("%s_FIRST=%d", grantingEnv, 16*i))
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("process %d: %v: %s", i, err, out)
			}
		})
	}
	wg.Wait()
	got, err := server.open().List(t.Context())
	if err != nil || len(got) != 4*50+1 || got["all"] != 1<<64-1 {
		t.Errorf("%d principals, all have %v, %v", len(got), got["all"], err)
	}
}

func TestPassword(t *testing.T) {
	server := start(t, false, "--requirepass", "hush")
	for password, ok := range map[string]bool{":hush@": true, ":wrong@": false, "": false} {
		s, err := Open(strings.Replace(server.url, "unix://", "unix://"+password, 1))
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.Get(t.Context(), "a")
		_ = s.Close()
		if (err == nil) != ok || err != nil && strings.Contains(err.Error(), "wrong@") {
			t.Errorf("with %q: %v", password, err)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	for _, address := range []string{
		"", "file:///x", "http://127.0.0.1", "redis://h:secret@x:y", "redis://:secret@h/notanumber", "redis://:secret@h/1/2",
		"unix://", "unix://relative/path", "rediss://:secret@h?skip_verify=true", "redis://:secret@h?read_timeout=0", "redis://\x7f:secret@h",
	} {
		s, err := Open(address)
		u := (*privilege.Unavailable)(nil)
		if !errors.As(err, &u) || s != nil || u.Hint == "" || strings.Contains(err.Error(), "secret") {
			t.Errorf("Open(%q) = %v", address, err)
		}
	}
}

func BenchmarkCheckRedis(b *testing.B) {
	for _, tcp := range []bool{false, true} {
		b.Run(map[bool]string{false: "unix", true: "loopback"}[tcp], func(b *testing.B) {
			s := start(b, tcp).open()
			who := &privilege.Principal{Name: "user:ann"}
			if _, _, err := s.Update(b.Context(), who.Name, add(4)); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if err := privilege.Check(b.Context(), s, who, 4); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
