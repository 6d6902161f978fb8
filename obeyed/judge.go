package obeyed

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/internal/dirfd"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/layer/delta"
	"github.com/paddock-dev/paddock/policy"
)

// Level says what becomes of a change that a [Judge] has found something about.
type Level int

// Levels, the least first.
const (
	Mark  Level = iota + 1 // it lands, and deserves a look
	Hold                   // it is held back until its path is accepted
	Never                  // it never lands
)

// Finding is what a [Judge] has found about a change.
type Finding struct {
	Path      string // of the change
	At        string // the path that it is about, if that is another one
	Level     Level
	Tool, Why string
	With      string // the path of a change that must land with it; "": it lands if it is accepted
}

// Named is a path, relative to the source, that a tool of the host runs or obeys; "": all of it.
type Named struct{ Path, Tool, Why string }

// Tree is a directory tree that is read, with paths relative to it. No link is followed. What does
// not exist, or lies behind a link, is an error for which [dirfd.Gone] holds.
type Tree interface {
	Look(rel string) (delta.Entry, error)
	// List returns the names in a directory, all of them in Hits.
	List(rel string) (DirNames, error)
	// Read returns the content of a regular file, and false if it is larger than it may be.
	Read(rel string) ([]byte, bool)
	// Sum returns the SHA-256 of a regular file.
	Sum(ctx context.Context, rel string) ([]byte, error)
	// Walk visits what is at a path and below it, until visit returns an error.
	Walk(ctx context.Context, rel string, visit func(rel string, e delta.Entry) error) error
}

// JudgeOptions is what a [Judge] must know of the host.
type JudgeOptions struct {
	// Source is the path of the source on the host, without links; "": it has none.
	Source string
	// Folding says that the file system of the source may take different names for one.
	Folding bool
	// Homes are the homes of users, as absolute paths.
	Homes []string
	// Named are paths that git's configuration, hooks and links in the source name, as they
	// are protected where commands work in the source itself.
	Named []Named
	// Search are the directories in which the host's shells look for programs, as absolute paths.
	Search []string
	// Names returns the names in a directory of the source that were read already, and false if
	// they were not; nil: none were.
	Names func(dir string) (DirNames, bool)
}

// Judge says which changes of a tree would make the host obey something else than before.
type Judge struct {
	opt           JudgeOptions
	source, upper Tree
	changes       []delta.Change
	structural    map[string]bool // paths whose change can lead a name elsewhere
	stirred       map[string]bool // what stirs has found
	looked        map[string]lookedUp
	outer         map[string]lookedUp // paths outside of the source
	programs      map[string]bool
	searchable    map[string][]string  // links in directories of the host in which shells search
	names         map[string]*DirNames // what namesIn has found
	sums          map[int]string       // of changes, what inLFS has computed
	homes         map[string]bool      // directories of the source
	namedBy       []*policy.Obeyed     // of JudgeOptions.Named, as directories and as files
	extra         []link               // entries that apply because of directories around the source
	before        *state
}

type lookedUp struct {
	delta.Entry
	there bool
}

// NewJudge returns the judge of changes: of a source, with their content in upper.
func NewJudge(source, upper Tree, changes []delta.Change, opt JudgeOptions) *Judge {
	j := &Judge{opt: opt, source: source, upper: upper, changes: changes, structural: map[string]bool{}, stirred: map[string]bool{}, looked: map[string]lookedUp{}, outer: map[string]lookedUp{}, programs: map[string]bool{}, searchable: map[string][]string{}, names: map[string]*DirNames{}, sums: map[int]string{}, homes: map[string]bool{}}
	for i := range changes {
		if ch := &changes[i]; ch.Kind != delta.Modified || ch.New.Mode&fs.ModeSymlink != 0 {
			j.structural[ch.Path] = true
		}
	}
	for _, n := range opt.Named {
		if n.Path == "" {
			continue // every change is in it
		}
		for _, dir := range []bool{true, false} {
			j.namedBy = append(j.namedBy, &policy.Obeyed{Path: n.Path, Dir: dir, Class: policy.Unasked, Tool: n.Tool, Why: n.Why})
		}
	}
	if opt.Source != "" {
		j.extra = inventory().around(opt.Source, opt.Homes)
		for _, home := range opt.Homes {
			if rel, in := hostpath.Within(home, opt.Source); in {
				j.homes[rel] = true
			}
		}
	}
	return j
}

