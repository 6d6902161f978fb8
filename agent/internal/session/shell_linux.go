package session

import (
	"bytes"
	"crypto/rand"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/agent/internal/beneath"
	"github.com/paddock-dev/paddock/agent/internal/core"
	"github.com/paddock-dev/paddock/agent/internal/spawn"
	"github.com/paddock-dev/paddock/cgroup"
	"github.com/paddock-dev/paddock/internal/clone"
	"github.com/paddock-dev/paddock/wire"
)

// shell is one shell process of a session, and the descriptors that it
// shares with the agent.
type shell struct {
	box     *core.Sandbox
	process *spawn.Process
	running string   // its id in the registry
	input   *os.File // a socket that it reads its lines from
	stdin   *os.File // memory, which it has at shellStdinFD
	report  *tap
	streams [2]*tap
	output  *shellOutput
	bash    bool
	advises bool // it is busybox
	state   carried
	cwd     string
	old     map[int]uint64 // processes in the background, with their births
	lastPID string         // that the kernel had given when there were none, "" where there were
	peak    int64          // memory as last seen
	user    int64          // processor time as last seen, in milliseconds
	system  int64
	lives   chan struct{} // closed when nothing of it is left
	killed  int           // after its own end
	proved  bool

	used cgroup.Stats // of its control group at its end
	// oomKills and refused are what its control group had counted when a command
	// ended last: processes killed for want of memory, and forks refused.
	oomKills, refused uint64

	mu      sync.Mutex
	written []byte        // by the shell, and not understood
	awaited string        // the word of the report that is waited for
	heard   chan struct{} // gets one when that may be there
}

// wordSize is how many characters of five bits make a word that nobody guesses.
const wordSize = 12

// maxReport bounds what a shell may write to its private descriptor in one
// command, in bytes; of more, the end is kept.
const maxReport = 256 << 10

// startShell starts the shell of a session, which is not ready yet.
func startShell(box *core.Sandbox, id string, c *clone.Command, dir beneath.Dir, hidden *core.Redactor) (_ *shell, err error) {
	h := &shell{advises: c.Argv[len(c.Argv)-1] == ignoreEnd, box: box, heard: make(chan struct{}, 1), lives: make(chan struct{}), output: &shellOutput{redactor: hidden}}
	h.output.begin(lateRecord())
	s := &spawn.Stdio{}
	var report *os.File
	defer func() {
		s.CloseChild()
		if err != nil {
			spawn.CloseFiles(present(h.input, h.stdin, report, s.Stdout, s.Stderr))
		}
	}()
	var given [givenFDs]int
	if report, err = h.channels(s, &given); err != nil {
		return nil, err
	}
	high, err := above(given[:], dir.FD())
	if err == nil {
		c.Files, c.DirFD = high[:len(given)], high[len(given)]
		h.process, err = box.Spawner.Start(c)
	}
	for _, fd := range high {
		unix.Close(fd)
	}
	if err != nil {
		return nil, err
	}
	h.running = box.Running.Add("session", id, h.process)
	err = h.listen(s, report)
	return h, err
}

// channels makes what the shell gets, and the agent's ends of that. The lines
// that the shell reads and its reports go over sockets: any process of the same
// user can open a pipe once more by its name in /proc, and write to it, but not
// a socket. Commands' own streams are pipes, since scripts open /dev/stdout.
func (h *shell) channels(s *spawn.Stdio, given *[givenFDs]int) (report *os.File, err error) {
	if given[givenInput], h.input, err = s.Socket(); err != nil {
		return nil, err
	}
	if given[givenReport], report, err = s.Socket(); err != nil {
		return report, err
	}
	if given[1], s.Stdout, err = s.Pipe(false); err != nil {
		return report, err
	}
	if given[2], s.Stderr, err = s.Pipe(false); err != nil {
		return report, err
	}
	if h.stdin, err = memoryFile("stdin", "", 0); err != nil {
		return report, err
	}
	given[givenStdin] = int(h.stdin.Fd())
	for i, content := range [...]string{bashTell, bashText} {
		f, err := memoryFile("paddock", content, sealAll)
		if err != nil {
			return report, err
		}
		s.Given = append(s.Given, f)
		given[givenTell+i] = int(f.Fd())
	}
	return report, nil
}

// above copies descriptors to where a child does not need the number for another.
func above(given []int, dir int) (high []int, err error) {
	for _, fd := range append(given, dir) {
		if fd, err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, len(given)+1); err != nil {
			return high, os.NewSyscallError("fcntl", err)
		}
		high = append(high, fd)
	}
	return high, nil
}

