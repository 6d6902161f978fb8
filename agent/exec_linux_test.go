package agent_test

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/paddock-dev/paddock/internal/osstring"
	"github.com/paddock-dev/paddock/wire"
)

func TestExec(t *testing.T) {
	b := start(t)
	if err := os.MkdirAll(filepath.Join(b.workspace, "sub", "dir"), 0o777); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		request        wire.ExecRequest
		stdout, stderr string
		status         int
	}{
		"argv":                   {wire.ExecRequest{Argv: []string{"printf", "%s|", "a b", "", "$HOME", "\n"}}, "a b||$HOME|\n|", "", 0},
		"command":                {wire.ExecRequest{Command: "echo $0 $#; echo err >&2; exit 7"}, "/bin/sh 0\n", "err\n", 7},
		"an absolute program":    {wire.ExecRequest{Argv: []string{"/bin/echo", "x"}}, "x\n", "", 0},
		"no input":               {wire.ExecRequest{Argv: []string{"cat"}}, "", "", 0},
		"input":                  {wire.ExecRequest{Argv: []string{"cat"}, Stdin: "a\x01€\n"}, "a\x01€\n", "", 0},
		"the workspace":          {wire.ExecRequest{Argv: []string{"pwd"}}, "/workspace\n", "", 0},
		"a relative directory":   {wire.ExecRequest{Argv: []string{"pwd"}, Cwd: "sub/dir"}, "/workspace/sub/dir\n", "", 0},
		"an absolute directory":  {wire.ExecRequest{Argv: []string{"pwd"}, Cwd: "/usr/"}, "/usr\n", "", 0},
		"$PWD":                   {wire.ExecRequest{Argv: []string{"printenv", "PWD"}, Cwd: "sub"}, "/workspace/sub\n", "", 0},
		"a variable":             {wire.ExecRequest{Argv: []string{"printenv", "A", "HOME"}, Env: map[string]string{"A": "1 = 2"}}, "1 = 2\n/home/agent\n", "", 0},
		"an overridden variable": {wire.ExecRequest{Argv: []string{"printenv", "HOME"}, Env: map[string]string{"HOME": "/x"}}, "/x\n", "", 0},
		"a cleared environment":  {wire.ExecRequest{Argv: []string{"env"}, ClearEnv: true}, "", "", 0},
		"its own environment":    {wire.ExecRequest{Argv: []string{"env"}, ClearEnv: true, Env: map[string]string{"A": "1"}}, "A=1\n", "", 0},
		"status 255":             {wire.ExecRequest{Argv: []string{"sh", "-c", "exit 255"}}, "", "", 255},
		"not found by the shell": {wire.ExecRequest{Command: "nonesuch 2>/dev/null"}, "", "", 127},
		"a directory, by sh":     {wire.ExecRequest{Command: "/usr 2>/dev/null"}, "", "", 126},
		"its own PATH":           {wire.ExecRequest{Argv: []string{"helper", "alloc", "1"}, Env: map[string]string{"PATH": filepath.Dir(helper)}}, "", "", 0},
	}
	ids := map[string]bool{}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			res := b.run(tt.request)
			if res.Stdout != tt.stdout || res.Stderr != tt.stderr || res.ExitCode != tt.status {
				t.Errorf("got %q, %q, status %d", res.Stdout, res.Stderr, res.ExitCode)
			}
			if res.StdoutBytes != int64(len(tt.stdout)) || res.StderrBytes != int64(len(tt.stderr)) || res.StdoutTruncated || res.StderrTruncated {
				t.Errorf("counts are wrong: %+v", res)
			}
			if res.TimedOut || res.Signal != "" || !res.DeathProved || res.Survivors != 0 {
				t.Errorf("got %+v", res)
			}
			if res.ID == "" || ids[res.ID] {
				t.Errorf("the id %q is not its own", res.ID)
			}
			ids[res.ID] = true
		})
	}
}

