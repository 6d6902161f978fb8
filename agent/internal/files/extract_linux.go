package files

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/agent/internal/beneath"
	"github.com/paddock-dev/paddock/agent/internal/core"
	"github.com/paddock-dev/paddock/wire"
)

// Extract unpacks an archive into the workspace, all of it or nothing.
// It reads the archive to its end first: it writes the content of files to a hidden
// directory, and checks every member against the tree as it is and as the
// members before it will have changed it. Only then does it change the tree, by
// renames, and undoes them if one fails.
func (w *Workspace) Extract(q *wire.ExtractRequest, body io.Reader) (*wire.ExtractResult, error) {
	dest, werr := core.ParsePath(string(q.Destination))
	if werr != nil {
		return nil, werr
	}
	if q.ArchiveSize > maxArchive {
		return nil, tooLarge(fmt.Sprintf("archive_size must be at most %d bytes", int64(maxArchive)))
	}
	x, err := w.newExtraction(dest)
	if err != nil {
		return nil, err
	}
	defer x.close()
	x.tolerant = q.Tree
	r := &wire.ExtractResult{Destination: wire.OSString(dest.Text)}
	if r.EntryCount, err = unpack(body, q.Tree, x.add); err != nil {
		return nil, err
	}
	r.BytesWritten = x.bytes
	if err := x.apply(); err != nil {
		return nil, err
	}
	return r, nil
}

// extraction is an archive that is being unpacked.
type extraction struct {
	workspace *Workspace
	dest      core.Path
	there     beneath.Dir // the destination, None if it is still to be made
	stage     *stage
	bytes     int64
	tolerant  bool // links may lead up inside the destination

	members []*tarMember
	staged  []string // for each member its name in the stage, "" for a directory
	// tree holds the paths below the destination that were looked up, as the members
	// will have changed them.
	tree  node
	nodes int
}

// node is a path below the destination.
type node struct {
	known bool
	kind  string // of the file, "" if it does not exist
	below map[string]*node
	// member is its name in the archive, "" if it is not a member;
	// stripped says that white space was removed from that name.
	member   string
	stripped bool
}

func (w *Workspace) newExtraction(dest core.Path) (*extraction, error) {
	x := &extraction{workspace: w, dest: dest, there: beneath.None}
	x.tree = node{known: true, kind: wire.TypeDirectory}
	dir, err := w.Dir.Walk(dest.Names)
	switch {
	case err == nil:
		x.there = dir
	case !errors.Is(err, unix.ENOENT):
		return nil, core.FileError("unpack into", dest, err)
	}
	if x.stage, err = w.newStage(); err != nil {
		x.close()
		return nil, core.FileError("unpack into", dest, err)
	}
	return x, nil
}

func (x *extraction) close() {
	if x.there.Valid() {
		_ = x.there.Close()
	}
	if x.stage != nil {
		x.stage.remove()
	}
}

// add checks a member, and stages its content.
func (x *extraction) add(m *tarMember, content io.Reader) error {
	refuse := func(text string) error {
		return &wire.Error{Code: wire.CodeConflict, Object: m.name, Message: text + ": " + m.name}
	}
	path, err := x.find(m.names)
	if err != nil {
		return err
	}
	inside := false // a file that is not a directory
	for _, n := range path[:len(path)-1] {
		if n.kind == wire.TypeSymlink {
			return refuse("archive member would traverse through a symlinked path")
		}
		inside = inside || n.kind != "" && n.kind != wire.TypeDirectory
	}
	if m.kind == wire.TypeSymlink {
		if err := m.checkLink(x.tolerant); err != nil {
			return err
		}
	}
	last := path[len(path)-1]
	kind := last.kind
	switch free := kind == "" || kind == m.kind; {
	case m.hard:
		return refuse("hard links are not allowed in workspace archives")
	case m.kind == wire.TypeOther:
		return refuse("unsupported archive member type")
	case inside:
		return refuse("archive member would be inside of a file")
	case last.member != "" && last.member != m.name && (last.stripped || m.stripped):
		return refuse("archive members have one path without their white space")
	case !free:
		return refuse(m.kind + " conflicts with existing path")
	case m.kind == wire.TypeFile && m.size > maxInflated-x.bytes: // sparse ones are large for free
		return tooLarge("archive is too large once it is unpacked")
	}
	staged := ""
	switch m.kind {
	case wire.TypeFile:
		staged, err = x.stage.file(content, m.size, m.mode)
		x.bytes += m.size
	case wire.TypeSymlink:
		staged, err = x.stage.link(m.link)
	}
	var errno unix.Errno
	switch {
	case errors.As(err, &errno): // of the stage's file system
		return core.FileError("unpack into", x.dest, err)
	case err != nil:
		return badArchive(err)
	}
	for _, n := range path {
		n.kind = wire.TypeDirectory
	}
	last.kind, last.member, last.stripped = m.kind, m.name, m.stripped
	m.link = "" // is staged
	x.members, x.staged = append(x.members, m), append(x.staged, staged)
	return nil
}

// find returns the nodes on a path, each with the file that is or will be there.
func (x *extraction) find(names []string) ([]*node, error) {
	path := make([]*node, len(names))
	above := &x.tree
	for i, name := range names {
		n := above.below[name]
		if n == nil {
			if x.nodes++; x.nodes > maxMembers {
				return nil, tooLarge("archive has too many members")
			}
			n = &node{}
			if above.below == nil {
				above.below = map[string]*node{}
			}
			above.below[name] = n
		}
		if !n.known {
			if above.kind == wire.TypeDirectory { // else no file can be there
				kind, err := x.kindOf(names[:i+1])
				if err != nil {
					return nil, core.FileError("look at", x.at(names[:i+1]), err)
				}
				n.kind = kind
			}
			n.known = true
		}
		path[i], above = n, n
	}
	return path, nil
}

// at returns a path below the destination, for errors.
func (x *extraction) at(names []string) core.Path {
	all := slices.Concat(x.dest.Names, names)
	return core.Path{Text: core.PathText(all), Names: all}
}

// kindOf returns the kind of the file at a path now, "" if none exists.
func (x *extraction) kindOf(names []string) (string, error) {
	if !x.there.Valid() {
		return "", nil
	}
	last := len(names) - 1
	dir, err := x.there.Walk(names[:last])
	if err == nil {
		defer dir.Close()
		var st unix.Stat_t
		if st, err = dir.Lstat(names[last]); err == nil {
			return TypeOf(st), nil
		}
	}
	if errors.Is(err, unix.ENOENT) {
		return "", nil
	}
	return "", err
}

// apply changes the tree, or fails and leaves it as it was.
func (x *extraction) apply() error {
	changes := &changes{root: x.workspace.Dir, stage: x.stage}
	defer changes.close()
	at := x.dest
	err := changes.makeDir(at.Names)
	for i := 0; i < len(x.members) && err == nil; i++ {
		m := x.members[i]
		at = x.at(m.names)
		if m.kind == wire.TypeDirectory {
			err = changes.makeDir(at.Names)
		} else {
			err = changes.place(x.staged[i], at.Names, m)
		}
	}
	if err == nil {
		changes.commit()
		return nil
	}
	changes.undo()
	var werr *wire.Error
	if errors.As(err, &werr) {
		return werr
	}
	return core.FileError("unpack", at, err)
}
