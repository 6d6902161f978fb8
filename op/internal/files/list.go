package files

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/paddock-dev/paddock/internal/osstring"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/registry"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

// The bounds of one listing.
const (
	defaultListed = 1000
	maxListed     = 10_000
	maxListDepth  = 100
	maxListText   = 2 << 20 // in characters, as JSON
	// maxLooked bounds the entries that are examined for one answer.
	maxLooked = 200_000
)

type FileListInput struct {
	op.InSandbox
	Recursive bool            `json:"recursive,omitempty" flag:"recursive" short:"r" help:"also list everything below"`
	Depth     uint64          `json:"depth,omitempty" flag:"depth" arg:"N" help:"how many levels to list (default: 1; with recursive: all)" min:"1" max:"100"`
	Kinds     []string        `json:"kinds,omitempty" flag:"kind" arg:"KIND" choices:"file,directory,symlink,other" help:"list only these kinds (may be repeated)" max:"4"`
	All       bool            `json:"all,omitempty" flag:"all" short:"a" help:"also look into .git directories"`
	Limit     uint64          `json:"limit,omitempty" flag:"limit" arg:"N" help:"entries in one answer (default: 1000)" min:"1" max:"10000"`
	Cursor    string          `json:"cursor,omitempty" flag:"cursor" arg:"CURSOR" help:"next_cursor of the previous answer, to continue" max:"8192"`
	Path      osstring.String `json:"path,omitempty" arg:"[PATH]" help:"the directory (default: the workspace)" max:"4096"`
}

type FileListOutput struct {
	Path      osstring.String `json:"path"`
	Entries   []FileEntry     `json:"entries"`
	Truncated bool            `json:"truncated"` // there is more
	// NextCursor is the cursor for the rest.
	NextCursor string `json:"next_cursor,omitempty"`
}

// FileEntry is one entry of a directory.
type FileEntry struct {
	Path      osstring.String `json:"path"`           // from the directory that was listed
	Kind      string          `json:"kind"`           // file, directory, symlink or other
	SizeBytes int64           `json:"size_bytes"`     // 0 for a directory
	Link      osstring.String `json:"link,omitempty"` // the target of a symbolic link
}

func (FileListInput) Desc() op.Desc {
	return op.Desc{
		Name: "file_list", CLI: []string{"file", "list"},
		Summary: "List what is in a directory of the workspace",
		Doc: `List a directory with kinds and sizes; with recursive or depth, also what is below
it. Entries are sorted by name, each directory before its content. The content of
.git directories is left out unless all is set or path is inside one. An answer has
at most limit entries; next_cursor continues after the last. To find files by name
or content use file_search. In the text, a name with invisible characters or
characters that a terminal would obey is quoted, and a byte that is not UTF-8 is \xNN;
path has the name itself, or, for a model, U+FFFD for such a byte. A call names the
byte as \udcNN.

` + filesDoc,
		Examples: `  # two levels
  paddock file list --depth 2 src`,
		Profile: op.ProfileWorkspace,
		Hints:   readHints,
	}
}

func (in FileListInput) Do(ctx context.Context, env *op.Env, _ *op.Stream) (out FileListOutput, err error) {
	if in.Path == "" {
		in.Path = "/workspace"
	}
	after, err := base64.RawURLEncoding.DecodeString(in.Cursor)
	if err != nil {
		return out, &policy.FieldError{Field: "cursor", Value: in.Cursor, Reason: "it is not next_cursor of an answer"}
	}
	wrong := []error{op.CheckPath("path", in.Path)}
	for i, kind := range in.Kinds {
		wrong = append(wrong, op.OneOf(fmt.Sprintf("kinds[%d]", i), kind, "file", "directory", "symlink", "other"))
	}
	if err := errors.Join(wrong...); err != nil {
		return out, err
	}
	listed := FileListOutput{Entries: []FileEntry{}}
	l := &fileLister{in: in, out: &listed, limit: int(in.Limit), room: env.Room(maxListText), levels: int(in.Depth)}
	if l.limit == 0 {
		l.limit = defaultListed
	}
	if l.levels == 0 {
		l.levels = 1
		if in.Recursive {
			l.levels = maxListDepth
		}
	}
	if len(after) > 0 {
		l.after = strings.Split(string(after), "/")
	}
	err = inFiles(ctx, env, in.InSandbox, false, func(ctx context.Context, s *registry.Sandbox) error {
		l.client = s.Client()
		err := l.list(ctx, string(in.Path), "", 1)
		if err == nil {
			out = listed
		}
		return err
	})
	return out, err
}

