package agent

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/internal/beneath"
	"github.com/paddock-dev/paddock/wire"
)

// extractArchive unpacks into the workspace, all of an archive or nothing.
// The archive is read to its end first: the content of files goes to a hidden
// directory, and every member is checked against the tree as it is and as the
// members before it will have changed it. Only then is the tree touched, by
// renaming, and what goes wrong there is undone.
func (a *Agent) extractArchive(q *wire.ExtractRequest, body io.Reader) (*wire.ExtractResult, error) {
	dest, werr := parsePath(string(q.Destination))
	if werr != nil {
		return nil, werr
	}
	if q.ArchiveSize > maxArchive {
		return nil, tooLarge(fmt.Sprintf("archive_size must be at most %d bytes", int64(maxArchive)))
	}
	x, err := a.newExtraction(dest)
	if err != nil {
		return nil, err
	}
	defer x.close()
	r := &wire.ExtractResult{Destination: wire.Path(dest.text)}
	if r.EntryCount, err = unpack(body, x.take); err != nil {
		return nil, err
	}
	r.BytesWritten = x.bytes
	if err := x.apply(); err != nil {
		return nil, err
	}
	return r, nil
}

// extraction is an archive on its way into the tree.
type extraction struct {
	agent *Agent
	dest  filePath
	there beneath.Dir // the destination, None where it is still to be made
	stage *stage
	bytes int64

	members []*tarMember
	staged  []string // for each member its name in the stage, "" for a directory
	// kinds is what is at a path below the destination, "" for nothing, as far
	// as it was looked up or will have been changed by members.
	kinds map[string]string
}

func (a *Agent) newExtraction(dest filePath) (*extraction, error) {
	x := &extraction{agent: a, dest: dest, there: beneath.None, kinds: map[string]string{}}
	dir, err := a.files.Walk(dest.names)
	switch {
	case err == nil:
		x.there = dir
	case !errors.Is(err, unix.ENOENT):
		return nil, fileError("unpack into", dest, err)
	}
	if x.stage, err = newStage(a.files); err != nil {
		x.close()
		return nil, fileError("unpack into", dest, err)
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

// take checks a member, and stages its content.
func (x *extraction) take(m *tarMember, content io.Reader) error {
	refuse := func(text string) error {
		return &wire.Error{Code: wire.CodeConflict, Object: m.name, Message: text + ": " + m.name}
	}
	for i := 1; i < len(m.names); i++ {
		switch kind, err := x.kind(m.names[:i]); {
		case err != nil:
			return fileError("look at", x.dest, err)
		case kind == wire.TypeSymlink:
			return refuse("archive member would traverse through a symlinked path")
		case kind != "" && kind != wire.TypeDirectory:
			return refuse("archive member would be inside of a file")
		}
	}
	if m.kind == wire.TypeSymlink {
		if err := m.checkLink(); err != nil {
			return err
		}
	}
	kind, err := x.kind(m.names)
	switch free := kind == "" || kind == m.kind; {
	case err != nil:
		return fileError("look at", x.dest, err)
	case m.hard:
		return refuse("hard links are not allowed in workspace archives")
	case m.kind == wire.TypeOther:
		return refuse("unsupported archive member type")
	case !free:
		return refuse(m.kind + " conflicts with existing path")
	}
	staged := ""
	switch m.kind {
	case wire.TypeFile:
		staged, err = x.stage.file(content, m.size, m.mode)
		x.bytes += m.size
	case wire.TypeSymlink:
		staged, err = x.stage.link(m.link)
	}
	if err != nil {
		return x.stagingError(err)
	}
	x.plan(m, staged)
	return nil
}

// stagingError is of the archive, or of the file system that is to hold it.
func (x *extraction) stagingError(err error) error {
	var errno unix.Errno
	if errors.As(err, &errno) {
		return fileError("unpack into", x.dest, err)
	}
	return badArchive(err)
}

// plan notes what a member will change.
func (x *extraction) plan(m *tarMember, staged string) {
	for i := 1; i < len(m.names); i++ {
		x.kinds[strings.Join(m.names[:i], "/")] = wire.TypeDirectory
	}
	x.kinds[strings.Join(m.names, "/")] = m.kind
	m.link = "" // is staged
	x.members, x.staged = append(x.members, m), append(x.staged, staged)
}

// kind is what will be at a path below the destination.
func (x *extraction) kind(names []string) (string, error) {
	key := strings.Join(names, "/")
	if kind, known := x.kinds[key]; known {
		return kind, nil
	}
	kind, err := x.look(names)
	if err == nil {
		x.kinds[key] = kind
	}
	return kind, err
}

// look is what is at a path now.
func (x *extraction) look(names []string) (string, error) {
	if !x.there.Valid() {
		return "", nil
	}
	last := len(names) - 1
	if last > 0 && x.kinds[strings.Join(names[:last], "/")] == "" {
		return "", nil // its parent was looked up, and is not there
	}
	dir, err := x.there.Walk(names[:last])
	if err == nil {
		defer dir.Close()
		var st unix.Stat_t
		if st, err = dir.Lstat(names[last]); err == nil {
			return typeOf(st), nil
		}
	}
	if errors.Is(err, unix.ENOENT) {
		return "", nil
	}
	return "", err
}

// apply changes the tree, or fails and leaves it as it was.
func (x *extraction) apply() error {
	changes := &changes{root: x.agent.files, stage: x.stage}
	defer changes.close()
	err := changes.makeDir(x.dest.names)
	for i := 0; i < len(x.members) && err == nil; i++ {
		m := x.members[i]
		names := slices.Concat(x.dest.names, m.names)
		if m.kind == wire.TypeDirectory {
			err = changes.makeDir(names)
		} else {
			err = changes.place(x.staged[i], names, m)
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
	return fileError("unpack into", x.dest, err)
}
