package wire

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"
)

// passingExec is the agent's half of an exec that may have been given pipes.
type passingExec struct {
	*fakeExec
	request ExecRequest
	files   []*os.File
}

// close closes what the command has of the pipes.
func (f *passingExec) close() {
	for _, file := range f.files {
		_ = file.Close()
	}
}

// passing plays an agent that accepts descriptors.
func passing(t *testing.T, script func(*passingExec)) *Client {
	return unixClient(t, func(conn net.Conn) {
		line, files := readPassed(t, conn.(*net.UnixConn))
		f := &passingExec{files: files, fakeExec: &fakeExec{
			conn: conn, frames: NewFrameReader(bufio.NewReader(conn), MaxFrame), out: NewFrameWriter(conn),
		}}
		defer f.close()
		if err := DecodeRequest(line, &f.request); err != nil {
			t.Error(err)
		}
		_ = WriteLine(conn, ExecStarted{ID: "e1", Streaming: true, StdinWindow: StdinWindow})
		script(f)
	})
}

// readPassed reads a request line and the descriptors of its first byte.
func readPassed(t *testing.T, conn *net.UnixConn) (line []byte, files []*os.File) {
	buf, oob := make([]byte, 4096), make([]byte, 64)
	n, oobn, _, _, err := conn.ReadMsgUnix(buf, oob)
	if err != nil {
		t.Error(err)
		return nil, nil
	}
	messages, err := syscall.ParseSocketControlMessage(oob[:oobn])
	if err != nil {
		t.Error(err)
	}
	for i := range messages {
		fds, err := syscall.ParseUnixRights(&messages[i])
		if err != nil {
			t.Error(err)
		}
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "passed"))
		}
	}
	line = bytes.Clone(buf[:n])
	for !bytes.HasSuffix(line, []byte("\n")) { // the rest may come later
		n, err := conn.Read(buf)
		if err != nil {
			t.Error(err)
			return nil, files
		}
		line = append(line, buf[:n]...)
	}
	return bytes.TrimSpace(line), files
}

// callersPipes are the kinds of pipe that a caller may have.
var callersPipes = map[string]func(*testing.T) (r, w *os.File){
	"blocking": func(t *testing.T) (r, w *os.File) {
		var fds [2]int
		if err := syscall.Pipe2(fds[:], syscall.O_CLOEXEC); err != nil {
			t.Fatal(err)
		}
		return os.NewFile(uintptr(fds[0]), "r"), os.NewFile(uintptr(fds[1]), "w")
	},
	"non-blocking": func(t *testing.T) (r, w *os.File) {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		return r, w
	},
}

func overEachPipe(t *testing.T, test func(t *testing.T, r, w *os.File)) {
	t.Helper()
	for name, pipe := range callersPipes {
		t.Run(name, func(t *testing.T) {
			r, w := pipe(t)
			t.Cleanup(func() {
				_ = r.Close()
				_ = w.Close()
			})
			test(t, r, w)
		})
	}
}

