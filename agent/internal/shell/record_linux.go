package shell

import (
	"encoding/json"
	"io"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/agent/internal/beneath"
	"github.com/paddock-dev/paddock/agent/internal/core"
	"github.com/paddock-dev/paddock/wire"
)

// maxShellRecord bounds a shell's record, in bytes.
const maxShellRecord = 64 << 10

// save writes the summary to disk, where there is a place for it. A shell
// does not depend on that.
func (s *shell) save() {
	s.saving.Lock()
	defer s.saving.Unlock()
	if s.forgotten {
		return
	}
	summary := s.describe()
	if text, err := json.MarshalIndent(summary, "", "  "); err == nil {
		_ = core.SaveState(s.table.state, recordName(summary.ShellID), text)
	}
}

// forget removes the record for good.
func (s *shell) forget() {
	s.saving.Lock()
	defer s.saving.Unlock()
	s.forgotten = true
	if dir := s.table.state.Dir(); dir.Valid() {
		_ = unix.Unlinkat(dir.FD(), recordName(s.describe().ShellID), 0)
	}
}

func recordName(id string) string { return id + ".json" }

// Sweep removes the records that an agent left which was killed: its
// shells have ended with it. What is no record stays.
func Sweep(dir beneath.Dir) {
	f, err := dir.List()
	if err != nil {
		return
	}
	defer f.Close()
	var old []string
	for {
		names, err := f.Readdirnames(core.NamesAtOnce)
		for _, name := range names {
			if strings.HasPrefix(name, core.StatePrefix) || isShellRecord(dir, name) {
				old = append(old, name)
			}
		}
		if err != nil {
			break
		}
	}
	for _, name := range old {
		_ = unix.Unlinkat(dir.FD(), name, 0)
	}
}

// isShellRecord reports whether a file is what save writes.
func isShellRecord(dir beneath.Dir, name string) bool {
	id, ok := strings.CutSuffix(name, ".json")
	if !ok || !core.StateName(id) {
		return false
	}
	f, err := dir.OpenFile(name, unix.O_RDONLY, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() || st.Size() > maxShellRecord {
		return false
	}
	text, err := io.ReadAll(io.LimitReader(f, maxShellRecord))
	var r wire.Shell
	return err == nil && json.Unmarshal(text, &r) == nil && r.ShellID == id && r.State != "" && r.Cols > 0 && r.Rows > 0
}
