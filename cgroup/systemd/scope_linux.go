package systemd

import (
	"context"
	"errors"
	"fmt"
	"path"
	"time"

	"github.com/godbus/dbus/v5"

	"github.com/paddock-dev/paddock/cgroup"
)

// Scope is what a scope should be.
type Scope struct {
	Unit        string // its name, which ends in ".scope" and is free
	Description string // for people
	Slice       string // the unit that it belongs to; empty for the manager's default
	PIDs        []int  // the processes to move, at least one
	// Bus is the address of the bus to use; empty looks for it.
	Bus string
}

// patience bounds what a caller's context does not.
const patience = 10 * time.Second

// Start has the manager make a scope, delegate it and move the processes into it,
// and waits until that is done. It returns the scope's group, as cgroup.Own
// names groups. The processes should stand still meanwhile: what they start
// before they are moved stays behind.
//
// After an error of the context the scope may yet come to be; it then
// ends with its processes.
func Start(ctx context.Context, s Scope) (group string, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if len(s.PIDs) == 0 {
		return "", fail(&s, errors.New("a scope needs a process"))
	}
	buses := addresses()
	if s.Bus != "" {
		buses = []string{s.Bus}
	}
	conn, err := connect(ctx, buses)
	if err != nil {
		if ctx.Err() == nil {
			err = fmt.Errorf("%w: %v", ErrNoManager, err)
		}
		return "", fail(&s, err)
	}
	defer conn.Close()
	if err := s.start(ctx, conn); err != nil {
		return "", fail(&s, err)
	}
	if group, err = s.group(); err != nil {
		return "", fail(&s, err)
	}
	return group, nil
}

// start has the scope made.
func (s *Scope) start(ctx context.Context, conn *dbus.Conn) error {
	// Before the job, which may be done before its name is known here.
	signals := make(chan *dbus.Signal, 64)
	conn.Signal(signals)
	err := conn.AddMatchSignalContext(ctx, dbus.WithMatchInterface(managerInterface), dbus.WithMatchMember("JobRemoved"))
	if err != nil {
		return cause(ctx, err)
	}
	var job dbus.ObjectPath
	call := manager(conn).CallWithContext(ctx, managerInterface+".StartTransientUnit", 0, s.Unit, "fail", s.properties(), []auxiliary{})
	if err := call.Store(&job); err != nil {
		return cause(ctx, err)
	}
	return await(ctx, signals, job)
}

// property and auxiliary are (sv) and (sa(sv)) of the bus.
type property struct {
	Name  string
	Value dbus.Variant
}

type auxiliary struct {
	Name       string
	Properties []property
}

func (s *Scope) properties() []property {
	pids := make([]uint32, len(s.PIDs))
	for i, pid := range s.PIDs {
		pids[i] = uint32(pid)
	}
	all := []property{
		{"PIDs", dbus.MakeVariant(pids)},
		{"Delegate", dbus.MakeVariant(true)},
		{"CollectMode", dbus.MakeVariant("inactive-or-failed")}, // leave nothing behind
	}
	if s.Description != "" {
		all = append(all, property{"Description", dbus.MakeVariant(s.Description)})
	}
	if s.Slice != "" {
		all = append(all, property{"Slice", dbus.MakeVariant(s.Slice)})
	}
	return all
}

// await waits for the end of a job.
func await(ctx context.Context, signals <-chan *dbus.Signal, job dbus.ObjectPath) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case signal, ok := <-signals:
			if !ok {
				return cause(ctx, fmt.Errorf("%w: the bus has gone", ErrNoManager))
			}
			var id uint32
			var ended dbus.ObjectPath
			var unit, result string
			if dbus.Store(signal.Body, &id, &ended, &unit, &result) != nil || ended != job {
				continue
			}
			if result != "done" {
				return fmt.Errorf("%w: its job ended as %q", ErrRefused, result)
			}
			return nil
		}
	}
}

// cause is the context's error where that ended the connection.
func cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return kind(err)
}

// group asks the kernel where the processes are.
func (s *Scope) group() (string, error) {
	var group string
	for i, pid := range s.PIDs {
		of, err := cgroup.Of(pid)
		switch {
		case err != nil:
			return "", err
		case i == 0:
			group = of
		case of != group:
			return "", fmt.Errorf("the processes are in different groups: %s and %s", group, of)
		}
	}
	if path.Base(group) != s.Unit {
		return "", fmt.Errorf("the manager says that it is done, but process %d is in %s", s.PIDs[0], group)
	}
	return group, nil
}
