package layers

import (
	"cmp"
	"context"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/layer"
	"github.com/paddock-dev/paddock/obeyed"
)

// Changes returns what differs from the source, at and below paths, or everywhere.
func (l *Layer) Changes(ctx context.Context, paths ...string) ([]Change, error) {
	found, err := l.chosen(ctx, paths)
	return changesOf(found), err
}

func changesOf(found []layer.Change) []Change {
	all := make([]Change, len(found))
	for i, c := range found {
		all[i] = Change{Kind: string(rune(c.Kind)), Path: c.Path, From: c.From, Mode: c.New.Mode}
		if c.Kind != layer.Renamed {
			all[i].From = ""
		}
	}
	return all
}

// Screen returns what screening has found of the changes at and below paths.
func (l *Layer) Screen(ctx context.Context, host Host, paths ...string) ([]Finding, error) {
	found, err := l.chosen(ctx, paths)
	if err != nil {
		return nil, err
	}
	list, err := l.Layer.Screen(ctx, l.changes, l.screenOptions(ctx, host))
	if err != nil {
		return nil, err
	}
	if len(paths) > 0 {
		in := map[string]bool{}
		for _, c := range found {
			in[c.Path] = true
		}
		list = slices.DeleteFunc(list, func(f layer.Finding) bool { return !in[f.Path] })
	}
	return l.findingsOf(list), nil
}

// findingsOf returns findings, the most serious first, and among equals those about files of the source
// before new ones: commands can make any number of new files, which would hide the others in a list that
// is cut.
func (l *Layer) findingsOf(list []layer.Finding) []Finding {
	all := make([]Finding, len(list))
	for i, f := range list {
		n, found := slices.BinarySearchFunc(l.changes, f.Path, func(c layer.Change, path string) int { return strings.Compare(c.Path, path) })
		all[i] = Finding{Made: found && l.changes[n].Kind == layer.Added, Path: f.Path, At: f.At, Held: f.Level >= layer.Hold, Never: f.Level == layer.Never, Tool: f.Tool, Why: f.Why, With: f.With}
	}
	slices.SortStableFunc(all, func(a, b Finding) int { return cmp.Or(a.rank()-b.rank(), strings.Compare(a.Path, b.Path)) })
	return all
}

// rank is the place of a finding in a list.
func (f Finding) rank() (n int) {
	if !f.Held {
		n += 2
	}
	if f.Made {
		n++
	}
	return n
}

func (l *Layer) screenOptions(ctx context.Context, host Host) layer.ScreenOptions {
	opt := layer.ScreenOptions{Homes: host.Homes, Search: host.Search, Names: host.Tree.Below(ctx, l.held.Source, int(l.Source.Fd()))}
	for at, by := range host.Named {
		if rel, ok := hostpath.Within(at, l.held.Source); ok {
			opt.Named = append(opt.Named, obeyed.Named{Path: rel, Tool: by.Tool, Why: by.Why})
		}
	}
	slices.SortFunc(opt.Named, func(a, b obeyed.Named) int { return strings.Compare(a.Path, b.Path) })
	return opt
}

// WriteStat writes how many lines of each file come and go.
func (l *Layer) WriteStat(ctx context.Context, w io.Writer, paths ...string) error {
	found, err := l.chosen(ctx, paths)
	if err == nil {
		err = l.Layer.WriteStat(ctx, w, found)
	}
	if err != nil {
		return err
	}
	return l.remember(ctx)
}

// WriteStatus writes a line for each path. It records nothing, since it reads no file.
func (l *Layer) WriteStatus(ctx context.Context, w io.Writer, paths ...string) error {
	found, err := l.chosen(ctx, paths)
	if err == nil {
		err = layer.WriteStatus(w, found)
	}
	return err
}

// WriteTar writes changes as a layer of an OCI image. It returns the paths of special files,
// which such a layer does not have.
func (l *Layer) WriteTar(ctx context.Context, w io.Writer, paths ...string) (left []string, err error) {
	found, err := l.chosen(ctx, paths)
	var special []layer.Change
	if err == nil {
		special, err = l.Layer.WriteTar(ctx, w, found)
	}
	for _, c := range special {
		left = append(left, c.Path)
	}
	if err != nil {
		return left, err
	}
	return left, l.remember(ctx)
}

// remember records what the source has at the paths that have changed, unless it was recorded
// before: from then on a conflict is told exactly. Of a layer that is only looked at nothing is
// recorded.
func (l *Layer) remember(ctx context.Context) error {
	if l.runs != nil {
		if !l.runs() {
			return errEnded
		}
		return nil
	}
	all, err := l.held.Known()
	if err != nil {
		return err
	}
	fresh := l.changes
	if len(all) > 0 {
		fresh = slices.DeleteFunc(slices.Clone(fresh), func(c layer.Change) bool {
			_, known := all[c.OldPath()]
			return known
		})
	}
	if len(fresh) == 0 {
		return nil
	}
	more, err := l.Records(ctx, fresh)
	if err != nil || len(more) == 0 {
		return err
	}
	maps.Copy(all, more)
	return l.held.SaveKnown(all)
}

// Count returns how many paths differ from the source.
func (h held) Count(ctx context.Context) (int, error) {
	l := &Layer{held: h.Held}
	err := l.ready(ctx)
	if l.Layer != nil {
		_ = l.Source.Close()
		_ = l.Upper.Close()
	}
	return len(l.changes), err
}
