package policy

// Obeyed is one thing that programs of the host execute or obey.
type Obeyed struct {
	// Path is relative to what Under says. It has no patterns.
	Path  string
	Under Under
	// Dir says that it is a directory. A directory in the place of a file is
	// not meant.
	Dir   bool
	Class Class
	// Nested says that it counts in every directory of a workspace that holds
	// it, and not at the root of a project alone.
	Nested bool
	// Everywhere says that it counts in directories that tools fill too
	// (node_modules, vendor), where people do not work.
	Everywhere bool
	// Repositories says that it holds repositories' own directories, at any
	// depth. It can be written: what counts is what lies in each of them.
	Repositories bool
	// Resumes says that git goes on with it when a person says so. Of a
	// repository all of that is one change.
	Resumes bool
	// Except are names directly below a Dir that are not meant: people work
	// there.
	Except []string
	// With are siblings that must be there too, or it means nothing. What has
	// some is compared and never read-only: where all of it is there it is in
	// daily use.
	With []string
	// Tool is the program that obeys it, and Why says when, or what it makes of it.
	Tool, Why string
}

// Under is what the path of an [Obeyed] is relative to.
type Under string

// What paths are relative to.
const (
	// Project is the root of a workspace, and any directory that a tool treats
	// as one.
	Project Under = "project"
	// GitDir is a repository's own directory: ".git", a bare repository, the
	// directory of a linked worktree or of a submodule.
	GitDir Under = "gitdir"
	// Home is the home of a user of the host.
	Home Under = "home"
)

// Class says when the host obeys something.
type Class string

// Classes.
const (
	// Unasked is obeyed without being told to. It is read-only where it exists
	// when a sandbox starts, and compared when it has ended.
	Unasked Class = "unasked"
	// WhenNamed is obeyed when a person names it, or what runs it. It is never
	// read-only, since daily work writes it; it is compared.
	WhenNamed Class = "when-named"
)

// Name is the path as [Workspace].Unprotected names it: relative to the root
// of the project, or to the home.
func (o Obeyed) Name() string {
	if o.Under == GitDir {
		return ".git/" + o.Path
	}
	return o.Path
}

// ReadOnly reports whether it is made read-only where it exists.
func (o Obeyed) ReadOnly() bool { return o.Class == Unasked && o.With == nil }
