package layer

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/layer/delta"
	"github.com/paddock-dev/paddock/obeyed"
)

// CommitOptions says which changes land, and how.
type CommitOptions struct {
	// Paths are the paths to commit, with all that is below each; none: everything. New
	// directories above a path land with it.
	Paths []string
	// Accept are paths that land although screening holds them back, with all that is below
	// each.
	Accept []string
	// OnConflict says what to do where the source has changed since the layer began; empty:
	// Fail.
	OnConflict OnConflict
	// DryRun stops before anything is written.
	DryRun bool
	// Journal is a directory of the caller's for the journal, which [Recover] reads. It must
	// be the caller's alone.
	Journal string
	// Known are what earlier looks recorded of the source, by path.
	Known map[string]Record
	// Since has the paths that were changed before the last start, as [Layer.Restart] returned it.
	Since map[string]time.Time
	// Screen is what screening must know of the host.
	Screen ScreenOptions
	// Landing, if not nil, is called with what is about to land, before anything is written. If it
	// fails, nothing lands.
	Landing func([]Change) error
	// Progress, if not nil, is called as files are copied.
	Progress func(Progress)
	// Clock tells the present instant; nil: this host's clocks.
	Clock func() (Began, error)

	at func(string) // for tests: called before each change of anything
}

// Progress is how far a commit has come.
type Progress struct {
	Path       string // the file that was copied last
	Files      int    // copied so far
	AllFiles   int
	Bytes, All int64 // of files, without holes that are not copied
}

// Result is what a commit did, or would do.
type Result struct {
	Landed    []Change
	Held      []Finding  // what screening has held back, and what will never land
	Marked    []Finding  // what landed, and deserves a look
	Conflicts []Conflict // with Skip: what did not land; with Overwrite: what was overwritten
	// Records are what the source has now at the paths that have landed, and in their
	// directories, for the next commit's Known.
	Records map[string]Record
}

// PathError is the error of paths to commit, or to accept, at which nothing has changed.
type PathError struct{ Paths []string }

// Error names them.
func (e *PathError) Error() string {
	quoted := make([]string, len(e.Paths))
	for i, p := range e.Paths {
		quoted[i] = text.QuoteName(p)
	}
	return "nothing has changed at " + strings.Join(quoted, ", ")
}

// Commit lands changes of a layer, as [Layer].Changes found them, in its source: all that are
// chosen and not held back, or none. Everything new is first made beside its place; then a
// journal is written, and each path is changed by one rename. An error means that nothing has
// landed, unless it is a [KeptError], or an [UnfinishedError]: then, as after a crash, [Recover]
// brings the source to one of its two states.
//
// What lands has the owner and the permissions that a file of the host's user would have there: the
// umask of this process is taken from what is new, and what was there keeps its own, as far as
// commands have not taken them away or made a file executable. Set-id bits and attributes do not
// land; the source's own attributes of users stay.
func (l *Layer) Commit(ctx context.Context, changes []Change, opt CommitOptions) (Result, error) {
	if opt.OnConflict == "" {
		opt.OnConflict = Fail
	}
	if !slices.Contains([]OnConflict{Fail, Overwrite, Skip}, opt.OnConflict) {
		return Result{}, fmt.Errorf("unknown way to treat conflicts %q: it must be fail, overwrite or skip", opt.OnConflict)
	}
	opt.Paths, opt.Accept = cleaned(opt.Paths), cleaned(opt.Accept)
	c := &commit{Layer: l, opt: opt, source: int(l.Source.Fd()), upper: int(l.Upper.Fd()), absent: map[string]bool{}, bases: l.bases(opt.Since)}
	var err error
	if c.umask, err = readUmask(); err != nil {
		return Result{}, err
	}
	if err := c.want(changes); err != nil {
		return Result{}, err
	}
	for tries := 1; ; tries++ {
		if err := c.prepare(ctx); err != nil { // nothing is written before all is known
			return c.out, err
		}
		if opt.OnConflict == Fail && len(c.out.Conflicts) > 0 {
			return c.out, &ConflictError{c.out.Conflicts}
		}
		if opt.DryRun || len(c.units) == 0 {
			c.landed()
			return c.out, nil
		}
		err := c.announce()
		if err == nil {
			err = c.commit(ctx)
		}
		if opt.OnConflict != Skip || tries == maxLandings || !c.skipMet(err) {
			return c.out, err
		}
	}
}

