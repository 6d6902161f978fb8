//go:build linux

package linux

import (
	"context"
	"testing"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

// pry prints what a command gets hold of in the process whose number is in the
// file pid, and then what of a child of its own.
const pry = `look() {
	head -c 1 /proc/$1/environ >/dev/null 2>&1 && echo $2 environ
	head -n 1 /proc/$1/maps 2>/dev/null | grep -q . && echo $2 maps
	(exec 3</proc/$1/mem) 2>/dev/null && echo $2 mem
	(exec 3>/proc/$1/mem) 2>/dev/null && echo $2 writes mem
	(exec 3</proc/$1/fd/0) 2>/dev/null && echo $2 fd
	readlink /proc/$1/exe >/dev/null && echo $2 exe
	grep -q sleep /proc/$1/cmdline && echo $2 cmdline
	kill -0 $1 && echo $2 signal
}
begun() { until grep -q sleep /proc/$1/cmdline; do :; done; }
begun $(cat pid); look $(cat pid) theirs
exec sleep 1000 & begun $!; look $! own; kill $!`

// Commands of one sandbox see and signal each other, and look into what they
// have started themselves alone, whatever the level.
func TestCommandsApart(t *testing.T) {
	requireLandlock(t)
	const own = "own environ\nown maps\nown mem\nown fd\nown exe\nown cmdline\nown signal\n"
	atFull := func(change ...func(*policy.Spec)) backend.Sandbox {
		box, err := New().Start(t.Context(), request(t, change...))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _, _ = box.Stop(context.Background(), 0) })
		return box
	}
	landlock, _ := atLandlock(t)
	for name, tt := range map[string]struct {
		box  backend.Sandbox
		want string
	}{
		"full":     {atFull(), "theirs cmdline\ntheirs signal\n" + own},
		"landlock": {landlock, "theirs cmdline\ntheirs signal\n" + own},
		// The control: debuggers are to work from one command on another.
		"debug": {atFull(func(s *policy.Spec) { s.Seccomp = "debug" }),
			"theirs environ\ntheirs maps\ntheirs mem\ntheirs writes mem\ntheirs fd\ntheirs exe\ntheirs cmdline\ntheirs signal\n" +
				"own environ\nown maps\nown mem\nown writes mem\nown fd\nown exe\nown cmdline\nown signal\n"},
	} {
		t.Run(name, func(t *testing.T) {
			client := wire.Client{Dial: tt.box.Dial}
			if _, err := client.Exec(t.Context(), wire.ExecRequest{Argv: []string{"sh", "-c", "exec sleep 1000 >/dev/null 2>&1 & echo $! >pid"}, Detach: true}); err != nil {
				t.Fatal(err)
			}
			if got, _ := sh(t, tt.box, pry); got+"\n" != tt.want {
				t.Errorf("a command got hold of:\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}
