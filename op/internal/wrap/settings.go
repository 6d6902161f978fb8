package wrap

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/policy"
)

// Bounds of the private copy.
const (
	maxFiles    = 4096
	maxSettings = 64 << 20 // bytes
	maxDepth    = 16
	maxNames    = 1 << 16
	maxLogin    = 64 << 10
)

// settings is the private copy of an agent's settings: files below HOME inside.
type settings struct {
	state string // the state directory, with the list of what sandboxes could write
	home  string // the caller's
	dir   string // the directory on the host; it may not exist
	at    string // the same below HOME inside
	files []file
	size  int64
	names int // that were looked at
	notes []string
	// spec is the sandbox's. The settings of its workspace are those of /workspace inside.
	spec policy.Spec
	bare bool // only the login is wanted

	// login is what went in of a login, and loginAt where it lies on the host, without links.
	login   []byte
	loginAt string
}

// file is a regular file of the copy.
type file struct {
	name string // relative to HOME
	mode int64
	text []byte
}

// newSettings finds where an agent keeps its settings.
func newSettings(a *agent, lookup func(string) (string, bool), state string, spec policy.Spec) (*settings, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		return nil, fmt.Errorf("cannot find the settings of %s: %w", a.name, err)
	}
	c := &settings{state: state, home: home, dir: path.Join(home, a.dir), at: a.dir, spec: spec}
	if dir, ok := lookup(a.dirVar); ok && dir != "" {
		if !path.IsAbs(dir) {
			return nil, &policy.FieldError{Field: a.dirVar, Value: dir, Reason: "it is not an absolute path"}
		}
		c.dir = path.Clean(dir)
	}
	return c, nil
}

// readLogin reads the file with the login, which may not exist.
func (c *settings) readLogin(ctx context.Context, a *agent) error {
	way, err := c.find(path.Join(c.dir, a.login.file))
	if err != nil || way == nil {
		return err
	}
	text, err := read(ctx, way.Path, maxLogin)
	if err != nil {
		return c.unreadable(way.Path, err)
	}
	c.login, c.loginAt = text, way.Path
	c.put(path.Join(c.at, a.login.file), 0o600, text)
	return nil
}

// dropLogin takes the file with the login out of the copy.
func (c *settings) dropLogin(a *agent) {
	name := path.Join(c.at, a.login.file)
	c.files = slices.DeleteFunc(c.files, func(f file) bool { return f.name == name })
	c.login, c.loginAt = nil, ""
}

// read reads what the copy has of the agent's settings.
func (c *settings) read(ctx context.Context, a *agent) error {
	if !c.bare {
		for _, name := range a.shows {
			if err := c.add(ctx, path.Join(c.dir, name), path.Join(c.at, name), hostpath.Real(c.dir), 0); err != nil {
				return err
			}
		}
	}
	for _, hidden := range a.hides {
		name, member, _ := strings.Cut(hidden, ":")
		c.edit(path.Join(c.at, name), func(object map[string]any) bool { return remove(object, member) })
	}
	return nil
}

// find returns where a name leads, nil for nothing. It follows no link that commands of a
// sandbox could have made.
func (c *settings) find(name string) (*hostpath.Way, error) {
	way, err := hostpath.LocateOwn(c.state, name)
	if err == nil && !way.Exists || errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, c.unreadable(name, err)
	}
	return way, nil
}

// read reads a regular file whose path is free of links, and follows none that has come since.
func read(ctx context.Context, at string, limit int64) ([]byte, error) {
	return hostpath.Read(ctx, "/", strings.TrimPrefix(at, "/"), limit)
}

