package origins

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/internal/lazyregexp"
	"github.com/paddock-dev/paddock/internal/strictjson"
)

// question is one tool, and what it has answered so far.
type question struct {
	*host
	tool string
	Answer
}

// ask asks the tool.
func (q *question) ask(ctx context.Context) error {
	var err error
	switch q.tool {
	case "apt":
		err = q.apt(ctx)
	case "cargo":
		err = q.cargo(ctx)
	case "go":
		err = q.golang(ctx)
	case "npm":
		err = q.npm(ctx)
	case "pip":
		err = q.pip(ctx)
	}
	if errors.Is(err, exec.ErrNotFound) {
		return refuse(q.tool, "there is no "+q.tool+" in PATH", "install it on this host, or name its hosts: `network.allow` HOST")
	}
	if err == nil && len(q.Rules) == 0 {
		q.note("it names no host that a rule can open")
	}
	return err
}

// npm asks for the registry, and for those of scopes. Packages come from the same hosts, unless a
// registry says something else.
func (q *question) npm(ctx context.Context) error {
	program, err := q.find("npm")
	if err != nil {
		return err
	}
	own, err := q.trust(q.env("npm_config_userconfig"), q.env("NPM_CONFIG_USERCONFIG"), filepath.Join(q.Sandbox.Home, ".npmrc"),
		q.env("npm_config_globalconfig"), q.env("NPM_CONFIG_GLOBALCONFIG"))
	if err != nil {
		return err
	}
	vars := []string{"npm_config_*", "NPM_CONFIG_*"}
	if q.env("npm_lifecycle_event") != "" {
		vars = nil // in a script of npm's they are what a project says
	} else if q.env("npm_config_registry")+q.env("NPM_CONFIG_REGISTRY") != "" {
		own = true
	}
	var out string
	err = q.scratch(func(dir string) error {
		// npm looks for a project in the directories above, unless this is one.
		if err := os.WriteFile(filepath.Join(dir, "package.json"), []byte("{}"), 0o600); err != nil {
			return err
		}
		out, _, err = run(ctx, dir, q.environ(vars...), program, "config", "list", "--json")
		return err
	})
	if err != nil {
		return err
	}
	var settings map[string]json.RawMessage
	if err := json.Unmarshal([]byte(out), &settings); err != nil {
		return errors.New("its answer is not JSON")
	}
	for _, name := range []string{"userconfig", "globalconfig"} { // where its prefix and other settings led it
		var file string
		if json.Unmarshal(settings[name], &file) == nil {
			if _, err := q.trust(file); err != nil {
				return err
			}
		}
	}
	var registry string
	if json.Unmarshal(settings["registry"], &registry) != nil || registry == "" {
		return errors.New("it names no registry")
	}
	q.open(registry)
	names := make([]string, 0, len(settings))
	for name := range settings {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		var scoped string
		if strings.HasSuffix(name, ":registry") && json.Unmarshal(settings[name], &scoped) == nil && scoped != "" {
			q.open(scoped)
		}
	}
	if own && !exists(filepath.Join(q.Sandbox.Spec.Workspace.Source, ".npmrc")) { // over which a variable would win
		q.pass("npm_config_registry", registry)
	}
	return nil
}

// goSettings say where go downloads from. They are passed on if the caller has set them.
var goSettings = []string{"GOPROXY", "GOSUMDB", "GOPRIVATE", "GONOPROXY", "GONOSUMDB", "GOINSECURE"}

// golang asks for the proxies and the checksum database.
func (q *question) golang(ctx context.Context) error {
	program, err := q.find("go")
	if err != nil {
		return err
	}
	file := q.env("GOENV")
	if file == "" {
		file = filepath.Join(q.config(), "go", "env")
	}
	if _, err := q.trust(file); err != nil {
		return err
	}
	var out string
	err = q.scratch(func(dir string) error {
		env := append(q.environ(append(goSettings[:len(goSettings):len(goSettings)], "GOENV")...), "GOTOOLCHAIN=local", "GOWORK=off", "GOFLAGS=", "GO111MODULE=on")
		out, _, err = run(ctx, dir, env, program, append([]string{"env", "-json"}, goSettings...)...)
		return err
	})
	if err != nil {
		return err
	}
	var settings map[string]string
	if err := json.Unmarshal([]byte(out), &settings); err != nil {
		return errors.New("its answer is not JSON")
	}
	for proxy := range strings.FieldsFuncSeq(settings["GOPROXY"], func(c rune) bool { return c == ',' || c == '|' }) {
		switch proxy = strings.TrimSpace(proxy); proxy {
		case "":
		case "direct":
			q.note("direct, for modules that no proxy has, is each module's own host: not included")
		case "off":
			q.note("off: nothing is downloaded after that")
		default:
			q.open(proxy)
		}
	}
	// The database is "off", a name, a name with a key, or these and a URL.
	if words := strings.Fields(settings["GOSUMDB"]); len(words) > 1 {
		q.open(words[1])
	} else if len(words) == 1 && words[0] != "off" {
		name, _, _ := strings.Cut(words[0], "+")
		q.open("https://" + name)
	}
	if exists(file) || slices.ContainsFunc(goSettings, func(name string) bool { return q.env(name) != "" }) {
		for _, name := range goSettings {
			q.pass(name, settings[name])
		}
	}
	return nil
}

