package obeyed

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/backend/hostpath/gitconfig"
)

// maxEnvSettings is how many settings are read from the environment.
const maxEnvSettings = 1024

// environment returns the configuration in the caller's environment, as the caller's git
// reads it: GIT_CONFIG_COUNT with its keys and values, and GIT_CONFIG_PARAMETERS, in which
// git passes on what -c says.
func (p *protector) environment() []configFile {
	var files []configFile
	for _, from := range []struct {
		name  string
		parse func(text string) ([]gitconfig.Entry, bool)
	}{{"GIT_CONFIG_COUNT", countedSettings}, {"GIT_CONFIG_PARAMETERS", quotedSettings}} {
		text := os.Getenv(from.name)
		if text == "" {
			continue
		}
		f := configFile{path: "the variable " + from.name, opens: ".gitconfig"}
		var ok bool
		if f.settings, ok = from.parse(text); !ok {
			p.out.Unread = append(p.out.Unread, f.path)
		} else if len(f.settings) > 0 {
			files = append(files, f)
		}
	}
	return files
}

// countedSettings reads the settings in GIT_CONFIG_KEY_N and GIT_CONFIG_VALUE_N.
func countedSettings(count string) ([]gitconfig.Entry, bool) {
	n, err := strconv.ParseUint(count, 10, 16)
	if err != nil || n > maxEnvSettings {
		return nil, false
	}
	var all []gitconfig.Entry
	for i := range n {
		key, named := os.LookupEnv(fmt.Sprintf("GIT_CONFIG_KEY_%d", i))
		value, valued := os.LookupEnv(fmt.Sprintf("GIT_CONFIG_VALUE_%d", i))
		if !named || !valued {
			return nil, false
		}
		all = append(all, gitconfig.Entry{Key: smallKey(key), Value: value})
	}
	return all, true
}

// quotedSettings reads 'key'='value' and the older form 'key=value', with blanks between
// the settings.
func quotedSettings(text string) ([]gitconfig.Entry, bool) {
	var all []gitconfig.Entry
	for text = strings.TrimLeft(text, " "); text != ""; text = strings.TrimLeft(text, " ") {
		key, rest, ok := unquote(text)
		if !ok || len(all) == maxEnvSettings {
			return nil, false
		}
		var value string
		rest, valued := strings.CutPrefix(rest, "=")
		if !valued {
			key, value, valued = strings.Cut(key, "=")
		} else if valued = strings.HasPrefix(rest, "'"); valued {
			if value, rest, ok = unquote(rest); !ok {
				return nil, false
			}
		}
		if rest != "" && rest[0] != ' ' {
			return nil, false
		}
		all, text = append(all, gitconfig.Entry{Key: smallKey(key), Value: value, Bare: !valued}), rest
	}
	return all, true
}

// unquote cuts off a word in single quotes, as git quotes for a shell: a quote and an
// exclamation mark are outside of the quotes, after a backslash.
func unquote(text string) (word, rest string, ok bool) {
	var b strings.Builder
	rest, ok = strings.CutPrefix(text, "'")
	for ok {
		part, more, closed := strings.Cut(rest, "'")
		b.WriteString(part)
		if !closed {
			return "", "", false
		}
		if len(more) < 3 || more[0] != '\\' || more[1] != '\'' && more[1] != '!' || more[2] != '\'' {
			return b.String(), more, true
		}
		b.WriteByte(more[1])
		rest = more[3:]
	}
	return "", "", false
}

// smallKey returns a key as git lists it: section and name in lower case.
func smallKey(key string) string {
	first, last := strings.IndexByte(key, '.'), strings.LastIndexByte(key, '.')
	if first < 0 {
		return strings.ToLower(key)
	}
	return strings.ToLower(key[:first]) + key[first:last] + strings.ToLower(key[last:])
}

// namedRepository adds the repository that variables of the caller's environment name,
// which the caller's git uses wherever it is started.
func (p *protector) namedRepository() error {
	var roots []string
	if tree := os.Getenv("GIT_WORK_TREE"); filepath.IsAbs(tree) {
		roots = append(roots, filepath.Clean(tree))
	}
	for i := range p.mounts { // without the variable, it is where git is started
		roots = append(roots, p.mounts[i].Source)
	}
	for _, name := range []string{"GIT_DIR", "GIT_COMMON_DIR"} {
		dir := os.Getenv(name)
		if dir == "" {
			continue
		}
		at, err := hostpath.Abs(dir)
		if err != nil {
			return err
		}
		found, info, err := p.resolve(at)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			err = p.doubtful(at, found, ".git", false, err)
		case !info.IsDir():
			p.out.Unread = append(p.out.Unread, at)
		default:
			for _, root := range roots {
				err = errors.Join(err, p.addRepository(found, root, false))
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}
