package paddock

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// Output runs the command and returns its standard output. Unlike os/exec it
// bounds what it keeps to Limits.Output of the spec (default 1 MiB): of more,
// the head and the tail are kept around a note of how much is left out, and
// Result().StdoutTruncated is set. Where the command fails and Stderr was
// nil, the ExitError holds standard error, bounded alike.
func (c *Cmd) Output() ([]byte, error) {
	if c.Stdout != nil {
		return nil, errors.New("cannot capture the output: Stdout is set")
	}
	c.outBuf = c.capture()
	c.Stdout = c.outBuf
	if c.Stderr == nil {
		c.errBuf = c.capture()
		c.Stderr = c.errBuf
	}
	err := c.Run()
	if ee := (*ExitError)(nil); errors.As(err, &ee) && c.errBuf != nil {
		ee.Stderr = c.errBuf.Bytes()
	}
	return c.outBuf.Bytes(), err
}

// CombinedOutput runs the command and returns its standard output and
// standard error together, bounded as for [Cmd.Output].
func (c *Cmd) CombinedOutput() ([]byte, error) {
	if c.Stdout != nil || c.Stderr != nil {
		return nil, errors.New("cannot capture the output: Stdout or Stderr is set")
	}
	c.outBuf = c.capture()
	c.Stdout, c.Stderr = c.outBuf, c.outBuf
	err := c.Run()
	return c.outBuf.Bytes(), err
}

func (c *Cmd) capture() *Capture {
	return &Capture{Max: int64(c.sandbox.spec.Limits.Output)}
}

// StdinPipe returns a pipe to the command's standard input. Closing it is the
// end of the input; Wait closes it too.
func (c *Cmd) StdinPipe() (io.WriteCloser, error) {
	if c.Stdin != nil {
		return nil, errors.New("cannot make a pipe: Stdin is set")
	}
	r, w, err := c.pipe()
	if err != nil {
		return nil, err
	}
	c.Stdin = r
	c.inside = append(c.inside, r)
	c.pipes = append(c.pipes, w)
	return w, nil
}

// StdoutPipe returns a pipe from the command's standard output, which ends
// when the command does. Wait closes it, so read everything first.
func (c *Cmd) StdoutPipe() (io.ReadCloser, error) {
	if c.Stdout != nil {
		return nil, errors.New("cannot make a pipe: Stdout is set")
	}
	r, w, err := c.pipe()
	if err != nil {
		return nil, err
	}
	c.Stdout = w
	c.inside = append(c.inside, w)
	c.pipes = append(c.pipes, r)
	return r, nil
}

// StderrPipe is for standard error what StdoutPipe is for standard output.
func (c *Cmd) StderrPipe() (io.ReadCloser, error) {
	if c.Stderr != nil {
		return nil, errors.New("cannot make a pipe: Stderr is set")
	}
	r, w, err := c.pipe()
	if err != nil {
		return nil, err
	}
	c.Stderr = w
	c.inside = append(c.inside, w)
	c.pipes = append(c.pipes, r)
	return r, nil
}

// pipe is a pipe of the kernel's and not io.Pipe, because its buffer lets a
// command with little to say end before anyone reads.
func (c *Cmd) pipe() (r, w *os.File, err error) {
	if c.run != nil {
		return nil, nil, errors.New("cannot make a pipe: the command was started before")
	}
	r, w, err = os.Pipe()
	if err != nil {
		return nil, nil, fmt.Errorf("cannot make a pipe: %w", err)
	}
	return r, w, nil
}
