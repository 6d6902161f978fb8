package op

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/audit"
)

// Planted is what a sandbox that has ended leaves in its workspace for the host to
// execute or obey without being told to.
type Planted struct {
	Sandbox   string // its id
	Workspace string // the directory of the host
	Principal string // whose it was, empty where nobody is known
	Paths     []string
}

// Bounds of what is told of planted paths.
const (
	maxPlanted     = 64  // paths on record
	maxPlantedName = 256 // bytes of each
	shownPlanted   = 20  // paths in a line
)

// Names are the paths in one line that nothing in them can break, the first of
// them where there are many.
func (p Planted) Names() string { return pathNames(p.Paths) }

func pathNames(paths []string) string {
	var b strings.Builder
	for i, path := range paths[:min(len(paths), shownPlanted)] {
		if i > 0 {
			b.WriteString(", ")
		}
		name := firstOf(path, maxPlantedName)
		if strings.ContainsFunc(name, func(r rune) bool { return r == ' ' || r == ',' || r == '"' || !unicode.IsPrint(r) }) {
			name = strconv.QuoteToASCII(name)
		}
		b.WriteString(name)
	}
	if more := len(paths) - shownPlanted; more > 0 {
		b.WriteString(" and " + strconv.Itoa(more) + " more")
	}
	return b.String()
}

// tellOfPlanted puts on record what a sandbox has left, and tells the operator. The
// call that had opened the sandbox may be long over.
func (e *Env) tellOfPlanted(s *paddock.Sandbox) {
	p := Planted{Sandbox: s.ID(), Workspace: s.Spec().Workspace.Source, Principal: e.principal(), Paths: s.Planted()}
	if e.Planted != nil {
		e.Planted(p)
	}
	if e.Audit == nil {
		return
	}
	r := audit.Record{Kind: audit.KindPlanted, Principal: p.Principal, Sandbox: p.Sandbox}
	if e.call != nil {
		r.Op = e.call.op.Name
	}
	r.Planted = slices.Clone(p.Paths[:min(len(p.Paths), maxPlanted)])
	for i, path := range r.Planted {
		r.Planted[i] = firstOf(path, maxPlantedName)
	}
	if _, err := e.Audit.Append(context.Background(), r); err != nil && e.Warn != nil {
		e.Warn(err)
	}
}
