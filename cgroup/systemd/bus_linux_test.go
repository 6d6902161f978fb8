package systemd

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/godbus/dbus/v5"

	"github.com/paddock-dev/paddock/cgroup"
)

// bus starts a bus of the test's own and returns its address.
func bus(t *testing.T) string {
	t.Helper()
	program, err := exec.LookPath("dbus-daemon")
	if err != nil {
		t.Skip("SKIPPED ALOUD: dbus-daemon is not installed here")
	}
	dir := t.TempDir()
	config := filepath.Join(dir, "bus.conf")
	err = os.WriteFile(config, []byte(`<busconfig><listen>unix:path=`+dir+`/bus</listen><auth>EXTERNAL</auth>
		<policy context="default"><allow send_destination="*" eavesdrop="true"/><allow receive_sender="*" eavesdrop="true"/><allow own="*"/></policy></busconfig>`), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "--config-file="+config, "--nofork", "--nopidfile", "--nosyslog", "--print-address")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("dbus-daemon does not say where it listens: %v", err)
	}
	return strings.TrimSpace(address)
}

// fake is a service manager that can make scopes.
type fake struct {
	conn *dbus.Conn
	// start makes a scope and says how its job ends; empty is never.
	start func(unit string, pids []uint32) (result string, err *dbus.Error)
	// early reports the end of the job before its name.
	early bool

	mu         sync.Mutex
	subscribed int
	asked      map[string]dbus.Variant
}

const fakeJob = dbus.ObjectPath("/org/freedesktop/systemd1/job/7")

func newFake(t *testing.T, address string, f *fake) *fake {
	t.Helper()
	conn, err := dbus.Connect(address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	f.conn = conn
	err = conn.ExportMethodTable(map[string]any{"Subscribe": f.subscribe, "StartTransientUnit": f.startTransientUnit},
		"/org/freedesktop/systemd1", managerInterface)
	if err != nil {
		t.Fatal(err)
	}
	if reply, err := conn.RequestName("org.freedesktop.systemd1", dbus.NameFlagDoNotQueue); err != nil || reply != dbus.RequestNameReplyPrimaryOwner {
		t.Fatal(reply, err)
	}
	return f
}

// will says how the next scope is made.
func (f *fake) will(start func(string, []uint32) (string, *dbus.Error)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.start = start
}

func (f *fake) subscribe() *dbus.Error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.subscribed++
	return nil
}

func (f *fake) startTransientUnit(unit, mode string, properties []property, _ []auxiliary) (dbus.ObjectPath, *dbus.Error) {
	f.mu.Lock()
	f.asked = map[string]dbus.Variant{"mode": dbus.MakeVariant(mode)}
	for _, p := range properties {
		f.asked[p.Name] = p.Value
	}
	pids, _ := f.asked["PIDs"].Value().([]uint32)
	start := f.start
	f.mu.Unlock()
	result, err := start(unit, pids)
	if err != nil {
		return "", err
	}
	// Somebody else's jobs end, too.
	f.emit("/org/freedesktop/systemd1/job/6", "other.service", "failed")
	if f.early {
		f.emit(fakeJob, unit, result)
	} else if result != "" {
		go f.emit(fakeJob, unit, result)
	}
	return fakeJob, nil
}

func (f *fake) emit(job dbus.ObjectPath, unit, result string) {
	_ = f.conn.Emit("/org/freedesktop/systemd1", managerInterface+".JobRemoved", uint32(7), job, unit, result)
}

// scopes is a group for a fake's scopes.
func scopes(t *testing.T) *cgroup.Group {
	t.Helper()
	m, err := cgroup.Find()
	if err != nil {
		t.Skipf("no control groups here: %v", err)
	}
	own, err := cgroup.Own()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := m.Dir(own)
	if err != nil {
		t.Skipf("no control groups here: %v", err)
	}
	parent, err := cgroup.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("paddock-test-%d-", os.Getpid()) + strings.ReplaceAll(t.Name(), "/", "-")
	g, err := parent.Create(name)
	if err != nil {
		t.Skipf("no control groups here: %v", err)
	}
	t.Cleanup(func() {
		if err := parent.Remove(name); err != nil {
			t.Error(err)
		}
		g.Close()
		parent.Close()
	})
	return g
}
