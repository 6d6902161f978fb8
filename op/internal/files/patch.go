package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/internal/osstring"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/patch"
	"github.com/paddock-dev/paddock/op/internal/registry"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

type PatchApplyInput struct {
	op.InSandbox
	Patch   string          `json:"patch,omitempty" flag:"-" help:"the patch: a unified diff, as git diff or diff -u make them" max:"8388608"`
	Dir     osstring.String `json:"dir,omitempty" flag:"dir" arg:"DIR" help:"the directory of the workspace that the patch's paths are relative to (default: the workspace)" max:"4096"`
	Strip   *uint64         `json:"strip,omitempty" flag:"strip" arg:"N" help:"how many leading directories to remove from the patch's paths (default: 1 if they look like a/FILE and b/FILE, else 0)" max:"32"`
	Check   bool            `json:"check,omitempty" flag:"check" help:"change nothing, only report whether it applies and what it would change"`
	Reverse bool            `json:"reverse,omitempty" flag:"reverse" help:"apply the patch in reverse"`
	Recount bool            `json:"recount,omitempty" flag:"recount" help:"count the lines of hunks, instead of trusting wrong lengths in their headers"`
	File    osstring.String `json:"patch_file,omitempty" arg:"[FILE]" help:"a file of the workspace that has the patch (default: the field patch, on the command line standard input)" max:"4096"`
}

type PatchApplyOutput struct {
	Applied bool          `json:"applied"` // false if it was only checked
	Files   []PatchedFile `json:"files"`
	More    int           `json:"more,omitempty"` // files that are not listed because there is no room
}

// PatchedFile is one file that a patch changes.
type PatchedFile struct {
	Path    osstring.String `json:"path"`
	From    string          `json:"from,omitempty"` // the original of a renamed or copied file
	Change  string          `json:"change"`         // created, modified, deleted, renamed or copied
	Added   int             `json:"added"`          // lines
	Removed int             `json:"removed"`
	Moved   []PatchedHunk   `json:"moved,omitempty"` // hunks that were not where their headers say
}

// PatchedHunk is where a hunk was applied.
type PatchedHunk struct {
	Hunk   int `json:"hunk"` // from 1
	Line   int `json:"line"`
	Offset int `json:"offset"` // lines from where its header says
}

func (PatchApplyInput) Desc() op.Desc {
	return op.Desc{
		Name: "patch_apply", CLI: []string{"patch"},
		Summary: "Apply a patch to the workspace",
		Doc: `Apply a unified diff, as git diff and diff -u make them. It can create, change,
delete, rename and copy files and make them executable or not; git's binary patches
work too. All of it is applied, or nothing: everything is tried in memory first, and
an error names each file and hunk that does not fit, with the expected and the actual
line.

Paths are relative to the workspace, or to dir, with or without a/ and b/ before
them. Absolute paths, "..", .git, symbolic links and submodules are refused. A hunk
may be at other lines than its header says: it is searched for, and the answer has
the offset; its context must match exactly. If the lengths in headers of hunks are
wrong, recount ignores them. Directories that become empty stay.

check only tries; reverse undoes a patch. A patch may have up to 8 MiB, 1000 files
and 10000 hunks. For a single change in one file file_edit is simpler.

On the command line the patch is standard input, or a file of the workspace.`,
		Examples: `  # the last commit of another tree
  git -C ../other format-patch -1 --stdout | paddock patch`,
		Profile: op.ProfileWorkspace,
		Hints:   changeHints,
		Streams: op.Streams{In: true},
	}
}

// text returns the patch, or nil if it is in a file of the workspace.
func (in PatchApplyInput) text(stream *op.Stream) ([]byte, error) {
	switch {
	case in.Patch != "" && in.File != "":
		return nil, &policy.FieldError{Field: "patch_file", Value: string(in.File), Reason: "patch is given, too", Hint: "give one of the two"}
	case in.Patch != "":
		return []byte(in.Patch), nil
	case in.File != "":
		return nil, op.CheckPath("patch_file", in.File)
	case stream.Stdin == nil:
		return nil, &policy.FieldError{Field: "patch", Reason: "it is missing"}
	}
	all, err := io.ReadAll(io.LimitReader(stream.Stdin, patch.MaxText+1))
	if err != nil {
		return nil, fmt.Errorf("cannot read standard input: %w", err)
	}
	return append([]byte{}, all...), nil
}