// tree returns the directory of the host out of which no link of a repository's may lead, at a
// name of the copy that was found in another: within itself, if it came from there, or where a
// link of the user's leads. It returns false for a link that somebody else may have made: one
// that came with what was cloned, into these settings or anywhere else.
func (c *settings) tree(way *hostpath.Way, within string, depth int) (string, bool) {
	if hostpath.Under(way.Path, within) {
		return within, true
	}
	own := hostpath.Real(c.dir)
	for _, l := range way.Links {
		dir := path.Dir(l.Path)
		system := slices.Contains([]string{"/", "/home", "/var"}, dir) || slices.ContainsFunc(systemDirs, func(at string) bool { return hostpath.Under(dir, at) })
		mine := depth <= 1 && (dir == own || path.Dir(dir) == own || dir == c.home)
		if !system && !mine {
			return "", false
		}
	}
	return way.Path, true
}

// add adds a file, or a directory with all that is in it. What is neither is left out, and so are
// repositories of git, and links that lead out of within and are not the user's own.
func (c *settings) add(ctx context.Context, name, as, within string, depth int) error {
	way, err := c.find(name)
	if err != nil || way == nil || path.Base(name) == ".git" {
		return err
	}
	if c.names++; c.names > maxNames {
		return c.unreadable(c.dir, fmt.Errorf("they are more than %d names", maxNames))
	}
	within, ok := c.tree(way, within, depth)
	if !ok {
		c.notes = append(c.notes, text.Escape("~/"+as)+" is left out: it is a link to "+text.Escape(way.Path)+", which may have come with a repository")
		return nil
	}
	switch kind := way.Mode & unix.S_IFMT; {
	case kind == unix.S_IFREG:
		text, err := read(ctx, way.Path, maxSettings)
		if err != nil {
			return c.unreadable(name, err)
		}
		mode := int64(0o600)
		if way.Mode&0o111 != 0 {
			mode = 0o700
		}
		c.put(as, mode, text)
		if len(c.files) > maxFiles || c.size > maxSettings {
			return c.unreadable(c.dir, fmt.Errorf("they are more than %d files, or than %s", maxFiles, policy.Size(maxSettings)))
		}
		return nil
	case kind != unix.S_IFDIR:
		return nil
	case depth == maxDepth:
		return c.unreadable(name, fmt.Errorf("it is deeper than %d directories", maxDepth))
	}
	entries, err := os.ReadDir(way.Path)
	if err != nil {
		return c.unreadable(name, err)
	}
	for _, e := range entries {
		if err := c.add(ctx, path.Join(way.Path, e.Name()), path.Join(as, e.Name()), within, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// unreadable returns the error of settings that cannot be copied.
func (c *settings) unreadable(name string, err error) error {
	e := &paddock.Error{Message: "cannot copy the agent's settings: " + name + ": " + hostpath.Reason(err), Hint: "--no-settings leaves them out"}
	if link := (*hostpath.LinkError)(nil); errors.As(err, &link) {
		e.Hint = link.Hint() + "; " + e.Hint
	}
	return e
}

// put adds a file in place of one of the same name.
func (c *settings) put(name string, mode int64, text []byte) {
	c.files = slices.DeleteFunc(c.files, func(f file) bool { return f.name == name })
	c.files = append(c.files, file{name, mode, text})
	c.size += int64(len(text))
}

// edit changes a file of the copy that is a JSON object; change reports whether it did. A file
// that cannot be read as one is left out: what is to be changed in it may be a key.
func (c *settings) edit(name string, change func(map[string]any) bool) {
	i := slices.IndexFunc(c.files, func(f file) bool { return f.name == name })
	if i < 0 {
		return
	}
	object, err := parseObject(c.files[i].text)
	if err != nil {
		c.files = slices.Delete(c.files, i, i+1)
		c.notes = append(c.notes, "~/"+name+" is left out: it is not JSON, and may have a key in it")
		return
	}
	if change(object) {
		c.files[i].text = encodeObject(object)
	}
}

// prepareClaude completes the copy of Claude Code's settings: the file beside its directory, with
// what it has about this project alone, and without keys.
func prepareClaude(ctx context.Context, c *settings, standIn string) error {
	const name = ".claude.json"
	host := path.Join(c.home, name)
	if c.dir != path.Join(c.home, c.at) {
		host = path.Join(c.dir, name)
	}
	if err := c.add(ctx, host, name, hostpath.Real(path.Dir(host)), 0); err != nil {
		return err
	}
	if !slices.ContainsFunc(c.files, func(f file) bool { return f.name == name }) {
		c.put(name, 0o600, []byte("{}"))
	}
	c.edit(name, func(object map[string]any) bool {
		project := map[string]any{}
		if all, ok := object["projects"].(map[string]any); ok {
			if own, ok := all[c.spec.Workspace.Source].(map[string]any); ok {
				project = own
			}
		}
		delete(project, "history") // what was typed
		if c.bare {
			project = map[string]any{}
			for member := range object {
				if !slices.Contains([]string{"hasCompletedOnboarding", "oauthAccount", "theme", "userID"}, member) {
					delete(object, member)
				}
			}
		}
		delete(object, "primaryApiKey")
		delete(object, "customApiKeyResponses") // the ends of keys
		object["projects"] = map[string]any{policy.WorkspacePath: project}
		if standIn != "" { // else it asks whether to use it
			object["customApiKeyResponses"] = map[string]any{"approved": []any{standIn[max(0, len(standIn)-20):]}}
		}
		return true
	})
	return nil
}

// prepareCodex completes the copy of Codex's settings: it takes a key from its login file.
func prepareCodex(_ context.Context, c *settings, standIn string) error {
	if standIn != "" {
		c.put(path.Join(c.at, "auth.json"), 0o600, encodeObject(map[string]any{"auth_mode": "apikey", "OPENAI_API_KEY": standIn}))
	}
	return nil
}

// write makes the copy in the HOME of a sandbox.
func (c *settings) write(ctx context.Context, sandbox *paddock.Sandbox) error {
	if len(c.files) == 0 {
		return nil
	}
	archive, err := c.archive()
	if err != nil {
		return fmt.Errorf("cannot copy the agent's settings: %w", err)
	}
	cmd := sandbox.Command(ctx, "tar", "-x", "--no-same-owner", "-p", "-f", "-", "-C", policy.HomePath)
	cmd.Stdin = bytes.NewReader(archive)
	said := &paddock.Capture{Max: 4 << 10}
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("cannot copy the agent's settings: tar: %w: %s", err, bytes.TrimSpace(said.Bytes()))
	}
	return nil
}

// archive returns the copy as an archive of tar.
func (c *settings) archive() ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	made := map[string]bool{".": true}
	var dirs func(dir string) error
	dirs = func(dir string) error {
		if made[dir] {
			return nil
		}
		if err := dirs(path.Dir(dir)); err != nil {
			return err
		}
		made[dir] = true
		return w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o700})
	}
	for _, f := range c.files {
		err := dirs(path.Dir(f.name))
		if err == nil {
			err = w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: f.name, Mode: f.mode, Size: int64(len(f.text))})
		}
		if err == nil {
			_, err = w.Write(f.text)
		}
		if err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return b.Bytes(), err
}

// parseObject reads a JSON object. Numbers keep their text.
func parseObject(text []byte) (map[string]any, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var object map[string]any
	if err := d.Decode(&object); err != nil {
		return nil, err
	}
	if d.More() || object == nil {
		return nil, errors.New("it is not one JSON object")
	}
	return object, nil
}

func encodeObject(object map[string]any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	_ = e.Encode(object) // it was decoded from JSON, or is made of texts
	return b.Bytes()
}

// holder returns the object that has the last name of a path "a.b.c", and that name.
func holder(object map[string]any, at string) (map[string]any, string) {
	for {
		name, rest, more := strings.Cut(at, ".")
		if !more {
			return object, name
		}
		object, _ = object[name].(map[string]any)
		at = rest
	}
}

// remove removes a member, and reports whether it was there.
func remove(object map[string]any, at string) bool {
	object, name := holder(object, at)
	_, there := object[name]
	delete(object, name)
	return there
}
