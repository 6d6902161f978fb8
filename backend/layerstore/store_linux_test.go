package layerstore

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/layer"
	"github.com/paddock-dev/paddock/policy"
)

func newStore(t *testing.T) (s Store, source string) {
	t.Helper()
	source, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return In(t.TempDir()), source
}

func (s Store) mustMake(t *testing.T, n New) *Held {
	t.Helper()
	n.Root = n.Root || os.Geteuid() == 0
	h, err := s.Make(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// A layer that was made is found again with its record, is one process's at a time, and leaves
// nothing once it is removed.
func TestStore(t *testing.T) {
	s, source := newStore(t)
	if list, err := s.List(); err != nil || list != nil {
		t.Errorf("%v, %v", list, err)
	}
	if err := os.Chmod(source, 0o750); err != nil {
		t.Fatal(err)
	}
	h := s.mustMake(t, New{ID: "pd-a", Source: source, Command: []string{"make"}})
	var up, work unix.Stat_t
	if err := errors.Join(unix.Stat(h.Dir()+"/upper", &up), unix.Stat(h.Dir()+"/work", &work)); err != nil || up.Mode&0o7777 != 0o750 || work.Mode&0o7777 != 0o700 {
		t.Errorf("%o, %o, %v", up.Mode, work.Mode, err)
	}
	if left, err := os.ReadDir(h.Dir()); err != nil || len(left) != 2 {
		t.Errorf("%v, %v", left, err)
	}
	if _, err := s.Open("pd-a"); !errors.Is(err, ErrInUse) {
		t.Errorf("a locked layer: %v", err)
	}
	if list, err := s.List(); err != nil || len(list) != 1 || !list[0].InUse || list[0].Source != source || list[0].Command[0] != "make" {
		t.Errorf("%+v, %v", list, err)
	}
	h.Release()
	again, err := s.Open("pd-a")
	if err != nil {
		t.Fatal(err)
	}
	if l, err := again.Layer(); err != nil || l.Marks != again.Marks || !l.Began.Realtime.Equal(h.Began.Realtime) {
		t.Errorf("%+v, %v", l, err)
	}
	known := map[string]layer.Record{"a\xff\n": {Mode: 0o644, Sum: []byte{1}}, "b": {Landed: true}}
	if err := again.SaveKnown(known); err != nil {
		t.Fatal(err)
	}
	if got, err := again.Known(); err != nil || len(got) != 2 || got["a\xff\n"].Mode != 0o644 || !got["b"].Landed {
		t.Errorf("%v, %v", got, err)
	}
	must(t, os.MkdirAll(again.Dir()+"/upper/closed/below", 0o700), os.Chmod(again.Dir()+"/upper/closed", 0))
	if err := again.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(s.dir); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	var unknown *UnknownError
	for _, id := range []string{"pd-a", "", ".", "..", "../x", "a/b", "a\x00", strings.Repeat("a", 65)} {
		if _, err := s.Open(id); !errors.As(err, &unknown) {
			t.Errorf("%q: %v", id, err)
		}
		if _, err := s.Make(t.Context(), New{ID: id, Source: source}); err == nil && id != "pd-a" {
			t.Errorf("%q was made", text.QuoteName(id))
		}
	}
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// A source that is gone, or another one of its name, is told.
// TestRecordBytes: paths need not be UTF-8.
func TestRecordBytes(t *testing.T) {
	r := Record{Version: 1, ID: "pd-a", Source: "/caf\xe9", Place: "/p\xff", Layers: []string{"0"}, Command: []string{"cat", "\xe9"}, Born: 5}
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var got Record
	if err := json.Unmarshal(text, &got); err != nil || !reflect.DeepEqual(got, r) {
		t.Errorf("%s is %+v, %v; want %+v", text, got, err, r)
	}
}

func TestSource(t *testing.T) {
	s, parent := newStore(t)
	source := parent + "/source"
	must(t, os.Mkdir(source, 0o755))
	h := s.mustMake(t, New{ID: "pd-a", Source: source})
	defer h.Release()
	moved := parent + "/moved"
	for _, tt := range []struct {
		change func() error
		want   string
	}{
		{func() error { return os.Rename(source, moved) }, "cannot be opened: no such file"},
		{func() error { return os.Mkdir(source, 0o755) }, "is another directory"},
		{func() error { return errors.Join(os.Remove(source), os.Symlink(moved, source)) }, "cannot be opened: too many levels"},
		{func() error { return errors.Join(os.Remove(source), os.WriteFile(source, nil, 0o600)) }, "cannot be opened: not a directory"},
		{func() error { return errors.Join(os.Remove(source), os.Rename(moved, source)) }, ""},
	} {
		must(t, tt.change())
		_, err := h.Layer()
		var changed *SourceError
		if tt.want == "" && err != nil || tt.want != "" && (!errors.As(err, &changed) || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("want %q: %v", tt.want, err)
		}
	}
}

// A place that cannot carry a layer is refused, by its field, and leaves nothing.
func TestPlaces(t *testing.T) {
	s, source := newStore(t)
	place := t.TempDir()
	h := s.mustMake(t, New{ID: "pd-a", Source: source, Place: place})
	if got := s.Places(); len(got) != 1 || got[0] != place || !strings.HasPrefix(h.Dir(), place+"/paddock-pd-a/") {
		t.Errorf("%v, %s", got, h.Dir())
	}
	must(t, h.Remove(t.Context()))
	if left, err := os.ReadDir(place); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	open := t.TempDir()
	must(t, os.Chmod(open, 0o777))
	for at, want := range map[string]string{open: "others can write to it", place + "/none": "no such file", "/proc/self": ""} {
		_, err := s.Make(t.Context(), New{ID: "pd-b", Source: source, Place: at, Root: os.Geteuid() == 0})
		var field *policy.FieldError
		if !errors.As(err, &field) || !strings.Contains(field.Reason, want) {
			t.Errorf("%s: %v", at, err)
		}
		if _, err := os.Lstat(filepath.Join(s.dir, "pd-b")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: left: %v", at, err)
		}
	}
}

// Of several that make or remove one layer at once, one does.
func TestAtOnce(t *testing.T) {
	s, source := newStore(t)
	for range 20 {
		var wait sync.WaitGroup
		made := make([]*Held, 8)
		for i := range made {
			wait.Go(func() {
				made[i], _ = s.Make(t.Context(), New{ID: "pd-a", Source: source, Root: os.Geteuid() == 0})
			})
		}
		wait.Wait()
		n := 0
		for _, h := range made {
			if h != nil {
				n++
				h.Release()
			}
		}
		if n != 1 {
			t.Fatalf("%d made it", n)
		}
		var removed sync.Map
		for i := range 8 {
			wait.Go(func() {
				if h, err := s.Open("pd-a"); err == nil && h.Remove(t.Context()) == nil {
					removed.Store(i, true)
				}
			})
		}
		wait.Wait()
		n = 0
		removed.Range(func(any, any) bool { n++; return true })
		if n != 1 {
			t.Fatalf("%d removed it", n)
		}
	}
}

// What a killed process left half made, or of a sandbox that has ended, is removed by a sweep; the
// rest stays.
func TestSweep(t *testing.T) {
	s, source := newStore(t)
	s.mustMake(t, New{ID: "pd-kept", Source: source}).Release()
	s.mustMake(t, New{ID: "pd-ends", Source: source, Ends: true}).Release()
	s.mustMake(t, New{ID: "pd-runs", Source: source, Ends: true}).Release()
	held := s.mustMake(t, New{ID: "pd-held", Source: source, Ends: true})
	defer held.Release()
	for _, id := range []string{"pd-half", "pd-new"} {
		must(t, os.MkdirAll(filepath.Join(s.dir, id, "0", "upper"), 0o700))
	}
	long := unix.NsecToTimeval(0)
	must(t, unix.Utimes(filepath.Join(s.dir, "pd-half"), []unix.Timeval{long, long}))
	s.Sweep(t.Context(), namesIn, func(id string) bool { return id == "pd-runs" })
	entries, err := os.ReadDir(s.dir)
	must(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if got, want := strings.Join(names, " "), "pd-held pd-kept pd-new pd-runs"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// namesIn returns all names in a directory.
func namesIn(dir *os.Root) (names []string) {
	entries, _ := fs.ReadDir(dir.FS(), ".")
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// A removal that was interrupted is gone on with, by whoever looks next, and nobody finds the layer
// meanwhile.
func TestRemovalInterrupted(t *testing.T) {
	s, source := newStore(t)
	place := t.TempDir()
	for name, look := range map[string]func(){
		"opened": func() {
			var unknown *UnknownError
			if _, err := s.Open("pd-a"); !errors.As(err, &unknown) {
				t.Errorf("%v", err)
			}
		},
		"swept": func() { s.Sweep(t.Context(), namesIn, func(string) bool { return false }) },
	} {
		h := s.mustMake(t, New{ID: "pd-a", Source: source, Place: place})
		must(t, os.Rename(filepath.Join(s.dir, "pd-a", recordName), filepath.Join(s.dir, "pd-a", removingName)), os.Remove(h.Dir()+"/upper"))
		h.Release()
		if list, err := s.List(); err != nil || len(list) != 0 {
			t.Errorf("%s: %+v, %v", name, list, err)
		}
		look()
		left, err := os.ReadDir(place)
		if err != nil || len(left) != 0 || exists(filepath.Join(s.dir, "pd-a")) {
			t.Errorf("%s: left: %v, %v", name, left, err)
		}
	}
}

// A record that nobody wrote is not followed.
func TestDamaged(t *testing.T) {
	s, source := newStore(t)
	h := s.mustMake(t, New{ID: "pd-a", Source: source})
	h.Release()
	record := filepath.Join(s.dir, "pd-a", recordName)
	whole, err := os.ReadFile(record)
	must(t, err)
	for _, damage := range []string{"", "{", "null", `{"version":2}`, strings.Replace(string(whole), `"pd-a"`, `"pd-b"`, 1), strings.Replace(string(whole), `["0"]`, `["../x"]`, 1), strings.Replace(string(whole), `["0"]`, `[]`, 1)} {
		must(t, os.WriteFile(record, []byte(damage), 0o600))
		if h, err := s.Open("pd-a"); err == nil {
			h.Release()
			t.Errorf("%q was opened", damage)
		}
		if list, err := s.List(); err != nil || len(list) != 1 || list[0].Damaged == "" {
			t.Errorf("%q: %+v, %v", damage, list, err)
		}
	}
}

// A start is recorded with what was changed before it, and the record of one that never was is read.
func TestRestart(t *testing.T) {
	s, source := newStore(t)
	h := s.mustMake(t, New{ID: "pd-a", Source: source})
	first := h.Began
	if since, err := h.Since(); err != nil || len(since) > 0 || !h.Started.Realtime.IsZero() {
		t.Errorf("before: %v, %v, %v", since, h.Started, err)
	}
	second, err := layer.Now()
	must(t, err, h.Restart(second, map[string]time.Time{"a\xff\n": first.Realtime}))
	h.Release()
	h, err = s.Open("pd-a")
	if err != nil {
		t.Fatal(err)
	}
	defer h.Release()
	since, err := h.Since()
	if err != nil || len(since) != 1 || !since["a\xff\n"].Equal(first.Realtime) {
		t.Errorf("after: %v, %v", since, err)
	}
	l, err := h.Layer()
	if err != nil {
		t.Fatal(err)
	}
	defer l.Source.Close()
	defer l.Upper.Close()
	if !l.Began.Realtime.Equal(first.Realtime) || !l.Started.Realtime.Equal(second.Realtime) || l.Started.Boottime != second.Boottime {
		t.Errorf("began %v, started %v", l.Began, l.Started)
	}
}
