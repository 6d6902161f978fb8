package paddock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/internal/layers"
	"github.com/paddock-dev/paddock/internal/run"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/obeyed"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

// LayerOptions say what becomes of the layer of a workspace of mode "overlay".
type LayerOptions struct {
	// Keep keeps it after the end of the sandbox, for [OpenLayer]. Otherwise all that
	// commands changed ends with the sandbox.
	Keep bool
	// Command is kept with the layer, for people.
	Command []string
	// Principal is who looks at changes and commits them: [Layer.Commit] compares with what
	// [Layer.WritePatch] showed to the same one.
	Principal string
	// Reopen mounts the layer that was kept of the sandbox with the id Options.ID, instead of a
	// new one: commands find what they had changed.
	Reopen bool
}

// These describe a layer and its changes.
type (
	// LayerInfo describes a layer that is kept.
	LayerInfo = layers.Info
	// LayerChange is one path that differs from the source.
	LayerChange = layers.Change
	// LayerFinding is what screening has found about a change: it would run on the host, or
	// steer what runs.
	LayerFinding = layers.Finding
	// LayerConflict is a path where the source may have changed since the layer began.
	LayerConflict = layers.Conflict
	// LayerCommitOptions say which changes land, and how.
	LayerCommitOptions = layers.CommitOptions
	// LayerCommit is what a commit did, or would do.
	LayerCommit = layers.Commit
	// LayerReviewError is the error of a commit of changes that are not what the principal was
	// shown by [Layer.WritePatch].
	LayerReviewError = layers.ReviewError
)

// ErrClosedLayer is the error of a layer in which commands closed something to its owner, by its
// mode. The paddock program then reads it in a user namespace of its own.
var ErrClosedLayer = errors.New("commands closed something in the layer to its owner")

// Layers returns the layers that are kept, and those of running sandboxes, the oldest first.
func Layers(opts Options) ([]LayerInfo, error) {
	state, _, err := opts.stateDir()
	if err != nil {
		return nil, err
	}
	found, err := layers.List(state)
	if err != nil {
		return nil, fmt.Errorf("cannot list the layers: %w", err)
	}
	return found, nil
}

// Layer is what commands changed in a workspace of mode "overlay", above its source. Unless
// [ReadLayer] opened it, no sandbox has it mounted, and none can, before [Layer.Close]. Its methods must not be called
// concurrently. Paths are relative to the workspace; without paths they are about everything.
type Layer struct {
	own     *layers.Layer
	opts    Options
	name    string // what it was opened by
	lasting bool   // its sandbox stays
}

// OpenLayer opens the layer of a sandbox that has ended, by its id or the name of [Create]. A commit that was interrupted is
// finished, or taken back, before anything is read.
func OpenLayer(ctx context.Context, id string, opts Options) (*Layer, error) {
	return openLayer(ctx, id, opts, false)
}

// ReadLayer is [OpenLayer] for reading: it also opens the layer of a sandbox that runs, which goes on
// changing it. Commit, Discard and Remove then fail.
func ReadLayer(ctx context.Context, id string, opts Options) (*Layer, error) {
	return openLayer(ctx, id, opts, true)
}

func openLayer(ctx context.Context, id string, opts Options, read bool) (*Layer, error) {
	state, _, err := opts.stateDir()
	if err != nil {
		return nil, err
	}
	sandbox, lasting := run.Named(state, id)
	own, err := layers.Open(ctx, state, sandbox)
	if read && layers.IsInUse(err) {
		own, err = layers.Look(state, sandbox)
	}
	if layers.IsUnknown(err) {
		return nil, noLayer(ctx, state, id, lasting, opts)
	}
	if err != nil {
		return nil, layerError(id, err)
	}
	own.Principal = opts.Layer.Principal
	return &Layer{own, opts, id, lasting}, nil
}

// noLayer returns the error of a sandbox that has no layer, or of one that is unknown.
func noLayer(ctx context.Context, state, name string, lasting bool, opts Options) error {
	wrong := &Error{Message: "cannot open the layer of sandbox " + strconv.Quote(text.Prefix(name, 64)) + ": no such layer", Code: wire.CodeNotFound, Hint: "paddock layers lists those that are kept"}
	if !lasting {
		wrong.Hint = meantName(state, name) + wrong.Hint
		return wrong
	}
	k, err := Find(ctx, name, opts)
	if mode := k.Spec.Workspace.Mode; err == nil && mode != policy.ModeOverlay {
		wrong.Message += ", because its workspace mode is " + mode
		what := "the directory itself"
		if mode == policy.ModeCopy {
			what = "a copy of the directory"
		}
		wrong.Hint = "its commands change " + what + "; one made with `workspace.mode` overlay keeps changes apart"
	}
	return wrong
}

