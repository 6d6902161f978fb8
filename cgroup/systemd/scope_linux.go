package systemd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strconv"
	"time"

	"github.com/godbus/dbus/v5"

	"github.com/paddock-dev/paddock/cgroup"
)

// Errors that a caller can distinguish, besides fs.ErrExist if a unit with the name
// exists, and the errors of the context.
var (
	// ErrNoManager says that no bus, or no manager on it, can be reached.
	ErrNoManager = errors.New("no service manager answers")
	// ErrRefused says that the manager refused the request.
	ErrRefused = errors.New("the service manager refuses")
)

// Scope describes a scope to make.
type Scope struct {
	Unit        string // its name, which must end in ".scope" and be unused
	Description string // for people
	Slice       string // the slice that it belongs to; empty for the manager's default
	PIDs        []int  // the processes to move, at least one
	// Bus is the address of the bus to use. Empty: Start looks for it.
	Bus string
}

// patience bounds a call whose context has a later deadline, or none.
const patience = 10 * time.Second

// Start asks the manager to make a scope, delegate it and move the processes into
// it, and waits until that is done. It returns the scope's group, named as by
// cgroup.Own. The processes should be stopped during the call: children that they
// start before they are moved stay behind.
//
// After an error of the context the scope may still be made; it then ends with its
// processes.
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

// start asks the manager to make the scope, and waits for the job.
func (s *Scope) start(ctx context.Context, conn *dbus.Conn) error {
	// Subscribe first: the job may be done before its name is known here.
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

// property and auxiliary are the types (sv) and (sa(sv)) of D-Bus.
type property struct {
	Name  string
	Value dbus.Variant
}

type auxiliary struct {
	Name       string
	Properties []property
}

// properties returns the properties of the unit.
func (s *Scope) properties() []property {
	pids := make([]uint32, len(s.PIDs))
	for i, pid := range s.PIDs {
		pids[i] = uint32(pid)
	}
	all := []property{
		{"PIDs", dbus.MakeVariant(pids)},
		{"Delegate", dbus.MakeVariant(true)},
		{"CollectMode", dbus.MakeVariant("inactive-or-failed")}, // so that a failed unit is removed, too
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
				return cause(ctx, fmt.Errorf("%w: the connection to the bus has ended", ErrNoManager))
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

// cause returns the context's error if it has ended, or else the meaning of an
// error of the bus.
func cause(ctx context.Context, err error) error {
	var answer dbus.Error
	if ctx.Err() != nil {
		return ctx.Err()
	}
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

// group returns the group of the processes, as the kernel reports it.
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
		return "", fmt.Errorf("the manager reports success, but process %d is in %s", s.PIDs[0], group)
	}
	return group, nil
}

// fail returns an error about a scope, with a hint.
func fail(s *Scope, err error) error {
	e := &cgroup.Error{Op: "start", Object: s.Unit, Err: err}
	switch {
	case errors.Is(err, ErrNoManager):
		e.Hint = "log in as that user (ssh, machinectl shell; not su), or let the user's manager always run: loginctl enable-linger; paddock doctor says whether this host's controllers can be had at all"
	case errors.Is(err, ErrRefused):
		e.Hint = "systemctl --user status " + s.Unit + " and the journal may say why"
	}
	return e
}

const systemBus = "unix:path=/run/dbus/system_bus_socket"

// addresses returns the buses on which this user's manager may be, the likeliest
// first.
func addresses() []string {
	if os.Geteuid() == 0 {
		if address := os.Getenv("DBUS_SYSTEM_BUS_ADDRESS"); address != "" {
			return []string{address}
		}
		return []string{systemBus}
	}
	var all []string
	if address := os.Getenv("DBUS_SESSION_BUS_ADDRESS"); address != "" {
		all = append(all, address)
	}
	dir := os.Getenv("XDG_RUNTIME_DIR")
	if dir == "" {
		dir = "/run/user/" + strconv.Itoa(os.Geteuid()) // after su or sudo the variable is missing
	}
	return append(all, "unix:path="+dbus.EscapeBusAddressValue(dir+"/bus"))
}

// connect connects to the first bus that has a manager. The connection ends with ctx.
func connect(ctx context.Context, buses []string) (*dbus.Conn, error) {
	var errs []error
	for _, address := range buses {
		conn, err := dbus.Connect(address, dbus.WithContext(ctx), dbus.WithAuth(dbus.AuthExternal(strconv.Itoa(os.Geteuid()))))
		if err != nil {
			errs = append(errs, err)
			continue
		}
		// The manager sends signals only to its subscribers.
		err = manager(conn).CallWithContext(ctx, managerInterface+".Subscribe", 0).Err
		if err == nil {
			return conn, nil
		}
		errs = append(errs, err)
		_ = conn.Close()
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return nil, errors.Join(errs...)
}

// manager returns the object of the service manager.
func manager(conn *dbus.Conn) dbus.BusObject {
	return conn.Object("org.freedesktop.systemd1", "/org/freedesktop/systemd1")
}

const managerInterface = "org.freedesktop.systemd1.Manager"
