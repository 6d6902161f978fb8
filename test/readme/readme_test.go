//go:build linux

package readme

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/paddock-dev/paddock/backend"
)

const (
	uid  = 1000
	home = "/home/dev"
	// patience is for what must happen, on the slowest machine.
	patience = 10 * time.Minute
)

// row says what is to be seen of one command of the papers, or of one block.
type row struct {
	of string // the command, without the comment beside it; the first line of a block
	// dir is where it runs, below the home. Default: src/app.
	dir string
	// path is where a block is kept, below the home, from the start.
	path  string
	steps []step
	// why says why it is not run here. It then has no steps.
	why string
}

// step is a command that runs in a login shell: the row's own, where no other is
// named.
type step struct {
	instead string // a command in place of the README's, which that has said to use
	before  string // what the reader has done before, in the same shell
	stdin   string
	tty     bool   // on a terminal, at which stdin is typed
	asked   string // the last of what the terminal shows before that is typed; else it is typed at once
	status  int
	see     []string // in what it prints
	never   []string
	// lacks are what the machine lacks, as BACKEND: FEATURE of doctor. The command must say
	// why and what to do in the words that doctor has for one of them.
	lacks []string
	after string                    // must succeed afterwards
	with  func(t *testing.T) func() // prepares as root, and gives what undoes it
	also  func(t *testing.T, printed string)
	while func(t *testing.T) // runs while the command does, which is interrupted then
}

// TestReadme runs the README and the pages of docs from their first lines to their
// last. Each command finds what those before it have left.
func TestReadme(t *testing.T) {
	if !inside {
		t.Skip("it takes long: make test-readme runs it")
	}
	papers := read(t)
	furnishHome(t, papers)
	export := ""
	for _, c := range papers[0].commands {
		if strings.HasPrefix(c.text, "export PATH=") {
			export = c.text
			break
		}
	}
	if export == "" {
		t.Fatal("the README does not say how paddock is found by its name")
	}
	script := "cd ~/paddock; " + export + "\n"
	run := func(c command, before string) {
		row, ok := rowOf(c.text)
		if !ok {
			t.Errorf("%s:%d: %q has no row", c.paper, c.line, c.text)
			return
		}
		t.Run(fmt.Sprintf("%s:%d %s", filepath.Base(c.paper), c.line, c.text), func(t *testing.T) {
			for _, s := range row.steps {
				s.run(t, script, before, row, c)
			}
			nothingRuns(t)
		})
	}
	for _, p := range papers {
		blocks := p.blocks
		var typed []string
		for i, c := range p.commands {
			for len(blocks) > 0 && blocks[0].line < c.line {
				run(blocks[0].command(), "")
				blocks = blocks[1:]
			}
			if i == 0 || c.console == 0 || c.console != p.commands[i-1].console {
				typed = nil
			}
			run(c, strings.Join(typed, "\n"))
			typed = append(typed, c.text)
		}
		for _, b := range blocks {
			run(b.command(), "")
		}
	}
}

// mark is between what was typed before and the command: it hands the exit
// status on.
const mark = "=== the command ==="

func (s step) run(t *testing.T, script, before string, row row, c command) {
	if s.with != nil {
		defer s.with(t)()
	}
	dir := row.dir
	if dir == "" {
		dir = "src/app"
	}
	script += "cd ~/" + dir + "\n"
	if before != "" {
		script += before + "\n"
	}
	text := c.text
	if s.instead != "" {
		text = s.instead
	}
	script += s.before + "\n(s=$?; echo '" + mark + "'; echo '" + mark + "' >&2; exit $s)\n" + text + "\n"
	out, errOut, status := login(t, script, s)
	printed := out + errOut
	if testing.Verbose() {
		t.Logf("$ %s\n%s[%d]", text, printed, status)
	}
	if status != s.status {
		t.Errorf("%s: exit status %d, want %d:\n%s", text, status, s.status, printed)
	}
	for _, want := range s.see {
		if !strings.Contains(printed, want) {
			t.Errorf("%s: printed\n%s\nwithout %q", text, printed, want)
		}
	}
	for _, bad := range s.never {
		if strings.Contains(printed, bad) {
			t.Errorf("%s: printed\n%s\nwith %q", text, printed, bad)
		}
	}
	if c.shown != nil && s.instead == "" {
		shown := regexp.MustCompile(pattern(c.shown))
		out = degraded.ReplaceAllString(strings.ReplaceAll(out, "\r\n", "\n"), "") // of a terminal: all, with returns
		errOut = degraded.ReplaceAllString(errOut, "")
		if !shown.MatchString(out+errOut) && !shown.MatchString(errOut+out) {
			t.Errorf("%s: printed\n%s\nand %s shows\n%s", text, printed, c.paper, strings.Join(c.shown, "\n"))
		}
	}
	if len(s.lacks) > 0 {
		inDoctorsWords(t, text, printed, s.lacks)
	}
	if s.also != nil {
		s.also(t, printed)
	}
	if s.after != "" {
		if out, errOut, status := login(t, "PATH=~/paddock/bin:$PATH; cd ~/"+dir+"\n"+s.after+"\n", step{}); status != 0 {
			t.Errorf("after %s: %s: exit status %d\n%s%s", text, s.after, status, out, errOut)
		}
	}
}

