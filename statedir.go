package paddock

import (
	"errors"
	"fmt"
	"os"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/policy"
)

// StateDirEnv names the environment variable that overrides where sandboxes
// keep their state.
const StateDirEnv = "PADDOCK_STATE_DIR"

// DefaultStateDir is where sandboxes keep their state when [Options] do not
// say: $PADDOCK_STATE_DIR, for root /var/lib/paddock, else
// $XDG_STATE_HOME/paddock, else ~/.local/state/paddock. The directory is made
// with mode 0700 by whatever first needs it.
//
// The path is free of symbolic links. Links of root's and of the user's own are
// followed. One that commands of a sandbox, or any user of this host, could have
// replaced is an error, since what is in it is believed: who may do what, say.
func DefaultStateDir() (string, error) {
	dir, _, err := Options{}.stateDir()
	return dir, err
}

// stateDir is the directory asked for, or the default one, with what was seen of it.
func (o Options) stateDir() (string, *hostpath.Seen, error) {
	if o.StateDir != "" {
		return trustState(o.StateDir, "Options.StateDir")
	}
	if dir := os.Getenv(StateDirEnv); dir != "" {
		return trustState(dir, StateDirEnv)
	}
	dir, err := hostpath.UsualState()
	if err != nil {
		return "", nil, &Error{
			Message: "cannot choose a state directory: " + err.Error(),
			Hint:    "set " + StateDirEnv + " to a directory of your own",
		}
	}
	return trustState(dir, "")
}

// trustState resolves a directory of state, and refuses one that others could
// have put there. field says who named it, "" that nobody did.
func trustState(dir, field string) (string, *hostpath.Seen, error) {
	path, seen, err := hostpath.TrustState(backend.OwnFile{Path: dir, What: "the state directory", Field: field, Dir: true}, field != "")
	if e := (*policy.FieldError)(nil); errors.As(err, &e) && e.Hint == "" {
		e.Hint = "choose a directory of your own with " + StateDirEnv
	}
	return path, seen, err
}

func absolute(dir, from string) (string, error) {
	abs, err := hostpath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("cannot use %s: %w", from, err)
	}
	return abs, nil
}