// announce calls Landing with the changes that are about to land.
func (c *commit) announce() error {
	if c.opt.Landing == nil {
		return nil
	}
	c.landed()
	landing := c.out.Landed
	c.out.Landed = nil
	return c.opt.Landing(landing)
}

// maxLandings is how often a commit that skips conflicts begins again, because somebody else has
// changed a path while it landed.
const maxLandings = 8

// skipMet skips the conflicts that ended a landing, if all of that was taken back. It reports whether
// the rest can land.
func (c *commit) skipMet(err error) bool {
	var (
		met        *ConflictError
		kept       *KeptError
		unfinished *UnfinishedError
	)
	if !errors.As(err, &met) || errors.As(err, &kept) || errors.As(err, &unfinished) {
		return false
	}
	c.out.Conflicts = append(c.out.Conflicts, met.Conflicts...)
	c.sums, c.summed, c.oldIndex = nil, 0, nil // the source has changed
	c.recordBack()
	paths := map[string]bool{}
	for _, m := range met.Conflicts {
		paths[m.Path] = true
	}
	c.skip(paths)
	return true
}

// recordBack records the files that were taken back, and the paths that were empty before. Landing
// changes the times of files that it takes back and of their directories, by which conflicts are found.
func (c *commit) recordBack() {
	known := maps.Clone(c.opt.Known)
	if known == nil {
		known = map[string]Record{}
	}
	for _, u := range c.units {
		switch s := u.step; {
		case s.Deed == place:
			c.absent[u.Path] = true
		case s.Deed != chmod && s.begun:
			if st, err := look(c.source, u.Path); err == nil && s.Expect.Still(identityOf(&st)) {
				known[u.Path] = Record{Identity: identityOf(&st), Mode: modeOf(st.Mode), Landed: true}
			}
		}
	}
	c.opt.Known = known
}

// prepare finds what lands, and the steps for that.
func (c *commit) prepare(ctx context.Context) error {
	for again := true; again; {
		err := c.screen(ctx)
		if err != nil {
			return err
		}
		c.group()
		if again, err = c.plan(ctx); err != nil {
			return err
		}
	}
	return nil
}

// commit is one call of Commit.
type commit struct {
	*Layer
	opt           CommitOptions
	source, upper int
	doubt         bool  // the clock was set back: times prove nothing
	bases         bases // since when a change of the source is a conflict
	umask         fs.FileMode
	changes       []Change
	wanted        []bool             // by the index of a change: it is asked for, or needed by one that is
	lands         []bool             // it is wanted, and not held back or skipped
	held          map[string]Finding // by path
	judge         *obeyed.Judge
	chosen        []*Change // those that land
	units         []*unit
	absent        map[string]bool          // the source did not have it when the layer began
	sums          map[string]string        // of files that were compared, by side and path
	summed        int64                    // bytes of these
	oldIndex      *oldIndex                // files of the source that were changed or removed
	removed       map[int64][]string       // files that commands removed or replaced, by size
	unpaired      map[int64]map[string]int // of these, by size and hash, how many no new file was paired with
	pairs         map[string]bool          // new files that were paired
	others        map[dirSince]string      // what otherDir found
	progress      Progress
	out           Result
}

// unit is what lands by one rename: a change, and those below it if it is a new tree.
type unit struct {
	*Change
	below []*Change
	items []item
	step  *step // nil: nothing is left to do
}

// cleaned returns paths in the form that changes have.
func cleaned(paths []string) []string {
	clean := make([]string, len(paths))
	for i, p := range paths {
		clean[i] = path.Clean(p)
	}
	return clean
}

