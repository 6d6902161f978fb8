package tree

import (
	"go/ast"
	"go/types"
	"maps"
	"slices"
	"strings"
)

// Arrow is one file that uses what another file declares.
type Arrow struct{ From, To string }

// Arrows returns the arrows between the files of the package at path, and of
// those below it: all of them, and those that run upward.
//
// There is an arrow from A to B where A uses an object that B declares: a
// function, method, type, field, variable or constant. The files of a package are
// put in an order in which few arrows run back (by the greedy rule of Eades, Lin
// and Smyth); those that do run upward. Each of them is a part of a circle of
// files that can only be understood together. Between packages there are none:
// the compiler refuses them.
func (t *Tree) Arrows(path string) (all, upward []Arrow) {
	for _, p := range t.Packages {
		if p.Path != path && !strings.HasPrefix(p.Path, path+"/") {
			continue
		}
		next := t.uses(p)
		place := map[string]int{}
		for i, file := range order(next) {
			place[file] = i
		}
		for _, from := range slices.Sorted(maps.Keys(next)) {
			for _, to := range slices.Sorted(maps.Keys(next[from])) {
				all = append(all, Arrow{from, to})
				if place[to] < place[from] {
					upward = append(upward, Arrow{from, to})
				}
			}
		}
	}
	return all, upward
}

// uses returns which file of a package uses which.
func (t *Tree) uses(p *Package) map[string]map[string]bool {
	next := map[string]map[string]bool{}
	for _, f := range p.Files {
		from := t.File(f.Pos())
		next[from] = map[string]bool{}
		ast.Inspect(f, func(n ast.Node) bool {
			id, ok := n.(*ast.Ident)
			if !ok {
				return true
			}
			if o := p.Info.Uses[id]; o != nil && o.Pkg() == p.Types && o.Pos().IsValid() {
				if to := t.File(origin(o).Pos()); to != from {
					next[from][to] = true
				}
			}
			return true
		})
	}
	return next
}

// order puts nodes so that few arrows run back: again and again what nothing
// uses comes first, what uses nothing last, and else first what uses most beyond
// what it is used by.
func order(next map[string]map[string]bool) []string {
	left := slices.Sorted(maps.Keys(next))
	var first, last []string
	for len(left) > 0 {
		best, most := 0, 0
		end := false
		for i, n := range left {
			out, in := 0, 0
			for _, m := range left {
				if next[n][m] {
					out++
				}
				if next[m][n] {
					in++
				}
			}
			if out == 0 || in == 0 {
				best, end = i, out == 0
				break
			}
			if i == 0 || out-in > most {
				best, most = i, out-in
			}
		}
		if end {
			last = append(last, left[best])
		} else {
			first = append(first, left[best])
		}
		left = slices.Delete(left, best, best+1)
	}
	slices.Reverse(last)
	return append(first, last...)
}

// origin returns the generic object that an instance was made of, or the object.
func origin(o types.Object) types.Object {
	switch o := o.(type) {
	case *types.Func:
		return o.Origin()
	case *types.Var:
		return o.Origin()
	}
	return o
}
