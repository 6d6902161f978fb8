package paddock

import (
	"fmt"
	"os"
	"path/filepath"
)

// StateDirEnv names the environment variable that overrides where sandboxes
// keep their state.
const StateDirEnv = "PADDOCK_STATE_DIR"

// DefaultStateDir is where sandboxes keep their state when [Options] do not
// say: $PADDOCK_STATE_DIR, for root /var/lib/paddock, else
// $XDG_STATE_HOME/paddock, else ~/.local/state/paddock. The directory is made
// with mode 0700 by whatever first needs it.
func DefaultStateDir() (string, error) {
	if dir := os.Getenv(StateDirEnv); dir != "" {
		return absolute(dir, "$"+StateDirEnv)
	}
	if os.Geteuid() == 0 {
		return "/var/lib/paddock", nil
	}
	// The XDG specification tells programs to ignore a relative value.
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "paddock"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil || !filepath.IsAbs(home) {
		return "", &Error{
			Message: "cannot choose a state directory: $HOME is not set to an absolute path",
			Hint:    "set " + StateDirEnv + " to a directory of your own",
		}
	}
	return filepath.Join(home, ".local", "state", "paddock"), nil
}

// stateDir is the directory asked for, or the default one.
func (o Options) stateDir() (string, error) {
	if o.StateDir == "" {
		return DefaultStateDir()
	}
	return absolute(o.StateDir, "Options.StateDir")
}

func absolute(dir, from string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("cannot use %s: %w", from, err)
	}
	return abs, nil
}
