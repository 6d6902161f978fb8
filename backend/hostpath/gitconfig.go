package hostpath

import (
	"bufio"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// maxGitConfig bounds how much of a repository's configuration is read.
const maxGitConfig = 1 << 20

// GitConfigPaths gives what the configuration of the workspace's repository
// has git run or obey in the workspace itself: the directory of core.hooksPath
// and the files that it includes. They are relative to the workspace.
func GitConfigPaths(workspace string) []string {
	f, err := os.Open(filepath.Join(workspace, ".git", "config"))
	if err != nil {
		return nil
	}
	defer f.Close()
	var found []string
	section := ""
	lines := bufio.NewScanner(io.LimitReader(f, maxGitConfig))
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if strings.HasPrefix(line, "[") {
			name, rest, _ := strings.Cut(line[1:], "]")
			section, _, _ = strings.Cut(strings.ToLower(name), " ")
			line = strings.TrimSpace(rest)
		}
		key, value, ok := strings.Cut(line, "=")
		if !ok {
			continue
		}
		base := workspace
		switch section + "." + strings.ToLower(strings.TrimSpace(key)) {
		case "core.hookspath":
		case "include.path", "includeif.path":
			base = filepath.Join(workspace, ".git")
		default:
			continue
		}
		if rel, ok := inWorkspace(workspace, base, gitValue(value)); ok {
			found = append(found, rel)
		}
	}
	return found
}

// gitValue reads a value as git-config(1) describes: quotes go, and so does a
// comment outside of them.
func gitValue(text string) string {
	var b strings.Builder
	quoted := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			quoted = !quoted
		case c == '\\' && i+1 < len(text):
			i++
			b.WriteByte(text[i])
		case !quoted && (c == '#' || c == ';'):
			return strings.TrimSpace(b.String())
		default:
			b.WriteByte(c)
		}
	}
	return strings.TrimSpace(b.String())
}

// inWorkspace says where in the workspace a path leads, if it is there.
func inWorkspace(workspace, base, path string) (string, bool) {
	if path == "" || strings.HasPrefix(path, "~") {
		return "", false
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(base, path)
	}
	rel, err := filepath.Rel(workspace, path)
	if err != nil || rel == "." || rel == ".." || strings.HasPrefix(rel, "../") {
		return "", false
	}
	return rel, true
}
