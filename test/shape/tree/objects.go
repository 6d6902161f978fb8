package tree

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

// node is a function or a variable of a package.
type node struct {
	object   types.Object
	pkg      *Package
	syntax   ast.Node
	file     string
	mentions map[types.Object]bool // what its text uses, signatures included
}

// callee is the function that a call names, nil for none.
func callee(info *types.Info, call *ast.CallExpr) types.Object {
	fun := ast.Unparen(call.Fun)
	switch f := fun.(type) {
	case *ast.IndexExpr:
		fun = f.X
	case *ast.IndexListExpr:
		fun = f.X
	}
	switch f := fun.(type) {
	case *ast.Ident:
		return info.Uses[f]
	case *ast.SelectorExpr:
		return info.Uses[f.Sel]
	}
	return nil
}

// nodes are the functions and package variables of the product.
func (t *Tree) nodes() map[types.Object]*node {
	all := map[types.Object]*node{}
	add := func(p *Package, id *ast.Ident, syntax ast.Node) {
		o := p.Info.Defs[id]
		if o == nil {
			return
		}
		n := &node{object: o, pkg: p, syntax: syntax, file: t.File(id.Pos()), mentions: map[types.Object]bool{}}
		ast.Inspect(syntax, func(x ast.Node) bool {
			if id, ok := x.(*ast.Ident); ok && p.Info.Uses[id] != nil {
				n.mentions[p.Info.Uses[id]] = true
			}
			return true
		})
		all[o] = n
	}
	for _, p := range t.Packages {
		for _, f := range p.Files {
			for _, d := range f.Decls {
				switch d := d.(type) {
				case *ast.FuncDecl:
					add(p, d.Name, d)
				case *ast.GenDecl:
					for _, spec := range d.Specs {
						if v, ok := spec.(*ast.ValueSpec); ok && d.Tok == token.VAR {
							for _, name := range v.Names {
								add(p, name, v)
							}
						}
					}
				}
			}
		}
	}
	return all
}

// implementations maps each method of the product's interfaces to the product's
// methods that implement it.
func (t *Tree) implementations() map[*types.Func][]*types.Func {
	var interfaces []*types.Named
	var concrete []types.Type
	for _, p := range t.Packages {
		scope := p.Types.Scope()
		for _, name := range scope.Names() {
			o, ok := scope.Lookup(name).(*types.TypeName)
			if !ok || o.IsAlias() {
				continue
			}
			named := o.Type().(*types.Named)
			if named.TypeParams().Len() > 0 {
				continue
			}
			if types.IsInterface(named) {
				interfaces = append(interfaces, named)
			} else {
				concrete = append(concrete, types.NewPointer(named))
			}
		}
	}
	all := map[*types.Func][]*types.Func{}
	for _, named := range interfaces {
		iface := named.Underlying().(*types.Interface)
		for _, c := range concrete {
			if !types.Implements(c, iface) {
				continue
			}
			for m := range iface.Methods() {
				o, _, _ := types.LookupFieldOrMethod(c, true, m.Pkg(), m.Name())
				if f, ok := o.(*types.Func); ok {
					all[m] = append(all[m], f.Origin())
				}
			}
		}
	}
	return all
}

// lookup finds an object by its package's path ("paddock" for the root), a dot,
// and its name: a function, type or variable; TYPE.NAME is a field or method, and
// FUNCTION#NAME a parameter.
func (t *Tree) lookup(name string) (types.Object, error) {
	slash := strings.LastIndex(name, "/") + 1
	path, rest, _ := strings.Cut(name[slash:], ".")
	if path = name[:slash] + path; path == "paddock" {
		path = "."
	}
	i := slices.IndexFunc(t.Packages, func(p *Package) bool { return p.Path == path })
	if i < 0 {
		return nil, fmt.Errorf("unknown package in %q", name)
	}
	p := t.Packages[i]
	rest, param, _ := strings.Cut(rest, "#")
	first, member, isMember := strings.Cut(rest, ".")
	o := p.Types.Scope().Lookup(first)
	if o != nil && isMember {
		o, _, _ = types.LookupFieldOrMethod(o.Type(), true, p.Types, member)
	}
	if f, ok := o.(*types.Func); ok && param != "" {
		for v := range f.Signature().Params().Variables() {
			if v.Name() == param {
				return v, nil
			}
		}
		o = nil
	}
	if o == nil {
		return nil, fmt.Errorf("unknown object %q", name)
	}
	return o, nil
}
