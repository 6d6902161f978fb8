package run

import (
	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/linux"
	"github.com/paddock-dev/paddock/backend/state"
	"github.com/paddock-dev/paddock/backend/state/kept"
)

// DefaultBackend returns the backend of Options without one.
func DefaultBackend() backend.Backend { return linux.New() }

// Named looks up a persistent sandbox by its name, key or id, and returns its id. If it finds none,
// it returns name unchanged.
func Named(dir, name string) (id string, lasting bool) {
	if id, err := kept.Find(dir, name); err == nil {
		return id, true
	}
	return name, false
}

// Names returns the names of the sandboxes below a state directory that outlive their creators, but
// for those of servers.
func Names(dir string) []string {
	var names []string
	records, _ := kept.List(dir)
	for _, r := range records {
		if !r.Served && r.Name != "" {
			names = append(names, r.Name)
		}
	}
	return names
}

// Paused reports whether the commands of a sandbox are stopped.
func Paused(dir, id string) bool { return state.Paused(dir, id) }

// Attach finds the running sandbox with this id below a state directory.
func Attach(dir, id string) (backend.Sandbox, error) {
	a, err := state.Attach(dir, id)
	if err != nil {
		return nil, err
	}
	return a, nil
}

// CheckState refuses a state directory with which a start would be refused.
func CheckState(dir string) error { return state.Check(dir) }

// RefusedRecords returns why sandboxes are not cleaned up, see [state.Refused].
func RefusedRecords(dir string) []string { return state.Refused(dir) }

// KeepUnreported keeps a text below a state directory until it is forgotten.
func KeepUnreported(dir, id string, text []byte) (Unreported, error) {
	u, err := state.KeepUnreported(dir, id, text)
	if err != nil {
		return nil, err
	}
	return u, nil
}

// TakeUnreported returns the texts of owners that were killed. With end it first ends what
// is left of sandboxes with keepers, as each start does.
func TakeUnreported(dir string, end bool) []Unreported {
	if end {
		state.Sweep(dir, nil)
	}
	var list []Unreported
	for _, u := range state.TakeUnreported(dir) {
		list = append(list, u)
	}
	return list
}

// List finds the sandboxes that run, without their specs; with opened only those that no keeper
// has.
func List(dir string, opened bool) ([]Running, error) {
	skip := func(string) bool { return false }
	if opened {
		skip = func(id string) bool { return kept.Has(dir, id) }
	}
	found, err := state.List(dir, skip)
	list := make([]Running, len(found))
	for i, r := range found {
		list[i] = Running{ID: r.ID, Backend: r.Backend, Since: r.Created, Ready: r.Isolation != nil}
	}
	return list, err
}

// AddPort records a port on which this process listens, until forget is called.
func AddPort(dir string, p Port) (forget func(), err error) {
	return state.AddPort(dir, state.Port{Address: p.Address, Sandbox: p.Sandbox, Guest: p.Guest, Open: p.Open})
}

// Ports returns the ports on which processes of Paddock listen.
func Ports(dir string) ([]Port, error) {
	found, err := state.Ports(dir)
	list := make([]Port, len(found))
	for i, p := range found {
		list[i] = Port{Address: p.Address, Sandbox: p.Sandbox, Guest: p.Guest, Open: p.Open}
	}
	return list, err
}

// diskFull reports whether the file system of a directory of this host has no room left for an ordinary
// user, or no place for another file.
func diskFull(dir string) bool {
	const least = 128 << 10 // bytes, below which writes of common sizes fail
	var fs unix.Statfs_t
	if dir == "" || unix.Statfs(dir, &fs) != nil || fs.Blocks == 0 {
		return false
	}
	return fs.Bavail*uint64(fs.Bsize) < least || fs.Files > 0 && fs.Ffree == 0
}
