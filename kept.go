package paddock

import (
	"errors"
	"time"

	"github.com/paddock-dev/paddock/backend"
)

// Lasting says how a sandbox of [Create] is called, and how long it lasts.
type Lasting struct {
	// Name is its name: 1 to 64 letters, digits, dots, hyphens and underscores, the first of them
	// a letter or a digit. Default: none; its id names it.
	Name string
	// Labels are for its user, and for filters of lists.
	Labels map[string]string
	// Idle ends it once nothing was done in it for this long, and Life once it has run for this
	// long. 0: never.
	Idle, Life time.Duration
	// Remove also removes it when its time is up. Default: it is stopped.
	Remove bool
	// Principal is whose it is, for records.
	Principal string
	// Served says that it is made for Principal by a server, and must have a Name. Names of
	// served ones are their principal's own: [ServedName] is what the functions of this package
	// find them by.
	Served bool
	// Most is how many served ones the principal may have, running or not. 0: no bound.
	Most int
	// Scratch gives it an empty workspace, [ScratchWorkspace], which is removed with it.
	Scratch bool
}

// Keeps reports whether sandboxes of the options' backend can outlive their creators.
func (o Options) Keeps() bool {
	be, err := o.backend()
	if err != nil {
		return false
	}
	_, ok := be.(backend.Keepable)
	return ok
}

// The states of a [Listed].
const (
	StateRunning = "running"
	StatePaused  = "paused"
	StateEnding  = "ending"
	StateStopped = "stopped"
	StateDamaged = "damaged" // its record cannot be read
)

// Listed is a sandbox of [Create], whether it runs or not.
type Listed struct {
	ID, Name string
	Labels   map[string]string
	// Principal, Served and Scratch are those of [Lasting].
	Principal       string
	Served, Scratch bool
	State           string
	// Spec is what it was created with, without the values of Env.
	Spec Spec
	// Variables names those of Env: [Start] needs their values again.
	Variables []string
	Backend   string
	Created   time.Time
	Started   time.Time // the last time
	Idle      time.Duration
	Life      time.Duration
	Remove    bool
	// End is how it ended the last time; nil if it never has.
	End *ListedEnd
	// Damage says why its record cannot be read.
	Damage string
	// Discarded is how many changed paths of its overlay [Remove] has discarded. It is 0 where that could
	// not be counted.
	Discarded int
}

// Called returns what the command line calls it: its name, or its id without one. Names of a
// server's sandboxes are their principals' own.
func (k Listed) Called() string {
	if k.Name != "" && !k.Served {
		return k.Name
	}
	return k.ID
}

// ErrUnlanded is in the error of [Remove] for a sandbox whose layer has changes.
var ErrUnlanded = errors.New("changes in the layer have not landed")

// ListedEnd is how a sandbox has ended.
type ListedEnd struct {
	At     time.Time
	Reason string
	// Proved says that the kernel has confirmed the end of every process inside.
	Proved bool
	// Changes are what the commands left that programs of the host would execute or obey, if
	// it was ended while somebody waited for that; Left describes them.
	Changes Changes
	// Left describes what the commands left that programs of the host would execute or obey.
	Left string
	// Error is what the end could not do.
	Error string
}
