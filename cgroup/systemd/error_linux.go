package systemd

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/godbus/dbus/v5"

	"github.com/paddock-dev/paddock/cgroup"
)

// What a caller can tell apart, besides fs.ErrExist for the name of a unit
// that there is already, and the errors of the context.
var (
	// ErrNoManager says that no bus, or no manager on it, can be reached.
	ErrNoManager = errors.New("no service manager answers")
	// ErrRefused says that the manager does not want to.
	ErrRefused = errors.New("the service manager refuses")
)

func fail(s *Scope, err error) error {
	e := &cgroup.Error{Op: "start", Object: s.Unit, Err: err}
	switch {
	case errors.Is(err, ErrNoManager):
		e.Hint = "log in as that user (ssh, machinectl shell; not su), or let the user's manager run always: loginctl enable-linger; paddock doctor says whether this host's controllers can be had at all"
	case errors.Is(err, ErrRefused):
		e.Hint = "systemctl --user status " + s.Unit + " and the journal may say why"
	}
	return e
}

// kind says what an error of the bus means.
func kind(err error) error {
	var answer dbus.Error
	if !errors.As(err, &answer) {
		return err
	}
	switch answer.Name {
	case "org.freedesktop.DBus.Error.ServiceUnknown", "org.freedesktop.DBus.Error.NameHasNoOwner",
		"org.freedesktop.DBus.Error.Spawn.ServiceNotFound", "org.freedesktop.DBus.Error.Spawn.ChildExited",
		"org.freedesktop.DBus.Error.Spawn.ExecFailed", "org.freedesktop.DBus.Error.TimedOut",
		"org.freedesktop.DBus.Error.NoReply", "org.freedesktop.DBus.Error.Disconnected":
		return fmt.Errorf("%w: %v", ErrNoManager, err)
	case "org.freedesktop.systemd1.UnitExists":
		return fmt.Errorf("%w: %v", fs.ErrExist, err)
	}
	return fmt.Errorf("%w: %v", ErrRefused, err)
}
