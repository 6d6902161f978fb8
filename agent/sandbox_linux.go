package agent

import (
	"strings"
	"time"

	"github.com/paddock-dev/paddock/confine"
	"github.com/paddock-dev/paddock/internal/beneath"
)

// outputGrace is how long a command's output is awaited after its exit,
// while a process that it left behind still holds the pipe.
const outputGrace = 100 * time.Millisecond

// sandbox is what every verb that runs a command needs: how to start one, what
// it may use, and what runs already.
type sandbox struct {
	spawner *spawner
	reaper  *reaper
	trees   *trees
	env     map[string]string
	// ownPath says that PATH was chosen for what is visible behind these walls, and
	// is not what the files of login shells say.
	ownPath bool
	limits  confine.Rlimits // of each process of every command
	// addressSpace is one more of them, in bytes.
	addressSpace uint64
	workspace    string      // its path, as commands know it
	workspaceDir beneath.Dir // the same, as the agent reaches it
	running      registry
	vault        vault
}

// real is a path of the protocol as commands know it.
func (box *sandbox) real(p filePath) string {
	return strings.Join(append([]string{strings.TrimRight(box.workspace, "/")}, p.names...), "/")
}

// unixTime returns a time as the protocol tells it: seconds since 1970.
func unixTime(t time.Time) float64 { return float64(t.UnixMicro()) / 1e6 }

// now returns the time as the protocol tells it.
func now() *float64 {
	t := unixTime(time.Now())
	return &t
}
