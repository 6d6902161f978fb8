//go:build linux

package order

import (
	"reflect"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/internal/clone"
)

func example() Process {
	return Process{Flags: 0x7e020000, Command: clone.Command{Argv: []string{"paddock-agent", "boot"}, Env: []string{"A=b", ""}, Dir: "/", Files: []int{21, 22},
		UID: 1000, GID: 1001, Umask: 0o77, Ambient: []uintptr{1, 21}, Cgroup: 30, Landlock: 31, Rlimits: []clone.Rlimit{{Resource: 4, Limit: unix.Rlimit{Cur: 1, Max: 1<<64 - 1}}},
		DieWithThread: true, NoCaps: true, NoNewPrivs: true}}
}

// What one side writes is what the other reads.
func TestMessages(t *testing.T) {
	p := example()
	text, fds := p.Encode(20)
	got, exe, err := DecodeProcess(text[1:], fds)
	if err != nil || text[0] != Clone || exe != 20 || !reflect.DeepEqual(got, p) {
		t.Errorf("a process: %+v, exe %d, %v", got, exe, err)
	}
	kept := Kept{Process: 1, Idle: time.Hour, Life: 2 * time.Hour, Argv: []string{"paddock", "end"}, Env: []string{"HOME=/"}, From: "/a", To: "/b"}
	text = kept.Encode()
	if got, err := DecodeKept(text[1:]); err != nil || text[0] != Keep || !reflect.DeepEqual(got, kept) {
		t.Errorf("what is kept: %+v, %v", got, err)
	}
	a := Answer{Stage: clone.StageExec, Errno: unix.ENOENT, Value: 7}
	if got, err := DecodeAnswer(a.Encode()); err != nil || got != a {
		t.Errorf("an answer: %+v, %v", got, err)
	}
	if n, err := DecodeNumber(Number(Await, 3)[1:]); err != nil || n != 3 {
		t.Errorf("a number: %d, %v", n, err)
	}
}

// A message that is cut off anywhere is refused.
func TestCutMessages(t *testing.T) {
	p := example()
	text, fds := p.Encode(20)
	for i := 1; i < len(text); i++ {
		if _, _, err := DecodeProcess(text[1:i], fds); err == nil {
			t.Fatalf("a process of %d of %d bytes is accepted", i, len(text))
		}
	}
	if _, _, err := DecodeProcess(text[1:], fds[:2]); err == nil {
		t.Error("a process without its descriptors is accepted")
	}
}

func FuzzDecode(f *testing.F) {
	p := example()
	text, _ := p.Encode(20)
	f.Add(text[1:])
	kept := Kept{Argv: []string{"a"}}
	f.Add(kept.Encode()[1:])
	f.Fuzz(func(_ *testing.T, text []byte) {
		_, _, _ = DecodeProcess(text, []int{3, 4, 5})
		_, _ = DecodeKept(text)
		_, _ = DecodeAnswer(text)
		_, _ = DecodeNumber(text)
	})
}
