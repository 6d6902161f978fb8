package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// runSuites boots a machine that runs the tests of the packages.
func runSuites(ctx context.Context, c machineConfig) error {
	m, err := boot(ctx, c)
	if err != nil {
		return err
	}
	defer m.kill()
	port, err := m.port(ctx, suitesPort)
	if err != nil {
		return err
	}
	defer port.Close()
	if err := json.NewEncoder(port).Encode(c.order); err != nil {
		return err
	}
	l := &listening{c: c, notes: json.NewDecoder(port)}
	err = l.all()
	m.kill()
	if err != nil {
		err = fmt.Errorf("%w: %w", err, m.state())
	}
	return errors.Join(err, l.missing())
}

// listening hears what a machine tells of its suites.
type listening struct {
	c     machineConfig
	notes *json.Decoder
	facts []string
	ended []string // suites
	p     *packageRun
	to    *converter // of the suite that runs
}

// all hears everything, to the machine's end.
func (l *listening) all() error {
	for {
		var n note
		err := l.notes.Decode(&n)
		if errors.Is(err, io.EOF) {
			return l.endSuite(false)
		}
		if err == nil {
			err = l.take(n)
		}
		if err != nil {
			return errors.Join(err, l.endSuite(false))
		}
	}
}

func (l *listening) take(n note) error {
	if n.Fact != "" {
		l.facts = append(l.facts, n.Fact)
		return nil
	}
	if l.to == nil {
		var err error
		l.p = l.c.packageOf(n.Suite)
		if l.to, err = l.p.converter(); err != nil {
			return err
		}
		if len(l.ended) == 0 {
			l.report()
		}
	}
	if n.Ended {
		l.ended = append(l.ended, n.Suite)
		return l.endSuite(!n.Failed)
	}
	_, err := io.WriteString(l.to, n.Output)
	return err
}

// report tells, once, what this kernel has.
func (l *listening) report() {
	l.p.output(fmt.Sprintf("--- report: kernel %s: %s\n--- end of report\n", l.c.kernel.release, strings.Join(l.facts, "; ")))
}

// endSuite ends the suite that runs, if one does.
func (l *listening) endSuite(good bool) error {
	if l.to == nil {
		return nil
	}
	err := l.to.end()
	l.to = nil
	l.p.end(good && err == nil)
	return err
}

// missing says which suites have not ended.
func (l *listening) missing() error {
	if n := len(l.ended); n < len(l.c.order.Suites) {
		return fmt.Errorf("%s did not end, and what comes after it did not run", l.c.order.Suites[n])
	}
	return nil
}
