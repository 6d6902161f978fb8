package layerstore

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/internal/osstring"
	"github.com/paddock-dev/paddock/layer"
)

const (
	layersDir     = "layers"
	recordName    = "record.json"
	removingName  = "removing.json" // the record of a layer that is being removed
	lockName      = "lock"
	knownName     = "known.json"
	sinceName     = "since.json"
	renamesName   = "renames.json"
	journalName   = "journal"
	placesName    = "places"
	placePrefix   = "paddock-"
	recordVersion = 1
	maxRecord     = 1 << 20   // bytes
	maxKnown      = 256 << 20 // bytes
	maxPlaces     = 1 << 20   // bytes
)

// Store has the layers of one state directory.
type Store struct{ dir string }

// In returns the store of a state directory that can be trusted. It makes nothing.
func In(state string) Store { return Store{filepath.Join(state, layersDir)} }

// Record says what a layer is of.
type Record struct {
	Version int    `json:"version"`
	ID      string `json:"id"`
	// Source is the directory below the layer, free of symbolic links, and the rest is how to
	// know it again: the numbers of devices change with each boot.
	Source string `json:"source"`
	Ino    uint64 `json:"ino"`
	Born   int64  `json:"born"` // in nanoseconds since 1970; 0: unknown
	FS     string `json:"fs"`   // the id of its file system, which counts within one boot
	Boot   string `json:"boot"`
	// Began is when the layer began.
	Began layer.Began `json:"began"`
	// Started is when its sandbox was started for the last time; zero: when the layer began.
	Started layer.Began `json:"started,omitzero"`
	Marks   layer.Marks `json:"marks"`
	// Layers are the directories in Place, the lowest first. Each has an upper directory, and
	// the last one is what commands write to.
	Layers []string `json:"layers"`
	Place  string   `json:"place"`
	// Ends: the layer ends with its sandbox. If it is there without one, its owner was killed.
	Ends bool `json:"ends,omitempty"`
	// Command is what ran, for people.
	Command osstring.List `json:"command,omitempty"`
}

// UnknownError is the error of an id without a layer.
type UnknownError struct{ ID string }

// Error names the id.
func (e *UnknownError) Error() string { return fmt.Sprintf("no layer of sandbox %q is kept", e.ID) }

// ErrInUse is the error of a layer that a sandbox has mounted, or that another process reads.
var ErrInUse = errors.New("a sandbox has it mounted, or another command works on it")

// SourceError is the error of a layer whose source is not what it was.
type SourceError struct{ Source, Reason string }

// Error says what has become of the source.
func (e *SourceError) Error() string {
	return fmt.Sprintf("the source of the layer, %s, %s", e.Source, e.Reason)
}

// top returns the directory with the upper one that commands write to.
func (r *Record) top() string { return filepath.Join(r.Place, r.Layers[len(r.Layers)-1]) }

// Held is a layer that this process has locked, or looks at.
type Held struct {
	Record
	dir  string
	lock *os.File // nil if it only looks
}

// Dir returns the directory with upper and work.
func (h *Held) Dir() string { return h.top() }

// Journal returns the directory for the journal of commits.
func (h *Held) Journal() string { return filepath.Join(h.dir, journalName) }

// File returns the lock.
func (h *Held) File() *os.File { return h.lock }

// Release ends the lock.
func (h *Held) Release() { _ = h.lock.Close() } // does nothing without a lock

// isID reports whether a text can be the name of a layer: that of a sandbox.
func isID(text string) bool {
	return text != "" && len(text) <= 64 && !strings.HasPrefix(text, ".") && !strings.ContainsFunc(text, func(r rune) bool {
		return r != '-' && r != '_' && r != '.' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	})
}

// Open locks the layer of a sandbox that does not run. The error is an [UnknownError], or
// [ErrInUse], or says what is wrong with the record.
func (s Store) Open(id string) (*Held, error) {
	if !isID(id) {
		return nil, &UnknownError{id}
	}
	dir := filepath.Join(s.dir, id)
	lock, err := takeLock(dir, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &UnknownError{id}
	}
	if err != nil {
		return nil, err
	}
	h := &Held{dir: dir, lock: lock}
	if h.Record, err = readRecord(dir, recordName); err != nil {
		if errors.Is(err, fs.ErrNotExist) { // half made, or half removed
			_ = h.finishRemoval(context.Background())
			h.Release()
			return nil, &UnknownError{id}
		}
		h.Release()
		return nil, fmt.Errorf("cannot read the record of layer %s: %w", id, err)
	}
	return h, nil
}

