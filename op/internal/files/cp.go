package files

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/internal/osstring"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/registry"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

type CopyInput struct {
	Source      osstring.String `json:"source" arg:"SRC" complete:"copy" help:"what is copied: NAME:PATH in a sandbox, a path of this host, or - for a tar archive from standard input" min:"1"`
	Destination osstring.String `json:"destination" arg:"DST" complete:"copy" help:"where to: NAME:PATH in a sandbox, a path of this host, or - for a tar archive to standard output" min:"1"`
	Exclude     []string        `json:"exclude,omitempty" flag:"exclude" arg:"PATTERN" help:"leave out what this matches (*, ?, [a-z]), with everything below it: a name anywhere, or with a / a path below SRC (may be repeated)" max:"256"`
	Quiet       bool            `json:"quiet,omitempty" flag:"quiet" short:"q" only:"cli" help:"print nothing but errors"`
}

type CopyOutput struct {
	Source      osstring.String `json:"source"`
	Destination osstring.String `json:"destination"` // what SRC has become, or - for standard output
	Entries     int64           `json:"entries"`     // files, directories and links
	Bytes       int64           `json:"bytes"`       // of files

	quiet bool
}

func (CopyInput) Desc() op.Desc {
	return op.Desc{
		Name: "cp", CLI: []string{"cp"}, Summary: "Copy files between this host and a sandbox that runs",
		Doc: `Copy a file, a link or a whole directory into the workspace of a sandbox, or out of
it. One of SRC and DST is NAME:PATH, where NAME is the sandbox's name or id, and PATH
is relative to its workspace, or absolute below /workspace. The other one is a path of
this host, where ./a:b is a file with a colon in its name, or - for a tar archive.

What DST means:

  DST is a directory         SRC is copied into it, under its own name
  DST does not exist         SRC gets this name; the directory above must exist
  DST is a file              it is replaced, if SRC is a file
  SRC ends with /.           the content of the directory is copied, not itself
  SRC is -                   an archive, plain or compressed, is unpacked there
  DST is -                   an archive of SRC is written to standard output

Directories that exist are merged. Links stay links; those that lead out of what is
copied are not copied, which is an error, as are devices, sockets and FIFOs of this
host: --exclude leaves them out. Those of the sandbox are left out. Owners, times and set-id bits are not
copied; files inside are executable, or not.

Into a sandbox all of it is copied, or nothing. Out of it, each file is written beside
its place and renamed, never through a link, and nothing is written outside of DST. An
interrupted copy says what was copied. Nothing is screened as with paddock commit: look
at programs that commands have made before you run them.`,
		Examples: `  # a file into the workspace of the sandbox web, and a directory out of it
  paddock cp .env.test web:.env
  paddock cp web:dist ./dist

  # the content of a directory, without dependencies
  paddock cp --exclude node_modules app/. web:src

  # between two sandboxes
  paddock cp web:dist - | paddock cp - api:.`,
		Local:   true,
		Hints:   op.Hints{Destructive: true, LongRunning: true, OpenWorld: true},
		Streams: op.Streams{In: true, Out: true, Progress: true},
	}
}

// copyPlace is one side of a copy.
type copyPlace struct {
	field   string // of the input
	text    string // as it was written
	sandbox string // "" on the host
	path    string // on the host as it was written; inside clean and relative to the workspace
	archive bool   // an archive on standard input or output
	content bool   // the content of the directory is meant, not itself
	slash   bool   // a directory is meant
}

