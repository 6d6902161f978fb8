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
	input   *os.File // a socket from which it reads its lines
	stdin   *os.File // a file in memory, which is the shell's descriptor shellStdinFD
	report  *tap
	streams [2]*tap
	output  *shellOutput
	bash    bool
	busybox bool
	state   savedState
	cwd     string
	old     map[int]uint64 // start times of the processes in the background, by PID
	lastPID string         // the kernel's last PID when no process was in the background, else ""
	peak    int64          // memory as last read
	user    int64          // processor time as last read, in milliseconds
	system  int64
	dead    chan struct{} // closed when its whole tree has ended
	killed  int           // how many processes of its tree were killed after its own end
	proved  bool          // whether the whole tree is proved to be dead

	used cgroup.Stats // of its control group at its end
	// oomKills and refused are counts of its control group at the end of the last command:
	// processes that were killed because memory was short, and forks that were refused.
	oomKills, refused uint64

	mu         sync.Mutex
	written    []byte        // to the private descriptor, since the previous report
	awaited    string        // the word that marks the expected report
	reportCame chan struct{} // gets a value when that report may be complete
}

// wordSize is how many random characters, of five bits each, make a word that cannot be
// guessed.
const wordSize = 12

// maxReport bounds the memory for what the shell writes to its private descriptor during
// one command, in bytes. Only the end is stored.
const maxReport = 256 << 10

// startShell starts the shell of a session. It does not wait until the shell is ready.
func startShell(box *core.Sandbox, id string, c *clone.Command, dir beneath.Dir, hidden *core.Redactor) (_ *shell, err error) {
	h := &shell{busybox: c.Argv[len(c.Argv)-1] == ignoreEnd, box: box, reportCame: make(chan struct{}, 1), dead: make(chan struct{}), output: &shellOutput{redactor: hidden}}
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
	high, err := dupAbove(given[:], dir.FD())
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
	err = h.startReading(s, report)
	return h, err
}

// channels makes the shell's descriptors and the agent's ends of them. The lines
// that the shell reads and its reports go over sockets: any process of the same
// user can open a pipe again by its name in /proc and write to it, but cannot do
// that with a socket. The streams of commands are pipes, since scripts open
// /dev/stdout, which is impossible if it is a socket.
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

// dupAbove duplicates descriptors to numbers above those that they get in the child.
func dupAbove(given []int, dir int) (high []int, err error) {
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

// busyboxAdvice is what busybox prints when it mistakes a signal for the end of its input.
// It exits after printing this fifty times in a row.
const busyboxAdvice = "\nUse \"exit\" to leave shell.\n"

// startReading begins to read the shell's output and reports.
func (h *shell) startReading(s *spawn.Stdio, report *os.File) (err error) {
	if h.report, err = openTap(report, nil, h.addReport); err != nil {
		return err
	}
	for i, f := range []*os.File{s.Stdout, s.Stderr} {
		handle := func(p []byte) {
			if h.busybox && i == stderrStream && bytes.Contains(p, []byte(busyboxAdvice)) {
				_, _ = h.input.WriteString("\n") // an empty line makes busybox count from 0 again
				p = bytes.ReplaceAll(p, []byte(busyboxAdvice), nil)
			}
			h.output.write(i, p)
		}
		if h.streams[i], err = openTap(f, h.streams[0], handle); err != nil {
			return err
		}
	}
	go h.await()
	return nil
}

// addReport adds what the shell has written to its private descriptor.
func (h *shell) addReport(p []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.written = append(h.written, p...); len(h.written) > maxReport {
		h.written = append([]byte(nil), h.written[len(h.written)-maxReport:]...)
	}
	if bytes.Contains(h.written, []byte("\n"+h.awaited+".")) {
		select {
		case h.reportCame <- struct{}{}:
		default:
		}
	}
}

// expect drops earlier reports, and returns a new word that marks the next one.
func (h *shell) expect() (word string) {
	word = rand.Text()[:wordSize]
	h.mu.Lock()
	defer h.mu.Unlock()
	h.written, h.awaited = h.written[:0], word
	select {
	case <-h.reportCame:
	default:
	}
	return word
}

// reported returns the expected report, if it has arrived.
func (h *shell) reported() (shellReport, bool) {
	h.report.drain()
	h.mu.Lock()
	defer h.mu.Unlock()
	return parseReport(h.written, h.awaited)
}

// await waits for the end of the shell, then ends its tree and its output.
func (h *shell) await() {
	<-h.process.Done
	h.killed, h.proved = h.box.Trees.Kill(h.process.Mark)
	h.used = h.process.Mark.Stats()
	h.box.Release(h.running, h.process, h.proved)
	for _, t := range h.streams {
		select {
		case <-t.done:
		case <-time.After(core.OutputGrace): // a process that cannot be killed holds the pipe
		}
		t.drain()
	}
	close(h.dead)
}

// release closes the descriptors of an ended shell.
func (h *shell) release() {
	<-h.dead
	h.report.close()
	for _, t := range h.streams {
		t.close()
	}
	spawn.CloseFiles(present(h.input, h.stdin))
}

// ended reports whether the shell's own process has ended.
func (h *shell) ended() bool {
	select {
	case <-h.process.Done:
		return true
	default:
		return false
	}
}

// ignoreEnd is busybox's option to continue at the end of its input.
const ignoreEnd = "-I"

// shellCommand returns the command that starts the shell of a request. The default is
// bash or, if bash is not installed, /bin/sh.
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
	// Busybox mistakes the end of a job for the end of its standard input, and would
	// exit without this option.
	if program, err := filepath.EvalSymlinks(c.Path); err == nil && strings.HasPrefix(filepath.Base(program), "busybox") {
		c.Argv = append(c.Argv, ignoreEnd)
	}
	return c, nil
}
