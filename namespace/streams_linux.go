package namespace

import (
	"io"
	"os"
	"os/exec"
	"sync"
	"time"
)

// streams are the ends of pipes between a command and what is no file.
type streams struct {
	theirs []*os.File // to be closed once the helper has them
	input  *os.File
	output []*os.File
	copies sync.WaitGroup
}

// attach gives the helper files for the command's input and output.
func (s *streams) attach(cmd *exec.Cmd, c *Command, null *os.File) error {
	cmd.Stdin, cmd.Stdout, cmd.Stderr = null, null, null
	if f, ok := c.Stdin.(*os.File); ok && f != nil {
		cmd.Stdin = f
	} else if c.Stdin != nil {
		r, w, err := os.Pipe()
		if err != nil {
			return err
		}
		cmd.Stdin, s.theirs, s.input = r, append(s.theirs, r), w
		go func() {
			_, _ = io.Copy(w, c.Stdin) // a command need not read all of it
			_ = w.Close()
		}()
	}
	for _, out := range []struct {
		to   io.Writer
		file *io.Writer
	}{{c.Stdout, &cmd.Stdout}, {c.Stderr, &cmd.Stderr}} {
		if f, ok := out.to.(*os.File); ok && f != nil {
			*out.file = f
			continue
		}
		if out.to == nil {
			continue
		}
		r, w, err := os.Pipe()
		if err != nil {
			return err
		}
		*out.file, s.theirs, s.output = w, append(s.theirs, w), append(s.output, r)
		s.copies.Go(func() { drain(out.to, r) })
	}
	return nil
}

// drain passes output on, and reads what nobody takes any more.
func drain(to io.Writer, from *os.File) {
	if _, err := io.Copy(to, from); err != nil {
		_, _ = io.Copy(io.Discard, from)
	}
}

// started closes what the helper has got, or nobody will.
func (s *streams) started() {
	for _, f := range s.theirs {
		_ = f.Close()
	}
}

// finish waits for the output. Where somebody may live who holds on to it,
// what has been written until now is all of it.
func (s *streams) finish(dead bool) {
	if s.input != nil {
		_ = s.input.Close()
	}
	if !dead {
		for _, f := range s.output {
			_ = f.SetReadDeadline(time.Now().Add(time.Second))
		}
	}
	s.copies.Wait()
	for _, f := range s.output {
		_ = f.Close()
	}
}
