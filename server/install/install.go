// Package install edits the configuration files of clients so that they start a server
// of the Model Context Protocol:
//
//	target, err := install.Find("codex", install.User, dir)
//	…
//	changed, err := target.Server(install.Server{Name: "paddock", Command: path, Args: []string{"mcp"}}, false).Do()
//
// The files belong to their users: an edit preserves every byte that it does not have to change
// ([Change]). Before the result is written it is parsed again, and its meaning must differ from
// the old one only by the addition. A file that cannot be edited like that is not changed
// ([UnsafeError]).
package install

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/paddock-dev/paddock/internal/lazyregexp"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/policy"
)

// Server is a server that a client starts.
type Server struct {
	// Name is the client's name for it: letters, digits, "_" and "-".
	Name string
	// Command is a program, and Args its arguments.
	Command string
	Args    []string
	// Approved allows models to use it without asking the user, for clients that store this
	// together with the server ([Target.Approval] is for the others).
	Approved bool
}

var nameForm = lazyregexp.New(`^[A-Za-z0-9_-]{1,64}$`)

// Check returns an error for names and texts that no configuration can hold.
func (s Server) Check() error {
	if !nameForm().MatchString(s.Name) {
		return &policy.FieldError{Field: "--name", Value: s.Name, Reason: "it must be 1 to 64 letters, digits, _ or -"}
	}
	field := "--command"
	for _, word := range append([]string{s.Command}, s.Args...) {
		if !utf8.ValidString(word) || strings.ContainsFunc(word, unicode.IsControl) {
			return &policy.FieldError{Field: field, Value: word, Reason: "it has characters that a configuration cannot hold"}
		}
		if field = "an argument"; strings.HasPrefix(word, "--") {
			field = word // the next is its value
		}
	}
	return nil
}

// Scope says for whom a configuration applies.
type Scope string

// The scopes.
const (
	Local   Scope = "local"   // one project, in a file of the user's
	Project Scope = "project" // one project, in a file of the project's
	User    Scope = "user"    // all projects
)

// UnsafeError says why a file was left alone.
type UnsafeError struct {
	Path   string
	Reason string
	cause  error
}

// Error says which file and why.
func (e *UnsafeError) Error() string {
	return "cannot edit " + e.Path + " safely: " + e.Reason
}

// Unwrap returns the cause.
func (e *UnsafeError) Unwrap() error { return e.cause }

// ErrOther means that another server has the name.
var ErrOther = errors.New("another server has this name")

// otherError is [ErrOther] with what the file of a project has in its place.
type otherError struct{ entry string }

// other returns the error about an entry that a project brought, to be shown. Of what is too long to be
// shown the names of all members are.
func other(entry any) error {
	const most = 300 // bytes
	whole := encode(entry, "", "")
	shown := text.Truncate(text.Escape(whole), most)
	var members map[string]json.RawMessage
	if len(whole) > most && json.Unmarshal([]byte(whole), &members) == nil {
		names := slices.Sorted(maps.Keys(members))
		shown = text.Truncate(text.Escape(strings.Join(names, ", ")), most) + " in " + shown
	}
	return &otherError{shown}
}

// Error says what the entry is.
func (e *otherError) Error() string { return ErrOther.Error() + ": " + e.entry }

// Unwrap returns [ErrOther].
func (e *otherError) Unwrap() error { return ErrOther }

// ErrChanged means that somebody else wrote the file at the same moment.
var ErrChanged = errors.New("it was changed at the same moment")

// format reads and edits the servers in the text of a configuration file.
type format interface {
	// snippet returns a file that holds the server alone.
	snippet(s Server) string
	// edit adds the server, and returns old if it is there already. If another server has
	// its name, edit replaces that if force is set, and otherwise returns [ErrOther].
	edit(old []byte, s Server, force bool) ([]byte, error)
	// remove takes the server of a name out, and returns old if there is none.
	remove(old []byte, name string) ([]byte, error)
	// servers returns the servers of the file, by name.
	servers(old []byte) (map[string]Server, error)
	// everywhere returns this format for each place of the file where servers of this
	// scope can be, its own first.
	everywhere(old []byte) ([]format, error)
}

