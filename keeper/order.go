// Package keeper is the process that owns the pipe to an agent behind a wall that
// offers only a pipe: "paddock-agent keep". The library starts one for each such
// sandbox.
//
// The keeper is the subreaper of the wall's command. It holds the command's
// standard streams, and joins each connection to the sandbox's socket with one
// that is multiplexed over them. When the sandbox ends, for whatever reason, the
// keeper closes the pipe, which ends the agent. Then it kills every process below
// it until the kernel reports that it has no child, and runs the clean-up commands.
// When its owner ends, the keeper's control socket is closed.
//
// # Protocol
//
// Over the control socket the keeper receives one [Order], as a line of JSON. It
// sends one [Answer] when the agent is ready or has failed, and another at the end. In
// between it may receive a [Stop]. Secrets are only in the order, never in the
// keeper's arguments or environment.
package keeper

import (
	"time"

	"github.com/paddock-dev/paddock/internal/osstring"
	"github.com/paddock-dev/paddock/wire"
)

// The descriptors that a keeper is started with, besides standard input (empty),
// output (empty) and error (the log).
const (
	ControlFD = 3
	ListenFD  = 4 // a listening stream socket
	ProgramFD = 5 // the program that the keeper was executed from
)

// UploadMark begins each line that an upload's script prints. Order.UploadNonce, a
// space, and "ready", "done" or "failed WHY" follow.
const UploadMark = "paddock-upload "

// Bounds.
const (
	// MaxOrder bounds an order, in bytes.
	MaxOrder = 3 * wire.MaxGuest
	// MaxLog is how many bytes from the beginning of the wall's standard error are
	// written to the log. The last answer has its end.
	MaxLog = 64 << 10
	// MaxSaid bounds Failure.Said and Ended.Said, in bytes.
	MaxSaid = 4 << 10
)

// Order is the task of a keeper.
type Order struct {
	Path osstring.String `json:"path"` // of the wall's program, absolute
	Argv osstring.List   `json:"argv"` // including the agent's command
	Env  osstring.List   `json:"env"`
	Dir  osstring.String `json:"dir"`
	// Line is the guest's line, and Nonce the nonce in it.
	Line  []byte `json:"line"`
	Nonce string `json:"nonce"`
	// Upload is how many bytes of the keeper's own program are sent to a shell
	// inside when it is ready for them; 0 if the agent is inside already.
	// UploadNonce marks the lines that the shell prints.
	Upload      int64  `json:"upload,omitempty"`
	UploadNonce string `json:"upload_nonce,omitempty"`
	// Timeout bounds the time to the agent's answer. Cleanup lists commands, each
	// with its path and arguments, and CleanupTimeout bounds each of them.
	Timeout        time.Duration `json:"timeout"`
	Cleanup        [][]string    `json:"cleanup,omitempty"`
	CleanupTimeout time.Duration `json:"cleanup_timeout"`
}

// Stop asks the keeper to end the sandbox.
type Stop struct {
	// Grace is how long the agent may take to end its commands.
	Grace time.Duration `json:"grace"`
}

// Answer holds exactly one of three answers.
type Answer struct {
	Ready  *Ready   `json:"ready,omitempty"`
	Failed *Failure `json:"failed,omitempty"` // an Ended follows
	Ended  *Ended   `json:"ended,omitempty"`
}

// Ready says that the keeper accepts connections.
type Ready struct {
	Guest wire.GuestReady `json:"guest"`
	// Banner is the end of the text before the agent's answer, at most MaxSaid.
	Banner []byte `json:"banner,omitempty"`
}

// The stages of a start, in order.
const (
	StageWall   = "wall"   // starting the wall's command
	StageUpload = "upload" // sending the agent
	StageAgent  = "agent"  // waiting for the agent's answer
)

// Failure says why the agent does not serve.
type Failure struct {
	Stage  string `json:"stage"`
	Op     string `json:"op"`
	Object string `json:"object,omitempty"`
	Errno  int    `json:"errno,omitempty"`
	Cause  string `json:"cause,omitempty"`
	Hint   string `json:"hint,omitempty"`
	// Said is the end of the wall's output, on standard error or before the agent's
	// answer. It is not trusted, and may contain any bytes.
	Said []byte `json:"said,omitempty"`
}

// Ended says how everything that the keeper started has ended.
type Ended struct {
	// Proved means that the kernel has confirmed that no descendant is left.
	Proved bool `json:"proved"`
	// Killed counts the processes that did not end by themselves.
	Killed int `json:"killed"`
	// Exited means that the wall's command ended by itself, with this status.
	Exited bool `json:"exited,omitempty"`
	Status int  `json:"status,omitempty"`
	// Why says what ended the sandbox; empty if the owner did.
	Why string `json:"why,omitempty"`
	// Cleaned says that every command of Order.Cleanup was run to its end.
	Cleaned bool   `json:"cleaned"`
	Said    []byte `json:"said,omitempty"`
}
