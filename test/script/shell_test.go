package script

import (
	"bytes"
	"strings"
	"syscall"
	"testing"

	"github.com/creack/pty"
)

// shellIn creates a persistent sandbox and returns what starts paddock in a terminal on it, with
// the name of the sandbox after the verb.
func shellIn(t *testing.T) func(verb string, args ...string) *session {
	t.Helper()
	name := strings.ToLower(strings.Map(func(r rune) rune {
		if r == '/' {
			return -1
		}
		return r
	}, t.Name()))
	outputOf(t, paddockCommand(t, "create", name, "--cache", "none"))
	t.Cleanup(func() { _ = paddockCommand(t, "rm", "--force", name).Run() })
	return func(verb string, args ...string) *session {
		t.Helper()
		return startTerminal(t, append(append(strings.Fields(verb), name), args...)...)
	}
}

// A shell goes on when its terminal detaches, and a terminal that comes back sees what it missed.
func TestShellDetach(t *testing.T) {
	start := shellIn(t)
	s := start("shell")
	s.expect(`testshelldetach:/\S+\$ $`)
	s.send("stty size; echo $TERM; here=42\r")
	s.expect(`30 97\r\nxterm\r\n`)
	s.send("(read line; echo got-$line) \r\x10")
	s.send("\x11")
	s.expect(`the shell still runs: paddock shell testshelldetach attaches to it again`)
	s.exit(0)

	again := start("shell")
	again.expect(`xterm\r\n`) // what it had printed
	again.send("typed\recho after $here\r")
	again.expect(`got-typed\r\n`)
	again.expect(`after 42\r\n`)
	again.send("exit 7\r")
	again.exit(7)

	// One that has ended is opened anew.
	s = start("shell")
	s.expect(`\$ $`)
	s.send("echo fresh-$here-\r")
	s.expect(`fresh--\r\n`)
	s.send("exit\r")
	s.exit(0)
}

// Several terminals use a shell at a time. One that watches types nothing.
func TestShellTogether(t *testing.T) {
	start := shellIn(t)
	s := start("shell", "--shell", "both")
	s.expect(`\$ $`)
	other := start("shell", "--shell", "both")
	watcher := start("shell", "--shell", "both", "--watch")
	watcher.expect(`\$ `)
	watcher.send("echo watched\r")
	s.send("echo from-$((1+1))\r")
	for _, one := range []*session{s, other, watcher} {
		one.expect(`from-2\r+\n`) // a watching terminal is not raw
	}
	other.send("echo from-$((1+2))\r")
	for _, one := range []*session{s, other, watcher} {
		one.expect(`from-3\r+\n`)
		if strings.Contains(strings.ReplaceAll(one.text(), "echo watched\r\n", ""), "watched") && one != watcher {
			t.Errorf("what a watcher types is typed:\n%s", one.text())
		}
	}
	watcher.send("\x03")
	watcher.exit(0)
	s.send("exit 5\r")
	s.exit(5)
	other.exit(5)
}

// The size is that of the terminal that changed last.
func TestShellSize(t *testing.T) {
	start := shellIn(t)
	s := start("shell")
	s.expect(`\$ $`)
	if err := pty.Setsize(s.ptmx, &pty.Winsize{Rows: 21, Cols: 61}); err != nil {
		t.Fatal(err)
	}
	s.send("until stty size | grep '21 61'; do sleep 0.1; done; echo seen\r")
	s.expect(`21 61\r\nseen\r\n`)
}

// A terminal that is killed, or hangs up, leaves the shell; the end of the shell's sandbox ends the
// others at once.
func TestShellOutlives(t *testing.T) {
	start := shellIn(t)
	s := start("shell")
	s.expect(`\$ $`)
	s.send("here=kept\r")
	s.expect(`here=kept\r\n`)
	if err := s.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = s.cmd.Wait()
	s = start("shell")
	s.send("echo is-$here\r")
	s.expect(`is-kept\r\n`)
	if err := s.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	s.exit(0)
	s = start("shell")
	s.send("echo again-$here\r")
	s.expect(`again-kept\r\n`)
	stop := start("stop")
	stop.exit(0)
	s.expect(`paddock: sandbox testshelloutlives has ended`)
	s.exit(125)
}

// A terminal whose shell somebody closes is told so.
func TestShellClosed(t *testing.T) {
	start := shellIn(t)
	s := start("shell")
	s.expect(`\$ $`)
	watcher := start("shell", "--watch")
	watcher.expect(`\$ $`)
	if out := outputOf(t, paddockCommand(t, "shell", "close", "testshellclosed", "main")); !strings.HasPrefix(out, "closed shell main: stopped, ended by SIGHUP") {
		t.Errorf("closing says %q", out)
	}
	for _, one := range []*session{s, watcher} {
		one.expect(`\r\npaddock: shell main was closed\r\n`)
		one.exit(128 + int(syscall.SIGHUP))
	}
}

// Keys that would detach are typed when others follow.
func TestShellKeys(t *testing.T) {
	start := shellIn(t)
	s := start("shell", "--detach-keys", "ctrl-a,ctrl-a")
	s.expect(`\$ $`)
	s.send("cat -v\r")
	s.expect(`cat -v\r\n`)
	s.send("\x10\x11\x01x\xc3")
	s.send("\xa9\r") // half of a character at a time
	s.expect(`\^P`)
	if !bytes.Contains([]byte(s.text()), []byte("^Ax")) {
		s.expect(`\^Ax`)
	}
	s.expect(`M-CM-\)`)
	s.send("\x01\x01")
	s.exit(0)
}
