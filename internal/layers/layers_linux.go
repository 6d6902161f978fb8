package layers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/backend/hostpath/removal"
	"github.com/paddock-dev/paddock/backend/layerstore"
	"github.com/paddock-dev/paddock/backend/state"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/layer"
)

// runs reports whether a sandbox may still have processes.
func runs(dir, id string) bool {
	r, err := state.Read(state.Path(dir, id))
	if err != nil {
		return state.Exists(state.Path(dir, id))
	}
	return state.Alive(r.PID, r.Start)
}

type held struct{ *layerstore.Held }

func (h held) Root() bool { return h.Marks == layer.TrustedMarks }

// isRoot reports whether this process is root, and not only of a user namespace.
func isRoot() bool {
	text, err := os.ReadFile("/proc/self/uid_map")
	return err == nil && os.Geteuid() == 0 && strings.Join(strings.Fields(string(text)), " ") == "0 0 4294967295"
}

// swept is how many layers a start looks at for those whose owners were killed.
const swept = 24

// Make makes a layer in the store of a state directory, and locks it.
func Make(ctx context.Context, dir string, n New) (Held, error) {
	store := layerstore.In(dir)
	store.Sweep(ctx, func(all *os.Root) []string { return state.Some(all, swept) }, func(id string) bool { return runs(dir, id) })
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	h, err := store.Make(ctx, layerstore.New{ID: n.ID, Source: n.Source, Place: n.Place, Root: isRoot(), Ends: n.Ends, Command: n.Command})
	if err != nil {
		return nil, err
	}
	return held{h}, nil
}

// Reopen locks the layer of a sandbox that was stopped, to mount it again. A source that is not
// what it was is an error, as are renamed directories that have lost theirs.
func Reopen(ctx context.Context, dir, id, source string) (Held, error) {
	l, err := Open(ctx, dir, id)
	if err != nil {
		return nil, err
	}
	if l.held.Source != source {
		err = &layerstore.SourceError{Source: l.held.Source, Reason: "is another directory than the workspace"}
	}
	at, clock := layer.Now() // before the changes are read: what the source gets meanwhile is a conflict
	if err == nil {
		err = l.ready(ctx)
	}
	if err == nil {
		err = clock
	}
	if err == nil {
		err = l.restart(at)
	}
	if l.Layer != nil {
		_ = l.Source.Close()
		_ = l.Upper.Close()
	}
	if err != nil && !errors.Is(err, os.ErrPermission) { // what commands closed need not be read to be mounted
		l.held.Release()
		return nil, err
	}
	return held{l.held}, nil
}

// restart records a start. While the clock was set back since the last one it records none: what
// the source got since that remains a conflict.
func (l *Layer) restart(at layer.Began) error {
	last := l.held.Started
	if last.Realtime.IsZero() {
		last = l.held.Began
	}
	if !last.Precedes(at) {
		return nil
	}
	since, err := l.held.Since()
	if err != nil {
		return err
	}
	return l.held.Restart(at, l.Restart(l.changes, since))
}

// Places returns the directories outside of the state directory that have layers.
func Places(dir string) []string { return layerstore.In(dir).Places() }

// Committed returns the sources in which changes of layers that are kept have landed, or may have.
func Committed(dir string) (all []hostpath.Committed, err error) {
	found, err := layerstore.In(dir).Committed()
	for _, c := range found {
		one := hostpath.Committed{Source: c.Source}
		if c.Paths != nil {
			one.Landed = func(rel string) bool {
				for p := range c.Paths {
					_, below := hostpath.Within(p, rel)
					_, above := hostpath.Within(rel, p)
					if below || above && p != "" { // what is above may have been put there whole
						return true
					}
				}
				return false
			}
		}
		all = append(all, one)
	}
	return all, err
}

// List returns the layers of a state directory, the oldest first.
func List(dir string) ([]Info, error) {
	found, err := layerstore.In(dir).List()
	all := make([]Info, len(found))
	for i, l := range found {
		all[i] = info(l.Record)
		all[i].InUse, all[i].Damaged = l.InUse, l.Damaged
	}
	return all, err
}

