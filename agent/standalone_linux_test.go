package agent_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/internal/stdiomux"
	"github.com/paddock-dev/paddock/wire"
)

// roots are flags for an agent below dir.
func roots(dir string) []string {
	return []string{"--workspace", dir + "/w", "--shell-root", dir + "/sh", "--service-root", dir + "/se", "--secret-root", dir + "/sc"}
}

// short is a directory whose path leaves room for a socket's name.
func short(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "bare-") //nolint:usetesting // likewise
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func TestHelp(t *testing.T) {
	out, err := exec.Command(agentPath, "--help").Output()
	if err != nil || !bytes.Contains(out, []byte("Examples:")) || !bytes.Contains(out, []byte("--vsock-cid")) {
		t.Errorf("help: %v\n%s", err, out)
	}
}

func TestCannotStart(t *testing.T) {
	dir := short(t)
	write := func(name, text string) string {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return filepath.Join(dir, name)
	}
	file, empty := write("file", "x"), write("empty", "\n")
	if err := os.Symlink(dir, dir+"/link"); err != nil {
		t.Fatal(err)
	}
	served, err := net.Listen("unix", dir+"/served")
	if err != nil {
		t.Fatal(err)
	}
	defer served.Close()
	sock := "unix://" + dir + "/s"
	tests := map[string]struct {
		args []string
		text string
		hint bool
	}{
		"an unknown flag":         {[]string{"--fly"}, "flag provided but not defined: -fly", true},
		"a word":                  {[]string{"serve"}, `"serve" is not a flag`, true},
		"no address":              {[]string{"--listen", "here"}, "cannot listen on here: not an address", true},
		"an unknown scheme":       {[]string{"--listen", "http://x"}, "not an address", true},
		"a relative socket":       {[]string{"--listen", "unix://s"}, "the path is not absolute", true},
		"a file at the socket":    {[]string{"--listen", "unix://" + file}, "the path exists and is not a socket", false},
		"a served socket":         {[]string{"--listen", "unix://" + dir + "/served"}, "another process serves it already", false},
		"a long socket":           {[]string{"--listen", "unix://" + dir + "/" + strings.Repeat("x", 120)}, "invalid argument", false},
		"no directory":            {[]string{"--listen", "unix:///nonesuch/s"}, "no such file or directory", false},
		"a virtio port":           {[]string{"--listen", "virtio://nonesuch"}, "the machine has no such virtio-serial port", true},
		"a virtio port's name":    {[]string{"--listen", "virtio://"}, "the machine has no such virtio-serial port", true},
		"a vsock port":            {[]string{"--listen", "vsock://:x"}, "not a port", true},
		"a vsock peer":            {[]string{"--vsock-cid", "-1"}, "must be a number from 0 to 4294967295", true},
		"tcp without a token":     {[]string{"--listen", "tcp://127.0.0.1:0"}, "every user of this machine could run commands", true},
		"tcp for everybody":       {[]string{"--listen", "tcp://0.0.0.0:0", "--insecure-loopback"}, "everybody who reaches it could run commands", true},
		"tcp without a port":      {[]string{"--listen", "tcp://127.0.0.1"}, "not HOST:PORT", true},
		"a standard descriptor":   {[]string{"--listen", "fd://1"}, "the number must be 3 or more", true},
		"a missing descriptor":    {[]string{"--listen", "fd://77"}, "bad file descriptor", false},
		"a missing token":         {[]string{"--listen", sock, "--token-file", dir + "/nonesuch"}, "cannot read the token", false},
		"an empty token":          {[]string{"--listen", sock, "--token-file", empty}, "is empty", true},
		"a root that is a link":   {[]string{"--listen", sock, "--secret-root", dir + "/link"}, "a symbolic link is not followed", true},
		"a root that is a file":   {[]string{"--listen", sock, "--shell-root", file}, "not a directory (a symbolic link is not followed)", true},
		"a linked workspace":      {[]string{"--listen", sock, "--workspace", dir + "/link"}, "a symbolic link is not followed", true},
		"no variable":             {[]string{"--listen", sock, "--env", "X"}, "invalid environment variable", true},
		"an init of another name": {[]string{"--init"}, "--init is for process 1", true},
	}
	if os.Geteuid() == 0 {
		if err := os.Mkdir(dir+"/theirs", 0o700); err != nil {
			t.Fatal(err)
		}
		_ = os.Chown(dir+"/theirs", 1000, 1000)
		tests["somebody's root"] = struct {
			args []string
			text string
			hint bool
		}{[]string{"--listen", sock, "--service-root", dir + "/theirs"}, "it belongs to uid 1000", true}
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			cmd := exec.CommandContext(ctx, agentPath, append(roots(dir), tt.args...)...)
			out, _ := cmd.CombinedOutput()
			if code := cmd.ProcessState.ExitCode(); code != 125 || !bytes.HasPrefix(out, []byte("paddock-agent: cannot start: ")) ||
				!bytes.Contains(out, []byte(tt.text)) || bytes.Contains(out, []byte("\npaddock-agent: hint: ")) != tt.hint {
				t.Errorf("exit status %d\n%s", code, out)
			}
		})
	}
}