// newCopyPlace reads one side of a copy. A name before the first colon is a sandbox, unless it
// has a slash or begins with a dot.
func newCopyPlace(field string, given osstring.String) (copyPlace, error) {
	written := string(given)
	p := copyPlace{field: field, text: written, path: written, archive: written == "-"}
	refuse := func(reason, hint string) (copyPlace, error) {
		return p, &policy.FieldError{Field: field, Value: written, Reason: reason, Hint: hint}
	}
	name, inside, colon := strings.Cut(written, ":")
	switch {
	case written == "":
		return refuse("it is missing", "name a path of this host, NAME:PATH in a sandbox, or - for a tar archive")
	case strings.IndexByte(written, 0) >= 0:
		return refuse("it holds a NUL byte", "")
	case colon && name == "":
		return refuse("no sandbox is named before the colon", "write NAME:PATH; a file of this host of that name is ./"+policy.ShellWord(written))
	case colon && name[0] != '.' && !strings.Contains(name, "/"):
		p.sandbox, p.path = name, inside
		if inside == "" {
			return refuse("it names no path", "the whole workspace is "+policy.ShellWord(name+":."))
		}
		if err := op.CheckPath(field, osstring.String(inside)); err != nil {
			command := "cp FILE " + policy.ShellWord(inside)
			if field == "source" {
				command = "cp " + policy.ShellWord(inside) + " ."
			}
			if wrong := (*policy.FieldError)(nil); errors.As(err, &wrong) {
				wrong.Value, wrong.Hint = written, "paths in a sandbox are relative to its workspace, or below /workspace: copy between both with a command: paddock exec "+policy.ShellWord(name)+" -- "+command
			}
			return p, err
		}
	}
	last := p.path[strings.LastIndexByte(p.path, '/')+1:]
	p.content, p.slash = last == "." && !p.archive, last == "." || last == ""
	if p.sandbox != "" {
		p.path = path.Clean("./" + strings.TrimPrefix(p.path, "/workspace"))
	}
	return p, nil
}

// base returns the last name of a path in a sandbox.
func (p copyPlace) base() string {
	if p.path == "." {
		return "workspace"
	}
	return path.Base(p.path)
}

// inside returns a path in the sandbox for the agent, which strips white space around it.
func inside(p string) wire.OSString {
	p = path.Join("/workspace", p)
	if strings.TrimSpace(p) != p {
		p += "/."
	}
	return wire.OSString(p)
}

// places returns both sides. One is in a sandbox.
func (in CopyInput) places() (from, to copyPlace, err error) {
	from, fromErr := newCopyPlace("source", in.Source)
	to, toErr := newCopyPlace("destination", in.Destination)
	if err := errors.Join(fromErr, toErr, checkExclude(in.Exclude)); err != nil {
		return from, to, err
	}
	switch {
	case from.sandbox == "" && to.sandbox == "":
		return from, to, &paddock.Error{Message: "cannot copy: neither SRC nor DST is in a sandbox",
			Hint: "write NAME:PATH for the one that is; paddock list shows the sandboxes that run"}
	case from.sandbox != "" && to.sandbox != "":
		return from, to, &paddock.Error{Message: "cannot copy: both SRC and DST are in a sandbox",
			Hint: "copy through this host: paddock cp " + policy.ShellWord(string(in.Source)) + " - | paddock cp - " + policy.ShellWord(string(in.Destination))}
	}
	return from, to, nil
}

// copying is a copy that is being made.
type copying struct {
	env      *op.Env
	stream   *op.Stream
	from, to copyPlace
	packer   packer // has what is left out
	client   *wire.Client
	meter
	leading int    // links that lead out, and were left
	become  string // what SRC becomes
}

// Do copies.
func (in CopyInput) Do(ctx context.Context, env *op.Env, stream *op.Stream) (CopyOutput, error) {
	from, to, err := in.places()
	if err != nil {
		return CopyOutput{}, err
	}
	c := &copying{env: env, stream: stream, from: from, to: to, packer: packer{exclude: in.Exclude}, meter: meter{progress: stream.Progress}}
	do, sandbox := c.in, to.sandbox
	if from.sandbox != "" {
		do, sandbox = c.out, from.sandbox
	}
	ctx, stop := stream.UntilInterrupted(ctx)
	defer stop()
	err = env.WithSandbox(ctx, op.InSandbox{Sandbox: sandbox}, func(ctx context.Context, s *registry.Sandbox) error {
		c.client = s.Client()
		return do(ctx)
	})
	if err != nil {
		return CopyOutput{}, c.failed(ctx, err)
	}
	return CopyOutput{Source: in.Source, Destination: osstring.String(c.become), Entries: c.entries, Bytes: c.bytes, quiet: in.Quiet || to.archive}, nil
}