// Look reads the record of a layer without locking it, while a sandbox that runs has the lock.
func (s Store) Look(id string) (*Held, error) {
	if !isID(id) {
		return nil, &UnknownError{id}
	}
	dir := filepath.Join(s.dir, id)
	r, err := readRecord(dir, recordName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &UnknownError{id}
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the record of layer %s: %w", id, err)
	}
	return &Held{Record: r, dir: dir}, nil
}

// takeLock locks a layer's directory.
func takeLock(dir string, flags int) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|flags|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, err
	}
	for err = unix.EINTR; errors.Is(err, unix.EINTR); {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	}
	if err == nil { // it may have been removed, with its layer
		held, herr := f.Stat()
		there, terr := os.Lstat(f.Name())
		if herr != nil || terr != nil || !os.SameFile(held, there) {
			err = fs.ErrNotExist
		}
	}
	if err != nil {
		_ = f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = ErrInUse
		}
		return nil, err
	}
	return f, nil
}

func readRecord(dir, name string) (r Record, err error) {
	text, err := readFile(filepath.Join(dir, name), maxRecord)
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	switch {
	case err != nil:
	case r.Version != recordVersion:
		err = fmt.Errorf("it is of version %d, and this program knows version %d", r.Version, recordVersion)
	case r.ID != filepath.Base(dir), len(r.Layers) == 0, !filepath.IsAbs(r.Place), !filepath.IsAbs(r.Source),
		slices.ContainsFunc(r.Layers, func(name string) bool { return !isID(name) }):
		err = errors.New("it is damaged")
	}
	return r, err
}

func readFile(path string, most int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil && (!info.Mode().IsRegular() || info.Size() > most) {
		err = errors.New("it is not a file that this program wrote")
	}
	if err != nil {
		return nil, err
	}
	text := make([]byte, info.Size())
	n, err := f.ReadAt(text, 0)
	if n == len(text) {
		err = nil
	}
	return text[:n], err
}

// replace replaces a file durably.
func replace(path string, text []byte) error {
	next := path + ".new"
	f, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(next, path)
	}
	if err == nil {
		err = syncDir(filepath.Dir(path))
	}
	if err != nil {
		_ = os.Remove(next)
	}
	return err
}

func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// Listed is a layer as [Store.List] finds it.
type Listed struct {
	Record
	InUse bool
	// Damaged says why its record cannot be read; "" if it can.
	Damaged string
}

// List returns all layers, the oldest first. It changes nothing.
func (s Store) List() ([]Listed, error) {
	entries, err := os.ReadDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var all []Listed
	for _, e := range entries {
		if !e.IsDir() || !isID(e.Name()) {
			continue
		}
		dir := filepath.Join(s.dir, e.Name())
		l := Listed{}
		var rerr error
		if l.Record, rerr = readRecord(dir, recordName); errors.Is(rerr, fs.ErrNotExist) {
			continue // it is being made, or removed
		} else if rerr != nil {
			l.Record, l.Damaged = Record{ID: e.Name()}, rerr.Error()
		}
		lock, lerr := takeLock(dir, 0)
		if lerr == nil {
			_ = lock.Close()
		}
		l.InUse = errors.Is(lerr, ErrInUse)
		all = append(all, l)
	}
	slices.SortStableFunc(all, func(a, b Listed) int {
		return cmp.Or(a.Began.Realtime.Compare(b.Began.Realtime), strings.Compare(a.ID, b.ID))
	})
	return all, err
}

// Committed is a source in which changes of a layer have landed.
type Committed struct {
	Source string
	Paths  map[string]bool // at which they have; nil: it cannot be told
}