// fileLister is the state of a listing.
type fileLister struct {
	in     FileListInput
	out    *FileListOutput
	client *wire.Client
	limit  int
	room   int
	levels int
	looked int
	after  []string // the last entry of the previous answer
}

// list lists one directory. below is its path from the directory where the listing began.
func (l *fileLister) list(ctx context.Context, dir, below string, level int) error {
	q := wire.ListRequest{Path: wire.OSString(dir)}
	for {
		r, err := wire.Call(ctx, l.client, wire.ListWorkspace, q)
		if err != nil {
			if below != "" && missing(err) {
				return nil // it was deleted meanwhile
			}
			return fileError("list", l.in.Path, err)
		}
		if below == "" {
			l.out.Path = r.Path
		}
		for _, e := range r.Entries {
			if err := l.add(ctx, e, below, level); err != nil || l.out.Truncated {
				return err
			}
		}
		if !r.Truncated || r.NextCursor == "" || r.NextCursor == q.Cursor {
			return nil
		}
		q.Cursor = r.NextCursor
	}
}

// add adds one entry, and everything below it.
func (l *fileLister) add(ctx context.Context, e wire.Entry, below string, level int) error {
	name := path.Base(strings.TrimSuffix(string(e.Path), "/."))
	at := path.Join(below, name)
	order := l.order(strings.Split(at, "/"))
	if order < 0 {
		return nil // the previous answer had it, with everything below
	}
	if l.looked++; l.looked > maxLooked {
		l.end()
		return nil
	}
	if order > 0 && (len(l.in.Kinds) == 0 || slices.Contains(l.in.Kinds, e.ArtifactType)) {
		if !l.take(e, at) {
			return nil
		}
	}
	if e.ArtifactType != wire.TypeDirectory || level >= l.levels || name == ".git" && !l.in.All {
		return nil
	}
	return l.list(ctx, string(e.Path), at, level+1)
}

// order returns 1 if an entry comes after the last entry of the previous answer, 0 if it is
// that entry or a directory above it, and -1 if it comes before.
func (l *fileLister) order(names []string) int {
	if len(l.after) == 0 {
		return 1
	}
	n := min(len(names), len(l.after))
	if order := slices.Compare(names[:n], l.after[:n]); order != 0 || len(names) <= len(l.after) {
		return order
	}
	return 1
}

// take adds an entry if there is room, and reports whether it did.
func (l *fileLister) take(e wire.Entry, at string) bool {
	one := FileEntry{Path: wire.OSString(at), Kind: e.ArtifactType, SizeBytes: e.SizeBytes}
	if e.LinkTarget != nil {
		one.Link = *e.LinkTarget
	}
	cost := text.Cost(string(one.Path)) + text.Cost(string(one.Link)) + len(`{"path":"","kind":"directory","size_bytes":1234567890,"link":""},`)
	if len(l.out.Entries) == l.limit || cost > l.room {
		l.end()
		return false
	}
	l.room -= cost
	l.out.Entries = append(l.out.Entries, one)
	return true
}

// end ends the listing after the last entry.
func (l *fileLister) end() {
	l.out.Truncated = true
	if n := len(l.out.Entries); n > 0 {
		l.out.NextCursor = base64.RawURLEncoding.EncodeToString([]byte(l.out.Entries[n-1].Path))
	}
}

func (out FileListOutput) Render(w io.Writer) error {
	var b strings.Builder
	for _, e := range out.Entries {
		switch e.Kind {
		case wire.TypeDirectory:
			fmt.Fprintf(&b, "%12s  %s/\n", "", text.QuoteName(string(e.Path)))
		case wire.TypeSymlink:
			fmt.Fprintf(&b, "%12s  %s -> %s\n", "link", text.QuoteName(string(e.Path)), text.QuoteName(string(e.Link)))
		case wire.TypeFile:
			fmt.Fprintf(&b, "%12d  %s\n", e.SizeBytes, text.QuoteName(string(e.Path)))
		default:
			fmt.Fprintf(&b, "%12s  %s\n", e.Kind, text.QuoteName(string(e.Path)))
		}
	}
	switch {
	case out.Truncated && out.NextCursor != "":
		fmt.Fprintf(&b, "there is more: continue with cursor %s\n", out.NextCursor)
	case out.Truncated:
		b.WriteString("there is more than can be looked at: list a directory in it\n")
	case len(out.Entries) == 0:
		b.WriteString("nothing is in " + text.QuoteName(string(out.Path)) + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}