// options returns the options of the package patch.
func (in PatchApplyInput) options() patch.Options {
	o := patch.Options{Recount: in.Recount, Reverse: in.Reverse}
	if in.Strip != nil {
		n := int(*in.Strip)
		o.Strip = &n
	}
	return o
}

func (in PatchApplyInput) Do(ctx context.Context, env *op.Env, stream *op.Stream) (out PatchApplyOutput, err error) {
	if in.Dir != "" {
		if err := op.CheckPath("dir", in.Dir); err != nil {
			return out, err
		}
	}
	data, err := in.text(stream)
	if err != nil {
		return out, err
	}
	var p *patch.Patch
	if data != nil {
		if env.Budget > 0 { // the patch of a model, which has seen files as file_read shows them
			data = []byte(text.DecodeHidden(string(data)))
		}
		if p, err = patch.Parse(data, in.options()); err != nil {
			return out, patchError(err)
		}
	}
	err = inFiles(ctx, env, in.InSandbox, true, func(ctx context.Context, s *registry.Sandbox) error {
		if p == nil {
			c, err := load(ctx, s, in.File)
			if err != nil {
				return fileError("read", in.File, err)
			}
			if p, err = patch.Parse(c.bytes, in.options()); err != nil {
				return patchError(err)
			}
		}
		tree := &patchTree{Sandbox: s, dir: string(in.Dir), readFile: map[string]*content{}}
		r, err := p.Apply(ctx, tree)
		if err != nil {
			return patchError(err)
		}
		if !in.Check {
			if err := tree.Write(ctx, r.Steps, stream.Progress); err != nil {
				return err
			}
		}
		out = newPatchOutput(r, env.Room(maxReadText))
		out.Applied = !in.Check
		return nil
	})
	return out, err
}

// patchError returns the error of a patch for the caller.
func patchError(err error) error {
	syntax, reject := (*patch.SyntaxError)(nil), (*patch.RejectError)(nil)
	switch {
	case errors.As(err, &syntax):
		return &paddock.Error{Message: syntax.Error(), Hint: syntax.Hint, Code: wire.CodeBadRequest}
	case errors.As(err, &reject):
		return &paddock.Error{Message: rejectText(reject), Hint: "nothing was changed", Code: wire.CodeConflict}
	}
	return err
}

// rejectText returns the rejects, each on a separate line if there are several.
func rejectText(e *patch.RejectError) string {
	if len(e.Rejects) == 1 {
		return e.Error()
	}
	lines := []string{"cannot apply the patch:"}
	for _, r := range e.Rejects {
		lines = append(lines, "  "+r.String())
	}
	if e.More > 0 {
		lines = append(lines, fmt.Sprintf("  and %d more", e.More))
	}
	return strings.Join(lines, "\n")
}

func newPatchOutput(r *patch.Result, room int) PatchApplyOutput {
	out := PatchApplyOutput{Files: []PatchedFile{}}
	for _, c := range r.Changes {
		f := PatchedFile{Path: osstring.String(c.Path), From: c.From, Change: c.Kind, Added: c.Added, Removed: c.Removed}
		for i, h := range c.Hunks {
			if h.Offset != 0 && len(f.Moved) < 20 {
				f.Moved = append(f.Moved, PatchedHunk{i + 1, h.Line, h.Offset})
			}
		}
		room -= text.Cost(c.Path) + text.Cost(c.From) + 80 + 60*len(f.Moved)
		if room < 0 {
			out.More++
			continue
		}
		out.Files = append(out.Files, f)
	}
	return out
}

