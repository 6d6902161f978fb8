package core

import (
	"strings"

	"github.com/paddock-dev/paddock/wire"
)

// maxPath bounds the text of a path, in bytes. The kernel bounds each name
// only, since paths are walked name by name.
const maxPath = 64 << 10

// MaxFileName is the kernel's bound of a name, in bytes (NAME_MAX).
const MaxFileName = 255

// Path is a path below the workspace.
type Path struct {
	Text  string   // normalized and absolute, as in answers
	Names []string // below the workspace; empty for the workspace itself
}

// Base returns the last name, "" for the workspace itself.
func (p Path) Base() string {
	if len(p.Names) == 0 {
		return ""
	}
	return p.Names[len(p.Names)-1]
}

// Parent returns the names of the directory that p is in.
func (p Path) Parent() []string { return p.Names[:max(0, len(p.Names)-1)] }

// ParsePath reads a path of the protocol: absolute below /workspace, or
// relative to it.
func ParsePath(text string) (Path, *wire.Error) {
	outside := func(reason string) (Path, *wire.Error) {
		return Path{}, &wire.Error{Code: wire.CodeBadRequest, Object: text, Message: reason}
	}
	text = strings.TrimSpace(text)
	switch {
	case text == "":
		return outside("destination must not be empty")
	case len(text) > maxPath:
		text = "" // not into the error
		return outside("destination is too long")
	case strings.IndexByte(text, 0) >= 0:
		return outside("destination must not contain a NUL byte")
	}
	// POSIX leaves the meaning of exactly two leading slashes open.
	absolute := text[0] == '/' && (!strings.HasPrefix(text, "//") || strings.HasPrefix(text, "///"))
	if text[0] == '/' && !absolute {
		return outside("destination must stay inside /workspace")
	}
	names := []string{}
	for _, name := range strings.Split(text, "/") {
		switch name {
		case "", ".":
		case "..":
			return outside("destination must stay inside /workspace")
		default:
			if len(name) > MaxFileName { // before a parent is made for it
				return outside("destination has a name of more than 255 bytes")
			}
			names = append(names, name)
		}
	}
	if absolute {
		if len(names) == 0 || names[0] != "workspace" {
			return outside("destination must stay inside /workspace")
		}
		names = names[1:]
	}
	return Path{Text: PathText(names), Names: names}, nil
}

// PathText returns a path as in answers. White space at its end would be stripped when a
// client sends the path back, and it would name another file: "/." at the end prevents
// that.
func PathText(names []string) string {
	text := strings.Join(append([]string{"/workspace"}, names...), "/")
	if strings.TrimSpace(text) != text {
		return text + "/."
	}
	return text
}