// layerError returns an error about a layer with what to do about it.
func layerError(id string, err error) error {
	if err == nil {
		return nil
	}
	message, hint := layers.Explain(id, err)
	if message == "" {
		return err
	}
	if errors.Is(err, fs.ErrPermission) {
		err = errors.Join(err, ErrClosedLayer)
	}
	return &explained{&Error{Message: message, Hint: hint}, err}
}

// explained is an error with the words that people get for it.
type explained struct {
	told  *Error
	cause error
}

func (e *explained) Error() string        { return e.told.Message }
func (e *explained) Unwrap() error        { return e.told }
func (e *explained) Is(target error) bool { return errors.Is(e.cause, target) }
func (e *explained) As(target any) bool   { return errors.As(e.cause, target) }

// Close lets others use the layer. It stays.
func (l *Layer) Close() { l.own.Close() }

// Info describes the layer.
func (l *Layer) Info() LayerInfo { return l.own.Info() }

// Lasting reports whether the layer is that of a sandbox of [Create], which keeps it.
func (l *Layer) Lasting() bool { return l.lasting }

// Remove removes the layer with all changes, and closes it. That of a sandbox of [Create] stays,
// without changes.
func (l *Layer) Remove(ctx context.Context) error {
	if l.lasting {
		_, err := l.Discard(ctx)
		l.Close()
		return err
	}
	return l.fail(l.own.Remove(ctx))
}

// fail returns an error about the layer. Before whoever gets [ErrClosedLayer] reads it in a user
// namespace, where nobody sees to whom a file of the host belongs, the agent is checked: it reads
// git's configuration there.
func (l *Layer) fail(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		if untrusted := l.opts.checkAgent(); untrusted != nil {
			return untrusted
		}
	}
	return layerError(l.name, err)
}

// Changes returns what differs from the source, sorted by path.
func (l *Layer) Changes(ctx context.Context, paths ...string) ([]LayerChange, error) {
	found, err := l.own.Changes(ctx, paths...)
	return found, l.fail(err)
}

// WritePatch writes the changes as a patch that git apply takes. binary says whether it has
// binary files, else it names them. What was written whole counts as shown to the principal.
func (l *Layer) WritePatch(ctx context.Context, w io.Writer, binary bool, paths ...string) error {
	return l.fail(l.own.WritePatch(ctx, w, binary, paths...))
}

// WriteUnreviewed writes the changes of an error of [Layer.Commit] as a patch, which does not count
// as shown.
func (l *Layer) WriteUnreviewed(ctx context.Context, w io.Writer, of *LayerReviewError) error {
	return l.fail(l.own.WriteUnreviewed(ctx, w, of))
}

// WriteStat writes how many lines of each file come and go.
func (l *Layer) WriteStat(ctx context.Context, w io.Writer, paths ...string) error {
	return l.fail(l.own.WriteStat(ctx, w, paths...))
}

// WriteStatus writes a line for each path, as git's --name-status does.
func (l *Layer) WriteStatus(ctx context.Context, w io.Writer, paths ...string) error {
	return l.fail(l.own.WriteStatus(ctx, w, paths...))
}

// WriteTar writes the changes as a layer of an OCI image. It returns the paths of devices and
// sockets, which such a layer does not have.
func (l *Layer) WriteTar(ctx context.Context, w io.Writer, paths ...string) (left []string, err error) {
	left, err = l.own.WriteTar(ctx, w, paths...)
	return left, l.fail(err)
}

// Screen returns the changes that would run programs on the host, or steer what does.
func (l *Layer) Screen(ctx context.Context, paths ...string) ([]LayerFinding, error) {
	host, err := l.host(ctx)
	if err != nil {
		return nil, err
	}
	found, err := l.own.Screen(ctx, host, paths...)
	return found, l.fail(err)
}

// Commit lands changes in the source: all that are chosen and not held back by screening, or
// none. If the principal was shown some of them and they are others now, or some have come where it
// was shown everything, the error is a [LayerReviewError]. An error means that nothing has landed,
// unless it says otherwise.
func (l *Layer) Commit(ctx context.Context, what LayerCommitOptions) (LayerCommit, error) {
	host, err := l.host(ctx)
	if err != nil {
		return LayerCommit{}, err
	}
	done, err := l.own.Commit(ctx, what, host)
	return done, l.fail(err)
}

// Discard takes changes out of the layer, and returns them. The source shows through there.
func (l *Layer) Discard(ctx context.Context, paths ...string) ([]LayerChange, error) {
	gone, err := l.own.Discard(ctx, paths...)
	return gone, l.fail(err)
}

