package agent

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/paddock-dev/paddock/wire"
)

// attemptDial is how long one connection may take. A wall that drops packets without
// an answer counts as holding.
const attemptDial = time.Second

// TryWalls is the program "paddock-agent attempt": from behind a wall it makes the
// attempts that the line on its standard input lists, and prints the results. It
// returns the exit status.
func TryWalls(in io.Reader, out io.Writer) int {
	line, err := bufio.NewReader(io.LimitReader(in, wire.MaxAttemptLine)).ReadBytes('\n')
	if err != nil {
		return ExitCannotStart
	}
	var a wire.Attempt
	if err := json.Unmarshal(line, &a); err != nil || max(len(a.Write), len(a.Open), len(a.Dial)) > wire.MaxAttempts {
		return ExitCannotStart
	}
	done := wire.Attempted{Nonce: a.Nonce}
	for _, name := range a.Write {
		done.Write = append(done.Write, errorText(attemptWrite(name, a.Nonce)))
	}
	for _, name := range a.Open {
		done.Open = append(done.Open, errorText(attemptOpen(name)))
	}
	for _, address := range a.Dial {
		done.Dial = append(done.Dial, errorText(attemptCall(address, a.Nonce)))
	}
	if err := json.NewEncoder(out).Encode(done); err != nil {
		return ExitCannotStart
	}
	return 0
}

func attemptWrite(name, nonce string) error {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(nonce)
	return errors.Join(err, f.Close())
}

func attemptOpen(name string) error {
	f, err := os.OpenFile(name, os.O_WRONLY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	return f.Close()
}

func attemptCall(address, nonce string) error {
	c, err := net.DialTimeout("tcp", address, attemptDial)
	if err != nil {
		return err
	}
	_, err = io.WriteString(c, nonce)
	return errors.Join(err, c.Close())
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
