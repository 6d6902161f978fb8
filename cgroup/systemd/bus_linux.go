package systemd

import (
	"context"
	"errors"
	"os"
	"strconv"

	"github.com/godbus/dbus/v5"
)

const systemBus = "unix:path=/run/dbus/system_bus_socket"

// addresses are the buses on which this user's manager may be, the likeliest first.
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
		dir = "/run/user/" + strconv.Itoa(os.Geteuid()) // of a user who came by su or sudo
	}
	return append(all, "unix:path="+dbus.EscapeBusAddressValue(dir+"/bus"))
}

// connect finds a bus that has a manager. The connection ends with ctx.
func connect(ctx context.Context, buses []string) (*dbus.Conn, error) {
	var errs []error
	for _, address := range buses {
		conn, err := dbus.Connect(address, dbus.WithContext(ctx), dbus.WithAuth(dbus.AuthExternal(strconv.Itoa(os.Geteuid()))))
		if err != nil {
			errs = append(errs, err)
			continue
		}
		// Its signals are not sent to anybody who has not subscribed.
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

func manager(conn *dbus.Conn) dbus.BusObject {
	return conn.Object("org.freedesktop.systemd1", "/org/freedesktop/systemd1")
}

const managerInterface = "org.freedesktop.systemd1.Manager"