// group makes the units of what was chosen. A path of which something else was deleted before a
// renamed directory came there is one unit.
func (c *commit) group() {
	c.units = nil
	trees := newInherited[*unit]()
	var last *unit
	for _, ch := range c.chosen {
		if in := trees.above(ch.Path); in != nil {
			in.below = append(in.below, ch)
			continue
		}
		if last != nil && last.Path == ch.Path && ch.Kind == Renamed {
			last.Change = ch
		} else {
			last = &unit{Change: ch}
			c.units = append(c.units, last)
		}
		if ch.MakesTree() && (ch.Kind != Added || !c.hasDir(ch.Path)) {
			trees.own[ch.Path] = last
		}
	}
}

// hasDir reports whether the source has a directory at a path, made since the layer began.
func (c *commit) hasDir(p string) bool {
	st, err := look(c.source, p)
	return err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR
}

// plan finds the step of each unit, and its conflicts. It reports whether some were skipped, so that
// the rest is to be judged again.
func (c *commit) plan(ctx context.Context) (skipped bool, err error) {
	if c.doubt, err = c.steppedBack(); err != nil {
		return false, err
	}
	c.others = map[dirSince]string{}
	var token [8]byte
	_, _ = rand.Read(token[:])
	var left []*unit
	skip := map[string]bool{}
	for n, u := range c.units {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		dir, _ := delta.Split(u.Path)
		u.step = &step{Path: []byte(u.Path), Temp: []byte(delta.Join(dir, ".paddock-"+hex.EncodeToString(token[:])+"-"+strconv.Itoa(n))), Any: c.opt.OnConflict == Overwrite}
		why, err := c.conflict(ctx, u)
		if err != nil {
			return false, err
		}
		if why != "" {
			c.out.Conflicts = append(c.out.Conflicts, Conflict{u.Path, why})
			if c.opt.OnConflict == Skip {
				skip[u.Path] = true
				continue
			}
		}
		if u.step != nil {
			left = append(left, u)
		}
	}
	if len(skip) > 0 {
		c.skip(skip)
		return true, nil
	}
	c.units = left
	slices.SortStableFunc(c.units, func(a, b *unit) int { // permissions last: they may close a directory
		switch last := b.step.Deed == chmod; {
		case (a.step.Deed == chmod) == last && last:
			return strings.Compare(b.Path, a.Path)
		case last:
			return -1
		case a.step.Deed == chmod:
			return 1
		}
		return 0
	})
	return false, nil
}

// landed records which changes land.
func (c *commit) landed() {
	c.out.Landed = make([]Change, 0, len(c.chosen))
	for _, u := range c.units {
		c.out.Landed = append(c.out.Landed, *u.Change)
		for _, ch := range u.below {
			c.out.Landed = append(c.out.Landed, *ch)
		}
	}
}

// commit stages what was planned, and lands it.
func (c *commit) commit(ctx context.Context) error {
	dir, err := filepath.Abs(c.opt.Journal)
	if err != nil || c.opt.Journal == "" {
		return errors.Join(errors.New("a commit needs a directory for its journal"), err)
	}
	unlock, err := lock(dir)
	if err != nil {
		return err
	}
	defer unlock()
	if s, err := find(dir); err != nil {
		return fmt.Errorf("cannot read the journal: %w", err)
	} else if s != "" {
		return &UnfinishedError{dir}
	}
	linked, err := c.linked(ctx)
	if err != nil {
		return err
	}
	j, err := c.newJournal(ctx, dir)
	if err != nil {
		return err
	}
	if err := j.write(staging); err != nil {
		return j.abandon(c.source, err)
	}
	for _, u := range c.units {
		if !u.step.stages() {
			continue
		}
		j.before("stage " + u.Path)
		if err := c.stage(ctx, u); err != nil {
			return j.abandon(c.source, err)
		}
	}
	j.before("sync staged")
	if err := syncTree(c.source); err != nil {
		return j.abandon(c.source, fmt.Errorf("cannot write to disk: %w", err))
	}
	if err := j.write(landing); err != nil {
		return j.abandon(c.source, err)
	}
	if err := j.land(c.source); err != nil {
		return j.backOut(c.source, err)
	}
	c.landed()
	c.record()
	if err := j.finish(c.source); err != nil {
		return errors.Join(&UnfinishedError{dir}, err) // all has landed
	}
	for _, u := range c.units { // temporary files have gone from it
		parent, _ := delta.Split(u.Path)
		c.recordAt(parent, nil)
	}
	for p, was := range linked {
		if st, err := look(c.source, p); err == nil && was.Still(identityOf(&st)) {
			c.recordAt(p, nil)
		}
	}
	return nil
}