var (
	// pipDefault matches the index in pip's help, which has what is configured.
	pipDefault = lazyregexp.New(`--index-url[^(]*\(default:?\s+([^\s)]+)\)`)
	// pipSetting matches a line of pip config list.
	pipSetting = lazyregexp.New(`(?m)^\S*\.((?:extra-)?index-url)=(?:'([^'\n]*)'|"([^"\n]*)")\s*$`)
	// pipURL matches the file in pip's report about a package.
	pipURL = lazyregexp.New(`"url":\s*"(https://[^"\s]+)"`)
)

// pip asks for the indexes, and for where the first of them has its files.
func (q *question) pip(ctx context.Context) error {
	program, err := q.find("pip", "pip3")
	if err != nil {
		return err
	}
	files := []string{q.env("PIP_CONFIG_FILE"), filepath.Join(q.config(), "pip", "pip.conf"), filepath.Join(q.Sandbox.Home, ".pip", "pip.conf")}
	for _, dir := range filepath.SplitList(q.env("XDG_CONFIG_DIRS")) {
		files = append(files, filepath.Join(dir, "pip", "pip.conf"))
	}
	own, err := q.trust(files...)
	if err != nil {
		return err
	}
	return q.scratch(func(dir string) error {
		env := append(q.environ("PIP_*"), "PIP_DISABLE_PIP_VERSION_CHECK=1", "PIP_NO_INPUT=1", "PYTHONDONTWRITEBYTECODE=1")
		var help, settings, report string
		var errs [3]error
		var asking sync.WaitGroup
		asking.Go(func() { help, _, errs[0] = run(ctx, dir, env, program, "install", "--help") })
		asking.Go(func() { settings, _, errs[1] = run(ctx, dir, env, program, "config", "list") })
		asking.Go(func() { // an index may keep its files elsewhere; which package is asked about does not matter
			report, _, errs[2] = run(ctx, dir, env, program, "install", "--quiet", "--dry-run", "--ignore-installed", "--no-deps", "--no-cache-dir", "--only-binary=:all:",
				"--retries", "0", "--target", filepath.Join(dir, "target"), "--report", "-", "pip")
		})
		asking.Wait()
		if err := cmp.Or(errs[0], errs[1]); err != nil {
			return err
		}
		m := pipDefault().FindStringSubmatch(help)
		if m == nil {
			return errors.New("its help names no index")
		}
		q.open(m[1])
		own = own || q.env("PIP_INDEX_URL")+q.env("PIP_EXTRA_INDEX_URL") != ""
		for _, m := range pipSetting().FindAllStringSubmatch(settings, 64) {
			value := strings.ReplaceAll(m[2]+m[3], `\n`, " ")
			for address := range strings.FieldsSeq(value) {
				q.open(address)
			}
			if own {
				q.pass("PIP_"+strings.ToUpper(strings.ReplaceAll(m[1], "-", "_")), strings.TrimSpace(value))
			}
		}
		files := pipURL().FindAllStringSubmatch(report, 8)
		for _, m := range files {
			q.open(m[1])
		}
		if errs[2] != nil || len(files) == 0 {
			q.note("the index does not say where its files are: if they are on another host, a refusal names it")
		}
		return nil
	})
}

var (
	// cargoURL matches what cargo could not download.
	cargoURL = lazyregexp.New("`?((?:sparse\\+|git\\+)?https?://[^`'\\s]+)`?")
	// cargoSetting matches registries in cargo's configuration.
	cargoSetting = lazyregexp.New(`(?m)^\s*(?:index|[\w.-]+\.index)\s*=\s*"([^"\n]+)"`)
	// rustupDefault matches the toolchain that rustup runs.
	rustupDefault = lazyregexp.New(`(?m)^default_toolchain\s*=\s*"([\w.-]+)"`)
)

