// Package search serves search_files: it checks a request and runs the search
// engine (internal/search) on the workspace.
package search

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/agent/internal/core"
	"github.com/paddock-dev/paddock/agent/internal/files"
	"github.com/paddock-dev/paddock/internal/search"
	"github.com/paddock-dev/paddock/wire"
)

// maxSearches is how many searches run at a time: each has a buffer, and two
// goroutines.
const maxSearches = 2

var searches = make(chan struct{}, maxSearches)

// Files searches a file, or the files below a directory, of the workspace.
func Files(ctx context.Context, w *files.Workspace, q *wire.SearchRequest) (*wire.SearchResult, error) {
	s, err := compileSearch(q)
	if err != nil {
		return nil, err
	}
	p, err := w.Find(q.Path)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	st, err := p.Lstat()
	if err != nil {
		return nil, err
	}
	kind := files.TypeOf(st)
	switch kind {
	case wire.TypeFile, wire.TypeDirectory:
	case wire.TypeSymlink:
		return nil, p.Conflict("workspace search does not follow links: " + p.Path.Text)
	default:
		return nil, files.Unsupported(p.Path)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(q.TimeoutMS)*time.Millisecond)
	defer cancel()
	select {
	case searches <- struct{}{}:
		defer func() { <-searches }()
	case <-ctx.Done():
		return nil, &wire.Error{Code: wire.CodeBusy, Message: fmt.Sprintf("cannot search: %d searches are running", maxSearches)}
	}
	r, err := s.Run(ctx, directory{w.Dir.FD()}, p.Path.Names, kind == wire.TypeFile)
	if err != nil {
		return nil, core.FileError("search", p.Path, err)
	}
	return searchResult(p.Path, r), nil
}

// compileSearch checks a request and compiles its patterns.
func compileSearch(q *wire.SearchRequest) (*search.Search, error) {
	modes := map[string]search.Mode{wire.SearchContent: search.Lines, wire.SearchPaths: search.Paths, wire.SearchCount: search.Counts}
	mode, ok := modes[q.Output]
	if !ok {
		return nil, core.BadField("output", "output must be content, files or count")
	}
	for _, n := range []struct {
		name             string
		value, low, high int64
	}{
		{"glob", int64(len(q.Glob)), 0, wire.MaxSearchGlobs}, {"exclude", int64(len(q.Exclude)), 0, wire.MaxSearchGlobs},
		{"before", q.Before, 0, wire.MaxSearchContext}, {"after", q.After, 0, wire.MaxSearchContext},
		{"limit", q.Limit, 1, wire.MaxSearchMatches}, {"per_file", q.PerFile, 0, wire.MaxSearchMatches},
		{"line_bytes", q.LineBytes, 16, wire.MaxSearchLine}, {"max_bytes", q.MaxBytes, 1024, wire.MaxSearchBytes},
		{"timeout_ms", q.TimeoutMS, 1, wire.MaxSearchTimeoutMS},
	} {
		if n.value < n.low || n.value > n.high {
			return nil, core.BadField(n.name, fmt.Sprintf("%s must be %d to %d", n.name, n.low, n.high))
		}
	}
	if q.Pattern == "" && len(q.Glob) == 0 {
		return nil, core.BadField("pattern", "pattern or glob is required")
	}
	from, line, ok := readCursor(q.Cursor)
	if !ok || line > 0 && (mode != search.Lines || q.Pattern == "") {
		return nil, core.BadField("cursor", "cursor is not one of an answer")
	}
	s, err := search.Compile(search.Query{
		Pattern: q.Pattern, Fixed: q.Fixed, IgnoreCase: q.IgnoreCase, Word: q.Word, Globs: q.Glob, Exclude: q.Exclude, NoIgnore: q.NoIgnore,
		Mode: mode, Before: int(q.Before), After: int(q.After), Limit: int(q.Limit), PerFile: int(q.PerFile),
		LineBytes: int(q.LineBytes), Room: int(q.MaxBytes), FromPath: from, FromLine: line,
	})
	var globs *search.GlobsError
	switch {
	case errors.As(err, &globs) && globs.Exclude:
		return nil, core.BadField("exclude", "cannot use exclude: "+err.Error())
	case errors.As(err, &globs):
		return nil, core.BadField("glob", "cannot use glob: "+err.Error())
	case err != nil:
		return nil, core.BadField("pattern", "cannot use pattern: "+err.Error())
	}
	return s, nil
}

// searchResult returns a result as it crosses the wire.
func searchResult(at core.Path, r *search.Result) *wire.SearchResult {
	out := &wire.SearchResult{
		Path: wire.OSString(at.Text), Files: []wire.FoundFile{}, Matches: r.Matches, Searched: r.Searched, Binary: r.Binary,
		Ignored: r.Ignored, Unreadable: r.Unreadable, TooLong: r.TooLong, Truncated: r.Truncated,
	}
	for _, f := range r.Files {
		file := wire.FoundFile{Path: wire.OSString(core.PathText(f.Path)), Count: f.Count}
		for _, l := range f.Lines {
			file.Lines = append(file.Lines, wire.FoundLine{Line: l.Number, Column: int64(l.Column), Text: l.Text, Start: int64(l.Start), Rest: l.Rest})
		}
		out.Files = append(out.Files, file)
	}
	if r.Truncated != "" { // see readCursor
		out.NextCursor = base64.StdEncoding.EncodeToString([]byte(strconv.FormatInt(r.NextLine, 10) + ":" + strings.Join(r.NextPath, "/")))
	}
	return out
}

