//go:build linux

// Package backendtest is the suite that every backend goes through: all that a
// sandbox can do, on the library and the wire, the same for each wall.
//
// Each behaviour is a cell. What comes of it is "yes", "no" (it was tried, and
// is not so) or "refused" (Paddock says beforehand that it cannot be had), and
// is compared with capabilities.txt, the committed table: a cell that differs
// fails. So nothing is promised that was not shown, and nothing gets lost.
//
//	func TestMain(m *testing.M) { os.Exit(backendtest.Main(m)) }
//	func TestLinux(t *testing.T) { backendtest.Run(t, backendtest.Config{Name: "linux", Backend: linux.New()}) }
//
// The grid is printed at the end, with a row for what was not run, and why.
package backendtest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

// Config is one wall to be looked at.
type Config struct {
	// Name is the column of the table: the backend's, or "wrapper=bwrap".
	Name string
	// Backend builds it. A process that is killed for a test makes it anew by
	// its name, see [Main].
	Backend backend.Backend
	// Spec is what its specs have in common; Backend and Workspace are filled in.
	// In the words of Wrapper.Command, WORKSPACE is the workspace, and AGENT the
	// agent.
	Spec policy.Spec
	// Remote says that its workspace is no directory of the host.
	Remote bool
	// Base is where the directories of its tests are made, on the host. Default:
	// /var/tmp, since some walls leave /tmp open to all.
	Base string
	// Missing says why it cannot be run here; empty where it can.
	Missing string
	// Left lists what it has left outside of Paddock's own directories and of
	// the host's processes: containers. nil: there is nothing such.
	Left func(ctx context.Context) ([]string, error)
}

// The outcomes of cells.
const (
	yes     = "yes"
	no      = "no"
	refused = "refused"
)

// cell is one behaviour.
type cell struct {
	name string
	// opens changes the spec that the cell has a sandbox of its own from; nil:
	// it shares one with others.
	opens func(*policy.Spec)
	// do tries it. nil is "yes"; an error is "no", or "refused" where it is
	// Paddock's own.
	do func(ctx context.Context, b *box) error
}

// cellTime bounds each cell. A larger PADDOCK_TEST_COMMANDS adds commandTime for each command.
const (
	cellTime    = 2 * time.Minute
	commandTime = 200 * time.Millisecond
)

func cells() []cell {
	return slices.Concat(execCells(), treeCells(), terminalCells(), shellCells(), sessionCells(), fileCells(), limitCells(), wallCells(), networkCells(), portCells(), doorCells(), lifeCells())
}

// Run takes one wall through the suite.
func Run(t *testing.T, c Config) {
	t.Helper()
	column := grid.column(c.Name)
	if c.Missing != "" {
		column.missing = c.Missing
		t.Skipf("backend %s is not run: %s", c.Name, c.Missing)
	}
	h := newHost(t, c)
	shared, err := h.open(t.Context(), nil)
	if err != nil {
		column.missing = "it cannot be started"
		t.Fatal(err)
	}
	for _, cl := range cells() {
		t.Run(strings.ReplaceAll(cl.name, "/", "."), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), cellTime+time.Duration(commands(0))*commandTime)
			defer cancel()
			b, err := shared, error(nil)
			switch {
			case cl.opens != nil:
				b, err = h.open(ctx, cl.opens)
			case shared.ended(): // a cell has cost its life
				shared, err = h.open(ctx, nil)
				b = shared
			}
			if err == nil {
				err = cl.do(ctx, b)
			}
			if cl.opens != nil && b != nil {
				err = errors.Join(err, b.close())
			}
			column.judge(t, cl.name, outcome(err), err)
		})
	}
	if err := shared.close(); err != nil {
		t.Error(err)
	}
}

// outcome says what an error of a cell means.
func outcome(err error) string {
	var (
		field *policy.FieldError
		start *backend.StartError
		own   *paddock.Error
		agent *wire.Error
	)
	switch {
	case err == nil:
		return yes
	case errors.As(err, &field), errors.As(err, &start) && start.Stage == "plan", // what the host cannot keep
		errors.As(err, &own) && own.Code == wire.CodeUnsupported, errors.As(err, &agent) && agent.Code == wire.CodeUnsupported:
		return refused
	}
	return no
}
