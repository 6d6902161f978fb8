package op

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/audit"
	"github.com/paddock-dev/paddock/internal/osstring"
	"github.com/paddock-dev/paddock/internal/text"
)

// Planted describes the files that the commands of an ended sandbox left, and that programs of
// the host would execute or obey.
type Planted struct {
	Sandbox   string // its id
	Workspace string // the directory of the host
	Principal string // its principal, "" if unknown
	Paths     []string
	// Programs are paths that the host runs only when a person names them.
	Programs []string
	// Unseen lists what could not be compared, and why.
	Unseen []string
	// Sockets are those that programs outside have begun to listen at since the start, so that
	// commands could connect to them.
	Sockets []string
	// Git lists settings that were added to copies of git's configuration.
	Git []string
	// Late reports that the sandbox's owner was killed and that a later start compared: no
	// operation's answer has the findings.
	Late bool
	// Text describes everything for people, in lines.
	Text string
}

// Bounds of records and messages about planted paths.
const (
	maxPlanted     = 64  // paths in a record
	maxPlantedName = 256 // bytes of each
	ShownPlanted   = 20  // paths in a line
)

// Names returns Paths in one line, see [PathNames].
func (p Planted) Names() string { return PathNames(p.Paths) }

// PathNames returns paths as one line, quoted if necessary. Of many it has only the first.
func PathNames(paths []string) string {
	var b strings.Builder
	for i, path := range paths[:min(len(paths), ShownPlanted)] {
		if i > 0 {
			b.WriteString(", ")
		}
		name := text.Truncate(path, maxPlantedName)
		if strings.ContainsFunc(name, func(r rune) bool { return r == ' ' || r == ',' || r == '"' }) || text.QuoteName(name) != name {
			name = strconv.QuoteToASCII(name)
		}
		b.WriteString(name)
	}
	if more := len(paths) - ShownPlanted; more > 0 {
		b.WriteString(" and " + strconv.Itoa(more) + " more")
	}
	return b.String()
}

// ProgramNames returns Programs in one line.
func (p Planted) ProgramNames() string { return PathNames(p.Programs) }

func newPlanted(c paddock.Changes) Planted {
	return Planted{Sandbox: c.Sandbox, Workspace: c.Workspace, Paths: changedPaths(c.Planted), Programs: changedPaths(c.Programs), Unseen: c.Unseen, Sockets: c.Sockets, Git: gitAdded(c), Text: ChangesNote(c), Principal: c.Principal}
}

// gitAdded returns the settings of all copies that can be taken over.
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

// reportPlanted records the changes that a sandbox has left, and informs the operator. The call
// that opened the sandbox may have returned long ago.
func (e *Env) reportPlanted(s *paddock.Sandbox) {
	p := newPlanted(s.Changes())
	p.Principal = cmp.Or(p.Principal, e.PrincipalName())
	e.recordPlanted(p)
}

// ReportLeftovers does the same for a sandbox whose owner was killed.
func (e *Env) ReportLeftovers(c paddock.Changes) {
	p := newPlanted(c)
	p.Late = true
	e.recordPlanted(p)
}

func (e *Env) recordPlanted(p Planted) {
	if e.Planted != nil {
		e.Planted(p)
	}
	if e.Audit == nil || len(p.Paths)+len(p.Programs)+len(p.Unseen)+len(p.Sockets) == 0 {
		return
	}
	r := audit.Record{Kind: audit.KindPlanted, Principal: p.Principal, Sandbox: p.Sandbox,
		Planted: onRecord(p.Paths), Programs: onRecord(p.Programs), Unseen: onRecord(p.Unseen), NewSockets: onRecord(p.Sockets)}
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

// shownWhy bounds the paths that are shown on a separate line with the reason why they matter.
const shownWhy = 5

// ChangesNote returns the changes and what to do about them, in short lines for people and
// models. It is empty if there are no changes.
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
	if len(c.Sockets) > 0 {
		lines = append(lines, "programs outside of the sandbox have begun to listen at "+PathNames(c.Sockets)+" since its start: commands could connect to them")
	}
	lines = append(lines, gitNote(c)...)
	for _, why := range c.Unseen {
		lines = append(lines, "not all could be compared with what was there before: "+text.Truncate(why, 2*maxPlantedName))
	}
	if c.Discarded > 0 {
		lines = append(lines, text.Count(c.Discarded, "changed path")+" of the overlay ended with the sandbox")
	}
	return strings.Join(lines, "\n")
}

// gitNote returns the lines about copies of git's configuration.
func gitNote(c paddock.Changes) (lines []string) {
	for _, g := range c.Git {
		at := PathNames([]string{g.File})
		if len(g.Added) > 0 {
			// Every setting in full: with the id they are accepted without another question.
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

// Left is the part of an output about what commands have left.
type Left struct {
	// Planted are paths that commands made or changed and that programs of the host
	// execute or obey by themselves: relative to the workspace, or absolute in a mount.
	// Inspect them before using the workspace.
	Planted osstring.List `json:"planted,omitempty"`
	// ChangedPrograms are paths that commands made or changed and that run only when a
	// person runs them: Makefiles, scripts of packages.
	ChangedPrograms []string `json:"changed_programs,omitempty"`
	// NewSockets are sockets that programs outside have begun to listen at since the start, so that
	// commands could connect to them.
	NewSockets []string `json:"new_sockets,omitempty"`
	// Discarded is how many changed paths of an overlay ended with the sandbox.
	Discarded int `json:"discarded,omitempty"`
	// NotCompared lists the paths that were not compared, and why.
	NotCompared []string `json:"not_compared,omitempty"`
	// GitAdded are settings that commands added to their copy of git's configuration.
	// "paddock git accept" adds them to the host's.
	GitAdded []string `json:"git_added,omitempty"`

	note string
	try  string // the command that would have shown what was discarded
}

// Note returns the text of [ChangesNote].
func (l Left) Note() string { return l.note }

// Warn writes the findings for people.
func (p Planted) Warn(w io.Writer) error { return Left{note: p.Text}.Warn(w) }

// NewLeft returns the changes that the commands of an ended sandbox have left. try is the command line
// that shows changes of an overlay, and lets them land, in place of the one that discarded them.
func NewLeft(s *paddock.Sandbox, try string) Left {
	l := LeftOf(s.Changes())
	l.try = try
	return l
}

// LeftOf returns changes as the part of an output.
func LeftOf(c paddock.Changes) Left {
	return Left{Planted: changedPaths(c.Planted), ChangedPrograms: changedPaths(c.Programs), NewSockets: c.Sockets, Discarded: c.Discarded, NotCompared: c.Unseen, GitAdded: gitAdded(c), note: ChangesNote(c)}
}

// Warn writes the findings for people, if there are any and w is not nil.
func (l Left) Warn(w io.Writer) error {
	if l.note == "" || w == nil {
		return nil
	}
	note := l.note
	if l.Discarded > 0 && l.try != "" {
		note += ": \"" + l.try + "\" shows such changes, and lets them land" // the last line is about them
	}
	_, err := fmt.Fprintf(w, "paddock: %s\n", strings.ReplaceAll(note, "\n", "\npaddock: "))
	return err
}
