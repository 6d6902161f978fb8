package op

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/audit"
	"github.com/paddock-dev/paddock/internal/text"
)

// Planted is what a sandbox that has ended leaves for programs of the host to
// execute or obey.
type Planted struct {
	Sandbox   string // its id
	Workspace string // the directory of the host
	Principal string // whose it was, empty where nobody is known
	Paths     []string
	// Programs are paths that the host runs when a person names them.
	Programs []string
	// Unseen says what could not be compared, and why.
	Unseen []string
	// Git is what was added to copies of git's configuration.
	Git []string
	// Late says that its owner was killed, and that a later start has compared: no
	// answer of an operation tells of it.
	Late bool
	// Text tells all of it to people, in lines.
	Text string
}

// Bounds of what is told of planted paths.
const (
	maxPlanted     = 64  // paths on record
	maxPlantedName = 256 // bytes of each
	ShownPlanted   = 20  // paths in a line
)

// Names are the paths in one line that nothing in them can break, the first of
// them where there are many.
func (p Planted) Names() string { return PathNames(p.Paths) }

// PathNames returns paths in one line that nothing in them can break, the first of them where there are many.
func PathNames(paths []string) string {
	var b strings.Builder
	for i, path := range paths[:min(len(paths), ShownPlanted)] {
		if i > 0 {
			b.WriteString(", ")
		}
		name := text.Truncate(path, maxPlantedName)
		if strings.ContainsFunc(name, func(r rune) bool { return r == ' ' || r == ',' || r == '"' || !unicode.IsPrint(r) }) {
			name = strconv.QuoteToASCII(name)
		}
		b.WriteString(name)
	}
	if more := len(paths) - ShownPlanted; more > 0 {
		b.WriteString(" and " + strconv.Itoa(more) + " more")
	}
	return b.String()
}

// ProgramNames is Names of what runs when it is named.
func (p Planted) ProgramNames() string { return PathNames(p.Programs) }

func newPlanted(c paddock.Changes) Planted {
	return Planted{Sandbox: c.Sandbox, Workspace: c.Workspace, Paths: changedPaths(c.Planted), Programs: changedPaths(c.Programs), Unseen: c.Unseen, Git: gitAdded(c), Text: ChangesNote(c)}
}

// gitAdded are the settings that can be taken over, of all copies.
func gitAdded(c paddock.Changes) []string {
	var all []string
	for _, g := range c.Git {
		all = append(all, g.Added...)
	}
	return all
}

func changedPaths(list []paddock.Change) []string {
	var paths []string
	for _, c := range list {
		paths = append(paths, c.Path)
	}
	return paths
}

// tellOfPlanted puts on record what a sandbox has left, and tells the operator. The
// call that had opened the sandbox may be long over.
func (e *Env) tellOfPlanted(s *paddock.Sandbox) {
	p := newPlanted(s.Changes())
	p.Principal = e.PrincipalName()
	if e.Planted != nil {
		e.Planted(p)
	}
	e.recordPlanted(p)
}

// ReportLeftovers does the same for a sandbox whose owner was killed.
func (e *Env) ReportLeftovers(c paddock.Changes) {
	p := newPlanted(c)
	p.Late = true
	if e.Planted != nil {
		e.Planted(p)
	}
	e.recordPlanted(p)
}

func (e *Env) recordPlanted(p Planted) {
	if e.Audit == nil || len(p.Paths)+len(p.Programs)+len(p.Unseen) == 0 {
		return
	}
	r := audit.Record{Kind: audit.KindPlanted, Principal: p.Principal, Sandbox: p.Sandbox,
		Planted: onRecord(p.Paths), Programs: onRecord(p.Programs), Unseen: onRecord(p.Unseen)}
	if e.Call != nil {
		r.Op = e.Call.op.Name
	}
	if _, err := e.Audit.Append(context.Background(), r); err != nil && e.Warn != nil {
		e.Warn(err)
	}
}

