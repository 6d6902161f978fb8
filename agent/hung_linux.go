package agent

import (
	"bytes"
	"io"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// A newborn process is one of the commands' own kind from the moment of its
// clone, so other commands can stop it on the way to its program.
const (
	// hungAfter is how long a newborn may take before it is looked after.
	hungAfter = 100 * time.Millisecond
	// hungRounds bounds how often one that is found stopped is set going, at
	// an interval of hungAfter/10, before it is killed.
	hungRounds = 100
)

// unhang sets a newborn process going that others keep stopping, and kills it
// in the end. One that is merely slow is left alone. It ends when the process
// runs its program, which closes born.
func (t *trees) unhang(pid, pidfd int, born <-chan struct{}) {
	for round := 0; ; round++ {
		select {
		case <-born:
			return
		case <-time.After(hungAfter / 10):
		}
		if !t.stopped(pid) {
			continue
		}
		sig := unix.SIGCONT
		if round >= hungRounds {
			sig = unix.SIGKILL
		}
		_ = unix.PidfdSendSignal(pidfd, sig, nil, 0)
	}
}

// stopped reads the state of a process from its stat file.
func (t *trees) stopped(pid int) bool {
	fd, err := unix.Openat(t.proc, strconv.Itoa(pid)+"/stat", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	f := os.NewFile(uintptr(fd), "stat")
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, 4096))
	if err != nil {
		return false
	}
	_, state, ok := bytes.Cut(text[max(0, bytes.LastIndexByte(text, ')')):], []byte(") "))
	return ok && len(state) > 0 && state[0] == 'T'
}
