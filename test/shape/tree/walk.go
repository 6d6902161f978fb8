package tree

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"maps"
	"slices"
	"strings"
)

// Walk is the way of one value through the product, from where somebody writes
// it to where the kernel, or a reader, gets it.
//
// A function touches the value where
//
//   - its signature, or that of a function in it, mentions a type of Value;
//   - or it uses a field of Value, or one whose type mentions a type of Value;
//   - or a caller gives it one of these as an argument of any other type (any, a
//     type parameter, a plain number): by itself, converted, as an element, or
//     by a variable that was assigned one.
//
// A function passes the value on where the same is true of the types of Within,
// which hold the value among much else, and it calls a function that touches the
// value or passes it on. What is given the whole and never comes to the value is
// not on the walk.
//
// The walk consists of all such functions that calls lead to from those in From,
// over functions of the same kind. Functions of From and Within are on it in any
// case: of bytes of JSON no type tells what they hold. A call of an interface's
// method leads to every method that implements it; to name a function without
// calling it counts as a call, since somebody else then calls it. Packages and
// files in Beside are not entered: the value goes there on another walk.
//
// So no call that carries the value leaves the files of its walk, but for Beside.
// A field that a function on the walk stores the value in is one of Value, or of
// a structure of Value, or one of Ends: else the value would leave unseen.
type Walk struct {
	Name   string   // its marker in ARCHITECTURE.md
	Title  string   // from where to where
	From   []string // functions: the door, and those where the value comes out of a table, a channel, a sandbox or the wire
	Value  []string // types, fields and parameters
	Within []string // types and functions
	Beside []string // packages (with those below them) and files
	Ends   []string // fields that keep the value to tell it, from which it is not taken further
}

// holding is what an expression or a variable holds.
type holding int

const (
	nothing  holding = iota
	whole            // something of Within
	theValue         // something of Value
)

// walker finds one walk.
type walker struct {
	nodes         map[types.Object]*node
	impls         map[*types.Func][]*types.Func
	value, within map[types.Object]bool
	given         map[types.Object]holding // parameters and local variables
	beside        []string
	ends          map[types.Object]bool
	stored        map[string]bool // what it was stored in without leave
}

// Files returns the files of a walk, each behind one that calls into it, but for
// those of From.
func (t *Tree) Files(w Walk) ([]string, error) {
	s := &walker{nodes: t.nodes(), impls: t.implementations(), given: map[types.Object]holding{}, beside: w.Beside, stored: map[string]bool{}}
	var from []*node
	for _, set := range []struct {
		to    *map[types.Object]bool
		names []string
	}{{&s.value, w.Value}, {&s.within, slices.Concat(w.Within, w.From)}, {&s.ends, w.Ends}} {
		*set.to = map[types.Object]bool{}
		for _, name := range set.names {
			o, err := t.lookup(name)
			if err != nil {
				return nil, fmt.Errorf("walk %s: %w", w.Name, err)
			}
			(*set.to)[o] = true
			if slices.Contains(w.From, name) {
				from = append(from, s.nodes[o])
			}
		}
	}
	if slices.Contains(from, nil) {
		return nil, fmt.Errorf("walk %s: what it starts from must be functions", w.Name)
	}
	for {
		before := maps.Clone(s.given)
		order, calls := s.reach(from)
		if maps.Equal(s.given, before) {
			if len(s.stored) > 0 {
				return nil, fmt.Errorf("walk %s: the value is stored in fields that are neither in Value nor in Ends:\n%s",
					w.Name, strings.Join(slices.Sorted(maps.Keys(s.stored)), "\n"))
			}
			return s.onTheWay(order, calls), nil
		}
	}
}

