package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"
)

// event is one line of "go test -json".
type event struct {
	Action, Package string
	Test            string  `json:",omitempty"`
	Output          string  `json:",omitempty"`
	Elapsed         float64 `json:",omitempty"`
}

var events struct {
	sync.Mutex
	to     *json.Encoder
	failed bool // one of them was a failure
}

func init() { events.to = json.NewEncoder(os.Stdout) }

func (e event) tell() {
	events.Lock()
	defer events.Unlock()
	events.failed = events.failed || e.Action == "fail"
	_ = events.to.Encode(e) // gotestsum notices what is missing
}

// packageRun is a package as gotestsum sees it: one suite on one kernel.
type packageRun struct {
	name    string
	started time.Time
}

// packageOf begins a package.
func (c machineConfig) packageOf(name string) *packageRun {
	p := &packageRun{name: "linux-" + c.kernel.series() + ": " + name, started: time.Now()}
	event{Action: "start", Package: p.name}.tell()
	return p
}

func (p *packageRun) output(text string) {
	event{Action: "output", Package: p.name, Output: text}.tell()
}

func (p *packageRun) end(good bool) {
	event{Action: verdict(good), Package: p.name, Elapsed: time.Since(p.started).Seconds()}.tell()
}

// test tells of one test that has ended.
func (p *packageRun) test(name string, err error) {
	event{Action: "run", Package: p.name, Test: name}.tell()
	if err != nil {
		event{Action: "output", Package: p.name, Test: name, Output: err.Error() + "\n"}.tell()
	}
	event{Action: verdict(err == nil), Package: p.name, Test: name}.tell()
}

func verdict(good bool) string {
	if good {
		return "pass"
	}
	return "fail"
}

// converter makes events of what a test program prints.
type converter struct {
	io.WriteCloser
	cmd *exec.Cmd
}

func (p *packageRun) converter() (*converter, error) {
	cmd := exec.Command("go", "tool", "test2json", "-t", "-p", p.name)
	cmd.Stdout, cmd.Stderr = new(eventLines), os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	return &converter{in, cmd}, cmd.Start()
}

// end waits until all events are told.
func (c *converter) end() error { return errors.Join(c.Close(), c.cmd.Wait()) }

// eventLines passes on what a program tells of tests. How the package ends is
// told by who has seen its program end.
type eventLines struct{ rest []byte }

// Write takes any part of the lines.
func (l *eventLines) Write(b []byte) (int, error) {
	l.rest = append(l.rest, b...)
	for {
		line, rest, ok := bytes.Cut(l.rest, []byte("\n"))
		if !ok {
			return len(b), nil
		}
		l.rest = rest
		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			return 0, err
		}
		if e.Test != "" || e.Action == "output" {
			e.tell()
		}
	}
}