// Findings compares what the host obeys in the source with what it would obey if exactly those
// changes were applied for which lands is true. It returns what it has found about these, in their
// order.
func (j *Judge) Findings(ctx context.Context, lands func(i int) bool) ([]Finding, error) {
	if j.before == nil {
		before := j.newState(func(int) bool { return false })
		if err := before.observe(ctx); err != nil {
			return nil, err
		}
		j.before = before
	}
	defer func(steps int) { j.before.steps = steps }(j.before.steps) // what one comparison takes counts for it alone
	after := j.newState(lands)
	if err := after.observe(ctx); err != nil {
		return nil, err
	}
	r := &ruling{state: after, found: map[int][]Finding{}}
	if after.spent() || j.before.spent() {
		for i := range j.changes {
			r.add(i, j.changes[i].Path, Hold, "", "there are too many links to tell which lead to it")
		}
	} else if err := errors.Join(r.compare(ctx), r.compareLinks(ctx)); err != nil {
		return nil, err
	}
	for i := range j.changes {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := r.change(ctx, i); err != nil {
			return nil, err
		}
	}
	var all []Finding
	for i := range j.changes {
		all = append(all, r.found[i]...)
	}
	return all, nil
}

// ruling is one call of Findings.
type ruling struct {
	*state // after the changes
	found  map[int][]Finding
}

// maxFindings is how many findings of one level there are about a change.
const maxFindings = 8

func (r *ruling) add(i int, at string, level Level, tool, why string) {
	f := Finding{Path: r.changes[i].Path, Level: level, Tool: tool, Why: why}
	if at != f.Path {
		f.At = at
	}
	list := r.found[i]
	graver := !slices.ContainsFunc(list, func(old Finding) bool { return old.Level >= level }) // no others may hide it
	if r.lands(i) && (len(list) < maxFindings || graver) && !slices.Contains(list, f) {
		r.found[i] = append(list, f)
	}
}

// compare finds what the host would obey anew, differently or no more.
func (r *ruling) compare(ctx context.Context) error {
	for key, t := range r.things {
		if err := ctx.Err(); err != nil {
			return err
		}
		was := r.before.things[key]
		i := r.owner(t.path)
		switch {
		case was == nil && r.before.known(t) && !r.before.has(t.under): // a further name of the host's own
		case was == nil:
			r.blame(t, t.by, false, r.causes(t))
		case i >= 0 && r.changes[i].Kind == delta.Modified && r.changes[i].Path == t.path:
			if t.by.With != nil {
				continue // that it is there matters
			}
			r.blame(t, t.by, true, []int{i})
		case i >= 0:
			r.blame(t, t.by, false, r.causes(t))
		}
	}
	for key, t := range r.before.things {
		if r.things[key] != nil || t.by == searched || r.known(t) && !r.has(t.under) {
			continue
		}
		for _, i := range r.weighty(r.before.causesIn(r.state, t), t) {
			switch {
			case t.by.Class == policy.Unasked:
				r.add(i, t.path, Hold, t.by.Tool, t.by.Why+"; it is removed")
			case t.path == r.changes[i].OldPath():
				r.add(i, t.path, Mark, t.by.Tool, t.by.Why+"; it is removed")
			}
		}
	}
	return nil
}

// known reports whether a thing that counts through a link counts without it, too.
func (s *state) known(t *thing) bool {
	return t.under != "" && s.things[thingKey{t.path, "", t.by}] != nil
}

// weighty leaves out directories that only contain what counts, unless nothing else is left.
func (r *ruling) weighty(list []int, t *thing) []int {
	heavy := slices.DeleteFunc(slices.Clone(list), func(i int) bool {
		ch := &r.changes[i]
		_, name := delta.Split(ch.Path)
		brings := ch.Kind == delta.Renamed && r.owner(t.path) == i
		return ch.New.Mode.IsDir() && !brings && ch.Path != t.path && !slices.Contains(t.by.With, name)
	})
	if len(heavy) == 0 {
		return list
	}
	return heavy
}