// reach returns the functions that touch the value or could pass it on and that
// calls lead to, breadth first, with what each calls. On its way it notes which
// arguments and variables hold the value.
func (s *walker) reach(from []*node) (order []*node, calls map[*node][]*node) {
	calls = map[*node][]*node{}
	for queue := slices.Clone(from); len(queue) > 0; queue = queue[1:] {
		n := queue[0]
		if _, seen := calls[n]; seen {
			continue
		}
		s.follow(n)
		calls[n] = []*node{}
		order = append(order, n)
		for o := range n.mentions {
			for _, to := range s.targets(o) {
				if to != nil && !s.isBeside(to) && (isVar(to) || s.touches(to) || s.carries(to)) {
					calls[n] = append(calls[n], to)
				}
			}
		}
		slices.SortFunc(calls[n], func(a, b *node) int { return int(a.object.Pos() - b.object.Pos()) })
		queue = append(queue, calls[n]...)
	}
	return order, calls
}

// onTheWay returns the files of those functions that touch the value, or lead
// to one that does.
func (s *walker) onTheWay(order []*node, calls map[*node][]*node) (files []string) {
	on := map[*node]bool{}
	for changed := true; changed; {
		changed = false
		for _, n := range order {
			if !on[n] && (s.touches(n) || s.isNamed(n) || slices.ContainsFunc(calls[n], func(to *node) bool { return on[to] })) {
				on[n], changed = true, true
			}
		}
	}
	for _, n := range order {
		if on[n] && !slices.Contains(files, n.file) {
			files = append(files, n.file)
		}
	}
	return files
}

func isVar(n *node) bool {
	_, ok := n.object.(*types.Var)
	return ok
}

func (s *walker) isBeside(n *node) bool {
	return slices.ContainsFunc(s.beside, func(path string) bool {
		return n.file == path || n.pkg.Path == path || strings.HasPrefix(n.pkg.Path, path+"/")
	})
}

// targets are the nodes that the use of an object leads to.
func (s *walker) targets(o types.Object) []*node {
	o = origin(o)
	if f, ok := o.(*types.Func); ok {
		if impls, ok := s.impls[f]; ok {
			var all []*node
			for _, m := range impls {
				all = append(all, s.nodes[m])
			}
			return all
		}
	}
	if n := s.nodes[o]; n != nil {
		return []*node{n}
	}
	return nil
}

// isNamed reports whether a node is a function of From or Within.
func (s *walker) isNamed(n *node) bool { return s.within[n.object] }

// touches reports whether a node receives, returns or uses the value itself.
func (s *walker) touches(n *node) bool {
	return s.has(n, s.value, func(v *types.Var) bool { return s.variable(v) == theValue })
}

// carries reports whether a node receives, returns or uses something that holds
// the value.
func (s *walker) carries(n *node) bool {
	return s.isNamed(n) || s.has(n, s.within, func(v *types.Var) bool { return s.variable(v) == whole })
}

// variable returns what a field, a parameter or a local variable holds.
func (s *walker) variable(v *types.Var) holding {
	if s.value[v.Origin()] {
		return theValue
	}
	return max(s.given[v], s.kind(v.Type()))
}

// kind returns what a value of a type holds.
func (s *walker) kind(t types.Type) holding {
	switch {
	case t == nil:
	case mentions(t, s.value):
		return theValue
	case mentions(t, s.within):
		return whole
	}
	return nothing
}

// has reports whether a node has one of some types in its signature or in that of
// a function in it, or uses a variable.
func (s *walker) has(n *node, objects map[types.Object]bool, uses func(*types.Var) bool) bool {
	if f, ok := n.object.(*types.Func); ok && mentions(f.Signature(), objects) {
		return true
	}
	found := false
	ast.Inspect(n.syntax, func(x ast.Node) bool {
		switch x := x.(type) {
		case *ast.FuncLit:
			found = found || mentions(n.pkg.Info.TypeOf(x), objects)
		case *ast.Ident:
			o := n.pkg.Info.Uses[x]
			if o == nil {
				o = n.pkg.Info.Defs[x]
			}
			if v, ok := o.(*types.Var); ok && uses(v) {
				found = true
			}
		}
		return !found
	})
	return found
}

