// Package install writes into the configurations of clients what makes them start
// a server of the Model Context Protocol:
//
//	file, err := install.Find("codex", install.User, dir)
//	…
//	changed, err := file.Add(install.Server{Name: "paddock", Command: path, Args: []string{"mcp"}}, false)
//
// Files belong to their users: what is there stays as it is, to the byte, but for
// the server that is added. The result is read again before it is written, and has
// to be what was there and the server; a file where that cannot be done is left
// alone ([UnsafeError]).
package install

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
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
	Project Scope = "project"
	User    Scope = "user"
)

// UnsafeError is a file that was left alone.
type UnsafeError struct {
	Path   string
	Reason string
}

// Error says which file and why.
func (e *UnsafeError) Error() string {
	return "cannot edit " + e.Path + " safely: " + e.Reason
}

// ErrOther says that another server has the name.
var ErrOther = errors.New("another server has this name")

// client is how one of them is set up.
type client struct {
	// path is of the file in a project; user is where it is for a user, and may
	// be missing: then command is what adds the server there.
	path    string
	user    func() (string, error)
	command func(Server) []string
	format  format
	mode    os.FileMode
	scope   Scope // the usual one
	next    string
}

// format is how a file holds servers.
type format interface {
	// snippet is the server as a file of its own.
	snippet(s Server) string
	// edit adds the server to what a file holds. Nothing is changed where it is
	// there. Where another is, that is [ErrOther], unless force replaces it.
	edit(old []byte, s Server, force bool) ([]byte, error)
}

var clients = map[string]client{
	"claude-code": {
		path: ".mcp.json", format: jsonFormat{top: "mcpServers"}, mode: 0o644, scope: Project,
		command: func(s Server) []string {
			return append([]string{"claude", "mcp", "add", "--scope", "user", s.Name, "--", s.Command}, s.Args...)
		},
		next: "start claude here, and let it use the server: /mcp shows it",
	},
	"codex": {
		path: filepath.Join(".codex", "config.toml"), format: tomlFormat{}, mode: 0o600, scope: User,
		user: codexConfig,
		next: "start codex again: /mcp shows it",
	},
	"vscode": {
		path: filepath.Join(".vscode", "mcp.json"), format: jsonFormat{top: "servers", kind: "stdio"}, mode: 0o644, scope: Project,
		command: func(s Server) []string {
			text, _ := json.Marshal(map[string]any{"name": s.Name, "command": s.Command, "args": s.Args}) // strings alone
			return []string{"code", "--add-mcp", string(text)}
		},
		next: "open the folder, and start the server: MCP: List Servers",
	},
}

func codexConfig() (string, error) {
	dir := os.Getenv("CODEX_HOME")
	if dir == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", err
		}
		dir = filepath.Join(home, ".codex")
	}
	return filepath.Join(dir, "config.toml"), nil
}

// Target is where a client's configuration is.
type Target struct {
	// Path is of the file; empty where the client's own command has to write it.
	Path string
	// Scope is the one that holds there.
	Scope Scope
	// Next is what to do then.
	Next string
	// Follow resolves the links of Path, and refuses one that commands of a sandbox
	// could have made. nil: a file that is a link is refused. Of a project's links
	// none leads out of it, whatever Follow says.
	Follow func(path string) (string, error)

	client client
	dir    string // of the project; empty for a user's file
}

// Find says where a client's configuration is: in the project at dir, or the
// user's. An empty scope is the client's usual one.
func Find(name string, scope Scope, dir string) (*Target, error) {
	c, ok := clients[name]
	if name == "" {
		return nil, &policy.FieldError{Field: "--client", Reason: "it is missing", Hint: "claude-code, codex or vscode; for others: paddock mcp --help"}
	}
	if !ok {
		return nil, &policy.FieldError{Field: "--client", Value: name, Reason: "there is no such client", Hint: "claude-code, codex or vscode; for others: paddock mcp --help"}
	}
	if scope == "" {
		scope = c.scope
	}
	t := &Target{Scope: scope, Next: c.next, client: c}
	switch {
	case scope == Project:
		t.Path, t.dir = filepath.Join(dir, c.path), dir
	case scope != User:
		return nil, &policy.FieldError{Field: "--scope", Value: string(scope), Reason: "there is no such scope", Hint: "project or user"}
	case c.user != nil:
		path, err := c.user()
		if err != nil {
			return nil, &policy.FieldError{Field: "--scope", Value: string(scope), Reason: "the configuration cannot be found: " + err.Error()}
		}
		t.Path = path
	}
	return t, nil
}

// Snippet is the server as a file of its own, to print.
func (t *Target) Snippet(s Server) string { return t.client.format.snippet(s) }

// Command is what adds the server where Path is empty: words for a shell.
func (t *Target) Command(s Server) string {
	words := t.client.command(s)
	for i, word := range words {
		words[i] = quote(word)
	}
	return strings.Join(words, " ")
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./:=@%+,-]+$`)

func quote(word string) string {
	if plainWord.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