func info(r layerstore.Record) Info {
	return Info{ID: r.ID, Source: r.Source, Dir: r.Place, Began: r.Began.Realtime, Marks: string(r.Marks), Ends: r.Ends, Command: r.Command}
}

// Layer is a layer that this process has locked, since its sandbox does not run, or looks at while
// its sandbox runs.
type Layer struct {
	// Principal is who is shown the changes, and commits them.
	Principal string

	held *layerstore.Held
	*layer.Layer
	changes []layer.Change
	read    bool
	runs    func() bool // whether its sandbox runs; nil if this process has the lock
}

// Open locks a layer. It finishes a commit that was interrupted, or takes it back; the source may
// then be another one than before, which makes no difference to it.
func Open(ctx context.Context, dir, id string) (*Layer, error) {
	h, err := layerstore.In(dir).Open(id)
	if err != nil {
		return nil, err
	}
	if !awaitEnd(ctx, dir, id) {
		h.Release()
		return nil, layerstore.ErrInUse
	}
	return &Layer{held: h}, nil
}

// Erase removes a layer even if its record cannot be read. It does nothing if the layer does not exist.
func Erase(ctx context.Context, dir, id string) error {
	if !awaitEnd(ctx, dir, id) {
		return layerstore.ErrInUse
	}
	return layerstore.In(dir).Erase(ctx, id)
}

// Look opens a layer to read it while its sandbox runs. Nothing is recorded, and each change or
// removal of it is an error.
func Look(dir, id string) (*Layer, error) {
	if !runs(dir, id) {
		return nil, layerstore.ErrInUse // another command has it
	}
	h, err := layerstore.In(dir).Look(id)
	if err != nil {
		return nil, err
	}
	return &Layer{held: h, runs: func() bool { return runs(dir, id) }}, nil
}

// Upper returns the directory that the commands of a layer's sandbox write to, "" if there is no
// layer.
func Upper(dir, id string) string {
	h, err := layerstore.In(dir).Look(id)
	if err != nil {
		return ""
	}
	return filepath.Join(h.Dir(), "upper")
}

// errEnded is the error of a layer whose sandbox ended while it was looked at.
var errEnded = errors.New("its sandbox ended while it was read")

// IsInUse reports whether an error means that a sandbox has the layer, or another command.
func IsInUse(err error) bool { return errors.Is(err, layerstore.ErrInUse) }

// IsUnknown reports whether an error means that there is no such layer.
func IsUnknown(err error) bool {
	unknown := (*layerstore.UnknownError)(nil)
	return errors.As(err, &unknown)
}

// endWait is how long Open waits for a sandbox whose owner was killed.
const endWait = 5 * time.Second

