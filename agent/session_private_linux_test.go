package agent_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/wire"
)

// intrusion is what the helper got hold of, which writes that to a file.
func (b *box) intrusion(name string) string {
	b.t.Helper()
	path := filepath.Join(b.workspace, name)
	eventually(b.t, "the helper has tried", func() bool {
		_, err := os.Stat(path)
		return err == nil
	})
	text, err := os.ReadFile(path)
	if err != nil {
		b.t.Fatal(err)
	}
	return string(text)
}

// A program in the background of a session opens neither what the shell reads
// its commands from nor what it reports over, writes to no file that it takes
// them from, and so answers for no command.
func TestSessionPrivate(t *testing.T) {
	for name, argv := range shellsHere(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openSession(t, wire.OpenSessionRequest{ShellCommand: argv, CommandTimeout: 20})
			s.sh("{ sleep 0.5; exec " + helper + " intrude $$ got; } >/dev/null 2>&1 &") // while it starts jobs, a shell has pipes for itself
			want := "/memfd:stdin 8\n"                                                   // like every stream of commands, and the control for the others
			if name == "bash" {
				want = "/memfd:stdin 40\n"
			}
			if got := s.intrusion("got"); got != want {
				t.Errorf("it got hold of %q", got)
			}
			for i := range 10 {
				r := s.sh(fmt.Sprintf(`echo "the tests FAILED %d"; false`, i))
				if printed(r, "stdout") != fmt.Sprintf("the tests FAILED %d\n", i) || r.ExitCode != 1 || !r.StateKept {
					t.Errorf("%+v", r)
				}
			}
		})
	}
}

// The same program gets hold of pipes.
func TestSessionPrivateControl(t *testing.T) {
	s := openSession(t, wire.OpenSessionRequest{})
	s.sh(`sleep 1000 | sh -c 'echo $$ >pid.new; mv pid.new pid; exec sleep 1000' 7>&1 | sleep 1000 &`)
	eventually(t, "the pipes are there", func() bool {
		_, err := os.Stat(filepath.Join(s.workspace, "pid"))
		return err == nil
	})
	s.sh(helper + " intrude $(cat pid) got >/dev/null 2>&1 &")
	if got := s.intrusion("got"); got != "pipe: 0\npipe: 7\n" {
		t.Errorf("it got hold of %q", got)
	}
}

// Scripts open their streams by name.
func TestSessionStreamsByName(t *testing.T) {
	for name, argv := range shellsHere(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openSession(t, wire.OpenSessionRequest{ShellCommand: argv})
			r := s.do(wire.RunSessionRequest{Command: "echo out >/dev/stdout; echo err >/dev/stderr; cat /dev/stdin; echo both | tee /dev/stderr; cat </proc/self/fd/0", Stdin: "in\n"})
			if printed(r, "stdout") != "out\nin\nboth\nin\n" || printed(r, "stderr") != "err\nboth\n" || r.ExitCode != 0 {
				t.Errorf("%+v", r)
			}
		})
	}
}

// Jobs that end while no command runs say nothing, and end no shell. They wait without running, so that
// a busy machine starts all of them in time.
func TestSessionJobsEnd(t *testing.T) {
	for name, argv := range shellsHere(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const jobs = 100
			s := openSession(t, wire.OpenSessionRequest{ShellCommand: argv})
			gate := filepath.Join(s.workspace, "gate")
			if err := unix.Mkfifo(gate, 0o666); err != nil {
				t.Fatal(err)
			}
			r := s.sh(fmt.Sprintf("i=0; while [ $i -lt %d ]; do (: <gate; : >gone$i) & i=$((i+1)); done", jobs))
			if r.Jobs == 0 || r.ExitCode != 0 {
				t.Errorf("%+v", r)
			}
			open, err := os.OpenFile(gate, os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer open.Close()
			eventually(t, "the jobs have ended", func() bool {
				gone, _ := filepath.Glob(filepath.Join(s.workspace, "gone*"))
				return len(gone) == jobs
			})
			if r = s.sh("wait; echo next"); printed(r, "stdout") != "next\n" || r.TotalBytes != 5 || r.LateBytes != 0 || !r.StateKept {
				t.Errorf("%+v", r)
			}
		})
	}
}