// readCursor reads a cursor: the last line that was returned, 0 for a whole file, and
// its path.
func readCursor(cursor string) (path []string, line int64, ok bool) {
	if cursor == "" {
		return nil, 0, true
	}
	text, err := base64.StdEncoding.DecodeString(cursor)
	number, names, found := strings.Cut(string(text), ":")
	if err != nil || !found {
		return nil, 0, false
	}
	if line, err = strconv.ParseInt(number, 10, 64); err != nil || line < 0 {
		return nil, 0, false
	}
	if names != "" {
		path = strings.Split(names, "/")
	}
	return path, line, true
}

// directory is the descriptor of a directory that is searched. It makes system calls
// itself: package os would make two more for each file.
type directory struct{ fd int }

const openFlags = unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_CLOEXEC | unix.O_NONBLOCK | unix.O_NOCTTY

// Dir opens a directory.
func (d directory) Dir(name string) (search.Dir, error) {
	fd, err := d.open(name, openFlags|unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	return directory{fd}, nil
}

// Open opens a regular file, without blocking. The file may have been replaced since
// its directory was listed; if it is not a regular file now, Open returns ErrGone.
func (d directory) Open(name string) (search.File, error) {
	fd, err := d.open(name, openFlags)
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
		err = search.ErrGone
	}
	if err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	return regularFile(fd), nil
}

func (d directory) open(name string, flags int) (int, error) {
	for {
		fd, err := unix.Openat(d.fd, name, flags, 0)
		switch err {
		case unix.EINTR:
			continue
		case unix.ENOENT, unix.ELOOP, unix.ENOTDIR, unix.ENXIO:
			return -1, search.ErrGone
		}
		return fd, err
	}
}

// Has reports whether a file of that name exists.
func (d directory) Has(name string) bool {
	var st unix.Stat_t
	return unix.Fstatat(d.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil
}

// Close closes the handle.
func (d directory) Close() error { return unix.Close(d.fd) }

// List returns the first limit entries from a name on. It keeps at most a few times
// as many in memory.
func (d directory) List(from string, limit int) ([]search.Entry, error) {
	fd, err := d.open(".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	buf := core.Buffers.Get().(*[]byte)
	defer core.Buffers.Put(buf)
	var found []string // a name, a NUL byte, and its kind: they are in the order of names
	for {
		n, err := unix.Getdents(fd, *buf)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, err
		}
		found = d.entries(found, (*buf)[:n], from)
		if n == 0 || len(found) > 2*limit+core.NamesAtOnce {
			slices.Sort(found)
			found = found[:min(len(found), limit)]
		}
		if n == 0 {
			break
		}
	}
	entries := make([]search.Entry, len(found))
	for i, e := range found {
		entries[i] = search.Entry{Name: e[:len(e)-2], Kind: kinds[e[len(e)-1]]}
	}
	return entries, nil
}

var kinds = [16]search.Kind{unix.DT_REG: search.Regular, unix.DT_DIR: search.Directory}

// entries appends the entries of a kernel buffer (struct linux_dirent64) whose names do
// not come before from.
func (d directory) entries(found []string, buf []byte, from string) []string {
	const kindAt, nameAt = 18, 19
	for len(buf) > nameAt {
		size := int(binary.NativeEndian.Uint16(buf[kindAt-2:]))
		if size <= nameAt || size > len(buf) {
			break
		}
		name, _, _ := bytes.Cut(buf[nameAt:size], []byte{0})
		kind := buf[kindAt]
		buf = buf[size:]
		if string(name) < from || string(name) == "." || string(name) == ".." {
			continue
		}
		if kind == unix.DT_UNKNOWN {
			kind = d.kind(string(name))
		}
		found = append(found, string(append(name, 0, kind&15)))
	}
	return found
}

// kind returns the kind of an entry, for a file system that does not list it with the
// name.
func (d directory) kind(name string) byte {
	var st unix.Stat_t
	if unix.Fstatat(d.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return unix.DT_UNKNOWN
	}
	return byte(st.Mode & unix.S_IFMT >> 12)
}

// regularFile is a regular file, a plain descriptor.
type regularFile int

// Read reads on.
func (f regularFile) Read(p []byte) (int, error) {
	return ended(func() (int, error) { return unix.Read(int(f), p) })
}

// ReadAt reads at a place.
func (f regularFile) ReadAt(p []byte, at int64) (int, error) {
	return ended(func() (int, error) { return unix.Pread(int(f), p, at) })
}

// Close closes the file.
func (f regularFile) Close() error { return unix.Close(int(f)) }

// ended calls read, again after a signal, and returns io.EOF if it reads nothing.
func ended(read func() (int, error)) (int, error) {
	for {
		n, err := read()
		switch {
		case err == nil && n > 0:
			return n, nil
		case err == nil:
			return 0, io.EOF
		case !errors.Is(err, unix.EINTR):
			return 0, err
		}
	}
}