// awaitEnd waits until a sandbox has no processes.
func awaitEnd(ctx context.Context, dir, id string) bool {
	for until := time.Now().Add(endWait); ; {
		r, err := state.Read(state.Path(dir, id))
		if err != nil || !state.Alive(r.PID, r.Start) {
			return true
		}
		if time.Now().After(until) || ctx.Err() != nil {
			return false
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// Close ends the lock.
func (l *Layer) Close() {
	if l.Layer != nil {
		_ = l.Source.Close()
		_ = l.Upper.Close()
	}
	l.held.Release()
}

// Info describes the layer.
func (l *Layer) Info() Info { return info(l.held.Record) }

// Remove removes the layer, and closes it.
func (l *Layer) Remove(ctx context.Context) error {
	if l.runs != nil {
		return layerstore.ErrInUse
	}
	if l.Layer != nil {
		_ = l.Source.Close()
		_ = l.Upper.Close()
	}
	if _, err := layer.Recover(ctx, l.held.Journal()); err != nil && !errors.Is(err, os.ErrNotExist) {
		l.held.Release()
		return err
	}
	return l.held.Remove(ctx)
}

// ready opens the two directories, and reads the changes once.
func (l *Layer) ready(ctx context.Context) error {
	if l.read {
		return nil
	}
	if l.Layer == nil {
		if err := l.open(ctx); err != nil {
			return err
		}
	}
	var err error
	if l.changes, err = l.Layer.Changes(ctx); err == nil {
		err = readable(l.changes)
	}
	if err == nil && l.runs != nil && !l.runs() {
		err = errEnded
	}
	l.read = err == nil
	return err
}

// Begin opens the layer, and begins to read its changes. The function that it returns waits for
// them. Nothing changes the source meanwhile: a commit that was interrupted is finished before.
func (l *Layer) Begin(ctx context.Context) (wait func() error) {
	if l.Layer == nil {
		if err := l.open(ctx); err != nil {
			return func() error { return err }
		}
	}
	done := make(chan error, 1)
	go func() { done <- l.ready(ctx) }()
	return func() error { return <-done }
}

// open opens the two directories, after a commit that was interrupted is finished or taken back.
func (l *Layer) open(ctx context.Context) (err error) {
	if l.runs != nil { // its start has done that
		l.Layer, err = l.held.Layer()
		return err
	}
	if _, err = layer.Recover(ctx, l.held.Journal()); err != nil { // a KeptError is told once: the journal is gone
		return err
	}
	if l.Layer, err = l.held.Layer(); err != nil {
		return err
	}
	return l.settleRenames()
}

// readable refuses changes of which a file is closed to its owner, before anything of them is
// written, unless this process may read it nevertheless.
func readable(changes []layer.Change) error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var have [2]unix.CapUserData
	if err := unix.Capget(&header, &have[0]); err == nil && have[0].Effective&(1<<unix.CAP_DAC_OVERRIDE) != 0 {
		return nil
	}
	for _, c := range changes {
		if m := c.New.Mode; c.Kind != layer.Deleted && m.IsRegular() && m&0o400 == 0 {
			return &os.PathError{Op: "read", Path: text.QuoteName(c.Path) + " of the layer", Err: os.ErrPermission}
		}
	}
	return nil
}

func renamesOf(changes []layer.Change) (all []layerstore.Rename) {
	for _, c := range changes {
		if c.Kind == layer.Renamed {
			all = append(all, layerstore.Rename{From: []byte(c.From), Path: []byte(c.Path)})
		}
	}
	return all
}

// settleRenames makes the layer fit a source in which a commit that was interrupted has renamed
// directories.
func (l *Layer) settleRenames() error {
	renames, err := l.held.Renames()
	if err != nil || len(renames) == 0 {
		return err
	}
	var landed []layer.Change
	for _, r := range renames {
		if l.HasMoved(string(r.From), string(r.Path)) {
			landed = append(landed, layer.Change{Kind: layer.Renamed, From: string(r.From), Path: string(r.Path)})
		}
	}
	if err := l.Settle(landed, l.held.Dir()); err != nil { // which moves nothing for them
		return err
	}
	return l.held.SaveRenames(nil)
}

func isKept(err error) bool {
	var kept *layer.KeptError
	return errors.As(err, &kept)
}

// chosen returns the changes at and below paths. One at which nothing has changed is a
// layer.PathError.
func (l *Layer) chosen(ctx context.Context, paths []string) ([]layer.Change, error) {
	if err := l.ready(ctx); err != nil {
		return nil, err
	}
	return l.pick(paths)
}

// pick is chosen, of changes that were read.
func (l *Layer) pick(paths []string) ([]layer.Change, error) {
	if len(paths) == 0 {
		return l.changes, nil
	}
	var all []layer.Change
	met := map[string]bool{} // of the paths
	for _, p := range paths {
		met[path.Clean(p)] = false
	}
	for _, c := range l.changes {
		in := false
		for p := c.Path; ; p = path.Dir(p) { // at last "."
			if _, named := met[p]; named {
				in, met[p] = true, true
			}
			if p == "." {
				break
			}
		}
		if in {
			all = append(all, c)
		}
	}
	var missing []string
	for _, p := range paths {
		if clean := path.Clean(p); !met[clean] && clean != "." {
			missing = append(missing, p)
		}
	}
	if len(missing) > 0 {
		return nil, &layer.PathError{Paths: missing}
	}
	return all, nil
}

// Commit lands changes in the source.
func (l *Layer) Commit(ctx context.Context, opt CommitOptions, host Host) (Commit, error) {
	if l.runs != nil {
		return Commit{}, layerstore.ErrInUse
	}
	if err := l.ready(ctx); err != nil {
		return Commit{}, err
	}
	known, err := l.held.Known()
	if err != nil {
		return Commit{}, err
	}
	since, err := l.held.Since()
	if err != nil {
		return Commit{}, err
	}
	how := layer.CommitOptions{Paths: opt.Paths, Accept: opt.Accept, OnConflict: layer.OnConflict(opt.OnConflict), DryRun: opt.DryRun,
		Journal: l.held.Journal(), Known: known, Since: since, Screen: l.screenOptions(ctx, host)}
	if !opt.Unreviewed {
		if out, err := l.review(ctx, how); err != nil {
			return out, err
		}
	}
	if opt.Progress != nil {
		how.Progress = func(p layer.Progress) { opt.Progress(p.Path, p.Files, p.AllFiles, p.Bytes, p.All) }
	}
	if host.Landing != nil {
		how.Landing = func(changes []layer.Change) error {
			return host.Landing(func(rel string) bool {
				return slices.ContainsFunc(changes, func(c layer.Change) bool { return replaces(c, rel) })
			})
		}
	}
	if !opt.DryRun {
		if err := l.held.SaveRenames(renamesOf(l.changes)); err != nil {
			return Commit{}, fmt.Errorf("cannot record what is renamed: %w", err)
		}
	}
	r, err := l.Layer.Commit(ctx, l.changes, how)
	out := l.commitOf(r)
	if len(r.Records) > 0 {
		maps.Copy(known, r.Records)
		err = errors.Join(err, l.held.SaveKnown(known))
	}
	if opt.DryRun || err != nil && !isKept(err) {
		return out, err
	}
	err = errors.Join(err, l.withTrash(ctx, func(trash string) error { return l.Settle(r.Landed, trash) }))
	if err == nil {
		err = l.held.SaveRenames(nil)
	}
	err = errors.Join(err, l.forgetLanded(r.Landed, opt))
	l.read = false
	if rerr := l.ready(ctx); rerr != nil {
		return out, errors.Join(err, rerr)
	}
	out.Left = len(l.changes)
	return out, err
}

// commitOf returns the result of a commit of which nothing has been settled yet.
func (l *Layer) commitOf(r layer.Result) Commit {
	out := Commit{Landed: changesOf(r.Landed), Held: l.findingsOf(r.Held), Marked: l.findingsOf(r.Marked), Left: len(l.changes)}
	for _, c := range r.Conflicts {
		out.Conflicts = append(out.Conflicts, Conflict(c))
	}
	return out
}

// replaces reports whether a change is at a path, or below or instead of it.
func replaces(c layer.Change, rel string) bool {
	for _, p := range []string{c.Path, c.OldPath()} {
		_, below := hostpath.Within(p, rel)
		_, above := hostpath.Within(rel, p)
		if below || above && (c.Kind != layer.Modified || !c.New.Mode.IsDir()) {
			return true
		}
	}
	return false
}

// Discard takes changes out of the layer, at and below paths, or all. It returns those of them
// that could be read. Paths are taken only if all changes can be read, which tell what else must stay or
// come back, or if the path is that of a renamed directory whose source is lost.
func (l *Layer) Discard(ctx context.Context, paths ...string) ([]Change, error) {
	if l.runs != nil {
		return nil, layerstore.ErrInUse
	}
	found, err := l.chosen(ctx, paths)
	if err != nil && len(paths) > 0 {
		if !areLost(err, paths) {
			return nil, err
		}
		if found, err = l.pick(paths); err != nil {
			return nil, err
		}
	}
	from := l.Layer
	if from == nil {
		var source *layerstore.SourceError // which is not needed to discard everything
		if !errors.As(err, &source) {
			return nil, err
		}
		upper, err := os.Open(filepath.Join(l.held.Dir(), "upper"))
		if err != nil {
			return nil, err
		}
		defer upper.Close()
		from = &layer.Layer{Upper: upper}
	}
	var back []string
	err = l.withTrash(ctx, func(trash string) (err error) {
		back, err = from.Discard(ctx, paths, l.changes, trash)
		return err
	})
	if err == nil && len(back) > 0 {
		paths = slices.Concat(paths, back)
		found, err = l.pick(paths)
	}
	if err == nil {
		err = l.forgetDiscarded(paths)
	}
	l.read = false
	return changesOf(found), err
}

// areLost reports whether an error is that of renamed directories whose source is lost, and paths are theirs.
func areLost(err error, paths []string) bool {
	var lost *layer.LostError
	return errors.As(err, &lost) && !slices.ContainsFunc(paths, func(p string) bool {
		return !slices.ContainsFunc(lost.Renames, func(r layer.Rename) bool {
			_, in := hostpath.Within(r.Path, path.Clean(p))
			return in
		})
	})
}

// withTrash calls f with a directory for what is taken out of the layer, and then removes that.
func (l *Layer) withTrash(ctx context.Context, f func(trash string) error) error {
	trash := filepath.Join(l.held.Dir(), "trash")
	if err := removal.Here(ctx, trash); err != nil && !errors.Is(err, os.ErrNotExist) { // of a removal that was interrupted
		return err
	}
	if err := os.Mkdir(trash, 0o700); err != nil {
		return err
	}
	err := f(trash)
	return errors.Join(err, removal.Here(context.WithoutCancel(ctx), trash))
}

// Explain returns what an error about a layer means, and what to do about it, or "".
func Explain(id string, err error) (message, hint string) {
	var (
		unknown  *layerstore.UnknownError
		source   *layerstore.SourceError
		changed  *layer.ChangedError
		conflict *layer.ConflictError
		kept     *layer.KeptError
		lost     *layer.LostError
		corrupt  *layer.CorruptError
		path     *layer.PathError
		review   *ReviewError
		shown    *layerstore.ShownError
	)
	message = "cannot use layer " + id + ": " + err.Error()
	switch {
	case errors.As(err, &unknown):
		return err.Error(), "paddock layers lists those that are kept"
	case errors.Is(err, layerstore.ErrInUse):
		return message, "wait until it has ended, or end it: paddock stop " + id
	case errors.As(err, &changed), errors.Is(err, errEnded):
		return message, "try again; paddock pause " + id + " stops what a sandbox runs for as long as you look"
	case errors.As(err, &source):
		return message, "bring the directory back to its place, or throw away what was changed: paddock discard " + id + ", or with a persistent sandbox paddock rm `force` " + id
	case errors.As(err, &kept):
		return err.Error(), "look at both, and keep one of them; then try again"
	case errors.As(err, &conflict):
		return err.Error(), "look at both: paddock commit `on_conflict` skip " + id + " keeps your directory's, and `on_conflict` overwrite takes the sandbox's"
	case errors.As(err, &review):
		return err.Error(), "look again: paddock diff " + id + "; paddock commit `unreviewed` " + id + " lands what you have not seen, too"
	case errors.As(err, &shown):
		return err.Error(), "look again: paddock diff " + id + ", of everything, records anew what it shows"
	case errors.As(err, &lost):
		return message, ""
	case errors.As(err, &corrupt):
		return message, "nobody can say what commands saw there: paddock discard " + id + " removes the layer"
	case errors.As(err, &path):
		return err.Error(), "paddock diff `name_status` " + id + " lists what has changed"
	case errors.Is(err, os.ErrPermission):
		return message, "commands closed it to its owner: paddock diff " + id + " reads it nevertheless"
	}
	return "", ""
}