// mentions reports whether a type names one of some types: itself, behind a
// pointer, as an element, in a signature, or as the argument of a generic type.
func mentions(t types.Type, objects map[types.Object]bool) bool {
	switch t := types.Unalias(t).(type) {
	case *types.Named:
		if objects[t.Origin().Obj()] {
			return true
		}
		for i := range t.TypeArgs().Len() {
			if mentions(t.TypeArgs().At(i), objects) {
				return true
			}
		}
	case *types.Pointer:
		return mentions(t.Elem(), objects)
	case *types.Slice:
		return mentions(t.Elem(), objects)
	case *types.Array:
		return mentions(t.Elem(), objects)
	case *types.Chan:
		return mentions(t.Elem(), objects)
	case *types.Map:
		return mentions(t.Key(), objects) || mentions(t.Elem(), objects)
	case *types.Signature:
		return t.Recv() != nil && mentions(t.Recv().Type(), objects) || mentions(t.Params(), objects) || mentions(t.Results(), objects)
	case *types.Tuple:
		for v := range t.Variables() {
			if mentions(v.Type(), objects) {
				return true
			}
		}
	}
	return false
}

// follow marks the local variables of a node, and the parameters of what it
// calls, that are given something.
func (s *walker) follow(n *node) {
	info := n.pkg.Info
	var inner []*ast.FuncLit
	assign := func(to ast.Expr, what holding) {
		if sel, ok := to.(*ast.SelectorExpr); ok {
			s.store(n, sel.X, sel.Sel, what)
		}
		id, ok := to.(*ast.Ident)
		if !ok || what == nothing {
			return
		}
		o := info.Defs[id]
		if o == nil {
			o = info.Uses[id]
		}
		if v, ok := o.(*types.Var); ok && v.Parent() != n.pkg.Types.Scope() {
			s.give(v, what)
		}
	}
	ast.Inspect(n.syntax, func(x ast.Node) bool {
		switch x := x.(type) {
		case *ast.FuncLit:
			inner = append(inner, x)
		case *ast.ReturnStmt:
			// Those of a function within are its own.
			if slices.ContainsFunc(inner, func(f *ast.FuncLit) bool { return f.Pos() < x.Pos() && x.Pos() < f.End() }) {
				break
			}
			for i, e := range x.Results {
				if f, ok := n.object.(*types.Func); ok && len(x.Results) == f.Signature().Results().Len() {
					s.give(f.Signature().Results().At(i), s.holds(n, e))
				}
			}
		case *ast.AssignStmt:
			for i, left := range x.Lhs {
				if call, ok := ast.Unparen(x.Rhs[0]).(*ast.CallExpr); ok && len(x.Rhs) < len(x.Lhs) {
					assign(left, s.result(n, call, i))
				} else {
					assign(left, s.holds(n, x.Rhs[min(i, len(x.Rhs)-1)]))
				}
			}
		case *ast.CompositeLit:
			for _, e := range x.Elts {
				if kv, ok := e.(*ast.KeyValueExpr); ok {
					if field, ok := kv.Key.(*ast.Ident); ok {
						s.store(n, x, field, s.holds(n, kv.Value))
					}
				}
			}
		case *ast.ValueSpec:
			for i, left := range x.Names {
				if len(x.Values) > 0 {
					assign(left, s.holds(n, x.Values[min(i, len(x.Values)-1)]))
				}
			}
		case *ast.RangeStmt:
			if x.Value != nil {
				assign(x.Value, s.holds(n, x.X))
			}
		case *ast.CallExpr:
			for i, arg := range x.Args {
				if what := s.holds(n, arg); what != nothing {
					s.giveTo(s.targets(callee(info, x)), i, what)
				}
			}
		}
		return true
	})
}

// store notes where the value is stored in a field from which nobody follows it.
func (s *walker) store(n *node, in ast.Expr, field *ast.Ident, what holding) {
	v, ok := n.pkg.Info.Uses[field].(*types.Var)
	if ok && v.IsField() && what == theValue && s.keeps(v.Type()) && s.variable(v) != theValue && s.kind(n.pkg.Info.TypeOf(in)) != theValue && !s.ends[v.Origin()] {
		s.stored[fmt.Sprintf("%s: %s stores it in %s", n.file, n.object.Name(), v.Name())] = true
	}
}

