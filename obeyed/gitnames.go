package obeyed

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/backend/hostpath/gitconfig"
	"github.com/paddock-dev/paddock/internal/lazyregexp"
	"github.com/paddock-dev/paddock/policy"
)

// Bounds of the reading of configuration.
const (
	maxConfigFiles  = 1024
	maxParsed       = 16
	maxIncludeDepth = 10
	maxRoots        = 64
	maxWords        = 256
	maxPath         = 4096

	// Settings, plus lookups of the paths that they name in each worktree: for all
	// repositories together, and for one of the user's files.
	maxLooks     = 1 << 16
	maxUserLooks = 1 << 18
)

// configFile is a file of git's configuration that is to be read.
type configFile struct {
	path   string
	opens  string      // the name in Unprotected that lets commands change it
	of     *repository // nil: it is the user's
	roots  []string    // where git runs what it names
	nested bool
	own    map[string]bool // as in claim
	beyond bool            // the files that it names are watched, but not guarded
	depth  int

	settings []gitconfig.Entry // from the environment instead of a file
}

// configuration reads all of git's configuration that the user's git could obey, whatever
// its conditions, and guards the files that it names in the mounts. It begins with the user's
// own configuration, which can name files in the mounts and in repositories around them.
func (p *protector) configuration() error {
	user := append(p.userConfiguration(), p.environment()...)
	var near []string
	for i := range p.mounts {
		near = append(near, p.mounts[i].Source)
	}
	for _, r := range p.repositories {
		if !r.nested {
			near = append(near, r.roots...)
		}
	}
	if err := p.userNames(user, configFile{roots: near}); err != nil {
		return err
	}
	own := map[string]bool{}
	var more, nested, far []string // worktrees that configuration adds, those of guarded nested repositories, and the others
	p.budget = budget{looks: maxLooks}
	for _, r := range p.repositories {
		for known := -1; known < len(r.roots); { // core.worktree names more of them
			known = len(r.roots)
			for _, name := range []string{"config", "config.worktree"} {
				f := configFile{path: filepath.Join(r.dir, name), opens: ".git/" + name, of: r, roots: r.roots, nested: r.nested, own: r.own, beyond: r.beyond}
				if err := p.readConfig(f); err != nil {
					return err
				}
			}
		}
		switch {
		case !r.nested:
			more = append(more, r.roots...)
		case r.beyond:
			far = append(far, r.roots...)
		default:
			nested = append(nested, r.roots...)
			for root, found := range r.own {
				own[root] = own[root] || found
			}
		}
	}
	more = slices.DeleteFunc(more, func(root string) bool { return slices.Contains(near, root) })
	for _, of := range []configFile{{roots: more}, {roots: nested, nested: true, own: own}, {roots: far, nested: true, beyond: true}} {
		if err := p.userNames(user, of); err != nil {
			return err
		}
	}
	return nil
}

// userNames guards the files in worktrees that the user's own configuration names.
func (p *protector) userNames(user []configFile, of configFile) error {
	if len(of.roots) == 0 {
		return nil
	}
	roots := slices.Compact(slices.Sorted(slices.Values(of.roots)))
	p.budget = budget{}
	for _, f := range user {
		f.roots, f.nested, f.own, f.beyond, p.looks = roots, of.nested, of.own, of.beyond, maxUserLooks
		if err := p.readConfig(f); err != nil {
			return err
		}
	}
	return nil
}

// userConfiguration returns the configuration files that apply to every repository of the
// user.
func (p *protector) userConfiguration() []configFile {
	var files []configFile
	add := func(opens string, paths ...string) {
		for _, path := range paths {
			if filepath.IsAbs(path) {
				files = append(files, configFile{path: filepath.Clean(path), opens: opens})
			} else { // the file depends on where git is started
				p.out.Unread = append(p.out.Unread, path)
			}
		}
	}
	switch system := os.Getenv("GIT_CONFIG_SYSTEM"); {
	case slices.Contains([]string{"1", "true", "yes", "on"}, strings.ToLower(os.Getenv("GIT_CONFIG_NOSYSTEM"))):
	case system != "":
		add("", system)
	default:
		add("", "/etc/gitconfig", "/usr/local/etc/gitconfig", "/opt/homebrew/etc/gitconfig")
	}
	if global := os.Getenv("GIT_CONFIG_GLOBAL"); global != "" {
		add(".gitconfig", global)
	} else if home := p.homes.Own; home != "" {
		add(".config/git", filepath.Join(cmp.Or(os.Getenv("XDG_CONFIG_HOME"), filepath.Join(home, ".config")), "git", "config"))
		add(".gitconfig", filepath.Join(home, ".gitconfig"))
	}
	return files
}