// failed returns the error of a copy that was not finished, with what was copied nevertheless.
func (c *copying) failed(ctx context.Context, err error) error {
	landed := "nothing was copied"
	if c.entries > 0 {
		were := "were"
		if c.entries == 1 {
			were = "was"
		}
		landed = fmt.Sprintf("%s %s copied to %s", text.Count(c.entries, "entry"), were, text.QuoteName(c.become))
	}
	if by := (*op.InterruptedError)(nil); errors.As(context.Cause(ctx), &by) {
		return fmt.Errorf("%w: %s", by, landed)
	}
	told := (*paddock.Error)(nil)
	switch {
	case errors.As(err, &told) && told.Code == wire.CodeGone && c.client != nil:
		err = &paddock.Error{Message: "cannot copy " + text.QuoteName(c.from.text) + ": " + told.Message + "; " + landed, Code: told.Code, Hint: told.Hint}
	case c.entries == 0:
	case errors.As(err, &told):
		own := *told
		own.Message += "; " + landed
		err = &own
	default:
		err = fmt.Errorf("%w; %s", err, landed)
	}
	return err
}

// Render says what was copied.
func (out CopyOutput) Render(w io.Writer) error {
	if out.quiet {
		return nil
	}
	_, err := fmt.Fprintf(w, "copied to %s: %s, %s\n", text.QuoteName(string(out.Destination)), text.Count(out.Entries, "entry"), text.Count(out.Bytes, "byte"))
	return err
}

// refuseEntry returns the error of an entry that is not copied.
func refuseEntry(name, reason, hint string) error {
	return &paddock.Error{Message: "cannot copy " + text.QuoteName(text.Truncate(name, 200)) + ": " + reason, Hint: hint}
}

// leaveOut returns the hint to leave out an entry.
func leaveOut(name string) string {
	if text.QuoteName(name) != name {
		return "leave it out with --exclude"
	}
	return "leave it out with --exclude " + policy.ShellWord(name)
}

// out copies from the sandbox.
func (c *copying) out(ctx context.Context) error {
	head, body, err := wire.Download(ctx, c.client, wire.ExportArchive, wire.ExportRequest{Path: inside(c.from.path)})
	if err != nil {
		if own := (*wire.Error)(nil); errors.As(err, &own) && strings.HasPrefix(own.Message, "unsupported workspace path") {
			return refuseEntry(c.from.text, "it is not a file, a directory or a symbolic link", "")
		}
		return fileError("copy", osstring.String(c.from.text), err)
	}
	defer body.Close()
	return c.receive(head, body)
}

// receive lands an archive of the agent.
func (c *copying) receive(head wire.ExportResult, body io.Reader) error {
	tree := head.ArtifactType == wire.TypeDirectory
	if !tree && c.from.slash {
		return refuseEntry(c.from.text, "it is not a directory", "leave out the / at its end")
	}
	land, finish, err := c.landing(tree)
	if err != nil {
		return err
	}
	c.all = head.BytesWritten
	budget, leads := head.ArchiveSize, tar.Header{}
	err = eachEntry(body, func(h *tar.Header, content io.Reader) error {
		if err := checkEntry(h, tree); err != nil {
			return err
		}
		if budget -= h.Size; h.Size < 0 || budget < 0 {
			return refuseEntry(h.Name, "it is larger than the archive that it is in", "")
		}
		if c.packer.excluded(h.Name) {
			return nil
		}
		if h.Typeflag == tar.TypeSymlink && !wire.LinkStaysInside(strings.Count(h.Name, "/"), h.Linkname) {
			if c.leading++; c.leading == 1 {
				leads = *h
			}
			return nil
		}
		if err := land(h, c.content(content)); err != nil {
			return err
		}
		c.entries++
		return nil
	})
	if err = errors.Join(err, finish()); err == nil && c.leading > 0 {
		err = c.leadsOut(leads.Name, leads.Linkname)
	}
	return err
}