// blame records a thing that the host would obey anew, or with other content, about the changes that
// cause it.
func (r *ruling) blame(t *thing, by *policy.Obeyed, changed bool, causes []int) {
	why := by.Why
	if t.alike {
		why = "some file systems do not tell it from " + by.Path + ": " + why
	}
	if len(causes) == 0 { // another file system than the judge's would have to explain it
		for i := range r.changes {
			r.add(i, t.path, Hold, by.Tool, why)
		}
	}
	for _, i := range r.weighty(causes, t) {
		ch := &r.changes[i]
		switch other := r.shadowed(t.path); {
		case by.Class == policy.Unasked:
			r.add(i, t.path, Hold, by.Tool, why)
		case t.mode.IsDir(), r.before.known(t): // it is named anew
		case other != "" && !changed:
			r.add(i, t.path, Hold, by.Tool, "it takes the place of "+other+": "+why)
		case by.Source && (!by.Everywhere || ch.Kind == delta.Added), t.mode.IsRegular() && r.sameExecuted(t, changed):
			r.add(i, t.path, Mark, by.Tool, why)
		default:
			r.add(i, t.path, Hold, by.Tool, why)
		}
	}
}

// shadows are the names that make prefers to others, and those others.
var shadows = map[string][]string{"GNUmakefile": {"makefile", "Makefile"}, "makefile": {"Makefile"}}

// shadowed returns the file that a new one takes the place of, or "".
func (s *state) shadowed(p string) string {
	dir, name := delta.Split(p)
	for _, other := range shadows[name] {
		if s.has(path.Join(dir, other)) {
			return other
		}
	}
	return ""
}

// sameExecuted reports whether the part of a file that is executed is as it was; a new file had none.
func (s *state) sameExecuted(t *thing, changed bool) bool {
	side, from := s.contentOf(t.path)
	now, ok := side.Read(from)
	if !ok {
		return false
	}
	var was []byte
	if changed {
		if was, ok = s.source.Read(s.changes[s.owner(t.path)].OldPath()); !ok {
			return false
		}
	}
	_, name := delta.Split(t.by.Path) // as which programs read it, over a link, too
	return executed(name, now) == executed(name, was)
}

// contentOf returns which tree has what is at a path of the state, and where.
func (s *state) contentOf(p string) (Tree, string) {
	switch i := s.owner(p); {
	case i < 0:
		return s.source, p
	case s.changes[i].Kind == delta.Renamed:
		return s.source, s.changes[i].From + p[len(s.changes[i].Path):]
	}
	return s.upper, p
}

// compareLinks finds links that would lead out of the source, or to what the host obeys, and do not
// lead there now.
func (r *ruling) compareLinks(ctx context.Context) error {
	for p, w := range r.links {
		if err := ctx.Err(); err != nil {
			return err
		}
		moved := r.owner(p) < 0 // the link itself is the host's
		is, _ := r.before.at(p)
		moved = moved && is.Mode&fs.ModeSymlink != 0
		old := r.before.resolve(p)
		var why string
		switch {
		case r.spent():
			why = "there are too many links to tell where it leads"
		case !w.inside || w.out || w.absolute:
			if moved && (w.broken || (!old.inside || old.out) && !old.broken && old.to == w.to) {
				continue
			}
			why = "the link leads out of your directory"
		case w.to != "" && r.isObeyed(w.to):
			if moved && old.to == w.to {
				continue
			}
			why = "the link leads to " + text.QuoteName(w.to) + ", which programs of the host obey"
		default:
			continue
		}
		own := &thing{path: p, by: &policy.Obeyed{}, walked: []string{p}}
		for _, i := range r.weighty(r.causes(own), own) {
			r.add(i, p, Hold, "", why)
		}
	}
	return nil
}

// isObeyed reports whether the host obeys a path, or all that is in a directory above it, unasked.
func (s *state) isObeyed(p string) bool {
	for ; p != ""; p, _ = delta.Split(p) {
		_, name := delta.Split(p)
		if s.unasked[p] || s.git[p] || foldName(name) == ".git" {
			return true
		}
	}
	return false
}