// An ordinary user's agent keeps its state below $XDG_RUNTIME_DIR where no flag names
// another place, and says so where that is not set. In answers the contract's names stay.
func TestDefaultRootsOfAUser(t *testing.T) {
	var own string
	b := ordinaryCommand(t, func(cmd *exec.Cmd, dir string) {
		own = dir
		cmd.Args = cmd.Args[:5] // --listen and --workspace
		cmd.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+dir)
	})
	for _, name := range []string{"pyro-shells", "pyro-services", "pyro-secrets"} {
		if st, err := os.Stat(filepath.Join(own, name)); err != nil || st.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v, %v", name, st, err)
		}
	}
	body := archive(file("token", "abc"))
	if got := answerOf(t, b.trickled(t, append([]byte(fmt.Sprintf("{\"action\":\"install_secrets\",\"archive_size\":%d}\n", len(body))), body...), 1<<20)); got["destination"] != "/run/pyro-secrets" {
		t.Errorf("got %v", got)
	}
	holds(t, "abc", own, "pyro-secrets", "token")

	cmd := exec.CommandContext(t.Context(), agentPath, "--listen", "unix://"+own+"/other", "--workspace", own+"/workspace")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	if os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 1000, Gid: 1000}}
	}
	out, _ := cmd.CombinedOutput()
	if code := cmd.ProcessState.ExitCode(); code != 125 || !bytes.Contains(out, []byte(" /run/pyro-shells: permission denied")) || !bytes.Contains(out, []byte("XDG_RUNTIME_DIR")) {
		t.Errorf("exit status %d\n%s", code, out)
	}
}

func TestUnixSocket(t *testing.T) {
	b := bare(t)
	st, err := os.Stat(b.socket)
	if err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("the socket: %v, %v", st, err)
	}
	for _, dir := range []string{b.shells, b.services, b.secrets} {
		if st, err := os.Stat(dir); err != nil || st.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v, %v", dir, st, err)
		}
	}
	_ = syscall.Kill(b.pid, syscall.SIGKILL)
	<-b.exited
	if _, err := os.Lstat(b.socket); err != nil {
		t.Fatalf("nothing is left of a killed agent's socket: %v", err)
	}
	next := bare(t, "--listen", "unix://"+b.socket) // takes the place of the dead
	next.socket = b.socket
	if res := next.ask(t, map[string]any{"argv": []string{"true"}}); res["exit_code"] != 0.0 {
		t.Errorf("got %v", res)
	}
	_ = syscall.Kill(next.pid, syscall.SIGTERM)
	<-next.exited
	if _, err := os.Lstat(b.socket); !os.IsNotExist(err) || next.status.ExitCode() != 0 {
		t.Errorf("after SIGTERM: %v, %v", next.status, err)
	}
}

// Only root and the agent's own user are served, even where others can
// connect.
func TestUnixPeer(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can be somebody else")
	}
	b := bare(t)
	for _, err := range []error{os.Chmod(b.socket, 0o666), os.Chmod(filepath.Dir(b.socket), 0o755)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	type outcome struct {
		answer []byte
		err    error
	}
	done := make(chan outcome)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread, and no other, is somebody else
		_, _, errno := syscall.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), 1000, ^uintptr(0))
		if errno != 0 {
			done <- outcome{nil, errno}
			return
		}
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err == nil {
			err = unix.Connect(fd, &unix.SockaddrUnix{Name: b.socket})
		}
		file := os.NewFile(uintptr(fd), "socket")
		defer file.Close()
		var answer []byte
		if err == nil {
			answer, err = io.ReadAll(file)
		}
		done <- outcome{answer, err}
	}()
	if o := <-done; o.err != nil || !bytes.Contains(o.answer, []byte(`"code":"unauthorized"`)) || !bytes.Contains(o.answer, []byte("uid 1000")) {
		t.Errorf("somebody else got %q, %v", o.answer, o.err)
	}
}

