package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/op"
)

const (
	// progressAfter is how long an operation takes before it shows how far it is.
	progressAfter = 500 * time.Millisecond
	// progressEvery is how often the line changes at most.
	progressEvery = 100 * time.Millisecond
)

// progressLine is one line on a terminal that says how far an operation is. It is gone before
// anything else is written there.
type progressLine struct {
	to    io.Writer
	name  string
	width func() int

	mu    sync.Mutex
	next  time.Time // when it is drawn again
	shown bool
}

// showProgress has the operation show on standard error how far it is, if that is a terminal and
// the result is for people who want to know.
func (c *console) showProgress(o op.Op, env *op.Env, input []byte, asJSON bool) {
	var given struct {
		Quiet bool `json:"quiet"`
	}
	fd := int(os.Stderr.Fd())
	if !o.Streams.Progress || asJSON || json.Unmarshal(input, &given) != nil || given.Quiet || os.Getenv("TERM") == "dumb" || !term.IsTerminal(fd) {
		return
	}
	l := &progressLine{to: os.Stderr, name: strings.Join(o.CLI, " "), next: time.Now().Add(progressAfter), width: func() int {
		columns, _, err := term.GetSize(fd)
		if err != nil || columns <= 0 {
			return 80
		}
		return columns
	}}
	c.progress, c.stream.Progress = l, l.say
	if c.stream.Stderr != nil {
		c.stream.Stderr = &clearing{l, c.stream.Stderr}
	}
	if c.stream.Stdout != nil && term.IsTerminal(int(os.Stdout.Fd())) {
		c.stream.Stdout = &clearing{l, c.stream.Stdout}
	}
	if warn := env.Warn; warn != nil {
		env.Warn = func(err error) { l.clear(); warn(err) }
	}
	if planted := env.Planted; planted != nil {
		env.Planted = func(p op.Planted) { l.clear(); planted(p) }
	}
}

// say shows a report of the operation.
func (l *progressLine) say(done, total float64, message string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if now.Before(l.next) {
		return
	}
	l.next = now.Add(progressEvery)
	line := l.name + ": "
	if total > 0 && done >= 0 {
		line += fmt.Sprintf("%.0f%%, ", min(done/total, 1)*100)
	}
	line = text.Escape(strings.NewReplacer("\n", " ", "\t", " ").Replace(line + message))
	l.shown = true
	_, _ = io.WriteString(l.to, "\r\x1b[K"+columns(line, l.width()-1))
}

// columns returns the beginning of a text that fits into so many columns of a terminal, where a
// character may need two.
func columns(s string, most int) string {
	for i, r := range s {
		if most--; r >= 0x1100 {
			most--
		}
		if most < 0 {
			return s[:i]
		}
	}
	return s
}

// clear removes the line.
func (l *progressLine) clear() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.shown {
		l.shown = false
		_, _ = io.WriteString(l.to, "\r\x1b[K")
	}
}

// clearing removes the line before something is written.
type clearing struct {
	line *progressLine
	to   io.Writer
}

func (c *clearing) Write(p []byte) (int, error) {
	c.line.clear()
	return c.to.Write(p)
}