// present returns those files that are not nil.
func present(files ...*os.File) (list []*os.File) {
	for _, f := range files {
		if f != nil {
			list = append(list, f)
		}
	}
	return list
}

// listen begins to read what the shell says.
func (h *shell) listen(s *spawn.Stdio, report *os.File) (err error) {
	if h.report, err = openTap(report, nil, h.hear); err != nil {
		return err
	}
	for i, f := range []*os.File{s.Stdout, s.Stderr} {
		take := func(p []byte) { h.output.take(i, p) }
		if h.advises && i == stderrStream {
			take = func(p []byte) { h.output.take(i, h.unadvised(p)) }
		}
		if h.streams[i], err = openTap(f, h.streams[0], take); err != nil {
			return err
		}
	}
	go h.await()
	return nil
}

// advice is what busybox prints when it takes a signal for the end of its input.
// It ends after fifty of these in a row.
const advice = "\nUse \"exit\" to leave shell.\n"

// unadvised removes that, and sends a line, which ends the row.
func (h *shell) unadvised(p []byte) []byte {
	if !bytes.Contains(p, []byte(advice)) {
		return p
	}
	_, _ = h.input.WriteString("\n")
	return bytes.ReplaceAll(p, []byte(advice), nil)
}

// hear takes what the shell writes to its private descriptor.
func (h *shell) hear(p []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.written = append(h.written, p...); len(h.written) > maxReport {
		h.written = append([]byte(nil), h.written[len(h.written)-maxReport:]...)
	}
	if bytes.Contains(h.written, []byte("\n"+h.awaited+".")) {
		select {
		case h.heard <- struct{}{}:
		default:
		}
	}
}

// expect forgets what was written and waits for a report with another word.
func (h *shell) expect() (word string) {
	word = rand.Text()[:wordSize]
	h.mu.Lock()
	defer h.mu.Unlock()
	h.written, h.awaited = h.written[:0], word
	select {
	case <-h.heard:
	default:
	}
	return word
}

// reported returns the report that is waited for, where it is there.
func (h *shell) reported() (shellReport, bool) {
	h.report.drain()
	h.mu.Lock()
	defer h.mu.Unlock()
	return parseReport(h.written, h.awaited)
}

// await sees to the shell's end: of itself, then of its tree, then of its output.
func (h *shell) await() {
	<-h.process.Done
	h.killed, h.proved = h.box.Trees.Kill(h.process.Mark)
	h.box.Running.Remove(h.running)
	h.used = h.process.Mark.Stats()
	h.process.Mark.Close()
	for _, t := range h.streams {
		select {
		case <-t.done:
		case <-time.After(core.OutputGrace): // something unkillable holds the pipe
		}
		t.drain()
	}
	close(h.lives)
}

// release gives back what an ended shell held.
func (h *shell) release() {
	<-h.lives
	h.report.close()
	for _, t := range h.streams {
		t.close()
	}
	spawn.CloseFiles(present(h.input, h.stdin))
}

// ended reports whether the shell's process has.
func (h *shell) ended() bool {
	select {
	case <-h.process.Done:
		return true
	default:
		return false
	}
}

// ignoreEnd is busybox's option to go on at the end of its input.
const ignoreEnd = "-I"

// shellCommand returns the shell of a request: bash where there is one and none is named.
func shellCommand(box *core.Sandbox, q *wire.OpenSessionRequest, dir string) (*clone.Command, *wire.Error) {
	own, werr := core.CommandEnv(q.Env)
	if werr != nil {
		return nil, werr
	}
	env := box.BaseEnv(dir, own)
	argv := q.ShellCommand
	if argv == nil {
		argv = []string{"/bin/bash"}
		if unix.Access(argv[0], unix.X_OK) != nil {
			argv[0] = "/bin/sh"
		}
	}
	c := &clone.Command{Dir: dir, Umask: 0o022, Rlimits: box.Rlimits(q.Limits), Env: core.AsList(env)}
	c.Path, werr = core.LookPath(argv[0], core.SearchPath(env), dir)
	if werr != nil {
		return nil, werr
	}
	c.Argv = append([]string{argv[0]}, argv[1:]...)
	if path.Base(argv[0]) == "bash" {
		c.Argv = append([]string{argv[0], "--norc", "--noediting"}, argv[1:]...)
		c.Argv = append(c.Argv, "+H")
	}
	c.Argv = append(c.Argv, "-i")
	// Busybox takes the end of a job for the end of its standard input, and ends
	// too, unless it is told to ignore that.
	if program, err := filepath.EvalSymlinks(c.Path); err == nil && strings.HasPrefix(filepath.Base(program), "busybox") {
		c.Argv = append(c.Argv, ignoreEnd)
	}
	return c, nil
}