// readConfig reads a configuration file, and the files that it includes.
func (p *protector) readConfig(f configFile) error {
	if p.opened(f.opens) {
		f.nested, f.beyond = true, true
	}
	if f.settings != nil {
		return p.obeyAll(f, f.settings, "/")
	}
	found, _, err := p.find(f.path, f.opens)
	if errors.Is(err, fs.ErrNotExist) {
		if f.depth > 0 {
			p.watch(found)
		}
		return nil
	}
	var text []byte
	if err == nil {
		p.files++
		switch {
		case p.files > maxConfigFiles && f.depth <= maxIncludeDepth && f.beyond:
			p.lose("there are more than " + strconv.Itoa(maxConfigFiles) + " files of git's configuration: what the others name is not protected")
			return nil
		case p.files > maxConfigFiles, f.depth > maxIncludeDepth, p.looks <= 0:
			p.out.Unread = append(p.out.Unread, f.path)
			return nil
		}
		text, err = hostpath.Read(p.ctx, "/", found[1:], gitconfig.MaxSize)
	}
	if err != nil {
		return p.doubtful(f.path, found, cmp.Or(f.opens, "*"), f.nested, err)
	}
	if f.depth > 0 {
		if err := p.guardNamed(found, claim{at: f.path, why: "git's configuration includes it", opens: f.opens, nested: f.nested, own: f.own, beyond: f.beyond}); err != nil {
			return err
		}
	}
	settings, err := gitconfig.Parse(text)
	if err != nil {
		settings, err = p.parseByGit(text)
	}
	if err != nil {
		p.out.Unread = append(p.out.Unread, f.path)
		return p.ctx.Err()
	}
	f.roots = slices.Clip(f.roots)
	worktrees := 0
	for _, s := range settings {
		if s.Key != "core.worktree" {
			continue
		}
		root := gitconfig.Absolute(s.Value, filepath.Dir(found))
		known := f.of == nil || slices.Contains(f.of.roots, root)
		if worktrees++; worktrees > maxRoots || !known && len(f.of.roots) >= maxRoots {
			p.out.Unread = append(p.out.Unread, f.path)
			break
		}
		if !slices.Contains(f.roots, root) {
			f.roots = append(f.roots, root)
		}
		if !known {
			f.of.roots = append(f.of.roots, root)
		}
	}
	return p.obeyAll(f, settings, filepath.Dir(found))
}

// obeyAll guards, or watches, the files that settings name. Includes are relative to dir.
func (p *protector) obeyAll(f configFile, settings []gitconfig.Entry, dir string) error {
	f.settings = nil // included files have their own
	for _, s := range settings {
		if p.looks--; p.looks <= 0 || p.ctx.Err() != nil {
			p.out.Unread = append(p.out.Unread, f.path)
			return p.ctx.Err()
		}
		for _, k := range policy.GitKeys() {
			if s.Bare || s.Value == "" || !k.Matches(s.Key) {
				continue
			}
			if err := p.obeyed(f, k, s, dir); err != nil {
				return err
			}
		}
	}
	return nil
}

// parseByGit runs git to parse a text that is not in the plain form.
func (p *protector) parseByGit(text []byte) ([]gitconfig.Entry, error) {
	if known, ok := p.plain[string(text)]; ok {
		return known, nil
	}
	if p.parsed++; p.parse == nil || p.parsed > maxParsed {
		return nil, gitconfig.ErrNotPlain
	}
	out, err := p.parse(p.ctx, text)
	if err != nil {
		return nil, err
	}
	p.plain[string(text)] = gitconfig.ParseList(out)
	return p.plain[string(text)], nil
}