func TestToken(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	b := bare(t, "--token-file", file, "--listen", "tcp://127.0.0.1:0")
	for token, code := range map[any]any{"s3cret": nil, nil: "unauthorized", "": "unauthorized", "s3cret\n": "unauthorized", "s3creT": "unauthorized", "s3": "unauthorized"} {
		q := map[string]any{"action": "hello", "token": token}
		if got := b.ask(t, q)["code"]; got != code {
			t.Errorf("with the token %v: %v", token, got)
		}
	}
	if got := b.raw(t, []byte(`{"action":"fly","keep_alive":true}`+"\n"+`{"action":"hello","token":"s3cret"}`+"\n")); bytes.Count(got, []byte("\n")) != 1 {
		t.Errorf("a connection without a token goes on: %q", got)
	}
}

func TestInheritedListener(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	file, err := ln.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	bareCommand(t, func(cmd *exec.Cmd, _ string) { cmd.ExtraFiles = []*os.File{file} }, "--listen", "fd://3", "--insecure-loopback")
	c := &wire.Client{Dial: func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", ln.Addr().String())
	}}
	res, err := c.Exec(t.Context(), wire.ExecRequest{Argv: []string{"ls", "/proc/self/fd"}})
	if err != nil || res.Stdout != "0\n1\n2\n3\n" { // 3 is that of the directory
		t.Errorf("got %+v, %v", res, err)
	}
}

func TestStdio(t *testing.T) {
	in, theirIn := pipe(t)
	theirOut, out := pipe(t)
	cmd := exec.Command(agentPath, append(roots(short(t)), "--listen", "stdio")...)
	cmd.Stdin, cmd.Stdout = theirOut, theirIn
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	theirIn.Close()
	theirOut.Close()
	dialer, err := stdiomux.Dial(in, out)
	if err != nil {
		t.Fatal(err)
	}
	c := &wire.Client{Dial: dialer.DialContext}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			res, err := c.Exec(t.Context(), wire.ExecRequest{Argv: []string{"sh", "-c", "cat; sleep 0.1"}, Stdin: fmt.Sprint(i)})
			if err != nil || res.Stdout != fmt.Sprint(i) {
				t.Errorf("got %+v, %v", res, err)
			}
		})
	}
	wg.Wait()
	mark := newMark()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { _, _ = c.Exec(ctx, wire.ExecRequest{Argv: []string{helperDir + "/helper", "wait", mark}}) }()
	eventually(t, "a command runs", func() bool { return len(carrying(mark)) > 0 })
	dialer.Close()
	if err := cmd.Wait(); err != nil || stderr.Len() > 0 {
		t.Errorf("the end of standard input: %v\n%s", err, &stderr)
	}
	if len(carrying(mark)) > 0 {
		t.Error("a command is left")
	}
}

func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	return r, w
}

// Where there is a vsock device, its socket can at least be bound; nobody can
// connect from within.
func TestVsock(t *testing.T) {
	fd, err := unix.Socket(unix.AF_VSOCK, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		unix.Close(fd)
		const address = "vsock://:50515"
		b := bare(t, "--listen", address, "--vsock-cid", "3")
		again := exec.Command(agentPath, append(roots(filepath.Dir(b.socket)), "--listen", address)...)
		out, _ := again.CombinedOutput()
		if !bytes.Contains(out, []byte("cannot listen on "+address+": address already in use")) {
			t.Errorf("a second listener: %s", out)
		}
		return
	}
	cmd := exec.Command(agentPath, roots(short(t))...)
	out, _ := cmd.CombinedOutput()
	if cmd.ProcessState.ExitCode() != 125 || !bytes.HasPrefix(out, []byte("paddock-agent: cannot start: AF_VSOCK is unavailable\n")) {
		t.Errorf("without vsock: %s", out)
	}
}