func (out PatchApplyOutput) Render(w io.Writer) error {
	var b strings.Builder
	for _, f := range out.Files {
		fmt.Fprintf(&b, "%s %s", f.Change, text.QuoteName(string(f.Path)))
		if f.From != "" {
			fmt.Fprintf(&b, " from %s", text.QuoteName(f.From))
		}
		fmt.Fprintf(&b, " +%d -%d\n", f.Added, f.Removed)
		for _, h := range f.Moved {
			fmt.Fprintf(&b, "  hunk %d was applied at line %d, %+d lines from where its header says\n", h.Hunk, h.Line, h.Offset)
		}
	}
	if out.More > 0 {
		fmt.Fprintf(&b, "and %d more files\n", out.More)
	}
	if !out.Applied {
		b.WriteString("the patch applies; nothing was changed\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// patchTree is the workspace to which a patch is applied.
type patchTree struct {
	*registry.Sandbox
	dir      string
	readFile map[string]*content
}

func (t *patchTree) path(name string) string { return path.Join(t.dir, name) }

// Read reads a file that the patch names.
func (t *patchTree) Read(ctx context.Context, name string) (patch.File, error) {
	c, err := load(ctx, t.Sandbox, osstring.String(t.path(name)))
	switch {
	case missing(err):
		return patch.File{}, fs.ErrNotExist
	case err != nil:
		return patch.File{}, fileError("read", osstring.String(t.path(name)), err)
	}
	t.readFile[name] = c
	return patch.File{Content: c.bytes, Perm: c.Mode}, nil
}

// Room returns an error if something is in the way of a new file, or of its directories.
func (t *patchTree) Room(ctx context.Context, name string, gone func(string) bool) error {
	for at := name; at != "."; at = path.Dir(at) {
		st, err := wire.Call(ctx, t.Client(), wire.Stat, wire.StatRequest{Path: wire.OSString(t.path(at))})
		switch {
		case missing(err):
		case err != nil:
			return fileError("look at", osstring.String(t.path(at)), err)
		case at == name:
			return fs.ErrExist
		case st.ArtifactType == wire.TypeDirectory:
			return nil
		case !gone(at):
			return fmt.Errorf("%s is not a directory", t.path(at))
		}
	}
	return nil
}

// takeBack bounds the time for undoing a patch when its caller has gone.
const takeBack = time.Minute

// Write performs the steps of a patch. If one fails, those before it are undone, and the
// error says what the state of the workspace is.
func (t *patchTree) Write(ctx context.Context, steps []patch.Step, progress func(done, total float64, message string)) error {
	for _, s := range steps { // as late as possible: a command may have changed one meanwhile
		if s.Old != nil {
			if err := unchanged(ctx, t.Sandbox, osstring.String(t.path(s.Path)), t.readFile[s.Path]); err != nil {
				return fileError("patch", osstring.String(t.path(s.Path)), err)
			}
		}
	}
	for i, s := range steps {
		if progress != nil {
			progress(float64(i), float64(len(steps)), s.Path)
		}
		err := t.take(ctx, s)
		if err == nil {
			continue
		}
		// The step under way when the caller went may have been performed.
		done := steps[:i]
		if registry.Cancelled(err) || isGone(err) {
			done = steps[:i+1]
		}
		return t.failed(ctx, fileError("patch", osstring.String(t.path(s.Path)), err), done)
	}
	return nil
}

func isGone(err error) bool {
	we := (*wire.Error)(nil)
	return errors.As(err, &we) && we.Code == wire.CodeGone
}

// take takes one step.
func (t *patchTree) take(ctx context.Context, s patch.Step) error {
	name := t.path(s.Path)
	switch {
	case s.New == nil:
		_, err := wire.Call(ctx, t.Client(), wire.DeleteWorkspacePath, wire.DeleteRequest{Path: wire.OSString(name)})
		return err
	case s.Old == nil:
		_, err := saveNew(ctx, t.Sandbox, osstring.String(name), s.New.Content, &s.New.Perm)
		return err
	}
	_, err := save(ctx, t.Sandbox, osstring.String(name), s.New.Content, &s.New.Perm)
	return err
}

// failed undoes the finished steps, and says which state the workspace has.
func (t *patchTree) failed(ctx context.Context, cause error, done []patch.Step) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), takeBack)
	defer cancel()
	var left, why []string
	for _, s := range slices.Backward(done) {
		err := t.take(ctx, patch.Step{Path: s.Path, Old: s.New, New: s.Old})
		if s.Old == nil && missing(err) {
			err = nil
		}
		if s.Old != nil && s.New == nil && err != nil { // it may be there still
			_, err = save(ctx, t.Sandbox, osstring.String(t.path(s.Path)), s.Old.Content, &s.Old.Perm)
		}
		if err != nil {
			left = append(left, s.Path)
			why = append(why, err.Error())
		}
	}
	text := "what was written before is taken back: no file is changed"
	if len(left) > 0 {
		text = fmt.Sprintf("and it cannot be taken back in %s, which are as the patch makes them (%s); the other files are as they were", strings.Join(left, ", "), why[0])
	}
	if registry.Cancelled(cause) {
		return fmt.Errorf("cannot apply the patch: %w; %s", cause, text)
	}
	e := &paddock.Error{Message: "cannot apply the patch: " + cause.Error() + "; " + text}
	own := (*paddock.Error)(nil)
	if errors.As(cause, &own) {
		e.Code, e.Hint = own.Code, own.Hint
	}
	return e
}