// host finds what screening must know: what would be protected if commands worked in the source
// itself.
func (l *Layer) host(ctx context.Context) (layers.Host, error) {
	read := l.own.Begin(ctx)
	host, err := l.obeyed(ctx)
	if rerr := read(); rerr != nil { // which says what is wrong with the source
		return layers.Host{}, l.fail(rerr)
	}
	return host, err
}

// obeyed finds what the host obeys in the source. Changes that land there are writes by commands: the
// source is listed before, so that links that land are not taken for the user's.
func (l *Layer) obeyed(ctx context.Context) (layers.Host, error) {
	source := l.own.Info().Source
	host := layers.Host{Homes: hostpath.Homes(), Search: hostpath.ShellDirs(source), Named: map[string]layers.Named{}}
	opts := l.opts
	opts.NoLinks, opts.GitUser, opts.Path, opts.Toolchains, opts.ID = false, false, "", nil, ""
	_, req, err := opts.request(Spec{Workspace: Workspace{Source: source}})
	if err != nil {
		return host, err
	}
	found, err := opts.protect(ctx, &req)
	var link *obeyed.LinkError
	var refused *policy.FieldError
	opening := func(name string) (obeyed.Protection, error) {
		open := req
		open.Spec.Workspace.Unprotected = []string{name}
		p, err := opts.protect(ctx, &open)
		req.Guards = open.Guards
		return p, err
	}
	if errors.As(err, &link) { // the judge follows it
		found, err = opening(".git")
	}
	if errors.As(err, &refused) && refused.Field == "workspace.source" { // commands could not have worked in the source itself
		if all, _ := opening("*"); all.Homes != nil {
			found, err = all, nil
		}
	}
	if err != nil {
		return host, err
	}
	host.Landing = func(landed func(rel string) bool) error {
		return hostpath.RememberCommit(req, opts.StateDir == "", hostpath.Committed{Source: source, Landed: landed})
	}
	host.Tree = found.Tree()
	for _, o := range found.Watch {
		host.Named[o.Path] = layers.Named{Tool: o.Tool, Why: o.Why}
	}
	delete(host.Named, source)
	if refused != nil {
		host.Named[source] = layers.Named{Why: "the directory counts as a whole: " + refused.Reason}
	}
	for _, g := range req.Guards {
		if g.Except == "" { // a directory of repositories, of which each one is looked at
			host.Named[g.File] = layers.Named{Tool: cmp.Or(g.Tool, "git"), Why: g.Why}
		}
	}
	return host, nil
}

// makeLayer makes the layer of a request with an overlay, and locks it; it returns nil for any
// other one.
func (o Options) makeLayer(ctx context.Context, req *backend.Request) (layers.Held, error) {
	spec := req.Spec
	if spec.Workspace.Mode != policy.ModeOverlay || spec.Backend != policy.BackendLinux {
		return nil, nil
	}
	mounts, err := hostpath.Mounts(*req, policy.WorkspacePath)
	if err != nil {
		return nil, err
	}
	if o.Layer.Reopen {
		held, err := layers.Reopen(ctx, req.StateDir, req.ID, mounts[0].Source)
		if err != nil {
			return nil, layerError(req.ID, err)
		}
		req.Layer = &backend.Layer{Dir: held.Dir(), Root: held.Root()}
		return held, nil
	}
	if req.ID == "" {
		req.ID = backend.NewID()
	}
	place := ""
	if spec.Workspace.Layers != "" {
		way, err := hostpath.Locate(req.StateDir, spec.Workspace.Layers)
		if err != nil {
			return nil, hostpath.Refuse("workspace.layers", spec.Workspace.Layers, hostpath.Reason(err), hostpath.Hint(err))
		}
		place = way.Path
		if hostpath.Under(place, mounts[0].Source) || hostpath.Under(mounts[0].Source, place) {
			return nil, hostpath.Refuse("workspace.layers", place, "the workspace, "+mounts[0].Source+", and the layers would lie in each other", "name another directory")
		}
	}
	held, err := layers.Make(ctx, req.StateDir, layers.New{ID: req.ID, Source: mounts[0].Source, Place: place, Ends: !o.Layer.Keep, Command: o.Layer.Command})
	if err != nil {
		return nil, err
	}
	req.Layer = &backend.Layer{Dir: held.Dir(), Root: held.Root()}
	req.Own = append(slices.Clone(req.Own), hiddenPlaces(place)...)
	return held, nil
}

// hiddenPlaces returns directories with layers as files of Paddock's own.
func hiddenPlaces(places ...string) (own []backend.OwnFile) {
	for _, at := range places {
		if at != "" {
			own = append(own, backend.OwnFile{Path: at, Field: "workspace.layers", What: "a directory for layers", Hidden: true, Dir: true, Spare: true})
		}
	}
	return own
}