// obeyed guards, or watches, the files that one setting names.
func (p *protector) obeyed(f configFile, k policy.GitKey, s gitconfig.Entry, dir string) error {
	value := s.Value
	if k.Class == policy.Unasked && p.elsewhere(f, k, value, dir) {
		p.out.Unread = append(p.out.Unread, f.path)
		return nil
	}
	switch k.Kind {
	case policy.GitInclude:
		included := f
		included.path, included.depth = gitconfig.Absolute(p.homes.Expand(value), dir), f.depth+1
		return p.readConfig(included)
	case policy.GitPath:
		p.out.Relative = p.out.Relative || f.of == nil && !filepath.IsAbs(p.homes.Expand(value))
		return p.eachRoot(f, value, func(at string) error { return p.path(f, k, at) })
	case policy.GitShell:
		command, ok := strings.CutPrefix(value, "!")
		if !ok {
			return nil
		}
		value = command
	case policy.GitURL:
		if sub := s.Key[strings.IndexByte(s.Key, '.')+1 : strings.LastIndexByte(s.Key, '.')]; strings.HasPrefix(sub, "ext::") {
			value = sub
		}
		command, ok := strings.CutPrefix(value, "ext::")
		if !ok {
			return nil
		}
		value = command
	case policy.GitCommand:
		value = strings.TrimPrefix(value, "!")
	}
	words := shellWords(value)
	for i, w := range words[:min(len(words), maxWords)] {
		operand := strings.Contains(w, "/") || slices.ContainsFunc(words[:i], interpreter().MatchString) && (!strings.HasPrefix(words[i-1], "-") || !strings.HasSuffix(words[i-1], "="+w))
		p.out.Relative = p.out.Relative || f.of == nil && k.Class == policy.Unasked && operand && !strings.HasPrefix(w, "-") && !filepath.IsAbs(p.homes.Expand(w))
		if err := p.eachRoot(f, w, func(at string) error { return p.word(f, k, w, at, i == 0) }); err != nil {
			return err
		}
	}
	return nil
}

// eachRoot calls look with the path in each worktree, as long as there are looks left.
func (p *protector) eachRoot(f configFile, path string, look func(at string) error) error {
	path = p.homes.Expand(path)
	for _, root := range f.roots {
		if p.looks--; p.looks <= 0 || p.ctx.Err() != nil {
			p.out.Unread = append(p.out.Unread, f.path)
			return p.ctx.Err()
		}
		if err := look(gitconfig.Absolute(path, root)); err != nil {
			return err
		}
	}
	return nil
}

// elsewhere reports whether git reads a path in an unexpected way, or whether the path depends
// on the process that uses it.
func (p *protector) elsewhere(f configFile, k policy.GitKey, value, dir string) bool {
	bases := f.roots
	switch k.Kind {
	case policy.GitInclude:
		bases = []string{dir}
	case policy.GitPath:
	default:
		return strings.Contains(value, "/proc/self/") || strings.Contains(value, "/proc/thread-self/")
	}
	return strings.HasPrefix(value, "%(") || strings.HasPrefix(value, ":(") || slices.ContainsFunc(bases, func(base string) bool {
		path := gitconfig.Absolute(filepath.Clean(p.homes.Expand(value)), base)
		_, proc := hostpath.Within(path, "/proc")
		_, dev := hostpath.Within(path, "/dev")
		return proc || dev && path != os.DevNull
	})
}