// linked returns the paths of changes that do not land at which the source has, unchanged, one of several names
// of a file. If another of them is removed or replaced, the file gets a new ctime, and has not changed.
func (c *commit) linked(ctx context.Context) (map[string]Identity, error) {
	found := map[string]Identity{}
	for i := range c.changes {
		if c.lands[i] {
			continue
		}
		err := c.eachOld(ctx, &c.changes[i], func(p string, st *unix.Stat_t) error {
			if st.Mode&unix.S_IFMT == unix.S_IFREG && st.Nlink > 1 {
				if why, err := c.changed(p, st, c.bases.of(p)); why == "" && err == nil {
					found[p] = identityOf(st)
				}
			}
			return nil
		})
		if ctx.Err() != nil { // else what cannot be looked at is a conflict when it lands
			return nil, err
		}
	}
	return found, nil
}

// newJournal returns the journal of what was planned, and lists the files of each new tree.
func (c *commit) newJournal(ctx context.Context, dir string) (*journal, error) {
	source, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(c.source))
	if err != nil {
		return nil, fmt.Errorf("cannot name the source: %w", err)
	}
	st, err := look(c.source, "")
	if err != nil {
		return nil, fmt.Errorf("cannot look at the source: %w", err)
	}
	when, err := born(c.source)
	if err != nil {
		return nil, fmt.Errorf("cannot look at the source: %w", err)
	}
	j := &journal{Source: source, Ino: st.Ino, Born: when, Since: time.Now().UnixNano(), dir: dir, at: c.opt.at}
	c.progress = Progress{}
	for _, u := range c.units {
		j.Steps = append(j.Steps, u.step)
		parent, _ := delta.Split(u.Path)
		if st, err := look(c.source, parent); err == nil {
			u.step.Dir = st.Ino
		}
		if !u.step.stages() {
			continue
		}
		if err := c.list(ctx, u); err != nil {
			return nil, fmt.Errorf("cannot list %s: %w", text.QuoteName(u.Path), err)
		}
		for _, i := range u.items {
			if i.entry.Mode.IsRegular() {
				c.progress.AllFiles, c.progress.All = c.progress.AllFiles+1, c.progress.All+i.entry.Size
			}
		}
	}
	return j, nil
}

// abandon removes what was staged, and returns why. An error that leaves some of it leaves the
// journal, too.
func (j *journal) abandon(source int, why error) error {
	if j.state == "" {
		return why // nothing was staged
	}
	if j.state == landing { // it was written, but perhaps not to disk
		return j.backOut(source, why)
	}
	if err := j.clean(source); err != nil {
		return errors.Join(why, &UnfinishedError{j.dir}, err)
	}
	return why
}

// backOut takes back what has landed, and returns why.
func (j *journal) backOut(source int, why error) error {
	return errors.Join(why, j.undo(source))
}

// record records what the source has at the paths that have landed.
func (c *commit) record() {
	c.out.Records = map[string]Record{}
	for _, u := range c.units {
		parent, _ := delta.Split(u.Path)
		c.recordAt(parent, nil)
		c.recordAt(u.Path, nil)
		for _, i := range u.items {
			c.recordAt(i.path, i.sum)
		}
	}
}

func (c *commit) recordAt(p string, sum []byte) {
	if st, err := look(c.source, p); err == nil {
		c.out.Records[p] = Record{Identity: identityOf(&st), Mode: modeOf(st.Mode), Sum: sum, Landed: true}
	}
}
