package wire

import (
	"errors"
	"io"
)

// follow handles the agent's frames until the one that says how the command
// ended.
func (p *Process) follow() error {
	for {
		stream, _, err := p.frames.Next()
		if err != nil {
			return protocolError(err)
		}
		ended := false
		switch stream {
		case StreamStdout:
			err = p.output(stream, p.streams.Stdout)
		case StreamStderr:
			err = p.output(stream, p.streams.Stderr)
		case StreamControl:
			ended, err = p.handle()
		default:
			err = Errorf(CodeInternal, "cannot follow the command: the agent sent a %s frame", stream)
		}
		if err != nil || ended {
			return err
		}
	}
}

// protocolError says whose fault an unreadable frame is: the agent's.
func protocolError(err error) error {
	var bad *Error
	if errors.As(err, &bad) {
		return Errorf(CodeInternal, "cannot follow the command: %s", printable(bad.Message))
	}
	return err
}

// output copies the current frame to sink. Its error is the connection's; one
// of the sink's becomes what a closed pipe is to the command.
func (p *Process) output(s Stream, sink io.Writer) error {
	if sink == nil || p.failed(s) {
		return nil // Next discards the frame
	}
	if p.buf == nil {
		p.buf = make([]byte, copyBuffer)
	}
	sinkErr, err := copyPayload(sink, p.frames, p.buf)
	if sinkErr != nil && p.fail(s, sinkErr) {
		// Where this fails the connection is broken, as Next will find.
		_ = p.Signal("PIPE")
	}
	return err
}

// copyPayload copies the current frame to dst through buf, in one Write where
// it fits. What arrived before the connection broke is still written.
func copyPayload(dst io.Writer, frames *FrameReader, buf []byte) (dstErr, srcErr error) {
	for frames.left > 0 {
		n, err := io.ReadFull(frames.Payload(), buf[:min(len(buf), frames.left)])
		if n > 0 {
			dstErr = writeAll(dst, buf[:n])
		}
		if err != nil || dstErr != nil {
			return dstErr, err
		}
	}
	return nil, nil
}

// handle acts on a control frame. It reports whether the command has ended.
func (p *Process) handle() (ended bool, err error) {
	c, err := p.frames.ReadControl(MaxFrame)
	if err != nil {
		return false, protocolError(err)
	}
	switch c.Type {
	case "exit":
		if c.Result == nil {
			return false, Errorf(CodeInternal, "cannot follow the command: the agent's exit frame has no result")
		}
		if err := c.Result.fromPeer(); err != nil {
			return false, err
		}
		p.result = *c.Result
		return true, nil
	case "stdin_ack":
		return false, p.window.acknowledge(c.Bytes)
	case "error":
		p.refuse(c.Error)
	}
	// A type that this version does not know is for a later one.
	return false, nil
}

// refuse keeps the first error that the agent reports. The command may go on:
// a signal that it does not know, say, ends nothing.
func (p *Process) refuse(e *Error) {
	if e == nil {
		e = Errorf(CodeInternal, "the agent reports an error and does not say which")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refusal == nil {
		p.refusal = e.fromPeer()
	}
}