// leadsOut returns the error of a link that is not copied.
func (c *copying) leadsOut(name, target string) error {
	reason := "it is a link that leads out of what is copied, to " + text.QuoteName(text.Truncate(target, 200))
	if c.leading > 1 {
		reason += fmt.Sprintf("; it is one of %d such links", c.leading)
	}
	return refuseEntry(name, reason, leaveOut(name))
}

// landing returns what lands an entry at the destination, and what ends that.
func (c *copying) landing(tree bool) (land func(*tar.Header, io.Reader) error, finish func() error, err error) {
	if c.to.archive {
		return c.toArchive(tree)
	}
	l, err := c.toHost(tree)
	if err != nil {
		return nil, nil, err
	}
	c.become = l.become
	return l.land, l.close, nil
}

// toArchive has entries written to standard output, below the name of what is copied.
func (c *copying) toArchive(tree bool) (land func(*tar.Header, io.Reader) error, finish func() error, err error) {
	switch {
	case c.stream.Stdout == nil:
		return nil, nil, &policy.FieldError{Field: "destination", Value: "-", Reason: "standard output has the JSON object", Hint: "leave out --json, or name a directory"}
	case c.stream.Typed:
		return nil, nil, &policy.FieldError{Field: "destination", Value: "-", Reason: "standard output is a terminal", Hint: "name a directory, or give the archive to a program: | tar -t"}
	}
	t, above := tar.NewWriter(c.stream.Stdout), ""
	if c.become = "-"; tree && !c.from.content {
		above = c.from.base()
		err = t.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: above + "/", Mode: 0o755})
	}
	return func(h *tar.Header, content io.Reader) error {
		next := &tar.Header{Typeflag: h.Typeflag, Name: path.Join(above, h.Name), Linkname: h.Linkname, Size: h.Size, Mode: h.Mode & 0o777, ModTime: h.ModTime} //nolint:gosec // G305: checkEntry has checked the name, which names no file of this host
		if h.Typeflag == tar.TypeDir {
			next.Name += "/"
		}
		if h.PAXRecords[exactName] != "" {
			next.PAXRecords = map[string]string{exactName: "exact"}
		}
		if err := t.WriteHeader(next); err != nil {
			return err
		}
		_, err := io.Copy(t, content)
		return err
	}, t.Close, err
}

// in copies into the sandbox.
func (c *copying) in(ctx context.Context) error {
	what, err := c.fromHost(ctx)
	if err != nil {
		return err
	}
	defer what.close()
	dest, name, err := c.target(ctx, what.tree, what.base)
	if err != nil {
		return err
	}
	archive, size, err := what.open(name)
	if err != nil {
		return err
	}
	defer archive.Close()
	q := wire.ExtractRequest{ArchiveSize: size, Destination: inside(dest), Tree: true}
	r, err := wire.Upload(ctx, c.client, wire.ExtractArchive, q, (&meter{all: size, progress: c.stream.Progress}).content(archive))
	if err != nil {
		return c.refused(err, dest)
	}
	c.entries, c.bytes, c.become = r.EntryCount, r.BytesWritten, c.to.sandbox+":"+path.Join("/workspace", dest, name)
	return nil
}