// Committed returns the sources in which changes of layers have landed. It counts those of which it
// cannot be told, and those into which a commit was interrupted.
func (s Store) Committed() (all []Committed, err error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, e := range entries {
		dir := filepath.Join(s.dir, e.Name())
		r, err := readRecord(dir, recordName)
		if err != nil {
			continue
		}
		h := Held{Record: r, dir: dir}
		known, err := h.Known()
		paths := map[string]bool{}
		for p, k := range known {
			if k.Landed {
				paths[p] = true
			}
		}
		if journal, jerr := os.ReadDir(h.Journal()); err != nil || jerr != nil && !errors.Is(jerr, fs.ErrNotExist) ||
			slices.ContainsFunc(journal, func(e os.DirEntry) bool { return strings.HasPrefix(e.Name(), "commit.") }) {
			all = append(all, Committed{r.Source, nil})
		} else if len(paths) > 0 {
			all = append(all, Committed{r.Source, paths})
		}
	}
	return all, nil
}

// Places returns the directories outside of the state directory that have, or had, layers, for
// starts, which hide them.
func (s Store) Places() []string {
	text, err := readFile(filepath.Join(s.dir, placesName), maxPlaces)
	if err != nil {
		return nil
	}
	var places []string
	for line := range strings.Lines(string(text)) {
		var at osstring.String
		if json.Unmarshal([]byte(line), &at) == nil && filepath.IsAbs(string(at)) && !slices.Contains(places, string(at)) {
			places = append(places, string(at))
		}
	}
	return places
}

// addPlace adds a directory to the list, durably, before there is a layer in it.
func (s Store) addPlace(dir string) error {
	places := s.Places()
	if slices.Contains(places, dir) {
		return nil
	}
	places = slices.DeleteFunc(places, func(at string) bool { return !holdsLayers(at) })
	var text []byte
	for _, at := range append(places, dir) {
		line, err := json.Marshal(osstring.String(at))
		if err != nil {
			return err
		}
		text = append(append(text, line...), '\n')
	}
	return replace(filepath.Join(s.dir, placesName), text)
}

// holdsLayers reports whether a place has a layer, or may have one.
func holdsLayers(at string) bool {
	entries, err := os.ReadDir(at)
	return err != nil && !errors.Is(err, fs.ErrNotExist) || slices.ContainsFunc(entries, func(e os.DirEntry) bool { return strings.HasPrefix(e.Name(), placePrefix) })
}

// private refuses a directory that others could change.
func private(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.IsDir():
		return errors.New("it is not a directory")
	case !ok || int(st.Uid) != os.Geteuid():
		return errors.New("it belongs to another user")
	case info.Mode().Perm()&0o022 != 0:
		return errors.New("others can write to it")
	}
	return nil
}

// bootID returns the id of this boot.
func bootID() string {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// identify reads how a source can be known again.
func (r *Record) identify(fd int) error {
	var st unix.Statx_t
	var fs unix.Statfs_t
	err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_INO|unix.STATX_BTIME, &st)
	if err == nil {
		err = unix.Fstatfs(fd, &fs)
	}
	if err != nil {
		return err
	}
	r.Ino, r.Born, r.Boot = st.Ino, 0, bootID()
	if st.Mask&unix.STATX_BTIME != 0 {
		r.Born = st.Btime.Sec*int64(time.Second) + int64(st.Btime.Nsec)
	}
	r.FS = fmt.Sprintf("%08x%08x", uint32(fs.Fsid.Val[0]), uint32(fs.Fsid.Val[1]))
	return nil
}

// Layer opens the source and the upper directory. A source that is gone, or another one of its
// name, is a [SourceError].
func (h *Held) Layer() (*layer.Layer, error) {
	open := func(path string) (*os.File, error) {
		fd, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
		if err != nil {
			return nil, err
		}
		return os.NewFile(uintptr(fd), path), nil
	}
	source, err := open(h.Source)
	if err != nil {
		return nil, &SourceError{h.Source, "cannot be opened: " + hostpath.Reason(err)}
	}
	var now Record
	err = now.identify(int(source.Fd()))
	switch {
	case err != nil:
		err = &SourceError{h.Source, "cannot be looked at: " + err.Error()}
	case now.Ino != h.Ino, now.Born != h.Born, now.Boot == h.Boot && now.FS != h.FS:
		err = &SourceError{h.Source, "is another directory than the one that the layer was made over"}
	}
	if err != nil {
		_ = source.Close()
		return nil, err
	}
	upper, err := open(filepath.Join(h.top(), "upper"))
	if err != nil {
		_ = source.Close()
		return nil, fmt.Errorf("cannot open the changes of layer %s: %w: it was removed by hand", h.ID, err)
	}
	return &layer.Layer{Source: source, Upper: upper, Marks: h.Marks, Began: h.Began, Started: h.Started}, nil
}