// giveTo marks the parameter of functions that an argument becomes.
func (s *walker) giveTo(functions []*node, arg int, what holding) {
	for _, to := range functions {
		if to == nil || s.isBeside(to) {
			continue
		}
		if f, ok := to.object.(*types.Func); ok && f.Signature().Params().Len() > 0 {
			params := f.Signature().Params()
			s.give(params.At(min(arg, params.Len()-1)), what)
		}
	}
}

// give marks a variable.
func (s *walker) give(v *types.Var, what holding) {
	if s.keeps(v.Type()) && s.kind(v.Type()) == nothing {
		s.given[v] = max(s.given[v], what)
	}
}

// keeps reports whether a variable of a type can hold the value. A truth value, an
// error, or another structure or interface is made with it, and is not it.
func (s *walker) keeps(t types.Type) bool {
	t = types.Unalias(t)
	if p, ok := t.(*types.Pointer); ok {
		t = types.Unalias(p.Elem())
	}
	if b, ok := t.Underlying().(*types.Basic); ok {
		return b.Info()&types.IsBoolean == 0
	}
	if _, ok := t.(*types.Named); ok && s.kind(t) == nothing {
		switch t.Underlying().(type) {
		case *types.Struct, *types.Interface:
			return false
		}
	}
	return true
}

// holds returns what an expression is, or is made of. What a comparison, a length
// or a call says of a value is not the value, unless its type is; the packages
// slices and maps, and what is built in, give back what they are given.
func (s *walker) holds(n *node, e ast.Expr) (what holding) {
	info := n.pkg.Info
	if what = s.kind(info.TypeOf(e)); what == theValue {
		return what
	}
	switch e := ast.Unparen(e).(type) {
	case *ast.Ident:
		if v, ok := info.Uses[e].(*types.Var); ok {
			return s.variable(v)
		}
	case *ast.SelectorExpr:
		if v, ok := info.Uses[e.Sel].(*types.Var); ok {
			return s.variable(v)
		}
	case *ast.StarExpr:
		return s.holds(n, e.X)
	case *ast.UnaryExpr:
		if e.Op != token.NOT {
			return s.holds(n, e.X)
		}
	case *ast.BinaryExpr:
		switch e.Op {
		case token.ADD, token.SUB, token.MUL, token.QUO, token.REM:
			return max(s.holds(n, e.X), s.holds(n, e.Y))
		}
	case *ast.IndexExpr:
		return s.holds(n, e.X)
	case *ast.SliceExpr:
		return s.holds(n, e.X)
	case *ast.KeyValueExpr:
		return s.holds(n, e.Value)
	case *ast.CompositeLit:
		for _, x := range e.Elts {
			what = max(what, s.holds(n, x))
		}
	case *ast.CallExpr:
		if givesBack(info, e) {
			for _, x := range e.Args {
				what = max(what, s.holds(n, x))
			}
			return what
		}
		what = max(what, s.result(n, e, 0))
	}
	return what
}

// result returns what one of the results of a call holds.
func (s *walker) result(n *node, call *ast.CallExpr, i int) (what holding) {
	for _, to := range s.targets(callee(n.pkg.Info, call)) {
		if to == nil {
			continue
		}
		if f, ok := to.object.(*types.Func); ok && i < f.Signature().Results().Len() {
			what = max(what, s.variable(f.Signature().Results().At(i)))
		}
	}
	return what
}

// givesBack reports whether a call is a conversion, append, min or max, or one of
// the packages slices and maps.
func givesBack(info *types.Info, call *ast.CallExpr) bool {
	if info.Types[call.Fun].IsType() {
		return true
	}
	switch o := callee(info, call).(type) {
	case *types.Builtin:
		return o.Name() == "append" || o.Name() == "min" || o.Name() == "max"
	case *types.Func:
		return o.Pkg() != nil && (o.Pkg().Path() == "slices" || o.Pkg().Path() == "maps")
	}
	return false
}