// change looks at one change by itself.
func (r *ruling) change(ctx context.Context, i int) error {
	ch := &r.changes[i]
	if !r.lands(i) {
		return nil
	}
	for _, n := range r.opt.Named {
		plain := (ch.Kind == delta.Added || ch.Kind == delta.Modified) && ch.New.Mode.IsDir()
		if delta.In(ch.Path, n.Path) || delta.In(n.Path, ch.Path) && !plain {
			r.add(i, ch.Path, Hold, n.Tool, n.Why)
		}
	}
	r.inGit(ctx, i, ch.Path)
	switch ch.Kind {
	case delta.Deleted:
		return nil
	case delta.Renamed:
		return r.unseen(i, r.source.Walk(ctx, ch.From, func(rel string, e delta.Entry) error {
			if p := ch.Path + rel[len(ch.From):]; r.owner(p) == i {
				r.arrival(i, p, e)
			}
			if slices.ContainsFunc(r.found[i], func(f Finding) bool { return f.Level == Hold }) {
				return io.EOF // one is enough to hold all of it back
			}
			return nil
		}))
	}
	r.arrival(i, ch.Path, ch.New)
	return nil
}

// unseen holds back what cannot be looked at.
func (r *ruling) unseen(i int, err error) error {
	switch {
	case err == nil, errors.Is(err, io.EOF), errors.Is(err, unix.ENOENT):
		return nil
	case errors.Is(err, ErrTooMany), errors.Is(err, unix.EACCES), dirfd.Gone(err):
		r.add(i, r.changes[i].Path, Hold, "", "it was not looked at: "+err.Error())
		return nil
	}
	return fmt.Errorf("cannot look at %s: %w", text.QuoteName(r.changes[i].Path), err)
}

// ErrTooMany is the error of a tree with more names than are looked at.
var ErrTooMany = errors.New("too many files")

// arrival looks at what a change brings to a path, whatever tools obey.
func (r *ruling) arrival(i int, p string, e delta.Entry) {
	switch {
	case e.Mode&(fs.ModeDevice|fs.ModeSocket) != 0:
		r.add(i, p, Never, "", "devices and sockets never land")
	case e.Mode&fs.ModeNamedPipe != 0:
		r.add(i, p, Hold, "", "programs that read a pipe wait for one that writes")
	case e.Mode.IsDir() && e.Mode&0o500 != 0o500 && (r.changes[i].Kind != delta.Modified || r.changes[i].Old.Mode&0o500 == 0o500):
		r.add(i, p, Mark, "", "its owner cannot look into it then, and neither can later commits")
	case e.Mode.IsRegular() && e.Mode&(fs.ModeSetuid|fs.ModeSetgid) != 0:
		r.add(i, p, Hold, "", "who runs it would become another user; the bit itself does not land in any case")
	}
	if _, in := r.gitAbove(p); in && e.Mode&fs.ModeSymlink != 0 {
		r.add(i, p, Hold, otherGit.Tool, otherGit.Why)
	}
	ch := &r.changes[i]
	fresh := ch.Kind != delta.Modified || ch.Old.Mode&0o111 == 0
	if dir, name := delta.Split(p); fresh && (e.Mode&fs.ModeSymlink != 0 || e.Mode.IsRegular() && e.Mode&0o111 != 0) &&
		!slices.ContainsFunc(strings.Split(dir, "/"), Fills) && !r.unasked[p] && !r.named[p] && r.isProgram(name) {
		r.add(i, p, Hold, "shells", "it is named like the program "+name+", and runs instead of it where a shell searches its directory")
	}
}

// landsIn are the names in a repository's own directory that land: its history, and what its
// branches are.
var landsIn = []string{"objects", "refs", "index", "HEAD", "logs", "packed-refs", "reftable", "shallow", "ORIG_HEAD", "FETCH_HEAD", "COMMIT_EDITMSG", "MERGE_MSG", "AUTO_MERGE"}

// objectNames are the paths that git uses below a repository's objects, besides objects.
var objectNames = []string{
	"[0-9a-f][0-9a-f]", "pack", "pack/*.pack", "pack/*.idx", "pack/*.rev", "pack/*.keep", "pack/*.mtimes", "pack/*.bitmap", "pack/*.promisor",
	"pack/multi-pack-index", "info", "info/packs", "info/commit-graph", "info/commit-graphs", "info/commit-graphs/*graph-*",
}

// isObject reports whether git uses a path below a repository's objects.
func isObject(names []string) bool {
	if len(names) == 2 && isHex(names[0], 2) { // the rest of its hash
		return isHex(names[1], len(names[1]))
	}
	return slices.ContainsFunc(objectNames, func(pattern string) bool {
		is, _ := path.Match(pattern, strings.Join(names, "/"))
		return is
	})
}