// degraded is what Paddock adds where this machine keeps less.
var degraded = regexp.MustCompile(`(?m)^paddock: not kept: .*\n`)

// as is a command of the ordinary user's, in a login shell.
func as(ctx context.Context, script string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "setpriv", "--reuid=dev", "--regid=dev", "--init-groups", "--reset-env", "bash", "-l", "-c", script)
	cmd.Dir = home
	cmd.WaitDelay = time.Minute
	return cmd
}

// login runs a script in a login shell, and gives what it printed after the mark.
func login(t *testing.T, script string, s step) (out, errOut string, status int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 4*patience)
	defer cancel()
	cmd := as(ctx, script)
	var stdout, stderr bytes.Buffer
	var err error
	switch {
	case s.tty:
		err = typing(cmd, s.asked, s.stdin, &stdout)
	case s.while != nil:
		cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = &stdout, &stderr, &syscall.SysProcAttr{Setpgid: true}
		if err = cmd.Start(); err == nil {
			s.while(t)
			err = errors.Join(syscall.Kill(-cmd.Process.Pid, syscall.SIGINT), cmd.Wait())
		}
	default:
		cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(s.stdin), &stdout, &stderr
		err = cmd.Run()
	}
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatalf("%s: %v", script, err)
	}
	return marked(stdout.String()), marked(stderr.String()), cmd.ProcessState.ExitCode()
}

func marked(text string) string {
	if i := strings.LastIndex(text, mark); i >= 0 { // a terminal shows it twice
		text = strings.TrimPrefix(strings.TrimPrefix(text[i+len(mark):], "\r"), "\n")
	}
	return text
}

// typing runs a command on a terminal of its own, and types once that shows what was asked. What
// is typed waits there until it is read.
func typing(cmd *exec.Cmd, asked, text string, out *bytes.Buffer) error {
	terminal, err := pty.Start(cmd)
	if err != nil {
		return err
	}
	defer terminal.Close()
	buf := make([]byte, 4096)
	for !strings.Contains(out.String(), asked) {
		n, err := terminal.Read(buf)
		out.Write(buf[:n])
		if err != nil {
			return errors.Join(fmt.Errorf("cannot find %q", asked), cmd.Wait())
		}
	}
	if _, err := io.WriteString(terminal, text); err != nil {
		return err
	}
	_, _ = out.ReadFrom(terminal) // ends with EIO, as the last process closes its side
	return cmd.Wait()
}

// inDoctorsWords looks for the detail and the remedy of one of the features that
// the machine lacks.
func inDoctorsWords(t *testing.T, command, printed string, features []string) {
	t.Helper()
	out, errOut, _ := login(t, "~/paddock/bin/paddock doctor --json", step{})
	var doctor struct{ Backends []backend.Report }
	if err := json.Unmarshal([]byte(out), &doctor); err != nil {
		t.Fatalf("%v\n%s%s", err, out, errOut)
	}
	words := ""
	for _, report := range doctor.Backends {
		for _, f := range report.Features {
			for _, name := range features {
				if name != report.Backend+": "+f.Name || f.OK {
					continue
				}
				if strings.Contains(printed, f.Detail) && strings.Contains(printed, f.Remedy) && f.Detail != "" && f.Remedy != "" {
					return
				}
				words += f.Detail + "\n" + f.Remedy + "\n"
			}
		}
	}
	t.Errorf("%s: printed\n%s\nand doctor says\n%s", command, printed, words)
}

// nothingRuns fails where a process of the user's outlives a command. The go
// command leaves a short-lived one of its own, hence the patience.
func nothingRuns(t *testing.T) {
	t.Helper()
	var left []string
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if left = processes(); len(left) == 0 {
			return
		}
	}
	t.Errorf("left behind: %q", left)
}

// processes are the command lines of the user's processes. A zombie has none,
// and is awaited by the first process.
func processes() []string {
	var found []string
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		line, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		status, err2 := os.ReadFile(filepath.Join(dir, "status"))
		if err == nil && err2 == nil && len(line) > 0 && strings.Contains(string(status), fmt.Sprintf("\nUid:\t%d\t", uid)) {
			found = append(found, strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return found
}