// cargo asks for the index, and the index for where it has its files: cargo is asked to resolve a
// project, once where it can connect to nothing, and once where it can.
func (q *question) cargo(ctx context.Context) error {
	program, err := q.rust()
	if err != nil {
		return err
	}
	home := q.env("CARGO_HOME")
	if home == "" {
		home = filepath.Join(q.Sandbox.Home, ".cargo")
	}
	var config []byte
	for _, name := range []string{"config", "config.toml"} {
		file := filepath.Join(home, name)
		switch some, err := q.trust(file); {
		case err != nil:
			return err
		case some:
			if config, err = hostpath.ReadNamed(ctx, q.Sandbox.StateDir, file, 256<<10); err != nil {
				return err
			}
		}
	}
	return q.scratch(func(dir string) error {
		const manifest = "[package]\nname = \"ask\"\nversion = \"0.0.0\"\nedition = \"2018\"\n[dependencies]\na = \"*\"\n"
		own := filepath.Join(dir, "home")
		err := errors.Join(os.MkdirAll(filepath.Join(dir, "src"), 0o700), os.Mkdir(own, 0o700),
			os.WriteFile(filepath.Join(dir, "src", "lib.rs"), nil, 0o600), os.WriteFile(filepath.Join(dir, "Cargo.toml"), []byte(manifest), 0o600))
		if err == nil && config != nil {
			err = os.WriteFile(filepath.Join(own, "config.toml"), config, 0o600)
		}
		if err != nil {
			return err
		}
		closed, err := closedPort()
		if err != nil {
			return err
		}
		env := append(q.environ("CARGO_REGISTRIES_*", "CARGO_HTTP_CAINFO"), "CARGO_HOME="+own, "CARGO_NET_RETRY=0")
		_, said, failed := run(ctx, dir, append(env, "CARGO_HTTP_PROXY=http://"+closed), program, "generate-lockfile")
		if ctx.Err() != nil {
			return failed
		}
		index := ""
		if m := cargoURL().FindStringSubmatch(said); m != nil {
			index = m[1]
		}
		switch {
		case index != "":
			q.open(index)
		case failed != nil && config == nil:
			return failed
		default:
			q.note("it downloads nothing")
		}
		for _, m := range cargoSetting().FindAllSubmatch(config, 16) {
			q.open(string(m[1]))
		}
		if config != nil {
			q.note("your cargo's configuration is not visible inside; commands need the same in .cargo/config.toml of the workspace")
		}
		if strings.HasSuffix(index, "/config.json") { // it is not a repository, which would be cloned
			_, _, _ = run(ctx, dir, env, program, "generate-lockfile") // the package need not exist
			q.crates(own)
		}
		return nil
	})
}

// crates opens the host that an index names for its files, by what cargo has kept of the index.
func (q *question) crates(home string) {
	kept, err := filepath.Glob(filepath.Join(home, "registry", "index", "*", "config.json")) // the pattern is valid
	found := false
	for _, file := range kept {
		var index struct {
			DL string `json:"dl"`
		}
		if text, rerr := os.ReadFile(file); rerr == nil && strictjson.Unmarshal(text, &index, strictjson.Options{Foreign: true}) == nil && strings.HasPrefix(index.DL, "https://") {
			address, _, _ := strings.Cut(index.DL, "{") // what follows depends on the package
			if u, err := url.Parse(address); err == nil && u.Host != "" {
				q.open(address)
				found = true
			}
		}
	}
	if err != nil || !found {
		q.note("the index does not say where its files are: if they are on another host, a refusal names it")
	}
}

// closedPort returns an address of loopback at which nothing listens.
func closedPort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// rust returns the path of cargo itself: rustup, which stands for it, would obey files of
// directories, and may download another one.
func (q *question) rust() (string, error) {
	program, err := q.find("cargo")
	if err != nil {
		return "", err
	}
	info, err := os.Stat(program)
	if err != nil {
		return "", err
	}
	rustup, _ := os.Stat(filepath.Join(filepath.Dir(program), "rustup")) // nil if there is none
	if filepath.Base(hostpath.Real(program)) != "rustup" && (rustup == nil || !os.SameFile(info, rustup)) {
		return program, nil
	}
	home := q.env("RUSTUP_HOME")
	if home == "" {
		home = filepath.Join(q.Sandbox.Home, ".rustup")
	}
	settings := filepath.Join(home, "settings.toml")
	if _, err := q.trust(settings); err != nil {
		return "", err
	}
	words, err := hostpath.ReadNamed(context.Background(), q.Sandbox.StateDir, settings, 64<<10)
	if err != nil {
		return "", err
	}
	m := rustupDefault().FindSubmatch(words)
	if m == nil {
		return "", errors.New("rustup has no default toolchain")
	}
	program = filepath.Join(home, "toolchains", string(m[1]), "bin", "cargo")
	if !exists(program) {
		return "", errors.New("rustup's default toolchain " + string(m[1]) + " is not installed")
	}
	return program, q.judge(program)
}

// apt asks for the repositories.
func (q *question) apt(ctx context.Context) error {
	program, err := q.find("apt-get")
	if err != nil {
		return err
	}
	if _, err := q.trust(q.env("APT_CONFIG")); err != nil {
		return err
	}
	if !slices.ContainsFunc(q.mounts, func(m hostpath.Mount) bool { return hostpath.Under("/etc/apt", m.Source) }) {
		q.note("/etc/apt is not visible inside: `mounts.ro` /etc/apt:/mnt/apt shows it, and apt-get -o Dir::Etc=/mnt/apt reads it")
	}
	return q.scratch(func(dir string) error {
		env := q.environ("APT_CONFIG")
		out, _, err := run(ctx, dir, env, program, "indextargets", "--no-release-info", "--format", "$(REPO_URI)")
		if err != nil {
			return err
		}
		addresses := slices.Compact(slices.Sorted(strings.FieldsSeq(out)))
		for _, address := range addresses[:min(len(addresses), 64)] {
			q.open(address)
		}
		return nil
	})
}
