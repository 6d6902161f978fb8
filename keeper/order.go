// Package keeper is the process that owns the pipe to an agent behind a wall
// which gives nothing better: "paddock-agent keep", started by the library,
// one for a sandbox.
//
// It is the subreaper of the wall's command, holds its standard streams, and
// joins each connection to the sandbox's socket with one that is multiplexed
// over them. Whatever ends it ends the wall: the pipe closes, which ends the
// agent; every process below is killed until the kernel says that there is
// none; then the commands run that clean up elsewhere. It is told the owner's
// end by its control socket, which closes then.
//
// # Protocol
//
// Over the control socket comes one [Order], as a line of JSON, and goes one
// [Answer] once the agent serves or cannot, and another at the end. A [Stop]
// may come in between. Secrets come in the order alone: nothing is in the
// keeper's arguments or environment.
package keeper

import (
	"time"

	"github.com/paddock-dev/paddock/wire"
)

// The descriptors that a keeper is started with, beside standard input (empty),
// output (empty) and error (the log).
const (
	ControlFD = 3
	ListenFD  = 4 // a listening stream socket
	ProgramFD = 5 // the keeper's own program, which it was executed from
)

// UploadMark begins each line of an upload's script, with Order.UploadNonce, a
// space, and "ready", "done" or "failed WHY" behind.
const UploadMark = "paddock-upload "

// Bounds.
const (
	// MaxOrder bounds an order, in bytes.
	MaxOrder = 3 * wire.MaxGuest
	// MaxLog bounds what is kept of the wall's standard error, in bytes: the
	// beginning goes to the log, the end into the last answer.
	MaxLog = 64 << 10
	// MaxSaid bounds Failure.Said and Ended.Said, in bytes.
	MaxSaid = 4 << 10
)

// Order is what a keeper is to do.
type Order struct {
	Path string   `json:"path"` // of the wall's program, absolute
	Argv []string `json:"argv"` // the agent's command included
	Env  []string `json:"env"`
	Dir  string   `json:"dir"`
	// Line is the guest's line, and Nonce the one in it.
	Line  []byte `json:"line"`
	Nonce string `json:"nonce"`
	// Upload is how many bytes of the keeper's own program are sent once a shell
	// inside is ready for them, 0 where the agent is there already. UploadNonce
	// marks what that shell says.
	Upload      int64  `json:"upload,omitempty"`
	UploadNonce string `json:"upload_nonce,omitempty"`
	// Timeout bounds the time to the agent's answer, and CleanupTimeout each
	// command of Cleanup: a path and its arguments.
	Timeout        time.Duration `json:"timeout"`
	Cleanup        [][]string    `json:"cleanup,omitempty"`
	CleanupTimeout time.Duration `json:"cleanup_timeout"`
}

// Stop asks for the end.
type Stop struct {
	// Grace is how long the agent may take to end what runs.
	Grace time.Duration `json:"grace"`
}

// Answer is one of three.
type Answer struct {
	Ready  *Ready   `json:"ready,omitempty"`
	Failed *Failure `json:"failed,omitempty"` // an Ended follows
	Ended  *Ended   `json:"ended,omitempty"`
}

// Ready says that connections are taken.
type Ready struct {
	Guest wire.GuestReady `json:"guest"`
	// Banner is what was printed before the agent's answer, at most MaxSaid of it.
	Banner []byte `json:"banner,omitempty"`
}

// The stages of a start, in order.
const (
	StageWall   = "wall"   // the wall's command is started
	StageUpload = "upload" // the agent is sent
	StageAgent  = "agent"  // the agent answers
)

// Failure is why the agent does not serve.
type Failure struct {
	Stage  string `json:"stage"`
	Op     string `json:"op"`
	Object string `json:"object,omitempty"`
	Errno  int    `json:"errno,omitempty"`
	Cause  string `json:"cause,omitempty"`
	Hint   string `json:"hint,omitempty"`
	// Said is the end of what the wall printed, on standard error or before the
	// agent spoke. It may hold anything.
	Said []byte `json:"said,omitempty"`
}

// Ended is the end of all that the keeper has started.
type Ended struct {
	// Proved says that the kernel has confirmed it: there is no descendant.
	Proved bool `json:"proved"`
	// Killed counts the processes that did not end by themselves.
	Killed int `json:"killed"`
	// Exited says that the wall's command ended by itself, with this status.
	Exited bool `json:"exited,omitempty"`
	Status int  `json:"status,omitempty"`
	// Why is what ended the sandbox first.
	Why string `json:"why,omitempty"`
	// Cleaned says that every command of Order.Cleanup could be run.
	Cleaned bool   `json:"cleaned"`
	Said    []byte `json:"said,omitempty"`
}
