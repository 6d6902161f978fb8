// Package install writes into the configurations of clients what makes them start
// a server of the Model Context Protocol:
//
//	target, err := install.Find("codex", install.User, dir)
//	…
//	changed, err := target.Server(install.Server{Name: "paddock", Command: path, Args: []string{"mcp"}}, false).Do()
//
// Files belong to their users: what is there stays as it is, to the byte, but for
// what is added ([Change]). The result is read again before it is written, and has
// to mean what was there and what was added; a file where that cannot be done is
// left alone ([UnsafeError]).
package install

import (
	"errors"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/paddock-dev/paddock/policy"
)

// Server is what a client is to start.
type Server struct {
	// Name is what the client calls it: letters, digits, "_" and "-".
	Name string
	// Command is a program, and Args its arguments.
	Command string
	Args    []string
	// Approved lets models use it unasked, where a client keeps that beside the
	// server ([Target.Approval] is for others).
	Approved bool
}

var nameForm = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// Check refuses what no configuration can hold.
func (s Server) Check() error {
	if !nameForm.MatchString(s.Name) {
		return &policy.FieldError{Field: "--name", Value: s.Name, Reason: "it is not 1 to 64 letters, digits and the signs _ -"}
	}
	field := "--command"
	for _, text := range append([]string{s.Command}, s.Args...) {
		if !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
			return &policy.FieldError{Field: field, Value: text, Reason: "it has characters that a configuration cannot hold"}
		}
		if field = "an argument"; strings.HasPrefix(text, "--") {
			field = text // the next is its value
		}
	}
	return nil
}

// Scope is where a configuration holds.
type Scope string

// The scopes.
const (
	// Local is a file of the user's, and one project alone.
	Local   Scope = "local"
	Project Scope = "project"
	User    Scope = "user"
)

// UnsafeError is a file that was left alone.
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

// ErrOther says that another server has the name.
var ErrOther = errors.New("another server has this name")

// ErrChanged says that somebody else has written the file at the same moment.
var ErrChanged = errors.New("it was changed at the same moment")

// format is how a file holds servers.
type format interface {
	// snippet is the server as a file of its own.
	snippet(s Server) string
	// edit adds the server to what a file holds. Nothing is changed where it is
	// there. Where another is, that is [ErrOther], unless force replaces it.
	edit(old []byte, s Server, force bool) ([]byte, error)
	// remove takes the server of a name out.
	remove(old []byte, name string) ([]byte, error)
	// servers are those that a file holds, by name.
	servers(old []byte) (map[string]Server, error)
	// everywhere is this format for each place of the file where servers of this scope
	// can be.
	everywhere(old []byte) ([]format, error)
}

// Target is where a client's configuration is.
type Target struct {
	// Path is of the file; empty where the client's own command has to write it.
	Path string
	// Scope is the one that holds there.
	Scope Scope
	// Client is how the client is set up.
	Client

	format format
	file   Change // where it is
	dir    string // of the project
}

// Find returns where a client's configuration is: in the project at dir, or the
// user's. An empty scope is the client's usual one.
func Find(name string, scope Scope, dir string) (*Target, error) {
	c, ok := clients[name]
	if !ok {
		err := &policy.FieldError{Field: "--client", Value: name, Reason: "unknown client", Hint: names() + "; for others: paddock mcp install --print"}
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
			return nil, &policy.FieldError{Field: "--scope", Value: string(scope), Reason: "the configuration cannot be found: " + err.Error()}
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

// Server is the edit that adds the server. force replaces another of its name.
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
	// Target is where it is: the one that was asked, or, in a file that keeps servers by
	// project, another one for the place of another project.
	Target *Target
}

// Servers returns the servers that the file holds, sorted: of a file that keeps them by
// project those of each.
func (t *Target) Servers(follow func(string) (string, error)) ([]Found, error) {
	c := t.file
	c.Follow = follow
	text, err := c.text()
	if err != nil {
		return nil, err
	}
	places, err := t.format.everywhere(text)
	if err != nil {
		return nil, c.unsafe(err)
	}
	var found []Found
	for i, place := range places {
		servers, err := place.servers(text)
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

// Approval is the edit of a file of the user's that lets models use the server of a
// name unasked; nil where [Server.Approved] does that, or nothing.
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

// Exclusive is the edit of the project that turns the client's own tools for
// commands and files off; nil where no file does that.
func (t *Target) Exclusive() *Change {
	if t.exclusive == nil {
		return nil
	}
	c := t.exclusive(t.dir)
	c.What = "what turns the client's own tools off"
	return &c
}

// Any is a client that nobody knows: to print what most of them read.
func Any() *Target { return &Target{format: jsonFormat{path: []string{"mcpServers"}}} }

// Words are words as a shell reads them.
func Words(words []string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = policy.ShellWord(word)
	}
	return strings.Join(quoted, " ")
}
