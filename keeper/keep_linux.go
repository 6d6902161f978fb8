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
	orders   *bufio.Reader // from control; a Stop may follow the order at once
	program  *os.File      // the keeper's own program, to upload
	listener net.Listener
	wall     *wall
	rest     []byte           // input that was read after the agent's answer
	mux      *stdiomux.Dialer // nil until the agent serves
	over     chan struct{}    // closed when the owner wants the end, or has ended
	stop     *Stop            // valid once over is closed; nil if the owner has ended
}

// Main runs a keeper and returns its exit status.
func Main() int {
	// The processes that it starts are killed when this thread ends.
	runtime.LockOSThread()
	signal.Ignore(unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU, unix.SIGPIPE, unix.SIGUSR1, unix.SIGUSR2)
	k, err := newKeeper()
	if err != nil {
		fmt.Fprintf(os.Stderr, "paddock-agent: cannot keep a sandbox: %v\n", err)
		return 1
	}
	go func() { // wait for the owner's word, or its end
		defer close(k.over)
		var s Stop
		if json.NewDecoder(io.LimitReader(k.orders, 4<<10)).Decode(&s) == nil {
			k.stop = &s
		}
	}()
	why, grace := k.run()
	k.answer(Answer{Ended: k.end(why, grace)})
	return 0
}

// newKeeper prepares the process and reads the order.
func newKeeper() (*keeper, error) {
	var st unix.Stat_t
	if err := unix.Fstat(ControlFD, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return nil, errors.New("only paddock starts this")
	}
	unix.CloseOnExec(ControlFD)
	unix.CloseOnExec(ListenFD)
	unix.CloseOnExec(ProgramFD)
	err := errors.Join(
		unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0), // commands may be of the same user
		unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0),
		// A stopped keeper would not notice that its owner has ended.
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
	_ = socket.Close() // the listener has a duplicate
	k.orders = bufio.NewReader(k.control)
	line, err := wire.ReadLine(k.orders, MaxOrder)
	if err == nil {
		err = json.Unmarshal(line, &k.order)
	}
	if err == nil && k.order.Upload > 0 {
		k.program, err = os.Open("/proc/self/exe")
	}
	return k, err
}

// answer sends an answer. The owner may have ended, or may not read it.
func (k *keeper) answer(a Answer) {
	_ = k.control.SetWriteDeadline(time.Now().Add(5 * time.Second))
	_ = json.NewEncoder(k.control).Encode(a)
}

// run starts the wall and serves. It returns why that ended, and how long the agent
// may take to end.
func (k *keeper) run() (why string, grace time.Duration) {
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
		if k.stop != nil {
			return "", k.stop.Grace
		}
		return "its owner has ended", 0
	case <-served:
		return "the pipe to the agent was closed", 0
	case <-k.wall.ended:
		return "the wall's command: " + describe(k.wall.status), 0
	}
}
