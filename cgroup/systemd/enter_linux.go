package systemd

import (
	"context"
	"os"

	"github.com/paddock-dev/paddock/cgroup"
)

// callerGroup is where Enter puts the caller, in the scope.
const callerGroup = "caller"

// Enter moves this whole process into a scope of its own, as systemd-run
// --scope would have started it. Afterwards cgroup.FindPlace finds a place in
// that scope, whose groups this process can clone children into.
func Enter(ctx context.Context, unit, description string) error {
	s := Scope{Unit: unit, Description: description, PIDs: []int{os.Getpid()}}
	group, err := Start(ctx, s)
	if err != nil {
		return err
	}
	m, err := cgroup.Find()
	if err != nil {
		return err
	}
	dir, err := m.Dir(group)
	if err != nil {
		return err
	}
	scope, err := cgroup.Open(dir)
	if err != nil {
		return err
	}
	defer scope.Close()
	// A group that holds processes hands no controllers on.
	caller, err := scope.Vacate(callerGroup)
	if err != nil {
		return err
	}
	return caller.Close()
}