// Target is the configuration of a client for one scope.
type Target struct {
	// Path is the path of the file. It is empty if only the client's own command writes it.
	Path  string
	Scope Scope
	Client

	format format
	file   Change // where the file is, without an edit
	dir    string // of the project
}

// Find returns the configuration of a client for a scope, in the project at dir or in
// the user's home. An empty scope means the client's usual one.
func Find(name string, scope Scope, dir string) (*Target, error) {
	c, ok := clients[name]
	if !ok {
		all := Clients()
		known := strings.Join(all[:len(all)-1], ", ") + " or " + all[len(all)-1]
		err := &policy.FieldError{Field: "--client", Value: name, Reason: "unknown client", Hint: known + "; for others: paddock mcp install --print"}
		if name == "" {
			err.Reason = "it is missing"
		}
		return nil, err
	}
	if scope == "" {
		scope = c.scopes[0].name
	}
	for _, place := range c.scopes {
		if place.name != scope {
			continue
		}
		t := &Target{Scope: scope, Client: c, format: place.format(dir), dir: dir}
		if place.file == nil {
			return t, nil
		}
		file, err := place.file(dir)
		if err != nil {
			return nil, &policy.FieldError{Field: "--scope", Value: string(scope), Reason: "cannot find the configuration: " + err.Error()}
		}
		t.Path, t.file = file.Path, file
		return t, nil
	}
	var have []string
	for _, place := range c.scopes {
		have = append(have, string(place.name))
	}
	return nil, &policy.FieldError{Field: "--scope", Value: string(scope), Reason: "unknown scope for " + name, Hint: strings.Join(have, " or ")}
}

// Server returns the edit that adds the server. force replaces another of its name.
func (t *Target) Server(s Server, force bool) *Change {
	c := t.file
	c.Text, c.What = t.format.snippet(s), "the server "+s.Name
	c.put = func(old []byte) ([]byte, error) {
		if err := s.Check(); err != nil {
			return nil, err
		}
		return t.format.edit(old, s, force)
	}
	c.drop = func(old []byte) ([]byte, error) { return t.format.remove(old, s.Name) }
	return &c
}

// Found is a server that a file holds.
type Found struct {
	Server
	// Target is where it is: the target of the call or, in a file that has servers for
	// several projects, the target of another project.
	Target *Target
}

// Servers returns the servers in the file, sorted by name. From a file that keeps them by
// project it returns the servers of every project.
func (t *Target) Servers(follow func(string) (string, error)) ([]Found, error) {
	c := t.file
	c.Follow = follow
	content, err := c.text()
	if err != nil {
		return nil, err
	}
	places, err := t.format.everywhere(content)
	if err != nil {
		return nil, c.unsafe(err)
	}
	var found []Found
	for i, place := range places {
		servers, err := place.servers(content)
		if err != nil {
			return nil, c.unsafe(err)
		}
		at := t
		if i > 0 {
			other := *t
			at, other.format = &other, place
		}
		for _, name := range slices.Sorted(maps.Keys(servers)) {
			found = append(found, Found{servers[name], at})
		}
	}
	return found, nil
}

// Approval returns the edit of a user's file that allows models to use the server without
// asking. It returns nil if [Server.Approved] does that, or if the client has no such setting.
func (t *Target) Approval(name string) (*Change, error) {
	if t.approval == nil || t.Scope != Local {
		return nil, nil
	}
	c, err := t.approval(name)
	if err != nil {
		return nil, err
	}
	c.What = "its approval"
	return c, nil
}

// Exclusive returns the edit of the project that turns the client's own tools for
// commands and files off. It returns nil if no file does that.
func (t *Target) Exclusive() *Change {
	if t.exclusive == nil {
		return nil
	}
	c := t.exclusive(t.dir)
	c.What = "what turns the client's own tools off"
	return &c
}

// Any returns the target for an unknown client, to print the format that most clients
// read.
func Any() *Target { return &Target{format: jsonFormat{path: []string{"mcpServers"}}} }

// Words joins words into a command line, quoted for a shell.
func Words(words []string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = policy.ShellWord(word)
	}
	return strings.Join(quoted, " ")
}
