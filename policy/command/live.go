package command

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/policy/specfile"
)

// Live follows the rules in the commands section of a spec file. It may be
// used by several goroutines.
type Live struct {
	file string

	mu    sync.Mutex
	rules *Rules
	err   error // what is wrong with what was read last
	seen  fileState
}

// fileState tells one version of a file from another.
type fileState struct {
	info os.FileInfo
	size int64
	time time.Time
}

// Open reads the rules in file. Its error says why they cannot be read; the
// Live that comes with it is of use all the same: it refuses every command
// until the file can be read.
func Open(file string) (*Live, error) {
	l := &Live{file: file, rules: &Rules{}}
	_, err := l.Rules()
	return l, err
}

// Rules are the newest rules. They are read again where the file is another
// one, or has another time or size. Where they cannot be read any more, the
// last good ones are returned together with an error that says so.
func (l *Live) Rules() (*Rules, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	info, err := os.Stat(l.file)
	if err != nil {
		l.seen, l.err = fileState{}, fmt.Errorf("cannot read the rules for commands: %w", err)
		return l.rules, l.err
	}
	now := fileState{info, info.Size(), info.ModTime()}
	if now.same(l.seen) {
		return l.rules, l.err
	}
	rules, err := read(l.file)
	l.seen, l.err = now, err
	if err == nil {
		l.rules = rules
	}
	return l.rules, l.err
}

func (s fileState) same(old fileState) bool {
	return old.info != nil && os.SameFile(s.info, old.info) && s.size == old.size && s.time.Equal(old.time)
}

func read(file string) (*Rules, error) {
	f, err := specfile.Read(file)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("cannot read the rules for commands: %w", err)
		}
		return nil, err
	}
	if f.Spec.Commands == nil {
		return nil, &policy.FieldError{
			Field: "commands", File: file, Reason: "the file has no such section",
			Hint: "write commands: {allow: [ls, cat]}",
		}
	}
	rules, err := New(*f.Spec.Commands)
	return rules, f.Locate(err)
}