// path guards, or watches, a file or a directory that a key names.
func (p *protector) path(f configFile, k policy.GitKey, at string) error {
	found, _, err := p.resolve(at)
	if k.Class == policy.Unasked && !f.beyond {
		if err := p.shut(found, err); err != nil {
			return err
		}
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		p.watch(found)
	case err != nil && !f.nested && k.Class == policy.Unasked:
		return p.unguarded(at, f.opens, err)
	case err != nil || k.Class == policy.WhenNamed:
		p.watch(found)
	case k.Name == "core.hookspath" && slices.ContainsFunc(p.mounts, func(m hostpath.Mount) bool { return m.Source == found }):
		m := p.mountOf(found)
		if f.nested {
			p.out.Unread = append(p.out.Unread, f.path)
			return nil
		}
		return hostpath.Refuse(m.Field, m.Source, "git runs hooks from it, because core.hooksPath in "+f.path+" names it", p.remedy(f.opens, "name another directory"))
	default:
		if k.Name == "core.hookspath" {
			p.addHooks(found, f.opens, f.nested, f.own, f.beyond)
		}
		return p.guardNamed(found, claim{at: f.path, why: k.Why, opens: f.opens, nested: f.nested, own: f.own, beyond: f.beyond})
	}
	return nil
}

// word guards, or watches, the file that a word of a command line names. A file that exists is
// guarded, unless it is in a directory in which tools make and remove files.
func (p *protector) word(f configFile, k policy.GitKey, w, at string, first bool) error {
	if first && !strings.Contains(w, "/") {
		return nil // it is searched for in PATH
	}
	found, info, err := p.resolve(at)
	if k.Class == policy.Unasked && !f.beyond && !p.made(found) {
		if err := p.shut(found, err); err != nil {
			return err
		}
	}
	var link *changeableLinkError
	switch {
	case errors.Is(err, unix.EACCES):
		p.watch(found)
	case errors.Is(err, fs.ErrNotExist):
		if strings.Contains(w, "/") && !strings.HasPrefix(w, "-") && !strings.ContainsAny(w, " \t\n") {
			p.watch(found)
		}
	case errors.As(err, &link):
		p.watch(link.at)
		if target := hostpath.Real(at); target != "" {
			p.watch(target)
		}
	case err != nil: // it cannot name a file
	case k.Class == policy.Unasked && info.Mode().IsRegular() && !p.made(found):
		return p.guardNamed(found, claim{at: f.path, why: k.Why, opens: f.opens, nested: f.nested, own: f.own, beyond: f.beyond})
	case info.Mode().IsRegular():
		p.watch(found)
	}
	return nil //nolint:nilerr // a word that leads nowhere names nothing
}

// made reports whether a path is in a directory that tools can make again, below the mount that
// shows it.
func (p *protector) made(file string) bool {
	for _, m := range p.mounts {
		rel, ok := hostpath.Within(file, m.Source)
		if ok && !slices.ContainsFunc(strings.Split(rel, "/"), func(part string) bool { return slices.Contains(madeDirs, part) }) {
			return false
		}
	}
	return true
}

// shellWords splits a command line into texts that may be paths: words, without quotes,
// and the parts after "=" in them. A quoted text is split again, since it may be a
// command line itself.
func shellWords(line string) []string {
	var words []string
	add := func(w string) {
		if w == "" || strings.ContainsRune(w, 0) || len(w) > maxPath {
			return
		}
		words = append(words, w)
		if _, value, ok := strings.Cut(w, "="); ok && value != "" {
			words = append(words, value)
		}
	}
	var b strings.Builder
	quote := rune(0)
	end := func(quoted bool) {
		w := b.String()
		b.Reset()
		add(w)
		if quoted && strings.ContainsAny(w, " \t\n;|&") {
			for _, part := range strings.FieldsFunc(w, func(r rune) bool { return strings.ContainsRune(" \t\n;|&<>()`\"'", r) }) {
				add(part)
			}
		}
	}
	quoted := false
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '"' || r == '\''):
			quote, quoted = r, true
		case quote == 0 && strings.ContainsRune(" \t\n;|&<>()`", r):
			end(quoted)
			quoted = false
		default:
			b.WriteRune(r)
		}
		if len(words) > maxWords {
			break
		}
	}
	end(quoted)
	return words
}

// interpreter matches programs that execute the file that an operand names.
var interpreter = lazyregexp.New(`^(.*/)?(env|(ba|da|z|k|fi)?sh|python[0-9.]*|perl|ruby|node|nodejs|deno|bun|php|lua|awk|make|source|exec|\.)$`)