func onRecord(paths []string) []string {
	list := slices.Clone(paths[:min(len(paths), maxPlanted)])
	for i, path := range list {
		list[i] = text.Truncate(path, maxPlantedName)
	}
	return list
}

// shownWhy bounds the paths that are told each in a line of its own, with why
// they matter.
const shownWhy = 5

// ChangesNote tells people, or a model, what was left and what to do, in short
// lines. It is empty where there is nothing to tell.
func ChangesNote(c paddock.Changes) string {
	var lines []string
	if len(c.Planted) > 0 {
		lines = append(lines, "the commands made or changed "+PathNames(changedPaths(c.Planted))+": look before you use it, programs on the host run or obey it unasked")
		for _, p := range c.Planted[:min(len(c.Planted), shownWhy)] {
			lines = append(lines, "  "+PathNames([]string{p.Path})+": "+p.Why)
		}
	}
	var git, other []string
	for _, path := range changedPaths(c.Programs) {
		if slices.Contains(strings.Split(path, "/"), ".git") {
			git = append(git, path)
		} else {
			other = append(other, path)
		}
	}
	if len(other) > 0 {
		lines = append(lines, "the commands made or changed "+PathNames(other)+": look before you run it")
	}
	if len(git) > 0 {
		lines = append(lines, "the commands made or changed "+PathNames(git)+": look at it first, git goes on with it")
	}
	lines = append(lines, gitNote(c)...)
	for _, why := range c.Unseen {
		lines = append(lines, "not all could be compared with what was there before: "+text.Truncate(why, 2*maxPlantedName))
	}
	return strings.Join(lines, "\n")
}

// gitNote tells of copies of git's configuration.
func gitNote(c paddock.Changes) (lines []string) {
	for _, g := range c.Git {
		at := PathNames([]string{g.File})
		if len(g.Added) > 0 {
			// All of it, in full: by the id it is taken over without another look.
			lines = append(lines, "the commands changed a copy of "+at+". \"paddock git accept "+c.Sandbox+"\" adds to the file:")
			for _, s := range g.Added {
				lines = append(lines, "  "+s)
			}
		}
		if len(g.Other) > 0 {
			lines = append(lines, "what the commands changed of "+PathNames(g.Other)+" in their copy of "+at+" is gone with it")
		}
		if g.Unread != "" {
			lines = append(lines, "what the commands changed in their copy of "+at+" is gone with it: "+g.Unread)
		}
	}
	return lines
}

// Left is the part of an answer that tells what commands have left.
type Left struct {
	// Planted are paths that commands made or changed and that programs of the host
	// execute or obey without being told to: relative to the workspace, or absolute
	// in a mount. Look at them before you use the workspace.
	Planted []string `json:"planted,omitempty"`
	// ChangedPrograms are paths that commands made or changed and that run when a
	// person names them, or what runs them: Makefiles, scripts of packages.
	ChangedPrograms []string `json:"changed_programs,omitempty"`
	// NotCompared says what was not compared, and why.
	NotCompared []string `json:"not_compared,omitempty"`
	// GitAdded are settings that commands added to their copy of git's configuration,
	// and that the operator can take over into the host's: paddock git accept.
	GitAdded []string `json:"git_added,omitempty"`

	note string
}

// Note returns what was left and what to do, in short lines, empty where nothing was.
func (l Left) Note() string { return l.note }

// Warn writes it for people.
func (p Planted) Warn(w io.Writer) error { return Left{note: p.Text}.Warn(w) }

// NewLeft returns what the commands of a sandbox that has ended left.
func NewLeft(s *paddock.Sandbox) Left {
	c := s.Changes()
	return Left{Planted: changedPaths(c.Planted), ChangedPrograms: changedPaths(c.Programs), NotCompared: c.Unseen, GitAdded: gitAdded(c), note: ChangesNote(c)}
}

// Warn writes it for people.
func (l Left) Warn(w io.Writer) error {
	if l.note == "" || w == nil {
		return nil
	}
	_, err := fmt.Fprintf(w, "paddock: %s\n", strings.ReplaceAll(l.note, "\n", "\npaddock: "))
	return err
}