// follow starts a command whose streams go to s.
func follow(t *testing.T, c *Client, s Streams) *Process {
	t.Helper()
	p, err := c.Start(testContext(t), ExecRequest{Command: "x"}, s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// readAll reads all of a pipe, in the background.
func readAll(t *testing.T, r *os.File) <-chan []byte {
	all := make(chan []byte, 1)
	go func() {
		got, err := io.ReadAll(r)
		if err != nil {
			t.Error(err)
		}
		all <- got
	}()
	return all
}

func wantExit(t *testing.T, p *Process, code int) {
	t.Helper()
	if res, err := p.Wait(); res.ExitCode != code || err != nil {
		t.Errorf("Wait = %+v, %v, want status %d", res, err, code)
	}
}

func TestPass(t *testing.T) {
	data := make([]byte, 8<<20)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(data)
	overEachPipe(t, func(t *testing.T, r, w *os.File) {
		c := passing(t, func(f *passingExec) {
			if !slices.Equal(f.request.Pass, []string{"stdout"}) || len(f.files) != 1 {
				t.Errorf("pass %q, with %d descriptors", f.request.Pass, len(f.files))
				return
			}
			flags, _, _ := syscall.Syscall(syscall.SYS_FCNTL, f.files[0].Fd(), syscall.F_GETFL, 0)
			if flags&syscall.O_ACCMODE != syscall.O_WRONLY || flags&syscall.O_NONBLOCK != 0 {
				t.Errorf("the command's pipe has the mode %o", flags)
			}
			own, _ := f.files[0].Stat()
			if callers, _ := w.Stat(); os.SameFile(own, callers) {
				t.Error("the caller's own pipe is passed")
			}
			f.print(StreamStderr, "err")
			_, _ = f.files[0].Write(data)
			f.exit(7) // the end of the pipe comes after it
		})
		var stderr bytes.Buffer
		got := readAll(t, r)
		p := follow(t, c, Streams{Stdout: w, Stderr: &stderr})
		wantExit(t, p, 7)
		_ = w.Close()
		if !bytes.Equal(<-got, data) || stderr.String() != "err" {
			t.Errorf("other output came, stderr %q", stderr.String())
		}
	})
}

func TestPassBothInOrder(t *testing.T) {
	overEachPipe(t, func(t *testing.T, r, w *os.File) {
		c := passing(t, func(f *passingExec) {
			if !slices.Equal(f.request.Pass, []string{"stdout", "stderr"}) || len(f.files) != 2 {
				t.Errorf("pass %q, with %d descriptors", f.request.Pass, len(f.files))
				return
			}
			for i := range 1000 {
				_, _ = f.files[i%2].Write([]byte{byte(i)})
			}
			f.exit(0)
		})
		got := readAll(t, r)
		wantExit(t, follow(t, c, Streams{Stdout: w, Stderr: w}), 0)
		_ = w.Close()
		for i, b := range <-got {
			if b != byte(i) {
				t.Fatalf("byte %d is %d", i, b)
			}
		}
	})
}

// A line that is printed arrives at once, whatever came before it.
func TestPassIsPrompt(t *testing.T) {
	overEachPipe(t, func(t *testing.T, r, w *os.File) {
		read := make(chan struct{})
		c := passing(t, func(f *passingExec) {
			for range 50 {
				_, _ = f.files[0].WriteString("line\n")
				<-read // or the next would never come
			}
			f.exit(0)
		})
		p := follow(t, c, Streams{Stdout: w})
		buf := make([]byte, 100)
		for range 50 {
			if n, err := r.Read(buf); string(buf[:n]) != "line\n" {
				t.Errorf("read %q, %v", buf[:n], err)
			}
			read <- struct{}{}
		}
		wantExit(t, p, 0)
	})
}

// An agent may have answered, and gone, before the sender of the request is
// scheduled again.
func TestNothingIsWrittenAsNothing(t *testing.T) {
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours := os.NewFile(uintptr(pair[0]), "ours")
	defer ours.Close()
	_ = syscall.Close(pair[1])
	if err := writeAll(ours, nil); err != nil {
		t.Errorf("got %v", err)
	}
}

func TestNotPassed(t *testing.T) {
	_, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	file, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	tests := map[string]struct {
		q ExecRequest
		s Streams
	}{
		"nothing":        {},
		"a buffer":       {s: Streams{Stdout: &bytes.Buffer{}}},
		"a regular file": {s: Streams{Stdout: file}},
		"stderr alone":   {s: Streams{Stderr: w}},
		"a terminal":     {q: ExecRequest{TTY: &TTY{}}, s: Streams{Stdout: w}},
		"a bound":        {q: ExecRequest{MaxOutputBytes: 5}, s: Streams{Stdout: w}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := passing(t, func(f *passingExec) {
				if len(f.request.Pass) > 0 || len(f.files) > 0 {
					t.Errorf("pass %q, with %d descriptors", f.request.Pass, len(f.files))
				}
				f.exit(0)
			})
			p, err := c.Start(testContext(t), tt.q, tt.s)
			if err != nil {
				t.Fatal(err)
			}
			wantExit(t, p, 0)
		})
	}
	t.Run("no Unix socket", func(t *testing.T) {
		c := pipeClient(t, streamed(StdinWindow, func(f *fakeExec) {
			go f.drain()
			f.exit(0)
		}))
		wantExit(t, follow(t, c, Streams{Stdout: w}), 0)
	})
}

func TestPassRefused(t *testing.T) {
	overEachPipe(t, func(t *testing.T, _, w *os.File) {
		c := unixClient(t, func(conn net.Conn) {
			_, files := readPassed(t, conn.(*net.UnixConn))
			_ = files[0].Close()
			_ = WriteLine(conn, Errorf(CodeNotFound, "cannot run x: not found"))
		})
		_, err := c.Start(testContext(t), ExecRequest{Command: "x"}, Streams{Stdout: w})
		wantError(t, err, CodeNotFound, "not found")
	})
}

// The kernel tells a command that its caller's reader has closed the pipe.
func TestPassToAClosedPipe(t *testing.T) {
	overEachPipe(t, func(t *testing.T, r, w *os.File) {
		_ = r.Close()
		c := passing(t, func(f *passingExec) {
			for {
				if _, err := f.files[0].WriteString("line\n"); err != nil {
					if !errors.Is(err, syscall.EPIPE) {
						t.Error(err)
					}
					f.exit(-13)
					return
				}
			}
		})
		res, err := follow(t, c, Streams{Stdout: w}).Wait()
		if res.ExitCode != -13 || !errors.Is(err, syscall.EPIPE) {
			t.Errorf("Wait = %+v, %v", res, err)
		}
	})
}

// A caller that reads late gets all the same.
func TestPassToASlowPipe(t *testing.T) {
	overEachPipe(t, func(t *testing.T, r, w *os.File) {
		const size = 1<<20 + 1<<19 // more than the caller's pipe has room for, and less than both
		exited := make(chan struct{})
		c := passing(t, func(f *passingExec) {
			_, _ = f.files[0].Write(make([]byte, size))
			f.close()
			f.exit(0)
			close(exited)
		})
		p := follow(t, c, Streams{Stdout: w})
		<-exited
		select {
		case <-p.done:
			t.Error("Wait does not wait for the output")
		case <-time.After(3 * passGrace): // longer than a process left behind may hold the pipe
		}
		got := readAll(t, r)
		wantExit(t, p, 0)
		_ = w.Close()
		if n := len(<-got); n != size {
			t.Errorf("%d of %d bytes came", n, size)
		}
	})
}

// What a detached process does with its output cannot hold Wait.
func TestPassDetached(t *testing.T) {
	for name, chatty := range map[string]bool{"silent": false, "chatty": true} {
		t.Run(name, func(t *testing.T) {
			overEachPipe(t, func(t *testing.T, r, w *os.File) {
				closed := make(chan struct{})
				c := passing(t, func(f *passingExec) {
					_, _ = f.files[0].WriteString("before")
					f.exit(0)
					for chatty {
						if _, err := f.files[0].WriteString("more"); err != nil {
							return // the pipe was closed
						}
					}
					<-closed
				})
				var got []byte
				read := make(chan struct{})
				go func() {
					defer close(read)
					got, _ = io.ReadAll(r)
				}()
				p := follow(t, c, Streams{Stdout: w})
				wantExit(t, p, 0)
				close(closed)
				_ = w.Close()
				<-read
				if !bytes.HasPrefix(got, []byte("before")) {
					t.Errorf("read %.20q", got)
				}
			})
		})
	}
}

func TestPassEndsWithItsContext(t *testing.T) {
	overEachPipe(t, func(t *testing.T, _, w *os.File) {
		c := passing(t, func(f *passingExec) { f.drain() })
		ctx, cancel := context.WithCancel(testContext(t))
		p, err := c.Start(ctx, ExecRequest{Command: "x"}, Streams{Stdout: w})
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		if _, err := p.Wait(); !errors.Is(err, context.Canceled) {
			t.Errorf("Wait: %v", err)
		}
	})
}

// unspliceable stands before a file into which nothing can be spliced.
type unspliceable struct {
	bytes.Buffer
	file *os.File
}

func (u *unspliceable) WithPipe(move func(*os.File) (int, error)) error {
	_, err := move(u.file)
	return err
}

func TestMoveWithoutSplice(t *testing.T) {
	file, err := os.OpenFile(filepath.Join(t.TempDir(), "f"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	sink := &unspliceable{file: file}
	b := &bypass{private: r, given: w, sink: sink, moved: make(chan struct{})}
	writer, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", w.Fd()), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	b.start(func(err error) { t.Error(err) })
	data := bytes.Repeat([]byte("0123456789"), 100_000)
	if _, err := writer.Write(data); err != nil {
		t.Error(err)
	}
	_ = writer.Close()
	<-b.moved
	if !bytes.Equal(sink.Bytes(), data) {
		t.Errorf("%d of %d bytes came", sink.Len(), len(data))
	}
}
