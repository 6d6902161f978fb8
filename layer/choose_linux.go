package layer

import (
	"context"
	"slices"

	"github.com/paddock-dev/paddock/layer/delta"
)

// want finds the changes that are asked for, and the new directories that they need.
func (c *commit) want(changes []Change) error {
	if missing := unmatched(changes, slices.Concat(c.opt.Paths, c.opt.Accept)); len(missing) > 0 {
		return &PathError{missing}
	}
	c.changes, c.wanted, c.held = changes, make([]bool, len(changes)), map[string]Finding{}
	c.judge = c.Layer.judge(changes, c.opt.Screen)
	trees := map[string]bool{}
	for i := range changes {
		if changes[i].MakesTree() {
			trees[changes[i].Path] = true
		}
	}
	wanted, passed := map[string]bool{}, map[string]bool{}
	for i := range changes {
		if p := changes[i].Path; len(c.opt.Paths) == 0 || slices.ContainsFunc(c.opt.Paths, func(top string) bool { return delta.In(p, top) }) {
			for dir := p; dir != "" && !wanted[dir]; dir, _ = delta.Split(dir) {
				wanted[dir] = dir == p || trees[dir]
				if dir != p && passed[dir] {
					break
				}
				passed[dir] = true
			}
		}
	}
	for i := range changes {
		c.wanted[i] = wanted[changes[i].Path]
	}
	c.lands = slices.Clone(c.wanted)
	return nil
}

// maxJudged is how often the remaining changes are judged again before all of them are held back.
const maxJudged = 32

// screen finds which of the wanted changes land. With exactly these the host obeys the same as now,
// apart from accepted changes, and no deletion removes content that only a change left out has.
func (c *commit) screen(ctx context.Context) error {
	for n := 1; ; n++ {
		findings, err := c.judge.Findings(ctx, func(i int) bool { return c.lands[i] })
		if err != nil {
			return err
		}
		held := map[string]Finding{}
		c.out.Marked = nil
		for _, f := range findings {
			if old, there := held[f.Path]; f.Level > Mark && (!there || old.Level < f.Level) {
				held[f.Path] = f
			}
			if f.Level == Mark {
				c.out.Marked = append(c.out.Marked, f)
			}
		}
		more := c.leave(func(ch *Change) (Finding, bool) {
			if n == maxJudged {
				return Finding{Path: ch.Path, Level: Hold, Why: "what depends on what is held back leads too far to tell"}, true
			}
			f, is := held[ch.Path]
			return f, is && (f.Level == Never || !c.accepted(ch))
		})
		if !more {
			if more, err = c.keepMoved(ctx); err != nil {
				return err
			}
		}
		if !more {
			break
		}
	}
	c.chosen, c.out.Held = nil, nil
	for i := range c.changes {
		if c.lands[i] {
			c.chosen = append(c.chosen, &c.changes[i])
			continue
		}
		if f, is := c.held[c.changes[i].Path]; is && c.wanted[i] && (len(c.out.Held) == 0 || c.out.Held[len(c.out.Held)-1] != f) {
			c.out.Held = append(c.out.Held, f)
		}
	}
	c.out.Marked = slices.DeleteFunc(c.out.Marked, func(f Finding) bool { _, is := c.held[f.Path]; return is })
	return nil
}

// leave holds back the landing changes for which why says so, and those in directories that are held
// back. It reports whether there were any.
func (c *commit) leave(why func(ch *Change) (Finding, bool)) (more bool) {
	out := newInherited[string]() // directories that are held back
	for i := range c.changes {
		ch := &c.changes[i]
		if c.lands[i] {
			f, is := why(ch)
			if dir := out.above(ch.Path); !is && dir != "" {
				f, is = Finding{Path: ch.Path, At: dir, Level: Hold, Why: "it is in a directory that is held back"}, true
			}
			if !is {
				continue
			}
			c.lands[i], c.held[ch.Path], more = false, f, true
		}
		if c.wanted[i] && ch.MakesTree() {
			out.own[ch.Path] = ch.Path
		}
	}
	return more
}

// keepMoved holds back what would remove content that only a change left out has. It reports whether there was
// any.
func (c *commit) keepMoved(ctx context.Context) (more bool, err error) {
	var landing, left []*Change
	for i := range c.changes {
		if c.lands[i] {
			landing = append(landing, &c.changes[i])
		} else {
			left = append(left, &c.changes[i])
		}
	}
	if len(left) == 0 {
		return false, nil
	}
	stranded, err := c.stranded(ctx, landing, left, false)
	if err != nil {
		return false, err
	}
	return c.leave(func(ch *Change) (Finding, bool) {
		lost, is := stranded[ch.Path]
		if !is {
			return Finding{}, false
		}
		f := Finding{Path: ch.Path, Level: Hold, Why: lost.why()}
		if !lost.maybe || ch.Kind == Modified {
			f.With = lost.to.Path
		}
		return f, true
	}), nil
}

// accepted reports whether a change lands although it is held back: it, or a directory above it,
// is accepted, or it is a directory that something accepted needs.
func (c *commit) accepted(ch *Change) bool {
	return slices.ContainsFunc(c.opt.Accept, func(p string) bool {
		return p != "" && p != "." && delta.In(ch.Path, p) || ch.MakesTree() && ch.Kind == Added && delta.In(p, ch.Path)
	})
}

// unmatched returns the paths at or below which there is no change.
func unmatched(changes []Change, paths []string) (missing []string) {
	for _, p := range paths {
		if !slices.ContainsFunc(changes, func(ch Change) bool { return delta.In(ch.Path, p) }) {
			missing = append(missing, p)
		}
	}
	return missing
}

// skip leaves out changes of paths, and what is in directories that are left out.
func (c *commit) skip(paths map[string]bool) {
	out := newInherited[string]()
	for i := range c.changes {
		ch := &c.changes[i]
		if c.lands[i] && (paths[ch.Path] || out.above(ch.Path) != "") {
			c.lands[i] = false
			if ch.MakesTree() {
				out.own[ch.Path] = ch.Path
			}
		}
	}
}