func TestExecErrors(t *testing.T) {
	b := start(t)
	for name, text := range map[string]string{"plain": "x", "script": "#!/nonesuch\n", "garbage": "\x00\x01\x02\x03"} {
		mode := os.FileMode(0o755)
		if name == "plain" {
			mode = 0o644
		}
		if err := os.WriteFile(filepath.Join(b.workspace, name), []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	long := strings.Repeat("x", 100_000)
	tests := map[string]struct {
		request wire.ExecRequest
		code    wire.Code
		object  string
	}{
		"no such program":            {wire.ExecRequest{Argv: []string{"nonesuch"}}, wire.CodeNotFound, "nonesuch"},
		"no such file":               {wire.ExecRequest{Argv: []string{"./nonesuch"}}, wire.CodeNotFound, "./nonesuch"},
		"below a file":               {wire.ExecRequest{Argv: []string{"./plain/x"}}, wire.CodeNotFound, "./plain/x"},
		"no such interpreter":        {wire.ExecRequest{Argv: []string{"./script"}}, wire.CodeNotFound, "./script"},
		"not executable":             {wire.ExecRequest{Argv: []string{"./plain"}}, wire.CodeNotExecutable, "./plain"},
		"a directory":                {wire.ExecRequest{Argv: []string{"/usr"}}, wire.CodeNotExecutable, "/usr"},
		"no program":                 {wire.ExecRequest{Argv: []string{"./garbage"}}, wire.CodeNotExecutable, "./garbage"},
		"more arguments than fit":    {wire.ExecRequest{Argv: append([]string{"true"}, strings.Split(strings.Repeat(long+" ", 40), " ")...)}, wire.CodeNotExecutable, "true"},
		"an argument too long":       {wire.ExecRequest{Argv: []string{"true", strings.Repeat("x", 2<<20)}}, wire.CodeNotExecutable, "true"},
		"more environment than fits": {wire.ExecRequest{Argv: []string{"true"}, Env: map[string]string{"A": strings.Repeat("x", 2<<20)}}, wire.CodeNotExecutable, "true"},
		"no such directory":          {wire.ExecRequest{Argv: []string{"true"}, Cwd: "nonesuch"}, wire.CodeBadCwd, "/workspace/nonesuch"},
		"a directory that is a file": {wire.ExecRequest{Argv: []string{"true"}, Cwd: "plain"}, wire.CodeBadCwd, "/workspace/plain"},
		"a directory of the host":    {wire.ExecRequest{Argv: []string{"true"}, Cwd: osstring.String(b.workspace)}, wire.CodeBadCwd, b.workspace},
	}
	b.leaksNothing(func() {
		for name, tt := range tests {
			t.Run(name, func(t *testing.T) { b.wantError(tt.request, tt.code, tt.object) })
		}
	})
}

func TestExecSignals(t *testing.T) {
	b := start(t)
	for name, number := range map[string]int{"SIGKILL": 9, "SIGTERM": 15, "SIGSEGV": 11, "SIGHUP": 1} {
		res := b.sh(fmt.Sprintf("kill -%d $$", number))
		if res.ExitCode != -number || res.Signal != name || res.TimedOut || !res.DeathProved {
			t.Errorf("%s: %+v", name, res)
		}
	}
}

func TestExecBase64(t *testing.T) {
	b := start(t)
	binary := "\x00\xff\x80a\n"
	res := b.run(wire.ExecRequest{Argv: []string{"cat"}, Stdin: base64.StdEncoding.EncodeToString([]byte(binary)), Encoding: "base64"})
	out, err := base64.StdEncoding.DecodeString(res.Stdout)
	if err != nil || string(out) != binary || res.Encoding != "base64" || res.StdoutBytes != int64(len(binary)) {
		t.Errorf("got %+v, %v", res, err)
	}
	if res := b.sh(`printf 'a\377\200b'`); res.Stdout != "a\uFFFDb" || res.StdoutBytes != 4 {
		t.Errorf("as text: %+v", res)
	}
}

func TestExecTimeout(t *testing.T) {
	b := start(t)
	mark := newMark()
	began := time.Now()
	res := b.run(wire.ExecRequest{
		Argv:           []string{"sh", "-c", `printf out; printf err >&2; (setsid "$0" wait "$1" &); "$0" wait "$1"`, helper, mark},
		TimeoutSeconds: seconds(0.5),
	})
	if res.ExitCode != 124 || !res.TimedOut || res.Stdout != "out" || res.Stderr != "err\ncommand timed out after 0.5s" {
		t.Errorf("got %+v", res)
	}
	if took := time.Since(began); took > patience || res.DurationMS < 500 {
		t.Errorf("it took %v, and is said to have taken %d ms", took, res.DurationMS)
	}
	if found := carrying(mark); len(found) > 0 || !res.DeathProved || res.SurvivorsKilled < 3 || res.SurvivorsKilled != res.Survivors {
		t.Errorf("processes %v are left: %+v", found, res)
	}
}

// A timeout holds also where the client that asked for it has gone.
func TestTimeoutOfADetachedCommand(t *testing.T) {
	b := start(t)
	mark := newMark()
	r := b.raw()
	r.send(wire.ExecRequest{Argv: []string{helper, "wait", mark}, Detach: true, Stream: true, TimeoutSeconds: seconds(1)})
	r.answer(new(wire.ExecStarted))
	eventually(t, "the command runs", func() bool { return len(carrying(mark)) > 0 })
	r.conn.Close()
	b.works()
	if len(carrying(mark)) == 0 {
		t.Error("the detached command ended with its client")
	}
	eventually(t, "the timeout ends the command", func() bool { return len(carrying(mark)) == 0 })
}

func TestExecOutputBound(t *testing.T) {
	b := start(t)
	res := b.run(wire.ExecRequest{Argv: []string{"sh", "-c", "seq 1 100000; seq 1 3 >&2"}, MaxOutputBytes: 20})
	const total = 588895
	want := "1\n2\n3\n4\n5\n" + fmt.Sprintf("\n[… %d bytes omitted …]\n", total-20) + "99\n100000\n"
	if res.Stdout != want || res.StdoutBytes != total || !res.StdoutTruncated {
		t.Errorf("got %q, %d bytes, %v", res.Stdout, res.StdoutBytes, res.StdoutTruncated)
	}
	if res.Stderr != "1\n2\n3\n" || res.StderrTruncated {
		t.Errorf("stderr: %q, %v", res.Stderr, res.StderrTruncated)
	}
}

// Output that has no room in a line is an error, never silence.
func TestExecOutputLargerThanALine(t *testing.T) {
	b := start(t)
	q := wire.ExecRequest{Argv: []string{"sh", "-c", "head -c 9000000 /dev/zero"}, MaxOutputBytes: 8 << 20}
	b.wantError(q, wire.CodeTooLarge, "")
	q.MaxOutputBytes = 0
	if res := b.run(q); res.StdoutBytes != 9000000 || !res.StdoutTruncated {
		t.Errorf("%d bytes, truncated %v", res.StdoutBytes, res.StdoutTruncated)
	}
}

func TestExecLimits(t *testing.T) {
	b := start(t)
	if res := b.run(wire.ExecRequest{
		Argv:   []string{"sh", "-c", "ulimit -n; ulimit -t; ulimit -f; ulimit -c"},
		Limits: &wire.Limits{OpenFiles: 50, CPUSeconds: 7, FileSizeBytes: 1 << 20},
	}); res.Stdout != "50\n7\n2048\n0\n" {
		t.Errorf("got %q", res.Stdout)
	}
	if res := b.run(wire.ExecRequest{Argv: []string{"sh", "-c", "while :; do :; done"}, Limits: &wire.Limits{CPUSeconds: 1}}); res.Signal != "SIGXCPU" || len(res.Denials) != 1 || res.Denials[0].Rule != "cpu_time" || res.Denials[0].Guess {
		t.Errorf("got %+v", res)
	}
	// What ignores the warning is killed, and why is told all the same.
	if res := b.run(wire.ExecRequest{Argv: []string{"sh", "-c", "trap '' XCPU; while :; do :; done"}, Limits: &wire.Limits{CPUSeconds: 1}}); res.Signal != "SIGKILL" || len(res.Denials) != 1 || res.Denials[0].Rule != "cpu_time" {
		t.Errorf("got %+v", res)
	}
	if res := b.run(wire.ExecRequest{Argv: []string{"sh", "-c", "exec head -c 9999 /dev/zero >big"}, Limits: &wire.Limits{FileSizeBytes: 4096}}); res.Signal != "SIGXFSZ" || len(res.Denials) != 1 || res.Denials[0].Rule != "file_size" {
		t.Errorf("got %+v", res)
	}
	// Without a limit the same signals come from somebody else.
	for _, name := range []string{"XCPU", "XFSZ"} {
		if res := b.run(wire.ExecRequest{Argv: []string{"sh", "-c", "kill -" + name + " $$"}}); res.Signal != "SIG"+name || len(res.Denials) != 0 {
			t.Errorf("got %+v", res)
		}
	}
	if res := b.run(wire.ExecRequest{Argv: []string{"sh", "-c", "kill -9 $$"}, Limits: &wire.Limits{CPUSeconds: 5}}); res.Signal != "SIGKILL" || len(res.Denials) != 0 {
		t.Errorf("got %+v", res)
	}
}

// What a command starts with is none of the agent's.
func TestCommandState(t *testing.T) {
	b := start(t)
	text := b.run(wire.ExecRequest{Argv: []string{"cat", "/proc/self/status", "/proc/self/limits"}}).Stdout
	for _, key := range []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "SigBlk", "SigIgn", "SigPnd", "ShdPnd", "SigCgt"} {
		if got := status(text, key); strings.Trim(got, "0") != "" {
			t.Errorf("%s is %s", key, got)
		}
	}
	for key, want := range map[string]string{"NoNewPrivs": "1", "Seccomp": "2", "Umask": "0022", "Uid": "1000\t1000\t1000\t1000", "Gid": "1000\t1000\t1000\t1000", "CoreDumping": "0"} {
		if got := status(text, key); got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
	if res := b.run(wire.ExecRequest{Argv: []string{helper, "descriptors"}}); res.Stdout != "0 1 2\n" {
		t.Errorf("descriptors: %q", res.Stdout)
	}
	// A session, a group and a process are one, and there is no terminal: sid
	// is the sixth field, pgrp the fifth, pid the first, tty the seventh.
	stat := strings.Fields(b.run(wire.ExecRequest{Argv: []string{"cat", "/proc/self/stat"}}).Stdout)
	if stat[0] != stat[4] || stat[0] != stat[5] || stat[6] != "0" {
		t.Errorf("pid %s, group %s, session %s, terminal %s", stat[0], stat[4], stat[5], stat[6])
	}
}

func TestUsage(t *testing.T) {
	b := start(t)
	res := b.run(wire.ExecRequest{Argv: []string{helper, "alloc", "100"}})
	if mib := res.PeakMemoryBytes >> 20; mib < 100 || mib > 400 || res.PeakMemorySource == "" {
		t.Errorf("peak memory %d MiB by %q", mib, res.PeakMemorySource)
	}
	res = b.sh("i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done")
	if cpu := res.UserCPUMS + res.SystemCPUMS; cpu < 20 || cpu > res.DurationMS+20 {
		t.Errorf("%d ms of CPU time in %d ms", cpu, res.DurationMS)
	}
	if res = b.run(wire.ExecRequest{Argv: []string{"sleep", "0.1"}}); res.UserCPUMS+res.SystemCPUMS > 50 || res.DurationMS < 100 {
		t.Errorf("a sleep: %+v", res)
	}
	if mib := res.PeakMemoryBytes >> 20; mib > 8 || (mib > 0) != (res.PeakMemorySource != "") && res.PeakMemoryBytes != 0 {
		t.Errorf("a sleep took %d MiB by %q", mib, res.PeakMemorySource)
	}
}

func TestConcurrentExecs(t *testing.T) {
	b := start(t)
	b.leaksNothing(func() {
		var wg sync.WaitGroup
		var mu sync.Mutex
		ids := map[string]bool{}
		for i := range 200 {
			wg.Go(func() {
				res, err := b.client.Exec(b.context(), wire.ExecRequest{Argv: []string{"sh", "-c", `cat; echo "$0" >&2; exit $(($0 % 100))`, fmt.Sprint(i)}, Stdin: fmt.Sprintf("in %d", i)})
				if err != nil || res.Stdout != fmt.Sprintf("in %d", i) || res.Stderr != fmt.Sprintf("%d\n", i) || res.ExitCode != i%100 || !res.DeathProved {
					t.Errorf("%d: %+v, %v", i, res, err)
				}
				mu.Lock()
				defer mu.Unlock()
				ids[res.ID] = true
			})
		}
		wg.Wait()
		if len(ids) != 200 {
			t.Errorf("%d ids for 200 commands", len(ids))
		}
	})
	if n := b.goroutines(); n > 20 {
		t.Errorf("%d goroutines are left", n)
	}
}

// A command that runs on holds up no other.
func TestLongExecDelaysNobody(t *testing.T) {
	b := start(t)
	r := b.raw()
	r.send(wire.ExecRequest{Argv: []string{"sh", "-c", "echo > began; exec sleep 1000"}})
	eventually(t, "the long command has begun", func() bool {
		_, err := os.Stat(filepath.Join(b.workspace, "began"))
		return err == nil
	})
	for range 10 {
		b.works()
	}
	r.conn.Close()
}
