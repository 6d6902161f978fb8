package layers

import (
	"bytes"
	"context"
	"io"
	"iter"
	"path"

	"github.com/paddock-dev/paddock/backend/layerstore"
	"github.com/paddock-dev/paddock/layer"
)

// WritePatch writes changes as git apply takes them, with binary files if binary says so, and records
// that the principal has seen them. It also works on the layer of a running sandbox: if commands change
// a file again, the commit says so.
func (l *Layer) WritePatch(ctx context.Context, w io.Writer, binary bool, paths ...string) error {
	found, err := l.chosen(ctx, paths)
	content := map[string]*layer.ContentSum{}
	if err == nil {
		err = l.Layer.WritePatch(ctx, w, found, layer.PatchOptions{Binary: binary, Shown: func(p string, sum layer.ContentSum) { content[p] = &sum }})
	}
	if err == nil {
		err = l.remember(ctx)
	}
	if err != nil {
		return err
	}
	scopes := scopesOf(paths)
	return l.held.UpdateShown(scopes["."], func(all map[string]*layerstore.Shown) {
		mine := all[l.Principal]
		if mine == nil {
			mine = &layerstore.Shown{Scopes: map[string]bool{}, Paths: map[string]layerstore.ShownPath{}}
			all[l.Principal] = mine
		}
		end(mine, scopes)
		for at := range scopes {
			if !covers(mine.Scopes, at) {
				mine.Scopes[at] = true
			}
		}
		for at, changes := range byPath(found) {
			if !layer.IsInGit(at) {
				mine.Paths[at] = layerstore.ShownPath{Sum: layer.Fingerprint(changes, content[at]), Whole: content[at] != nil}
			}
		}
	})
}

// WriteUnreviewed writes the changes of an error of Commit as a patch. It records nothing.
func (l *Layer) WriteUnreviewed(ctx context.Context, w io.Writer, of *ReviewError) error {
	if err := l.ready(ctx); err != nil {
		return err
	}
	in := map[string]bool{}
	for _, list := range [][]Change{of.Changed, of.Appeared} {
		for _, c := range list {
			in[c.Path] = true
		}
	}
	var found []layer.Change
	for _, c := range l.changes {
		if in[c.Path] {
			found = append(found, c)
		}
	}
	return l.Layer.WritePatch(ctx, w, found, layer.PatchOptions{})
}

// review returns a [ReviewError] if a commit would land changes that differ from those the principal
// has seen. A principal that has seen no diff commits the present changes.
func (l *Layer) review(ctx context.Context, how layer.CommitOptions) (Commit, error) {
	all, err := l.held.Shown()
	if err != nil || all[l.Principal] == nil {
		return Commit{}, err
	}
	other, err := l.unlike(ctx, all[l.Principal], how.Paths)
	if err != nil || len(other) == 0 {
		return Commit{}, err
	}
	how.DryRun = true // what is held back, or skipped, does not matter
	r, err := l.Layer.Commit(ctx, l.changes, how)
	if err != nil {
		return l.commitOf(r), err
	}
	var failed ReviewError
	for _, c := range changesOf(r.Landed) {
		switch was, is := other[c.Path]; {
		case is && was:
			failed.Changed = append(failed.Changed, c)
		case is:
			failed.Appeared = append(failed.Appeared, c)
		}
	}
	if len(failed.Changed)+len(failed.Appeared) == 0 {
		return Commit{}, nil
	}
	return Commit{Left: len(l.changes)}, &failed
}

// unlike returns the paths of changes that differ from the diff that was shown, and whether that had
// each of them.
func (l *Layer) unlike(ctx context.Context, shown *layerstore.Shown, paths []string) (map[string]bool, error) {
	found, err := l.chosen(ctx, paths)
	if err != nil {
		return nil, err
	}
	other := map[string]bool{}
	for at, changes := range byPath(found) {
		was, is := shown.Paths[at]
		if !is {
			if !layer.IsInGit(at) && covers(shown.Scopes, at) {
				other[at] = false
			}
			continue
		}
		var content *layer.ContentSum
		if was.Whole {
			if content, err = l.Content(ctx, &changes[len(changes)-1]); err != nil {
				return nil, err
			}
		}
		if !bytes.Equal(layer.Fingerprint(changes, content), was.Sum) {
			other[at] = true
		}
	}
	return other, nil
}

// forgetLanded drops the records of changes that have landed. If the principal has committed everything,
// it also drops the record that everything was shown: later changes need a diff of their own.
func (l *Layer) forgetLanded(landed []layer.Change, opt CommitOptions) error {
	all, err := l.held.Shown()
	if len(all) == 0 && err == nil || err != nil && opt.Unreviewed { // the next commit fails because of it, too
		return nil
	}
	scopes := scopesOf(opt.Paths)
	return l.held.UpdateShown(false, func(all map[string]*layerstore.Shown) {
		for name, one := range all {
			for _, c := range landed {
				delete(one.Paths, c.Path)
			}
			if name == l.Principal {
				endScopes(one, scopes)
			}
		}
	})
}

// forgetDiscarded drops the records of seen changes at and below paths, or everywhere.
func (l *Layer) forgetDiscarded(paths []string) error {
	if all, err := l.held.Shown(); len(all) == 0 && err == nil {
		return nil
	}
	scopes := scopesOf(paths)
	return l.held.UpdateShown(scopes["."], func(all map[string]*layerstore.Shown) {
		for _, one := range all {
			end(one, scopes)
		}
	})
}

// scopesOf returns the paths that are meant, "." for everything.
func scopesOf(paths []string) map[string]bool {
	if len(paths) == 0 {
		return map[string]bool{".": true}
	}
	all := map[string]bool{}
	for _, p := range paths {
		all[path.Clean(p)] = true
	}
	return all
}

// covers reports whether a path is at or below one of some scopes.
func covers(scopes map[string]bool, at string) bool {
	for ; at != "." && at != "/"; at = path.Dir(at) {
		if scopes[at] {
			return true
		}
	}
	return scopes["."]
}

// end drops the records within some scopes.
func end(shown *layerstore.Shown, scopes map[string]bool) {
	endScopes(shown, scopes)
	for at := range shown.Paths {
		if covers(scopes, at) {
			delete(shown.Paths, at)
		}
	}
}

func endScopes(shown *layerstore.Shown, scopes map[string]bool) {
	for at := range shown.Scopes {
		if covers(scopes, at) {
			delete(shown.Scopes, at)
		}
	}
}

// byPath returns changes, which are sorted, by their paths.
func byPath(changes []layer.Change) iter.Seq2[string, []layer.Change] {
	return func(yield func(string, []layer.Change) bool) {
		for len(changes) > 0 {
			n := 1
			for n < len(changes) && changes[n].Path == changes[0].Path {
				n++
			}
			if !yield(changes[0].Path, changes[:n]) {
				return
			}
			changes = changes[n:]
		}
	}
}
