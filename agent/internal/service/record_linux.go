package service

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/agent/internal/core"
	"github.com/paddock-dev/paddock/wire"
)

// maxRecord bounds a record on disk, in bytes.
const maxRecord = 4 << 20

// maxListed bounds how many names of the state directory are read.
const maxListed = 4096

// record is a record as it is on disk.
type record struct {
	wire.Service
	// Born is when the process began, in clock ticks since boot, and Mark the
	// number of its namespace. They distinguish a process from a later one with
	// the same process id, even one that began in the same tick.
	Born uint64 `json:"process_start_time"`
	Mark uint64 `json:"process_mark"`
	// Cut says for each stream whether the beginning of its log was dropped.
	Cut [2]bool `json:"logs_cut"`
}

// load reads the record that an earlier agent left.
func (t *Table) load(name string) (*service, error) {
	text, err := t.readFile(name+".json", maxRecord)
	if errors.Is(err, os.ErrNotExist) {
		return nil, &wire.Error{Code: wire.CodeNotFound, Object: name, Message: "service '" + name + "' does not exist"}
	}
	var r record
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	states := []string{stateRunning, stateExited, stateFailed, stateStopped}
	if err != nil || r.ServiceName != name || !slices.Contains(states, r.State) {
		return nil, &wire.Error{Code: wire.CodeConflict, Object: name, Message: "service record for '" + name + "' is invalid"}
	}
	if !isJSONObject(r.Readiness) {
		r.Readiness = nil
	}
	logs := [2]*logFile{ // of the earlier agent
		{dir: t.dir(), name: name + ".stdout", cut: r.Cut[0]},
		{dir: t.dir(), name: name + ".stderr", cut: r.Cut[1]},
	}
	return &service{name: name, table: t, box: t.box, record: r, logs: logs}, nil
}

// save writes the record if that is possible: a service does not depend on it.
// The service's lock is held.
func (s *service) save() {
	text, err := json.Marshal(&s.record)
	if err == nil {
		s.table.writeFile(s.name+".json", append(text, '\n'))
	}
}

// writeFile replaces a file, whole or not at all.
func (t *Table) writeFile(name string, text []byte) {
	if !t.dir().Valid() {
		return
	}
	temp := core.HiddenName(".record-")
	f, err := t.dir().OpenFile(temp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o600)
	if err != nil {
		return
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	if f.Close() != nil || err != nil || unix.Renameat(t.dir().FD(), temp, t.dir().FD(), name) != nil {
		_ = unix.Unlinkat(t.dir().FD(), temp, 0)
	}
}

// readFile reads a regular file of the state directory.
func (t *Table) readFile(name string, limit int64) ([]byte, error) {
	if !t.dir().Valid() {
		return nil, os.ErrNotExist
	}
	f, err := t.dir().OpenFile(name, unix.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() || st.Size() > limit {
		return nil, errors.New("not a file that the agent wrote")
	}
	return io.ReadAll(io.LimitReader(f, limit))
}

// exitCode returns the exit code that an earlier agent has written, nil if there is
// none.
func (t *Table) exitCode(name string) *int {
	text, err := t.readFile(name+".status", 64)
	if err != nil {
		return nil
	}
	code, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return nil
	}
	return &code
}

// removeFile removes a file of the state directory.
func (t *Table) removeFile(name string) {
	if t.dir().Valid() {
		_ = unix.Unlinkat(t.dir().FD(), name, 0)
	}
}

// onDisk lists the names that have records.
func (t *Table) onDisk() (names []string) {
	if !t.dir().Valid() {
		return nil
	}
	f, err := t.dir().List()
	if err != nil {
		return nil
	}
	defer f.Close()
	entries, _ := f.Readdirnames(maxListed)
	for _, entry := range entries {
		if name, ok := strings.CutSuffix(entry, ".json"); ok {
			if clean, err := checkName(name); err == nil && clean == name && len(names) < maxRecords {
				names = append(names, name)
			}
		}
	}
	return names
}

// hideRecord hides secrets in the fields of a record that a client has written.
func hideRecord(r record, hide func(string) string) record {
	r.Command, r.Cwd = hide(r.Command), wire.OSString(hide(string(r.Cwd)))
	if r.Readiness != nil {
		var v any
		d := json.NewDecoder(bytes.NewReader(r.Readiness))
		d.UseNumber()
		r.Readiness = nil // rather than with a secret
		if d.Decode(&v) == nil {
			r.Readiness, _ = json.Marshal(hideValue(v, hide))
		}
	}
	return r
}

// hideValue hides secrets in every text of a JSON value.
func hideValue(v any, hide func(string) string) any {
	switch v := v.(type) {
	case string:
		return hide(v)
	case []any:
		for i := range v {
			v[i] = hideValue(v[i], hide)
		}
	case map[string]any:
		clean := make(map[string]any, len(v))
		for name, value := range v {
			clean[hide(name)] = hideValue(value, hide)
		}
		return clean
	case json.Number:
		if text := hide(v.String()); text != v.String() {
			return text
		}
	}
	return v
}