// otherGit stands for what else is in a repository's own directory.
var otherGit = &policy.Obeyed{Under: policy.GitDir, Class: policy.Unasked, Tool: "git", Why: "of a repository's own directory only objects, refs, the index, HEAD and logs land"}

// inGit looks at a change in a repository's own directory, as one is before or after the changes.
func (r *ruling) inGit(ctx context.Context, i int, p string) {
	top, in := r.gitAbove(p)
	if was, before := r.before.gitAbove(p); before && (!in || len(was) < len(top)) {
		top, in = was, true
	}
	if !in {
		return
	}
	ch := &r.changes[i]
	names := strings.Split(strings.TrimPrefix(p[len(top):], "/"), "/")
	for _, o := range inventory().git.alike(names[0]) {
		if covers(o, names) { // its content is compared; what comes or goes is looked at here, too
			if o.Class == policy.Unasked && (!ch.New.Mode.IsDir() || ch.Kind == delta.Renamed) || o.Resumes && ch.Kind == delta.Added {
				r.add(i, p, Hold, o.Tool, o.Why)
			}
			return
		}
	}
	if names[0] == "lfs" {
		r.inLFS(ctx, i, p, names)
		return
	}
	needed := len(names) == 1 && (ch.Kind == delta.Deleted || ch.Kind == delta.Retyped) && slices.Contains([]string{"objects", "refs", "HEAD"}, names[0])
	known := slices.Contains(landsIn, names[0]) && (names[0] != "objects" || len(names) == 1 || isObject(names[1:]))
	if known && ch.New.Mode&fs.ModeSymlink == 0 && ch.Kind != delta.Renamed && !needed {
		return
	}
	why := otherGit.Why
	switch ch.Kind {
	case delta.Deleted:
		why += "; it is removed"
	case delta.Retyped:
		why += "; it takes the place of something else"
	}
	r.add(i, p, Hold, otherGit.Tool, why)
}

// inLFS looks at a change in the directory of git LFS in a repository's own one. Its objects land, since
// git's history names them: files that have the SHA-256 of their content as names, below two levels of
// directories that have the first digits of that.
func (r *ruling) inLFS(ctx context.Context, i int, p string, names []string) {
	const tool, needed = "git-lfs", "; git's history may need it"
	ch := &r.changes[i]
	switch object, known := lfsName(names); {
	case !known:
		r.add(i, p, Hold, tool, "of the directory of git LFS only objects land, and the directories that they are in")
	case ch.Kind == delta.Deleted:
		r.add(i, p, Hold, tool, "it is removed"+needed)
	case ch.Kind == delta.Retyped:
		r.add(i, p, Hold, tool, "it takes the place of something else"+needed)
	case object == "" && (ch.Kind != delta.Renamed && ch.New.Mode.IsDir()):
	case object == "" || !ch.New.Mode.IsRegular():
		r.add(i, p, Hold, tool, "git LFS has a directory or a regular file there")
	default:
		sum, err := r.sum(ctx, i)
		if err != nil {
			r.add(i, p, Hold, tool, "it was not looked at: "+err.Error()+needed)
		} else if sum != object {
			r.add(i, p, Hold, tool, "its content is not what its name says: git LFS names a file by the SHA-256 of its content")
		}
	}
}

// sum returns the SHA-256 of the content of a change, in hexadecimal digits.
func (j *Judge) sum(ctx context.Context, i int) (string, error) {
	if sum, known := j.sums[i]; known {
		return sum, nil
	}
	sum, err := j.upper.Sum(ctx, j.changes[i].Path)
	if err != nil {
		return "", err
	}
	j.sums[i] = hex.EncodeToString(sum)
	return j.sums[i], nil
}

// lfsName reports whether git LFS uses a path in a repository's own directory for its objects, and
// returns the name of an object.
func lfsName(names []string) (object string, known bool) {
	if len(names) > 5 {
		return "", false
	}
	for depth, name := range names {
		switch depth {
		case 0, 1:
			known = name == []string{"lfs", "objects"}[depth]
		case 2, 3:
			known = isHex(name, 2)
		case 4:
			known = isHex(name, 64) && name[:2] == names[2] && name[2:4] == names[3]
			object = name
		}
		if !known {
			return "", false
		}
	}
	return object, true
}

// isHex reports whether a name has n hexadecimal digits, as git writes them.
func isHex(name string, n int) bool {
	return len(name) == n && strings.Trim(name, "0123456789abcdef") == ""
}