// However an agent is told to end, all that runs ends first, gently where it
// can, and who waits for a result gets it.
func TestShutdown(t *testing.T) {
	tests := map[string]struct {
		end    func(t *testing.T, b *bareAgent)
		script string
		stdout string
	}{
		"SIGTERM": {func(t *testing.T, b *bareAgent) { _ = syscall.Kill(b.pid, syscall.SIGTERM) },
			`trap "echo bye; exit 7" TERM; "$0" wait "$1" & wait`, "bye\n"},
		"SIGINT": {func(t *testing.T, b *bareAgent) { _ = syscall.Kill(b.pid, syscall.SIGINT) },
			`trap "echo bye; exit 7" TERM; (setsid "$0" wait "$1" &); while :; do sleep 0.1; done`, "bye\n"},
		"the action": {func(t *testing.T, b *bareAgent) {
			if res := b.ask(t, map[string]any{"action": "shutdown"}); res["death_proved"] != true || res["error"] != nil {
				t.Errorf("shutdown: %v", res)
			}
		}, `trap "echo bye; exit 7" TERM; "$0" wait "$1" & wait`, "bye\n"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := bare(t)
			mark := newMark()
			done := make(chan map[string]any, 1)
			go func() { done <- b.sh(t, tt.script, mark, nil) }()
			eventually(t, "the command runs", func() bool { return len(carrying(mark)) > 1 })
			time.Sleep(20 * time.Millisecond) // a trap cannot be seen from outside
			tt.end(t, b)
			if res := <-done; res["stdout"] != tt.stdout || res["exit_code"] != 7.0 {
				t.Errorf("the command: %v", res)
			}
			<-b.exited
			if b.status.ExitCode() != 0 || b.stderr.Len() > 0 {
				t.Errorf("the agent: %v\n%s", b.status, &b.stderr)
			}
			if _, err := os.Lstat(b.socket); !os.IsNotExist(err) || len(carrying(mark)) > 0 {
				t.Errorf("left are the socket (%v) and %v", err, carrying(mark))
			}
		})
	}
}

// asInit starts an agent as process 1.
func asInit(t *testing.T, args ...string) *bareAgent {
	t.Helper()
	if wallless != "" {
		t.Skip(wallless)
	}
	return bareCommand(t, func(cmd *exec.Cmd, _ string) {
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS}
		if uid := os.Geteuid(); uid != 0 {
			cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
			cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: uid, Size: 1}}
			cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
		} else {
			cmd.SysProcAttr.Unshareflags = syscall.CLONE_NEWNS // makes its mounts its own
			cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWPID
		}
	}, args...)
}

// As process 1 the agent mounts what it needs, reaps what others leave, ends
// on request, and everything ends with it.
func TestInit(t *testing.T) {
	b := asInit(t, "--init")
	res := b.ask(t, map[string]any{"argv": []string{"sh", "-c", "readlink /proc/1/exe; echo $PPID; (true & exec true &); cat /proc/1/comm"}})
	if out, _ := res["stdout"].(string); !strings.Contains(out, "\n1\n") || !strings.HasSuffix(out, "paddock-agent\n") || res["death_proved"] != true {
		t.Errorf("a command: %v", res)
	}
	for range 3 {
		b.sh(t, `for i in 1 2 3 4 5; do (setsid true &); done`, "", nil)
	}
	if res := b.ask(t, map[string]any{"argv": []string{"sh", "-c", "cat /proc/[0-9]*/stat"}}); strings.Contains(fmt.Sprint(res["stdout"]), " Z ") {
		t.Errorf("zombies:\n%v", res["stdout"])
	}
	mark := newMark()
	b.sh(t, `(setsid "$0" wait "$1" &)`, mark, map[string]any{"detach": true})
	if len(carrying(mark)) != 1 {
		t.Error("a detached process is dead")
	}
	if res := b.ask(t, map[string]any{"action": "shutdown"}); res["death_proved"] != true {
		t.Errorf("shutdown: %v", res)
	}
	<-b.exited
	if len(carrying(mark)) > 0 || b.stderr.Len() > 0 {
		t.Errorf("left is %v\n%s", carrying(mark), &b.stderr)
	}
}

// A signal ends process 1 as it ends any other agent, and who waits is answered.
func TestInitEndsOnSignal(t *testing.T) {
	b := asInit(t, "--init")
	mark := newMark()
	done := make(chan map[string]any, 1)
	go func() { done <- b.sh(t, `"$0" wait "$1"`, mark, nil) }()
	eventually(t, "the command runs", func() bool { return len(carrying(mark)) == 2 })
	_ = syscall.Kill(b.pid, syscall.SIGTERM)
	if res := <-done; res["signal"] != "SIGTERM" || res["death_proved"] != true {
		t.Errorf("the command: %v", res)
	}
	<-b.exited
	if len(carrying(mark)) > 0 || b.stderr.Len() > 0 {
		t.Errorf("left is %v\n%s", carrying(mark), &b.stderr)
	}
}

// Without --init process 1 serves as any other does, but not with a proc that
// shows it others' processes.
func TestForeignProc(t *testing.T) {
	cmd := exec.Command(agentPath, append(roots(short(t)), "--listen", "unix://"+short(t)+"/s")...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	if os.Geteuid() != 0 {
		if wallless != "" {
			t.Skip(wallless)
		}
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
	}
	out, _ := cmd.CombinedOutput()
	if cmd.ProcessState.ExitCode() != 125 || !bytes.Contains(out, []byte("/proc shows the processes of another pid namespace")) {
		t.Errorf("%v: %s", cmd.ProcessState, out)
	}
}
