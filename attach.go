package paddock

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/internal/run"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

// specName is the file in a sandbox's directory with the spec, without the environment,
// which may have secrets.
const specName = "spec.json"

// attachTime is how long an agent may take to answer [Attach]. Tests have less.
var attachTime = 30 * time.Second

// errSilent is why an Attach ends without an answer.
var errSilent = errors.New("its agent does not answer")

// Attach finds a running sandbox by its [Sandbox.ID], or by the name that [Create] gave it, to use it in addition to its
// owner: another process of the same user, with the same state directory. ctx applies
// only until Attach returns.
//
// The sandbox still belongs to its owner. It ends when its owner closes it or ends, while
// [Sandbox.Close] of the returned Sandbox only detaches from it. Its Spec is the owner's,
// without Env.
//
// For an invalid or unknown id, and for a sandbox that has ended, errors.Is(err,
// [ErrClosed]) is true.
func Attach(ctx context.Context, id string, opts Options) (*Sandbox, error) {
	name, what := id, "attach to sandbox "+strconv.Quote(text.Prefix(id, 40))
	state, _, err := opts.stateDir()
	if err != nil {
		return nil, err
	}
	id, lasting := run.Named(state, id)
	wall, err := run.Attach(state, id)
	if err != nil {
		return nil, opts.attachError(ctx, what, id, err)
	}
	s := &Sandbox{wall: wall, client: wire.Client{Dial: wall.Dial}, search: opts.Path, discreet: opts.NoLinks, attached: true, name: name, state: state, stopped: make(chan struct{})}
	ctx, cancel := context.WithTimeoutCause(ctx, attachTime, errSilent)
	defer cancel()
	if s.spec, err = readSpec(ctx, state, id); err == nil {
		_, err = s.client.Hello(ctx)
	}
	if lasting {
		s.lasting = &opts
	}
	if s.openNamed(); err == nil {
		err = s.expectRedaction(ctx)
	}
	if err != nil {
		_ = s.Close()
		if errors.Is(context.Cause(ctx), errSilent) {
			hint := "something has stopped it, or the host is very busy: try again"
			if lasting {
				hint += ", or end the sandbox: paddock stop " + name
			}
			return nil, &Error{Message: "cannot " + what + ": " + errSilent.Error(), Hint: hint}
		}
		return nil, opts.attachError(ctx, what, id, err)
	}
	return s, nil
}

// called returns what this process calls the sandbox: what it was found by, or its id.
func (s *Sandbox) called() string { return cmp.Or(s.name, s.ID()) }

// Paused reports whether the commands of a sandbox of [Create] are stopped by [Pause].
func (s *Sandbox) Paused() bool { return run.Paused(s.state, s.ID()) }

func (o Options) attachError(ctx context.Context, what, id string, err error) error {
	if gone := o.attachGone(ctx, id); gone != nil && ctx.Err() == nil {
		return gone
	}
	if errors.Is(err, backend.ErrGone) {
		hint := ""
		if state, _, serr := o.stateDir(); serr == nil {
			hint = unknownHint(state, id)
		}
		return &Error{Message: "cannot " + what + ": " + err.Error(), Code: wire.CodeGone, Hint: hint}
	}
	if other := (*wire.Error)(nil); errors.As(err, &other) && other.Code == wire.CodeUnsupported {
		hint := "another paddock has started it: use that one"
		if state, _, serr := o.stateDir(); serr == nil {
			if _, lasting := run.Named(state, id); lasting {
				hint = "another paddock has started it: paddock stop " + id + " and paddock start " + id + " have this one start it again"
			}
		}
		return &Error{Message: "cannot " + what + ": " + strings.TrimPrefix(other.Message, "cannot use the agent: "), Hint: hint, Code: other.Code}
	}
	return agentError(what, err)
}

// unknownHint returns what to do about the name of a sandbox that is unknown.
func unknownHint(state, name string) string {
	return meantName(state, name) + "paddock list shows this user's that run, with `all` every one"
}

// meantName returns a question for the name of a sandbox that an unknown name is near to, or "".
func meantName(state, name string) string {
	near := policy.Nearest(strings.Trim(name, `"`), run.Names(state))
	if near == "" {
		return ""
	}
	return "did you mean " + near + "? "
}

// writeSpec writes the spec where Attach finds it. Nobody can attach to a wall without a
// state directory.
func writeSpec(state, id string, spec Spec) error {
	spec.Env, spec.Network = nil, spec.Network.WithoutSources()
	text, err := json.Marshal(policy.StoredSpec(spec))
	if err == nil {
		err = hostpath.Replace(filepath.Join(state, "sandboxes", id, specName), 0o600, text)
	}
	if hint := hostpath.RoomHint(err, state); hint != "" {
		return &Error{Message: "cannot keep the spec of sandbox " + id + ": " + err.Error(), Hint: hint}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot keep the spec of sandbox %s: %w", id, err)
	}
	return nil
}

// maxSpec is the largest size of a spec, in bytes.
const maxSpec = 16 << 20

func readSpec(ctx context.Context, state, id string) (Spec, error) {
	var spec policy.StoredSpec
	text, err := hostpath.Read(ctx, state, filepath.Join("sandboxes", id, specName), maxSpec)
	if errors.Is(err, fs.ErrNotExist) {
		return Spec{}, backend.ErrGone // Open writes it before it returns
	}
	if err == nil {
		err = json.Unmarshal(text, &spec)
	}
	return Spec(spec), err
}

// Running is a sandbox that runs, of this process or of another one of the same user
// with the same state directory.
type Running struct {
	// ID is the id for [Attach].
	ID      string
	Backend string
	Since   time.Time
	// Ready is false while the sandbox starts: Spec is then empty, and Attach does
	// not find it.
	Ready bool
	// Spec is the spec of the owner, without Env.
	Spec Spec
}

// List returns the sandboxes that run, the oldest first. It does not have sandboxes of
// backends without a state directory.
func List(ctx context.Context, opts Options) ([]Running, error) { return opts.list(ctx, false) }

// ListOpened returns those that [List] does, but for sandboxes of [Create], which [ListLasting]
// returns.
func ListOpened(ctx context.Context, opts Options) ([]Running, error) { return opts.list(ctx, true) }

// list returns the sandboxes that run, with opened only those that end with their opener.
func (o Options) list(ctx context.Context, opened bool) ([]Running, error) {
	state, _, err := o.stateDir()
	if err != nil {
		return nil, err
	}
	return listIn(ctx, state, opened)
}

// listIn is list for a state directory.
func listIn(ctx context.Context, state string, opened bool) ([]Running, error) {
	found, err := run.List(state, opened)
	if err != nil {
		return nil, fmt.Errorf("cannot list the sandboxes: %w", err)
	}
	list := make([]Running, len(found))
	for i, r := range found {
		list[i] = Running{ID: r.ID, Backend: r.Backend, Since: r.Since}
		if spec, err := readSpec(ctx, state, r.ID); err == nil && r.Ready {
			list[i].Spec, list[i].Ready = spec, true
		}
	}
	return list, nil
}
