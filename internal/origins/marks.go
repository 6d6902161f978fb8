package origins

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/internal/text"
)

// marks are the files by which directories tell tools, and the shims of version managers that stand
// for tools, what to execute or where to download from. They are looked for in all directories
// above the one in which a tool works.
var marks = []string{
	".tool-versions", // asdf and mise
	"mise.toml", ".mise.toml", "mise.local.toml", ".mise.local.toml", "mise/config.toml", ".mise/config.toml",
	"mise/config.local.toml", ".mise/config.local.toml",
	".config/mise.toml", ".config/mise.local.toml", ".config/mise/config.toml", ".config/mise/config.local.toml",
	".config/mise/mise.toml", ".config/mise/mise.local.toml", ".config/mise/conf.d", ".miserc.toml",
	".prototools", ".sdkmanrc", ".nvmrc",
	".python-version", ".ruby-version", ".node-version", ".go-version", ".java-version", ".perl-version", ".php-version",
	"rust-toolchain", "rust-toolchain.toml", ".cargo/config", ".cargo/config.toml",
	"package.json", // volta, and corepack
	"go.mod", "go.work",
}

// markNames are variables of the caller's that give marks other names, with a colon between two.
var markNames = []string{
	"ASDF_DEFAULT_TOOL_VERSIONS_FILENAME", "MISE_DEFAULT_TOOL_VERSIONS_FILENAME", "MISE_DEFAULT_CONFIG_FILENAME",
	"MISE_OVERRIDE_TOOL_VERSIONS_FILENAMES", "MISE_OVERRIDE_CONFIG_FILENAMES",
}

// globals are what version managers obey where no directory has a mark: a file of the directory that
// a variable names, or else of one in the home.
var globals = []struct{ variable, usual, file string }{
	{"PYENV_ROOT", ".pyenv", "version"},
	{"RBENV_ROOT", ".rbenv", "version"},
	{"NODENV_ROOT", ".nodenv", "version"},
	{"GOENV_ROOT", ".goenv", "version"},
	{"VOLTA_HOME", ".volta", "tools/user/platform.json"},
	{"ASDF_CONFIG_FILE", ".asdfrc", ""},
	{"MISE_CONFIG_DIR", ".config/mise", "config.toml"},
	{"MISE_GLOBAL_CONFIG_FILE", ".config/mise/config.toml", ""},
}

// managers are the variables of version managers. They are the caller's own.
var managers = []string{
	"ASDF_*", "MISE_*", "PYENV_*", "RBENV_*", "NODENV_*", "GOENV_*", "JENV_*", "PLENV_*", "PHPENV_*", "VOLTA_*", "FNM_*", "NVM_*", "PROTO_*", "SDKMAN_*",
	"RUSTUP_HOME", "RUSTUP_TOOLCHAIN",
}

// askDir is the directory of the state directory in which tools work, each in one of its own.
const askDir = "ask"

// forgotten is the age of a directory in which no tool works any more, because the process that
// asked was killed.
const forgotten = time.Hour

// scratch makes a new and empty directory, in and above which nobody else can make files, and calls
// do in it, unless a version manager would obey a mark there, or in the home, that another user or
// commands of a sandbox could have written.
func (q *question) scratch(do func(dir string) error) error {
	const others = "set PADDOCK_STATE_DIR to a directory of your own, above which only you and root can make files, or name its hosts instead: `network.allow` HOST"
	refused := func(err error) error {
		return refuse(q.tool, "cannot ask "+q.tool+" in the state directory "+text.Escape(q.Sandbox.StateDir+": "+hostpath.Reason(err)), others)
	}
	if err := os.MkdirAll(q.Sandbox.StateDir, 0o700); err != nil {
		return refused(err)
	}
	at, err := hostpath.SearchDir(q.Sandbox, q.Sandbox.StateDir)
	if err != nil {
		return refused(err)
	}
	base := filepath.Join(at, askDir)
	if err := hostpath.Alone(at); err != nil { // before anything is made or removed there
		return refused(fmt.Errorf("%w, and version managers obey files there", err))
	}
	if err := os.Mkdir(base, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return refused(err)
	}
	if info, err := os.Lstat(base); err != nil || !info.IsDir() {
		return refused(cmp.Or(err, fmt.Errorf("%s is not a directory", base)))
	}
	if err := hostpath.Alone(base); err != nil {
		return refused(fmt.Errorf("%w, and version managers obey files there", err))
	}
	left, err := os.ReadDir(base)
	if err != nil {
		return refused(err)
	}
	for _, e := range left {
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > forgotten {
			_ = os.RemoveAll(filepath.Join(base, e.Name())) // else the next question tries again
		}
	}
	dir, err := os.MkdirTemp(base, "")
	if err != nil {
		return refused(err)
	}
	defer os.RemoveAll(dir)
	for _, file := range q.marks(dir) {
		if _, err := q.trust(file); err != nil {
			return refuse(q.tool, "cannot ask "+q.tool+", which a version manager may stand for: "+text.Escape(err.Error()), "look at that file and remove it, or name the tool's hosts instead: `network.allow` HOST")
		}
	}
	return do(dir)
}

// marks returns the marks that tools may obey in a directory, and what they obey where there are none.
func (h *host) marks(dir string) []string {
	names := slices.Clone(marks)
	for _, variable := range markNames {
		names = append(names, filepath.SplitList(h.env(variable))...)
	}
	for env := range strings.SplitSeq(h.env("MISE_ENV"), ",") {
		if env != "" {
			names = append(names, "mise."+env+".toml", ".mise."+env+".toml", ".config/mise/config."+env+".toml")
		}
	}
	places := []string{h.home}
	for above := dir; above != "/"; {
		above = filepath.Dir(above)
		places = append(places, above)
	}
	var files []string
	for _, place := range places {
		for _, name := range names {
			if place != "" && name != "" {
				files = append(files, filepath.Join(place, name))
			}
		}
	}
	for _, g := range globals {
		at := h.env(g.variable)
		if at == "" {
			at = filepath.Join(h.Sandbox.Home, g.usual)
		}
		files = append(files, filepath.Join(at, g.file))
	}
	return files
}
