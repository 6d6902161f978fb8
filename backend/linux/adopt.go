//go:build linux

package linux

import (
	"encoding/json"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/byname"
	"github.com/paddock-dev/paddock/backend/keep"
	"github.com/paddock-dev/paddock/backend/state"
	"github.com/paddock-dev/paddock/cgroup"
	"github.com/paddock-dev/paddock/confine"
	"github.com/paddock-dev/paddock/internal/osstring"
	"github.com/paddock-dev/paddock/policy"
)

// legacy is what the next owner of a sandbox must know, beside its files.
type legacy struct {
	PID       int              `json:"pid"`
	UID       uint32           `json:"uid"`
	Scratch   osstring.String  `json:"scratch,omitempty"`
	Group     string           `json:"group,omitempty"`
	Scope     bool             `json:"scope,omitempty"` // the service manager has made the group
	Bare      bool             `json:"bare,omitempty"`
	Copied    osstring.Map     `json:"copied,omitempty"` // nil: there is no file for them
	Egress    int              `json:"egress,omitempty"` // the pid of its process; 0 without one
	Isolation policy.Isolation `json:"isolation"`
	Created   time.Time        `json:"created"`
}

// The first files of a sandbox that is handed over. Those of the copies and of the egress
// process follow.
const (
	controlFile = iota
	pidFile
	lockFile
	firstMore
)

// Bequeath returns what the next owner of the sandbox needs.
func (s *sandbox) Bequeath(lost []string) (backend.Legacy, []*os.File, error) {
	if s.isolation.Lost = append(s.isolation.Lost, lost...); len(lost) > 0 {
		if err := s.save(&s.isolation); err != nil {
			return backend.Legacy{}, nil, err
		}
	}
	l := legacy{PID: s.pid, UID: s.dir.uid, Scratch: osstring.String(s.dir.scratch), Group: s.dir.group, Bare: s.bare, Copied: s.copied, Isolation: s.isolation, Created: s.dir.created}
	l.Scope = s.group != nil && s.group.parent == nil
	agent, err := keep.File(s.pidfd)
	if err != nil {
		return backend.Legacy{}, nil, backend.Failed("keeper", "duplicate", "the agent's handle", err, "")
	}
	files := []*os.File{s.control, agent, s.dir.Lock()}
	if s.copies != nil {
		files = append(files, s.copies)
	}
	if s.egress != nil {
		pid, pidfd, control, err := s.egress.Files()
		if err != nil {
			return backend.Legacy{}, nil, backend.Failed("keeper", "duplicate", "the egress process's handle", err, "")
		}
		l.Egress, files = pid, append(files, pidfd, control)
	}
	data, err := json.Marshal(l)
	return backend.Legacy{ID: s.dir.ID, Process: s.child.Number(), Control: controlFile, Data: data}, files, err
}

// Leave forgets the sandbox, which the next owner has.
func (s *sandbox) Leave() {
	if conn := s.takeSpare(); conn != nil {
		_ = conn.Close()
	}
	for _, f := range []*os.File{s.control, s.dir.Lock(), s.copies} {
		_ = f.Close() // a nil file allows it
	}
	_ = unix.Close(s.pidfd)
	s.egress.Leave()
	if s.group != nil {
		s.group.close()
	}
}

// Adopt returns a sandbox that another process has started and handed over.
func (b *Backend) Adopt(root string, given backend.Legacy, files []*os.File) (backend.Sandbox, error) {
	var l legacy
	err := json.Unmarshal(given.Data, &l)
	if err == nil && len(files) < firstMore {
		err = os.ErrInvalid
	}
	if err != nil {
		return nil, backend.Failed("state", "adopt", given.ID, err, "")
	}
	dir, err := state.Adopt(root, given.ID, files[lockFile])
	if err != nil {
		return nil, err
	}
	pidfd, err := keep.FD(files[pidFile])
	if err != nil {
		return nil, backend.Failed("state", "adopt", given.ID, err, "")
	}
	s := &sandbox{
		dir:  &stateDir{Dir: dir, uid: l.UID, scratch: string(l.Scratch), group: l.Group, created: l.Created},
		bare: l.Bare, pid: l.PID, pidfd: pidfd, control: files[controlFile],
		child: keep.Adopt(l.PID, pidfd), isolation: l.Isolation, done: make(chan struct{}),
	}
	more := files[firstMore:]
	if l.Copied != nil && len(more) > 0 {
		s.copies, s.copied, more = more[0], l.Copied, more[1:]
	}
	if l.Egress != 0 && len(more) > 1 {
		if s.egress, err = byname.Adopt(dir, l.Egress, more[0], more[1]); err != nil {
			return nil, err
		}
	}
	if l.Group != "" {
		s.group = adoptGroup(l.Group, l.Scope)
	}
	go s.reap()
	return s, nil
}

// adoptGroup opens the groups of a sandbox again, nil if they are gone.
func adoptGroup(dir string, scope bool) *control {
	c := &control{dir: dir}
	var err error
	if c.group, err = cgroup.Open(dir); err != nil {
		return nil
	}
	if c.work, err = c.group.Child(confine.WorkGroup); err != nil {
		c.work = nil
	}
	if !scope {
		if c.parent, err = cgroup.Open(filepath.Dir(dir)); err != nil {
			c.parent = nil
		}
	}
	return c
}

// EndAbandoned removes what is left of a sandbox whose owner was killed, beginning with the
// agent, if that still runs. It reports whether nothing is left. It does nothing while the owner
// lives.
func EndAbandoned(root, id string) bool {
	return state.EndOne(root, id, func(path string, r *state.Record) bool { return sweepOne(root, path, r) })
}
