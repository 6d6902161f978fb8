package agent

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/paddock-dev/paddock/internal/search"
	"github.com/paddock-dev/paddock/wire"
)

// maxSearches is how many searches run at a time: each has a buffer, and two
// goroutines.
const maxSearches = 2

var searches = make(chan struct{}, maxSearches)

func searchFiles(ctx context.Context, w *workspace, q *wire.SearchRequest) (*wire.SearchResult, error) {
	s, err := compileSearch(q)
	if err != nil {
		return nil, err
	}
	p, err := w.find(q.Path)
	if err != nil {
		return nil, err
	}
	defer p.close()
	st, err := p.lstat()
	if err != nil {
		return nil, err
	}
	kind := typeOf(st)
	switch kind {
	case wire.TypeFile, wire.TypeDirectory:
	case wire.TypeSymlink:
		return nil, p.conflict("workspace search does not follow links: " + p.path.text)
	default:
		return nil, unsupported(p.path)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(q.TimeoutMS)*time.Millisecond)
	defer cancel()
	select {
	case searches <- struct{}{}:
		defer func() { <-searches }()
	case <-ctx.Done():
		return nil, &wire.Error{Code: wire.CodeBusy, Message: fmt.Sprintf("cannot search: %d searches are running", maxSearches)}
	}
	r, err := s.Run(ctx, searchDir{w.dir.FD()}, p.path.names, kind == wire.TypeFile)
	if err != nil {
		return nil, fileError("search", p.path, err)
	}
	return searchResult(p.path, r), nil
}

// compileSearch checks a request.
func compileSearch(q *wire.SearchRequest) (*search.Search, error) {
	modes := map[string]search.Mode{wire.SearchContent: search.Lines, wire.SearchPaths: search.Paths, wire.SearchCount: search.Counts}
	mode, ok := modes[q.Output]
	if !ok {
		return nil, badField("output", "output must be content, files or count")
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
			return nil, badField(n.name, fmt.Sprintf("%s must be %d to %d", n.name, n.low, n.high))
		}
	}
	if q.Pattern == "" && len(q.Glob) == 0 {
		return nil, badField("pattern", "pattern or glob is required")
	}
	from, line, ok := readCursor(q.Cursor)
	if !ok || line > 0 && (mode != search.Lines || q.Pattern == "") {
		return nil, badField("cursor", "cursor is not one of an answer")
	}
	s, err := search.Compile(search.Query{
		Pattern: q.Pattern, Fixed: q.Fixed, IgnoreCase: q.IgnoreCase, Word: q.Word, Globs: q.Glob, Exclude: q.Exclude, NoIgnore: q.NoIgnore,
		Mode: mode, Before: int(q.Before), After: int(q.After), Limit: int(q.Limit), PerFile: int(q.PerFile),
		LineBytes: int(q.LineBytes), Room: int(q.MaxBytes), FromPath: from, FromLine: line,
	})
	var globs *search.GlobsError
	switch {
	case errors.As(err, &globs) && globs.Exclude:
		return nil, badField("exclude", "cannot use exclude: "+err.Error())
	case errors.As(err, &globs):
		return nil, badField("glob", "cannot use glob: "+err.Error())
	case err != nil:
		return nil, badField("pattern", "cannot use pattern: "+err.Error())
	}
	return s, nil
}

// searchResult is a result as it crosses the wire.
func searchResult(at filePath, r *search.Result) *wire.SearchResult {
	out := &wire.SearchResult{
		Path: wire.Path(at.text), Files: []wire.FoundFile{}, Matches: r.Matches, Searched: r.Searched, Binary: r.Binary,
		Ignored: r.Ignored, Unreadable: r.Unreadable, Truncated: r.Truncated,
	}
	for _, f := range r.Files {
		file := wire.FoundFile{Path: wire.Path(told(f.Path)), Count: f.Count}
		for _, l := range f.Lines {
			file.Lines = append(file.Lines, wire.FoundLine{Line: l.Number, Column: int64(l.Column), Text: l.Text, Start: int64(l.Start), Rest: l.Rest})
		}
		out.Files = append(out.Files, file)
	}
	if r.Truncated != "" {
		out.NextCursor = writeCursor(r.NextPath, r.NextLine)
	}
	return out
}

// A cursor is the line that was told last, 0 for a whole file, and its path.
func writeCursor(path []string, line int64) string {
	return base64.StdEncoding.EncodeToString([]byte(strconv.FormatInt(line, 10) + ":" + strings.Join(path, "/")))
}

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
