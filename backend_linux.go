package paddock

import (
	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/linux"
	"github.com/paddock-dev/paddock/backend/state"
)

// defaultBackend is the one that Options without a Backend use.
func defaultBackend() backend.Backend { return linux.New() }

// attach finds the running sandbox of this id below a directory of state.
func attach(dir, id string) (backend.Sandbox, error) {
	a, err := state.Attach(dir, id)
	if err != nil {
		return nil, err
	}
	return a, nil
}

// checkState refuses a directory of state in which a start would be refused.
func checkState(dir string) error { return state.Check(dir) }

// refusedRecords tells of sandboxes that are not cleaned up, see [state.Refused].
func refusedRecords(dir string) []string { return state.Refused(dir) }

// keepUnreported keeps a text below a directory of state until somebody was told.
func keepUnreported(dir, id string, text []byte) (unreported, error) {
	u, err := state.KeepUnreported(dir, id, text)
	if err != nil {
		return nil, err
	}
	return u, nil
}

// takeUnreported finds the texts of owners that were killed. With end it first
// ends what keepers of theirs have kept, as each start does.
func takeUnreported(dir string, end bool) []unreported {
	if end {
		state.Sweep(dir, nil)
	}
	var list []unreported
	for _, u := range state.TakeUnreported(dir) {
		list = append(list, u)
	}
	return list
}

// running finds the sandboxes that run, without their specs.
func running(dir string) ([]Running, error) {
	found, err := state.List(dir)
	list := make([]Running, len(found))
	for i, r := range found {
		list[i] = Running{ID: r.ID, Backend: r.Backend, Since: r.Created, Ready: r.Isolation != nil}
	}
	return list, err
}
