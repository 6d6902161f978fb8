package keeper

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/internal/stdiomux"
	"github.com/paddock-dev/paddock/wire"
)

// keeper is the state of the process.
type keeper struct {
	order    Order
	control  *os.File
	program  *os.File // its own, to upload
	listener net.Listener
	wall     *wall
	rest     []byte           // that was read with the agent's answer
	mux      *stdiomux.Dialer // nil until the agent serves
	over     chan struct{}    // closed when the owner wants the end, or is gone
	told     *Stop            // behind over: what it said, nil where it is gone
}

// Main is the life of a keeper. It returns the exit status.
func Main() int {
	// What it starts dies with this thread.
	runtime.LockOSThread()
	signal.Ignore(unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU, unix.SIGPIPE, unix.SIGUSR1, unix.SIGUSR2)
	k, err := newKeeper()
	if err != nil {
		fmt.Fprintf(os.Stderr, "paddock-agent: cannot keep a sandbox: %v\n", err)
		return 1
	}
	go k.obey()
	why, grace := k.live()
	k.answer(Answer{Ended: k.end(why, grace)})
	return 0
}

// newKeeper takes the order.
func newKeeper() (*keeper, error) {
	var st unix.Stat_t
	if err := unix.Fstat(ControlFD, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return nil, errors.New("this is started by paddock alone")
	}
	unix.CloseOnExec(ControlFD)
	unix.CloseOnExec(ListenFD)
	unix.CloseOnExec(ProgramFD)
	err := errors.Join(
		unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0), // commands may be of the same user
		unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0),
		// One that was stopped would not see that its owner is gone.
		unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGCONT), 0, 0, 0),
		unix.SetNonblock(ControlFD, true))
	if err != nil {
		return nil, err
	}
	k := &keeper{control: os.NewFile(ControlFD, "control"), over: make(chan struct{})}
	socket := os.NewFile(ListenFD, "listen")
	if k.listener, err = net.FileListener(socket); err != nil {
		return nil, err
	}
	_ = socket.Close()                                               // the listener has a duplicate
	line, err := wire.ReadLine(bufio.NewReader(k.control), MaxOrder) // nothing follows it until there is an answer
	if err == nil {
		err = json.Unmarshal(line, &k.order)
	}
	if err == nil && k.order.Upload > 0 {
		k.program, err = os.Open("/proc/self/exe")
	}
	return k, err
}

// obey waits for the owner's word, or its end.
func (k *keeper) obey() {
	defer close(k.over)
	var s Stop
	if json.NewDecoder(io.LimitReader(k.control, 4<<10)).Decode(&s) == nil {
		k.told = &s
	}
}

// answer answers an owner who may be gone, or take nothing.
func (k *keeper) answer(a Answer) {
	_ = k.control.SetWriteDeadline(time.Now().Add(5 * time.Second))
	_ = json.NewEncoder(k.control).Encode(a)
}

// live starts the wall, serves, and returns why that is over, and how long the
// agent may take to end.
func (k *keeper) live() (why string, grace time.Duration) {
	ready, failed := k.begin()
	if failed != nil {
		k.answer(Answer{Failed: failed})
		return "the agent did not start", 0
	}
	served, err := k.serve()
	if err != nil {
		k.answer(Answer{Failed: &Failure{Stage: StageAgent, Op: "connect to", Object: "the agent", Cause: err.Error()}})
		return "the agent did not start", 0
	}
	k.answer(Answer{Ready: ready})
	select {
	case <-k.over:
		if k.told != nil {
			return "", k.told.Grace
		}
		return "its owner is gone", 0
	case <-served:
		return "the pipe to the agent has ended", 0
	case <-k.wall.ended:
		return "the wall's command: " + describe(k.wall.status), 0
	}
}
