package namespace

import "syscall"

// The descriptors of the helper, beside 0, 1 and 2, which the command gets.
const (
	controlFD = 3
	targetFD  = 4 // a pidfd, where namespaces are entered
	groupFD   = 5 // a control group
)

// order is the one line that the helper gets first. message are the others;
// the end of the socket is the end of the caller.
type order struct {
	Unshare *Unshare `json:"unshare,omitempty"`
	Enter   *Enter   `json:"enter,omitempty"`
	// As bytes, because not everything that programs are given is UTF-8.
	Argv    [][]byte `json:"argv"`
	Paths   [][]byte `json:"paths"` // of the program, of which the first that is there counts
	Env     [][]byte `json:"env"`
	Session bool     `json:"session"`
	Group   bool     `json:"group"` // there is one
}

type message struct {
	Kill   bool           `json:"kill,omitempty"`
	Signal syscall.Signal `json:"signal,omitempty"`
}

// answer is the one line that the helper gives back.
type answer struct {
	Failed    *failure `json:"failed,omitempty"`
	Status    uint32   `json:"status"`    // as wait(2) has it
	Survivors int      `json:"survivors"` // processes that still ran at the end
	Killed    int      `json:"killed"`    // those of them
	Proved    bool     `json:"proved"`
}

// failure is an Error on its way.
type failure struct {
	Op, Object, Text, Hint string
	Errno                  syscall.Errno
	Exec, Gone             bool
}

func rawTexts(list []string) [][]byte {
	raw := make([][]byte, len(list))
	for i, s := range list {
		raw[i] = []byte(s)
	}
	return raw
}

func texts(raw [][]byte) []string {
	list := make([]string, len(raw))
	for i, b := range raw {
		list[i] = string(b)
	}
	return list
}