// known is an entry of known.json. Paths have any bytes.
type known struct {
	Path []byte
	layer.Record
}

// Known returns what was recorded of the source, by path.
func (h *Held) Known() (map[string]layer.Record, error) {
	all := map[string]layer.Record{}
	text, err := readFile(filepath.Join(h.dir, knownName), maxKnown)
	if errors.Is(err, fs.ErrNotExist) {
		return all, nil
	}
	var list []known
	if err == nil {
		err = json.Unmarshal(text, &list)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read what was recorded of the source of layer %s: %w", h.ID, err)
	}
	for _, k := range list {
		all[string(k.Path)] = k.Record
	}
	return all, nil
}

// SaveKnown replaces what was recorded.
func (h *Held) SaveKnown(all map[string]layer.Record) error {
	list := make([]known, 0, len(all))
	for p, r := range all {
		list = append(list, known{[]byte(p), r})
	}
	slices.SortFunc(list, func(a, b known) int { return strings.Compare(string(a.Path), string(b.Path)) })
	text, err := json.Marshal(list)
	if err == nil {
		err = replace(filepath.Join(h.dir, knownName), text)
	}
	if err != nil {
		return fmt.Errorf("cannot record what the source of layer %s has: %w", h.ID, err)
	}
	return nil
}

// since is an entry of since.json. Paths have any bytes.
type since struct {
	Path []byte
	At   time.Time
}

// Since returns the paths that were changed before the last start, as [Held.Restart] recorded them.
func (h *Held) Since() (map[string]time.Time, error) {
	text, err := readFile(filepath.Join(h.dir, sinceName), maxKnown)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // a nil map is empty
	}
	var list []since
	if err == nil {
		err = json.Unmarshal(text, &list)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read what was changed before the last start of layer %s: %w", h.ID, err)
	}
	all := make(map[string]time.Time, len(list))
	for _, s := range list {
		all[string(s.Path)] = s.At
	}
	return all, nil
}

// Restart records a start, before the layer is mounted, with the paths that were changed before it. A
// crash between its two files leaves what says the same as before.
func (h *Held) Restart(at layer.Began, before map[string]time.Time) error {
	list := make([]since, 0, len(before))
	for p, when := range before {
		list = append(list, since{[]byte(p), when})
	}
	slices.SortFunc(list, func(a, b since) int { return strings.Compare(string(a.Path), string(b.Path)) })
	next := h.Record
	next.Started = at
	text, err := json.Marshal(list)
	if err == nil {
		err = replace(filepath.Join(h.dir, sinceName), text)
	}
	if err == nil {
		text, err = json.Marshal(next)
	}
	if err == nil {
		err = replace(filepath.Join(h.dir, recordName), text)
	}
	if err != nil {
		return fmt.Errorf("cannot record the start of layer %s: %w", h.ID, err)
	}
	h.Record = next
	return nil
}

// Rename is a directory that commands renamed. Paths have any bytes.
type Rename struct{ From, Path []byte }

// SaveRenames records, before a commit, which directories it may rename in the source: until the
// layer was made to fit that, nobody can read it. None removes the record.
func (h *Held) SaveRenames(all []Rename) error {
	path := filepath.Join(h.dir, renamesName)
	if len(all) == 0 {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	text, err := json.Marshal(all)
	if err == nil {
		err = replace(path, text)
	}
	return err
}

// Renames returns what SaveRenames recorded.
func (h *Held) Renames() (all []Rename, err error) {
	text, err := readFile(filepath.Join(h.dir, renamesName), maxKnown)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	return all, err
}