// refused returns the error of an archive that the agent did not take. Nothing was changed.
func (c *copying) refused(err error, dest string) error {
	if source := (*paddock.Error)(nil); errors.As(err, &source) { // a file of the host that cannot be read
		return source
	}
	own := (*wire.Error)(nil)
	if !errors.As(err, &own) || own.Code == wire.CodeGone || registry.Cancelled(err) {
		return err
	}
	what, at := own.Object, own.Object
	switch {
	case what == "" || what == "archive":
		at = c.to.text
	case what[0] != '/':
		at = path.Join(dest, what)
	}
	e := &paddock.Error{}
	if told := fileError("copy to", osstring.String(at), err); !errors.As(told, &e) {
		return told
	}
	switch {
	case strings.Contains(own.Message, "conflicts with existing path"), strings.Contains(own.Message, "inside of a file"):
		e.Message, e.Hint = "cannot copy to "+text.QuoteName(at)+": something of another kind is there", "remove it first, or copy to another name"
	case strings.Contains(own.Message, "symlinked path"):
		e.Message, e.Hint = "cannot copy to "+text.QuoteName(at)+": a symbolic link is above it there", "remove the link first, or copy to where it leads"
	case strings.HasPrefix(own.Message, "symlink "):
		e.Message, e.Hint = "cannot copy "+text.QuoteName(what)+": it is a link that leads out of what is copied", leaveOut(what)
	case strings.Contains(own.Message, "unsupported archive member"), strings.Contains(own.Message, "hard links"):
		e.Message, e.Hint = "cannot copy "+text.QuoteName(what)+": it is not a file, a directory or a symbolic link", "leave it out of the archive"
	case c.from.archive && !strings.HasPrefix(e.Message, "cannot "):
		e.Message = "cannot copy the archive: " + e.Message
	}
	return e
}

// target returns the directory in the sandbox that an archive is unpacked into, and the name there
// of a single file.
func (c *copying) target(ctx context.Context, tree bool, base string) (dest, name string, err error) {
	to := c.to
	refuse := func(reason, hint string) (string, string, error) {
		return "", "", refuseTarget(to, reason, hint)
	}
	mkdir := func(dir string) string {
		return "paddock file mkdir --sandbox " + policy.ShellWord(to.sandbox) + " " + policy.ShellWord(dir) + " makes it"
	}
	st, err := wire.Call(ctx, c.client, wire.Stat, wire.StatRequest{Path: inside(to.path)})
	switch {
	case missing(err) && c.from.archive:
		return refuse("the directory does not exist", mkdir(to.path))
	case missing(err) && to.slash && !tree:
		return refuse("the directory does not exist", mkdir(to.path)+"; without / at its end it is the name of the file")
	case missing(err):
		above := path.Dir(to.path)
		switch up, err := wire.Call(ctx, c.client, wire.Stat, wire.StatRequest{Path: inside(above)}); {
		case missing(err):
			return refuse("the directory above it does not exist", mkdir(above))
		case err != nil:
			return "", "", fileError("copy to", osstring.String(to.text), err)
		case up.ArtifactType != wire.TypeDirectory:
			return refuse("what is above it is not a directory", "")
		}
	case err != nil:
		return "", "", fileError("copy to", osstring.String(to.text), err)
	case st.ArtifactType == wire.TypeDirectory && (c.from.archive || tree && c.from.content):
		return to.path, "", nil
	case st.ArtifactType == wire.TypeDirectory && tree:
		return path.Join(to.path, base), "", nil
	case st.ArtifactType == wire.TypeDirectory:
		return to.path, base, nil
	case c.from.archive:
		return refuse("it is not a directory", "an archive is unpacked in a directory")
	case st.ArtifactType == wire.TypeSymlink && st.LinkTarget != nil:
		return refuse("it is a symbolic link, and links are not followed", "name what it leads to: "+text.QuoteName(string(*st.LinkTarget)))
	case tree:
		return refuse("a directory cannot replace a file", "copy to another name, or remove the file first")
	case to.slash || st.ArtifactType != wire.TypeFile:
		return refuse("it is not a directory, or a file that can be replaced", "copy to another name")
	}
	if tree {
		return to.path, "", nil
	}
	return path.Dir(to.path), path.Base(to.path), nil
}

// refuseTarget returns the error of a destination.
func refuseTarget(to copyPlace, reason, hint string) error {
	return &paddock.Error{Message: "cannot copy to " + text.QuoteName(to.text) + ": " + reason, Hint: hint}
}
