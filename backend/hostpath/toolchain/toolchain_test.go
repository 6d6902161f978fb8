package toolchain

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/policy"
)

// makeTree makes files below a directory: those that end in "/" are directories, "NAME -> TEXT" are
// links, and "NAME = TEXT" have a text.
func makeTree(t *testing.T, root, files string) {
	t.Helper()
	for line := range strings.FieldsFuncSeq(files, func(r rune) bool { return r == '\n' || r == ';' }) {
		line = strings.TrimSpace(strings.ReplaceAll(line, "$HOME", root+"/home"))
		if line == "" {
			continue
		}
		name, link, isLink := strings.Cut(line, " -> ")
		name, text, _ := strings.Cut(name, " = ")
		at := filepath.Join(root, name)
		err := os.MkdirAll(filepath.Dir(at), 0o755)
		switch {
		case err != nil:
		case isLink:
			err = os.Symlink(strings.ReplaceAll(link, "$ROOT", root), at)
		case strings.HasSuffix(name, "/"):
			err = os.MkdirAll(at, 0o755)
		default:
			err = os.WriteFile(at, []byte(text), 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// newRoot returns an empty directory, free of links.
func newRoot(t *testing.T) string {
	t.Helper()
	root := hostpath.Real(t.TempDir())
	makeTree(t, root, "ws/; home/; state/")
	if err := os.Chmod(root+"/state", 0o700); err != nil {
		t.Fatal(err)
	}
	return root
}

// request is for a sandbox over ROOT/ws, unless change says otherwise.
func request(t *testing.T, root, search string, change func(*policy.Spec)) backend.Request {
	t.Helper()
	hostpath.RootState = root + "/usual"
	t.Setenv("XDG_STATE_HOME", root+"/usual")
	spec := policy.Spec{Workspace: policy.Workspace{Source: root + "/ws"}}
	if change != nil {
		change(&spec)
	}
	spec, err := spec.Resolve(policy.Base{Dir: root})
	if err != nil {
		t.Fatal(err)
	}
	list, _ := hostpath.ReadWritten(root + "/state")
	return backend.Request{Spec: spec, StateDir: root + "/state", Home: root + "/home", Path: search, Seen: hostpath.NewSeen(list)}
}

// find tells what Find finds in words, with $HOME and $ROOT for the test's directories.
func find(t *testing.T, root, search string, env map[string]string, change func(*policy.Spec)) string {
	t.Helper()
	expand := strings.NewReplacer("$HOME", root+"/home", "$ROOT", root)
	for name, value := range env {
		env[name] = expand.Replace(value)
	}
	req, lookup := request(t, root, expand.Replace(search), change), func(name string) string { return env[name] }
	req.Path = WithGo(req, lookup)
	found, left := Find(req, lookup)
	var b strings.Builder
	for _, t := range found {
		fmt.Fprintf(&b, "%s:", t.Name)
		for _, s := range t.Shown {
			b.WriteString(" " + s)
		}
		for _, at := range slices.Sorted(maps.Keys(t.Links)) {
			b.WriteString(" " + at + "->" + t.Links[at])
		}
		for _, s := range t.Hidden {
			b.WriteString(" -" + s)
		}
		for _, name := range slices.Sorted(maps.Keys(t.Env)) {
			b.WriteString(" " + name + "=" + t.Env[name])
		}
		for _, entry := range slices.Sorted(maps.Keys(t.Search)) {
			b.WriteString(" @" + t.Search[entry])
		}
		b.WriteString("\n")
	}
	for _, entry := range slices.Sorted(maps.Keys(left)) {
		fmt.Fprintf(&b, "left %s: %s\n", entry, left[entry])
	}
	text := strings.ReplaceAll(b.String(), root+"/home", "$HOME")
	return strings.TrimSuffix(strings.ReplaceAll(text, root, "$ROOT"), "\n")
}

// Each row of the table, with the tool's files as it documents them, and much beside them that
// must not be shown.
func TestTable(t *testing.T) {
	const (
		nvm = `home/.nvm/nvm.sh; home/.nvm/.git/config; home/.nvm/.cache/bin/x; home/.nvm/alias/default
			home/.nvm/versions/node/v20.1.0/bin/node; home/.nvm/versions/node/v20.1.0/lib/node_modules/npm/x; home/.nvm/versions/node/v18.0.0/bin/node`
		pyenv = `home/.pyenv/.git/config; home/.pyenv/cache/x; home/.pyenv/sources/x; home/.pyenv/bin/pyenv -> ../libexec/pyenv; home/.pyenv/libexec/pyenv
			home/.pyenv/shims/python; home/.pyenv/version = 3.12.1; home/.pyenv/pyenv.d/exec/x; home/.pyenv/plugins/virtualenv/.git/config
			home/.pyenv/versions/3.12.1/bin/python; home/.pyenv/versions/3.12.1/pip.conf = token; home/.pyenv/versions/3.12.1/envs/a/bin/python
			home/.pyenv/versions/3.12.1/envs/a/pip.conf = token; home/.pyenv/versions/a -> 3.12.1/envs/a`
		goroot = `VERSION = go1.26.0; bin/go; bin/gofmt; src/runtime/x.go; pkg/tool/linux_amd64/compile; pkg/include/x.h; lib/time/x; go.env; test/x; misc/x; pkg/mod/secret`
	)
	in := func(dir, files string) string {
		var all []string
		for _, f := range strings.Split(files, "; ") {
			all = append(all, dir+"/"+f)
		}
		return strings.Join(all, "\n")
	}
	untried := map[string]bool{} // variables of the table
	for _, row := range table {
		for _, p := range row.places {
			for _, name := range p.vars {
				name, _, _ = strings.Cut(name, "/")
				untried[name] = true
			}
		}
	}
	for name, tt := range map[string]struct {
		files, path string
		env         map[string]string
		want        string
	}{
		"nvm": {nvm, "$HOME/.nvm/versions/node/v20.1.0/bin", nil,
			"nvm: $HOME/.nvm/versions/node/v20.1.0 @$HOME/.nvm/versions/node/v20.1.0/bin"},
		"nvm elsewhere, with a token": {`home/.config/n/versions/node/v20.1.0/bin/node; home/.config/n/versions/node/v20.1.0/etc/npmrc`,
			"$HOME/.config/n/versions/node/v20.1.0/bin/", map[string]string{"NVM_DIR": "$HOME/.config/n"},
			"nvm: $HOME/.config/n/versions/node/v20.1.0 -$HOME/.config/n/versions/node/v20.1.0/etc/npmrc @$HOME/.config/n/versions/node/v20.1.0/bin"},
		"nvm of the XDG directory":          {`home/.config/nvm/versions/node/v1/bin/node`, "$HOME/.config/nvm/versions/node/v1/bin", nil, "nvm: $HOME/.config/nvm/versions/node/v1 @$HOME/.config/nvm/versions/node/v1/bin"},
		"nvm of an XDG directory elsewhere": {`home/c/nvm/versions/node/v1/bin/node`, "$HOME/c/nvm/versions/node/v1/bin", map[string]string{"XDG_CONFIG_HOME": "$HOME/c"}, "nvm: $HOME/c/nvm/versions/node/v1 @$HOME/c/nvm/versions/node/v1/bin"},
		"a variable out of the home":        {`other/nvm/versions/node/v1/bin/node`, "$ROOT/other/nvm/versions/node/v1/bin", map[string]string{"NVM_DIR": "$ROOT/other/nvm"}, ""},
		"a relative variable":               {nvm, "$HOME/.nvm/versions/node/v18.0.0/bin", map[string]string{"NVM_DIR": "./x"}, "nvm: $HOME/.nvm/versions/node/v18.0.0 @$HOME/.nvm/versions/node/v18.0.0/bin"},
		"nvm itself":                        {nvm, "$HOME/.nvm:$HOME/.nvm/versions/node:$HOME/.nvm/versions/node/v20.1.0:$HOME/.nvm/versions/node/v20.1.0/lib", nil, ""},
		"fnm, by a shell's link": {`home/.local/share/fnm/node-versions/v20/installation/bin/node; home/.local/share/fnm/aliases/default -> ../node-versions/v20/installation
			run/fnm_multishells/1_2 -> $ROOT/home/.local/share/fnm/aliases/default; home/.local/share/fnm/fnm`, "$ROOT/run/fnm_multishells/1_2/bin:$HOME/.local/share/fnm", nil,
			"fnm: $HOME/.local/share/fnm/node-versions/v20/installation @$HOME/.local/share/fnm/node-versions/v20/installation/bin"},
		"fnm, by a shell's link in the home": {`home/f/node-versions/v20/installation/bin/node; home/f/aliases/default -> $ROOT/home/f/node-versions/v20/installation
			home/.local/state/fnm_multishells/1_2 -> $ROOT/home/f/aliases/default`, "$HOME/.local/state/fnm_multishells/1_2/bin", map[string]string{"FNM_DIR": "$HOME/f"},
			"fnm: $HOME/f/node-versions/v20/installation @$HOME/f/node-versions/v20/installation/bin"},
		"fnm as it was": {`home/.fnm/node-versions/v18/installation/bin/node; home/.fnm/aliases/18 -> ../node-versions/v18/installation`, "$HOME/.fnm/aliases/18/bin", nil,
			"fnm: $HOME/.fnm/node-versions/v18/installation @$HOME/.fnm/node-versions/v18/installation/bin"},
		"fnm of the XDG directory": {`home/d/fnm/node-versions/v18/installation/bin/node`, "$HOME/d/fnm/node-versions/v18/installation/bin", map[string]string{"XDG_DATA_HOME": "$HOME/d"},
			"fnm: $HOME/d/fnm/node-versions/v18/installation @$HOME/d/fnm/node-versions/v18/installation/bin"},
		"fnm, a link to another place": {`other/bin/node; run/fnm_multishells/1_2 -> $ROOT/other`, "$ROOT/run/fnm_multishells/1_2/bin", nil, ""},
		"volta": {`home/.volta/bin/volta-shim; home/.volta/bin/node -> volta-shim; home/.volta/tools/image/node/20.1.0/bin/node; home/.volta/tools/image/node/20.1.0/etc/npmrc
			home/.volta/tools/user/platform.json; home/.volta/tools/inventory/node/node-v20.1.0-npm; home/.volta/tools/inventory/npm/x.tgz; home/.volta/layout.v4; home/.volta/hooks.json; home/.volta/log/x; home/.volta/cache/x`,
			"$HOME/.volta/bin", nil, "volta: $HOME/.volta/bin $HOME/.volta/layout.v4 $HOME/.volta/tools/image $HOME/.volta/tools/inventory/node $HOME/.volta/tools/user" +
				" -$HOME/.volta/tools/image/node/20.1.0/etc/npmrc VOLTA_HOME=$HOME/.volta @$HOME/.volta/bin"},
		"volta elsewhere": {`home/v/bin/volta; home/v/bin/volta-shim; home/v/bin/volta-migrate; home/v/bin/npm -> volta-shim; home/v/tools/image/npm/10/bin/npm; home/v/tools/image/packages/x/bin/x`,
			"$HOME/v/bin", map[string]string{"VOLTA_HOME": "$HOME/v"}, "volta: $HOME/v/bin $HOME/v/tools/image VOLTA_HOME=$HOME/v @$HOME/v/bin"},
		"pyenv elsewhere": {`home/py/libexec/pyenv; home/py/bin/pyenv -> ../libexec/pyenv; home/py/shims/python; home/py/versions/3.12.1/bin/python; home/py/plugins/python-build/bin/x`,
			"$HOME/py/shims:$HOME/py/plugins/python-build/bin", map[string]string{"PYENV_ROOT": "$HOME/py"},
			"pyenv: $HOME/py/bin $HOME/py/libexec $HOME/py/shims $HOME/py/versions PYENV_ROOT=$HOME/py @$HOME/py/shims"},
		"pyenv": {pyenv, "$HOME/.pyenv/plugins/virtualenv/shims:$HOME/.pyenv/shims:$HOME/.pyenv/bin", nil,
			"pyenv: $HOME/.pyenv/bin $HOME/.pyenv/libexec $HOME/.pyenv/pyenv.d $HOME/.pyenv/shims $HOME/.pyenv/version $HOME/.pyenv/versions" +
				" -$HOME/.pyenv/versions/3.12.1/envs/a/pip.conf -$HOME/.pyenv/versions/3.12.1/pip.conf PYENV_ROOT=$HOME/.pyenv @$HOME/.pyenv/bin @$HOME/.pyenv/shims"},
		"one version of pyenv's": {pyenv, "$HOME/.pyenv/versions/3.12.1/bin", nil,
			"pyenv: $HOME/.pyenv/versions/3.12.1 -$HOME/.pyenv/versions/3.12.1/envs/a/pip.conf -$HOME/.pyenv/versions/3.12.1/pip.conf @$HOME/.pyenv/versions/3.12.1/bin"},
		"an environment of pyenv's": {pyenv, "$HOME/.pyenv/versions/3.12.1/envs/a/bin", nil,
			"pyenv: $HOME/.pyenv/versions/3.12.1 -$HOME/.pyenv/versions/3.12.1/envs/a/pip.conf -$HOME/.pyenv/versions/3.12.1/pip.conf @$HOME/.pyenv/versions/3.12.1/envs/a/bin"},
		"uv": {`home/.local/bin/uv; home/.local/bin/uvx; home/.local/bin/other; home/.local/bin/python3.12 -> $ROOT/home/.local/share/uv/python/cpython-3.12-linux/bin/python3.12
			home/.local/bin/python3 -> $ROOT/other/python3; other/python3; home/.local/share/uv/python/cpython-3.12-linux -> cpython-3.12.1-linux
			home/.local/share/uv/python/cpython-3.12.1-linux/bin/python3.12; home/.local/share/uv/python/cpython-3.12.1-linux/pip.conf; home/.local/share/uv/tools/ruff/uv-receipt.toml; home/.local/share/uv/credentials/x`,
			"$HOME/.local/bin:$HOME/bin", nil,
			"uv: $HOME/.local/bin/uv $HOME/.local/bin/uvx $HOME/.local/share/uv/python $HOME/.local/bin/python3.12->$HOME/.local/share/uv/python/cpython-3.12.1-linux/bin/python3.12" +
				" -$HOME/.local/share/uv/python/cpython-3.12.1-linux/pip.conf UV_PYTHON_INSTALL_DIR=$HOME/.local/share/uv/python @$HOME/.local/bin"},
		"a directory without uv": {`home/.local/bin/other; home/.local/share/uv/python/cpython-3.12.1-linux/bin/python3.12; home/bin/other`, "$HOME/.local/bin:$HOME/bin", nil, ""},
		"a Python of uv's":       {`home/.local/share/uv/python/cpython-3.12.1-linux/bin/python3.12`, "$HOME/.local/share/uv/python/cpython-3.12.1-linux/bin", nil, "uv: $HOME/.local/share/uv/python/cpython-3.12.1-linux @$HOME/.local/share/uv/python/cpython-3.12.1-linux/bin"},
		"uv beside cargo, Pythons elsewhere": {`home/.cargo/bin/uv; home/p/cpython-3.13.0-linux-x86_64-gnu/bin/python3.13; home/p/pypy-3.10-linux-x86_64-gnu/bin/pypy; home/p/.lock; home/p/.temp/x; home/p/.gitignore`,
			"$HOME/.cargo/bin", map[string]string{"UV_PYTHON_INSTALL_DIR": "$HOME/p"},
			"uv: $HOME/.cargo/bin/uv $HOME/p UV_PYTHON_INSTALL_DIR=$HOME/p @$HOME/.cargo/bin\nrustup: $HOME/.cargo/bin @$HOME/.cargo/bin"},
		"rustup and cargo": {`home/.cargo/bin/rustup; home/.cargo/bin/cargo -> rustup; home/.cargo/credentials.toml; home/.cargo/config.toml; home/.cargo/registry/x; home/.cargo/git/x; home/.cargo/env
			home/.rustup/settings.toml; home/.rustup/toolchains/stable/bin/cargo; home/.rustup/downloads/x; home/.rustup/tmp/x; home/.rustup/update-hashes/x`, "$HOME/.cargo/bin:$HOME/.cargo/bin", nil,
			"rustup: $HOME/.cargo/bin $HOME/.rustup/settings.toml $HOME/.rustup/toolchains RUSTUP_AUTO_INSTALL=0 RUSTUP_HOME=$HOME/.rustup @$HOME/.cargo/bin"},
		"cargo alone": {`home/.cargo/bin/rg`, "$HOME/.cargo/bin", nil, "rustup: $HOME/.cargo/bin @$HOME/.cargo/bin"},
		"rustup elsewhere": {`home/rust/cargo/bin/rustup; home/rust/rustup/toolchains/x`, "$HOME/rust/cargo/bin", map[string]string{"CARGO_HOME": "$HOME/rust/cargo", "RUSTUP_HOME": "$HOME/rust/rustup"},
			"rustup: $HOME/rust/cargo/bin $HOME/rust/rustup/toolchains RUSTUP_AUTO_INSTALL=0 RUSTUP_HOME=$HOME/rust/rustup @$HOME/rust/cargo/bin"},
		"sdkman": {`home/.sdkman/candidates/java/21-tem/bin/java; home/.sdkman/candidates/java/21-tem/conf/management/jmxremote.password; home/.sdkman/candidates/java/current -> 21-tem
			home/.sdkman/candidates/maven/3.9/bin/mvn; home/.sdkman/candidates/maven/3.9/boot/x; home/.sdkman/candidates/maven/3.9/lib/x; home/.sdkman/candidates/maven/3.9/conf/settings.xml
			home/.sdkman/candidates/maven/3.9/conf/logging/x; home/.sdkman/candidates/maven/current -> $ROOT/home/.sdkman/candidates/maven/3.9; home/.sdkman/etc/config; home/.sdkman/bin/x
			home/.sdkman/candidates/gradle/8/bin/gradle; home/.sdkman/candidates/gradle/8/lib/x; home/.sdkman/candidates/gradle/8/init.d/token.gradle; home/.sdkman/candidates/jbang/1/bin/jbang`,
			"$HOME/.sdkman/candidates/java/current/bin:$HOME/.sdkman/candidates/maven/current/bin:$HOME/.sdkman/candidates/gradle/8/bin:$HOME/.sdkman/candidates/jbang/1/bin", nil,
			"sdkman: $HOME/.sdkman/candidates/gradle/8/bin $HOME/.sdkman/candidates/gradle/8/lib $HOME/.sdkman/candidates/java/21-tem" +
				" $HOME/.sdkman/candidates/maven/3.9/bin $HOME/.sdkman/candidates/maven/3.9/boot $HOME/.sdkman/candidates/maven/3.9/conf/logging $HOME/.sdkman/candidates/maven/3.9/lib" +
				" $HOME/.sdkman/candidates/java/current->21-tem $HOME/.sdkman/candidates/maven/current->$HOME/.sdkman/candidates/maven/3.9" +
				" -$HOME/.sdkman/candidates/java/21-tem/conf/management/jmxremote.password JAVA_HOME=$HOME/.sdkman/candidates/java/21-tem" +
				" @$HOME/.sdkman/candidates/gradle/8/bin @$HOME/.sdkman/candidates/java/21-tem/bin @$HOME/.sdkman/candidates/maven/3.9/bin"},
		"sdkman's others": {`home/s/candidates/kotlin/2/bin/kotlinc; home/s/candidates/kotlin/2/lib/x; home/s/candidates/groovy/4/bin/groovy; home/s/candidates/groovy/4/lib/x; home/s/candidates/groovy/4/conf/x
			home/s/candidates/scala/3/bin/scala; home/s/candidates/ant/1/bin/ant; home/s/candidates/ant/1/lib/x; home/s/candidates/ant/1/etc/x; home/s/candidates/ant/current -> 1`,
			"$HOME/s/candidates/kotlin/2/bin:$HOME/s/candidates/groovy/4/bin:$HOME/s/candidates/scala/3/bin:$HOME/s/candidates/ant/current/bin", map[string]string{"SDKMAN_DIR": "$HOME/s"},
			strings.ReplaceAll("sdkman: C/ant/1/bin C/ant/1/lib C/groovy/4/bin C/groovy/4/lib C/kotlin/2/bin C/kotlin/2/lib C/scala/3/bin C/ant/current->1"+
				" @C/ant/1/bin @C/groovy/4/bin @C/kotlin/2/bin @C/scala/3/bin", "C", "$HOME/s/candidates")},
		"asdf of a clone elsewhere": {`home/a/bin/asdf; home/a/lib/x; home/a/asdf.sh; home/a/shims/node; home/a/installs/nodejs/20/bin/node; home/a/.git/config`, "$HOME/a/shims:$HOME/a/bin", map[string]string{"ASDF_DIR": "$HOME/a"},
			"asdf: $HOME/a/asdf.sh $HOME/a/bin $HOME/a/installs $HOME/a/lib $HOME/a/shims ASDF_DATA_DIR=$HOME/a @$HOME/a/bin @$HOME/a/shims"},
		"asdf": {`home/.asdf/shims/node; home/.asdf/bin/asdf; home/.asdf/lib/x; home/.asdf/asdf.sh; home/.asdf/installs/nodejs/20/bin/node; home/.asdf/installs/nodejs/20/etc/npmrc
			home/.asdf/plugins/nodejs/bin/x; home/.asdf/plugins/nodejs/.git/config; home/.asdf/downloads/x; home/.asdf/tmp/x; home/.asdf/.git/config; home/.tool-versions; home/.asdfrc`, "$HOME/.asdf/shims:$HOME/.asdf/bin", nil,
			"asdf: $HOME/.asdf/asdf.sh $HOME/.asdf/bin $HOME/.asdf/installs $HOME/.asdf/lib $HOME/.asdf/plugins $HOME/.asdf/shims $HOME/.asdfrc $HOME/.tool-versions" +
				" -$HOME/.asdf/installs/nodejs/20/etc/npmrc -$HOME/.asdf/plugins/nodejs/.git ASDF_DATA_DIR=$HOME/.asdf @$HOME/.asdf/bin @$HOME/.asdf/shims"},
		"asdf from 0.16 on": {`home/a/shims/node; home/a/installs/nodejs/20/bin/node; home/.local/bin/asdf; home/.local/bin/secret`, "$HOME/a/shims:$HOME/.local/bin", map[string]string{"ASDF_DATA_DIR": "$HOME/a"},
			"asdf: $HOME/.local/bin/asdf $HOME/a/installs $HOME/a/shims ASDF_DATA_DIR=$HOME/a @$HOME/.local/bin @$HOME/a/shims"},
		"mise": {`home/.local/share/mise/shims/node -> $ROOT/home/.local/bin/mise; home/.local/bin/mise; home/.local/share/mise/installs/node/20/bin/node
			home/.local/share/mise/installs/maven/3/conf/settings.xml = <settings><!-- <password>example</password> --></settings>
			home/.local/share/mise/installs/maven/4/conf/settings.xml = <settings><server><password>x</password></server></settings>
			home/.local/share/mise/downloads/x; home/.config/mise/config.toml; home/.local/state/mise/x`, "$HOME/.local/share/mise/shims", nil,
			"mise: $HOME/.local/bin/mise $HOME/.local/share/mise/installs $HOME/.local/share/mise/shims -$HOME/.local/share/mise/installs/maven/4/conf/settings.xml" +
				" MISE_DATA_DIR=$HOME/.local/share/mise MISE_NOT_FOUND_AUTO_INSTALL=0 MISE_OFFLINE=1 MISE_TRUSTED_CONFIG_PATHS=/ @$HOME/.local/share/mise/shims"},
		"mise's versions": {`home/.local/share/mise/shims/node; home/.local/share/mise/installs/node/20/bin/node; home/.config/mise/config.toml = [tools]
			home/.config/mise/conf.d/x.toml = [tools]; home/.config/mise/tasks/x`, "$HOME/.local/share/mise/shims", nil,
			"mise: $HOME/.config/mise/config.toml $HOME/.local/share/mise/installs $HOME/.local/share/mise/shims" +
				" MISE_DATA_DIR=$HOME/.local/share/mise MISE_NOT_FOUND_AUTO_INSTALL=0 MISE_OFFLINE=1 MISE_TRUSTED_CONFIG_PATHS=/ @$HOME/.local/share/mise/shims"},
		"mise's installs": {`home/.local/share/mise/installs/node/20.1.0/bin/node; home/.local/share/mise/installs/node/20 -> ./20.1.0; home/.local/share/mise/installs/go/1.26/bin/x`,
			"$HOME/.local/share/mise/installs/node/20/bin", nil, "mise: $HOME/.local/share/mise/installs/node/20.1.0 $HOME/.local/share/mise/installs/node/20->./20.1.0 @$HOME/.local/share/mise/installs/node/20.1.0/bin"},
		"mise's global versions": {`home/.local/share/mise/shims/node -> $ROOT/home/.local/bin/mise; home/.local/bin/mise; home/.local/share/mise/installs/node/20/bin/node; home/.config/mise/config.toml = [tools]
			home/.config/mise/conf.d/x.toml; home/.config/mise/tasks/x`, "$HOME/.local/share/mise/shims", nil,
			"mise: $HOME/.config/mise/config.toml $HOME/.local/bin/mise $HOME/.local/share/mise/installs $HOME/.local/share/mise/shims" +
				" MISE_DATA_DIR=$HOME/.local/share/mise MISE_NOT_FOUND_AUTO_INSTALL=0 MISE_OFFLINE=1 MISE_TRUSTED_CONFIG_PATHS=/ @$HOME/.local/share/mise/shims"},
		"mise, activated, elsewhere": {`home/m/installs/node/22.8.0/bin/node; home/m/installs/python/3.12.5/bin/python; home/m/installs/python/3.12.5/pip.conf; home/m/installs/deno/2/deno; home/m/shims/x`,
			"$HOME/m/installs/node/22.8.0/bin:$HOME/m/installs/python/3.12.5/bin:$HOME/m/installs/deno/2", map[string]string{"MISE_DATA_DIR": "$HOME/m"},
			"mise: $HOME/m/installs/deno/2 $HOME/m/installs/node/22.8.0 $HOME/m/installs/python/3.12.5 -$HOME/m/installs/python/3.12.5/pip.conf" +
				" @$HOME/m/installs/deno/2 @$HOME/m/installs/node/22.8.0/bin @$HOME/m/installs/python/3.12.5/bin"},
		"the tool's directory is a link": {`home/.pyenv -> dotfiles/pyenv; home/dotfiles/pyenv/libexec/pyenv; home/dotfiles/pyenv/bin/x; home/dotfiles/secret`, "$HOME/.pyenv/bin", nil,
			"pyenv: $HOME/dotfiles/pyenv/bin $HOME/dotfiles/pyenv/libexec $HOME/.pyenv->dotfiles/pyenv PYENV_ROOT=$HOME/dotfiles/pyenv @$HOME/dotfiles/pyenv/bin"},
		"bun":              {`home/.bun/bin/bun; home/.bun/bin/bunx -> bun; home/.bun/install/cache/x; home/.bunfig.toml`, "$HOME/.bun/bin", nil, "bun: $HOME/.bun/bin @$HOME/.bun/bin"},
		"deno":             {`home/d/bin/deno; home/d/x; home/.cache/deno/x`, "$HOME/d/bin", map[string]string{"DENO_INSTALL": "$HOME/d"}, "deno: $HOME/d/bin @$HOME/d/bin"},
		"bun elsewhere":    {`home/b/bin/bun; home/b/install/global/node_modules/x/y; home/b/bin/y -> ../install/global/node_modules/x/y`, "$HOME/b/bin", map[string]string{"BUN_INSTALL": "$HOME/b"}, "bun: $HOME/b/bin @$HOME/b/bin"},
		"deno's usual":     {`home/.deno/bin/deno; home/.deno/env; home/.deno/.credentials/x`, "$HOME/.deno/bin", nil, "deno: $HOME/.deno/bin @$HOME/.deno/bin"},
		"deno's root":      {`home/r/bin/deno`, "$HOME/r/bin", map[string]string{"DENO_INSTALL_ROOT": "$HOME/r"}, "deno: $HOME/r/bin @$HOME/r/bin"},
		"GOPATH elsewhere": {`home/g/bin/gopls; home/g/pkg/mod/x`, "$HOME/g/bin", map[string]string{"GOPATH": "$HOME/g"}, "go: $HOME/g/bin @$HOME/g/bin"},
		"not bun":          {`home/.bun/bin/other`, "$HOME/.bun/bin", nil, ""},
		"go's SDK":         {in("home/sdk/go1.26.0", goroot), "$HOME/sdk/go1.26.0/bin", nil, "go: $HOME/sdk/go1.26.0/VERSION $HOME/sdk/go1.26.0/bin $HOME/sdk/go1.26.0/go.env $HOME/sdk/go1.26.0/lib $HOME/sdk/go1.26.0/pkg/include $HOME/sdk/go1.26.0/pkg/tool $HOME/sdk/go1.26.0/src @$HOME/sdk/go1.26.0/bin"},
		"go's GOPATH":      {`home/go/bin/gopls; home/go/pkg/mod/x/y; home/go/src/z; home/go/pkg/mod/golang.org/toolchain@v0.0.1-go1.26.0.linux-amd64/bin/go; home/go/pkg/mod/golang.org/x/y; home/go/pkg/mod/cache/download/golang.org/toolchain/@v/x.ziphash; home/go/pkg/mod/cache/vcs/x`, "$HOME/go/bin", nil, "go: $HOME/go/bin @$HOME/go/bin"},
		"a toolchain of go's": {in("home/go/pkg/mod/golang.org/toolchain@v0.0.1-go1.26.0.linux-amd64", goroot), "$HOME/go/pkg/mod/golang.org/toolchain@v0.0.1-go1.26.0.linux-amd64/bin", nil,
			strings.ReplaceAll("go: D/VERSION D/bin D/go.env D/lib D/pkg/include D/pkg/tool D/src @D/bin", "D", "$HOME/go/pkg/mod/golang.org/toolchain@v0.0.1-go1.26.0.linux-amd64")},
		"the home is no GOROOT":    {in("home", goroot), "$HOME/bin", nil, ""},
		"GOROOT and GOPATH in one": {in("home/go", goroot), "$HOME/go/bin", nil, "go: $HOME/go/VERSION $HOME/go/bin $HOME/go/go.env $HOME/go/lib $HOME/go/pkg/include $HOME/go/pkg/tool $HOME/go/src @$HOME/go/bin"},
		"what no row knows":        {`home/bin/x; home/.local/bin/y; home/node_modules/.bin/z`, "$HOME/bin:$HOME/.local/bin:$HOME/node_modules/.bin:$HOME:$HOME/:$HOME/..:/usr/bin", nil, ""},
		"nothing below the home":   {nvm, "/usr/bin:/bin::.", nil, ""},
		"not there":                {"", "$HOME/.nvm/versions/node/v20.1.0/bin:$HOME/.cargo/bin", nil, "left $HOME/.cargo/bin: the toolchain rustup: its directory does not exist\nleft $HOME/.nvm/versions/node/v20.1.0/bin: the toolchain nvm: its directory does not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			root := newRoot(t)
			makeTree(t, root, tt.files)
			if diff := cmp.Diff(tt.want, find(t, root, tt.path, tt.env, nil)); diff != "" {
				t.Errorf("found (-want +got):\n%s", diff)
			}
		})
		for name := range tt.env {
			delete(untried, name)
		}
	}
	if len(untried) > 0 {
		t.Errorf("no case sets these variables of the table: %v", slices.Sorted(maps.Keys(untried)))
	}
}

// A configuration becomes visible only if it says nothing but versions.
func TestVersionsOnly(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.toml")
	for text, want := range map[string]bool{
		"[tools]\n": true, "[tools]": true, "\n[tools]\r\nnode = \"20.1.0\"\r\n\r\n": true,
		"[tools]\nnode = \"lts\"\npython = ['3.12', \"3.11\"]\n\"npm:prettier\" = \"latest\"\n\"github:a/b\" = \"v1.0+x\"\ngo=\"prefix:1.26\"\n": true,
		"[tools]\npython = [\n  \"3.12\",\n  \"3.11\",\n]\n": true,
		"": false, "node = \"20\"\n[tools]\n": false, "env.TOKEN = \"x\"\n[tools]\n": false, "[env]\nTOKEN = \"x\"\n": false,
		"[tools]\nnode = \"20\"\n[env]\nTOKEN = \"x\"\n": false, "[tools]\nnode = \"20\" # secret\n": false, "[tools]\n# secret\n": false,
		"[tools]\nx = {version = \"1\", token = \"x\"}\n": false, "[tools.x]\ntoken = \"x\"\n": false, "[tools]\nx.token = \"x\"\n": false,
		"[tools]\nx = \"https://user:secret@host/\"\n": false, "[tools]\nx = \"\"\"\nsecret\n\"\"\"\n": false, "[tools]\nx = \"" + strings.Repeat("x", 65) + "\"": false,
		"[tools] node = \"1\"": false, "[[tools]]\n": false, "[tools]\n\x00": false,
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := versionsOnly(file); got != want {
			t.Errorf("%q: %t", text, got)
		}
	}
	if versionsOnly(filepath.Dir(file)) || versionsOnly(file+"x") {
		t.Error("a directory, or nothing, says versions")
	}
}

// A home that is named by a link is found by its name and without it.
func TestLinkedHome(t *testing.T) {
	root := newRoot(t)
	makeTree(t, root, "data/.cargo/bin/cargo")
	if err := os.Remove(root + "/home"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("data", root+"/home"); err != nil {
		t.Fatal(err)
	}
	want := "rustup: $ROOT/data/.cargo/bin $HOME->data @$ROOT/data/.cargo/bin"
	if diff := cmp.Diff(want, find(t, root, "$HOME/.cargo/bin", nil, nil)); diff != "" {
		t.Errorf("found (-want +got):\n%s", diff)
	}
}

// A file of mise's that has more than versions may have secrets, and stays outside.
func TestOnlyVersions(t *testing.T) {
	for text, want := range map[string]bool{
		"[tools]\nnode = \"22\"\npython = [\"3.12\", \"3.11.2\"]\n\n\"npm:@scope/tool\" = \"latest\"\n\"go:example.com/x/cmd\" = \"v1.2.3\"\njava = \"temurin-21.0.2+13\"\n": true,
		"\n[tools]\r\nnode = \"prefix:22\"\r\n": true,
		"[tools]":                               true,
		"":                                      false,
		"node = \"22\"\n":                       false,
		"[env]\nTOKEN = \"x\"\n":                false,
		"[tools]\nnode = \"22\"\n[env]\nTOKEN = \"x\"\n":              false,
		"[tools]\nnode = \"22\"\n# TOKEN = \"x\"\n":                   false,
		"[tools]\nnode = \"22\" # x\n":                                false,
		"[tools]\n\"https://u:p@example.com/x\" = \"22\"\n":           false,
		"[tools]\nnode = { version = \"22\", postinstall = \"x\" }\n": false,
		"[tools]\nnode = \"\"\"\nx\"\"\"\n":                           false,
		"[tools]\nnode = \"22\"\n[settings]\n":                        false,
	} {
		file := filepath.Join(t.TempDir(), "config.toml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := versionsOnly(file); got != want {
			t.Errorf("%q has only versions: %t", text, got)
		}
	}
	if versionsOnly("/dev/zero") || versionsOnly(t.TempDir()) {
		t.Error("what is no file has versions")
	}
}
