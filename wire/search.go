package wire

import "context"

// Values of SearchRequest.Output: what search_files returns.
const (
	SearchContent = "content" // lines that match, and lines around them
	SearchPaths   = "files"   // files with such a line
	SearchCount   = "count"   // files with such a line, and how many
)

// Bounds of a search, and its defaults.
const (
	MaxSearchGlobs     = 64
	MaxSearchContext   = 50       // lines before, and after
	MaxSearchMatches   = 10_000   // lines that match, or files
	MaxSearchLine      = 64 << 10 // bytes of a line
	MaxSearchBytes     = 8 << 20  // of an answer
	MaxSearchTimeoutMS = 300_000

	SearchMatches   = 1_000
	SearchLineBytes = 500
	SearchBytes     = 1 << 20
	SearchTimeoutMS = 30_000
)

// SearchRequest asks for lines of files or, without a pattern, for files.
type SearchRequest struct {
	Action    string `json:"action"`
	KeepAlive bool   `json:"keep_alive,omitempty"`
	// Path is the directory or the file to search. Default: /workspace.
	Path OSString `json:"path,omitempty"`
	// Pattern is an expression in RE2 syntax that matches a part of a line.
	Pattern    string `json:"pattern,omitempty"`
	Fixed      bool   `json:"fixed,omitempty"` // the pattern is plain text
	IgnoreCase bool   `json:"ignore_case,omitempty"`
	Word       bool   `json:"word,omitempty"` // only whole words
	// Glob and Exclude select files, with at most MaxSearchGlobs patterns each.
	Glob    []string `json:"glob,omitempty"`
	Exclude []string `json:"exclude,omitempty"`
	// NoIgnore also searches what .gitignore files exclude.
	NoIgnore bool `json:"no_ignore,omitempty"`
	// Output is SearchContent (default), SearchPaths or SearchCount.
	Output string `json:"output,omitempty"`
	// Before and After are how many lines around each match to return, 0 to
	// MaxSearchContext.
	Before int64 `json:"before,omitempty"`
	After  int64 `json:"after,omitempty"`
	// Limit bounds the lines that match or, if no lines are returned, the files,
	// 1 to MaxSearchMatches.
	Limit int64 `json:"limit,omitempty"`
	// PerFile bounds the lines that match in one file; 0 means unbounded.
	PerFile int64 `json:"per_file,omitempty"`
	// LineBytes is how much of a line is returned, 16 to MaxSearchLine.
	LineBytes int64 `json:"line_bytes,omitempty"`
	// MaxBytes is about how long the answer may be, 1024 to MaxSearchBytes.
	MaxBytes int64 `json:"max_bytes,omitempty"`
	// TimeoutMS ends the search, 1 to MaxSearchTimeoutMS.
	TimeoutMS int64 `json:"timeout_ms,omitempty"`
	// Cursor is NextCursor of the answer before.
	Cursor string `json:"cursor,omitempty"`
}

func (q *SearchRequest) setDefaults() {
	q.Path, q.Output = workspaceRoot, SearchContent
	q.Limit, q.LineBytes, q.MaxBytes, q.TimeoutMS = SearchMatches, SearchLineBytes, SearchBytes, SearchTimeoutMS
}

// SearchResult lists the matches, in the order of paths and lines.
type SearchResult struct {
	Path    OSString    `json:"path"`
	Files   []FoundFile `json:"files"`
	Matches int64       `json:"matches"` // lines that match, returned or not
	// Searched counts files that were read; without a pattern, those selected.
	Searched int64 `json:"searched"`
	// Binary counts files that were not searched, or not to their end, because
	// they hold NUL bytes.
	Binary int64 `json:"binary"`
	// Ignored counts files and directories that .gitignore files exclude.
	Ignored int64 `json:"ignored"`
	// Unreadable counts files and directories that could not be read.
	Unreadable int64 `json:"unreadable"`
	// TooLong counts lines of more than 1 MiB, which were not searched.
	TooLong int64 `json:"too_long,omitempty"`
	// Truncated says why there may be more: "limit", "size" or "time".
	Truncated  string `json:"truncated,omitempty"`
	NextCursor string `json:"next_cursor,omitempty"`
}

// FoundFile is a file with the matches in it.
type FoundFile struct {
	Path  OSString    `json:"path"`
	Count int64       `json:"count"` // lines that match; for SearchPaths 1, without a pattern 0
	Lines []FoundLine `json:"lines,omitempty"`
}

// FoundLine is a line of a file.
type FoundLine struct {
	Line int64 `json:"line"` // from 1
	// Column is where the first match begins, in bytes from 1; 0 for a line
	// around a match.
	Column int64  `json:"column,omitempty"`
	Text   string `json:"text"` // invalid UTF-8 becomes U+FFFD
	// Start and Rest are how many bytes of the line come before and after Text.
	Start int64 `json:"start,omitempty"`
	Rest  int64 `json:"rest,omitempty"`
}

// searchHead bounds the parts of an answer around its files, above all the
// cursor, in bytes.
const searchHead = 256 << 10

// SearchFiles searches. It bounds the answer that it reads by q.MaxBytes,
// because an answer takes many times its length when decoded.
func (c *Client) SearchFiles(ctx context.Context, q SearchRequest) (SearchResult, error) {
	most := q.MaxBytes
	if most <= 0 {
		most = SearchBytes
	}
	var r SearchResult
	if err := call(ctx, c, SearchFiles, q, &r, int(min(2*most+searchHead, MaxLine))); err != nil {
		return SearchResult{}, err
	}
	return r, nil
}
