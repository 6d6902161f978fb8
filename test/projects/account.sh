#!/bin/sh
# account.sh HOME makes a home as a developer has it: toolchains by version
# managers, the five projects below src with what they need downloaded, and secrets
# in the usual places. It prints the PATH of a shell there. First: make projects-deps.
#
# The managers are the real ones where they can be had (mise, bun, deno), and so
# are go, cargo, pip and venv; the trees of the others are made as they document them.
set -eu
umask 022
sources=$(cd "$(dirname "$0")" && pwd)
cache=$sources/../../.cache/projects
home=$1
mkdir -p "$home"
home=$(cd "$home" && pwd -P)

# bin FILE TEXT… writes a script of sh.
bin() {
	mkdir -p "${1%/*}"
	file=$1
	shift
	printf '%s\n' '#!/bin/sh' "$@" >"$file"
	chmod 755 "$file"
}

# secret FILE writes what nobody must see.
secret() {
	mkdir -p "$(dirname "$home/$1")"
	echo "# token = the-secret-of-$1" >"$home/$1" # in any format nothing else
	chmod 600 "$home/$1"
}

# tool PATTERN prints the one file of npm's that it matches.
tool() {
	for found in "$cache"/tools/node_modules/$1; do
		[ -x "$found" ] || { echo "$found is missing: make projects-deps" >&2; exit 1; }
		echo "$found"
	done
}

# nvm: node and npm in a directory for each version.
node=$(tool 'node-linux-*/bin/node')
nvm=$home/.nvm/versions/node/$("$node" --version)
mkdir -p "$nvm/bin" "$nvm/lib/node_modules"
cp "$node" "$nvm/bin/node"
cp -R "$(npm root --global)/npm" "$nvm/lib/node_modules/"
ln -s ../lib/node_modules/npm/bin/npm-cli.js "$nvm/bin/npm"
ln -s ../lib/node_modules/npm/bin/npx-cli.js "$nvm/bin/npx"

# pyenv: a Python in a directory for each version, and shims that ask pyenv. Debian's Python
# looks for packages in dist-packages.
python=$(/usr/bin/python3 -c 'import platform; print(platform.python_version())')
minor=${python%.*}
pyenv=$home/.pyenv
version=$pyenv/versions/$python
packages=$version/lib/python3/dist-packages
mkdir -p "$version/bin" "$packages"
cp -L "/usr/bin/python$minor" "$version/bin/"
ln -s "python$minor" "$version/bin/python3"
ln -s "python$minor" "$version/bin/python"
cp -R "/usr/lib/python$minor" "$version/lib/"
for name in pytest _pytest pluggy iniconfig packaging attr attrs more_itertools py py.py setuptools pkg_resources _distutils_hack pip wheel; do
	for part in "/usr/lib/python3/dist-packages/$name" "/usr/lib/python3/dist-packages/$name"-*; do
		if [ -e "$part" ]; then cp -R "$part" "$packages/"; fi
	done
done
bin "$pyenv/libexec/pyenv" 'root=${PYENV_ROOT:-$HOME/.pyenv} program=$2' 'shift 2' \
	'exec "$root/versions/$(cat "$root/version")/bin/$program" "$@"'
mkdir -p "$pyenv/bin" "$pyenv/shims"
ln -s ../libexec/pyenv "$pyenv/bin/pyenv"
for program in python python3; do
	bin "$pyenv/shims/$program" "export PYENV_ROOT=\"$pyenv\"" "exec \"$pyenv/libexec/pyenv\" exec \"\${0##*/}\" \"\$@\""
done
echo "$python" >"$pyenv/version"
git init -q "$pyenv" # which is a clone

# rustup: toolchains, and programs in cargo's home that choose one.
toolchain=stable-$(/usr/bin/rustc -vV | sed -n 's/^host: //p')
rust=$home/.rustup/toolchains/$toolchain
mkdir -p "$rust/bin" "$rust/lib"
cp -L /usr/bin/cargo /usr/bin/rustc /usr/bin/rustdoc "$rust/bin/"
cp -R /usr/lib/rustlib "$rust/lib/"
printf 'default_toolchain = "%s"\nprofile = "minimal"\nversion = "12"\n\n[overrides]\n' "$toolchain" >"$home/.rustup/settings.toml"
bin "$home/.cargo/bin/rustup" 'root=${RUSTUP_HOME:-$HOME/.rustup}' \
	'chosen=$(sed -n '"'"'s/^default_toolchain = "\(.*\)"/\1/p'"'"' "$root/settings.toml")' \
	'PATH=$root/toolchains/$chosen/bin:$PATH exec "$root/toolchains/$chosen/bin/${0##*/}" "$@"'
for program in cargo rustc rustdoc; do ln -s rustup "$home/.cargo/bin/$program"; done

# A Go beside the system's, and what "go install" has made.
goroot=$home/sdk/$(go env GOVERSION)
mkdir -p "$goroot" "$home/go/bin"
tar -C "$(go env GOROOT)" --exclude=testdata --exclude='*_test.go' -cf - bin src pkg lib VERSION go.env | tar -C "$goroot" -xf -
bin "$home/go/bin/stringer" 'echo stringer'

# sdkman: a directory for each version, and a link to the one in use.
bin "$home/.sdkman/candidates/java/21.0.2-tem/bin/java" 'echo "java of $JAVA_HOME"'
ln -s 21.0.2-tem "$home/.sdkman/candidates/java/current"

# asdf: shims that ask it for a version.
asdf=$home/.asdf
bin "$asdf/installs/greet/2.0.0/bin/greet" 'echo "greet 2.0.0"'
bin "$asdf/plugins/greet/bin/list-all" 'echo 2.0.0'
git init -q "$asdf/plugins/greet"
bin "$asdf/bin/asdf" 'version=$(sed -n "s/^$2 //p" "$HOME/.tool-versions")' 'exec "${ASDF_DATA_DIR:-$HOME/.asdf}/installs/$2/$version/bin/$2"'
bin "$asdf/shims/greet" '# asdf-plugin: greet 2.0.0' "exec \"$asdf/bin/asdf\" exec greet \"\$@\""
echo 'greet 2.0.0' >"$home/.tool-versions"

# mise installs a tool with a plugin of our own.
plugin=$home/.cache/plugin
bin "$plugin/bin/list-all" 'echo 1.0.0 1.1.0'
bin "$plugin/bin/install" 'mkdir -p "$ASDF_INSTALL_PATH/bin"' \
	'printf '"'"'#!/bin/sh\necho "hello %s"\n'"'"' "$ASDF_INSTALL_VERSION" >"$ASDF_INSTALL_PATH/bin/hello"' 'chmod 755 "$ASDF_INSTALL_PATH/bin/hello"'
git init -q "$plugin"
git -C "$plugin" add .
git -C "$plugin" -c user.name=a -c user.email=a@example.invalid commit -q -m plugin
mkdir -p "$home/.local/bin"
cp "$(tool '@jdxcode/mise-linux-*/bin/mise')" "$home/.local/bin/mise"
(
	cd "$home"
	mise() { env -i HOME="$home" MISE_OFFLINE=1 PATH=/usr/bin:/bin "$home/.local/bin/mise" --quiet "$@"; }
	mise plugin install hello "file://$plugin"
	mise use --global hello@1.1.0
)

# bun and deno, as their scripts put them.
mkdir -p "$home/.bun/bin" "$home/.deno/bin"
cp "$(tool '@oven/bun-linux-*/bin/bun')" "$home/.bun/bin/bun"
ln -s bun "$home/.bun/bin/bunx"
cp "$(tool '@deno/linux-*/deno')" "$home/.deno/bin/deno"

path=$nvm/bin:$pyenv/shims:$pyenv/bin:$home/.cargo/bin:$goroot/bin:$home/go/bin
path=$path:$home/.sdkman/candidates/java/current/bin:$asdf/shims:$home/.local/share/mise/shims:$home/.bun/bin:$home/.deno/bin:$home/.local/bin:$home/bin
path=$path:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
own() { env -i HOME="$home" PATH="$path" "$@"; }

# The projects, with what the developer has downloaded.
cp -R "$sources/testdata" "$home/src"
rm -rf "$home"/src/*/node_modules "$home"/src/*/target "$home"/src/*/build # of whoever tried them there
cp -R "$cache/typescript/node_modules" "$home/src/typescript/"
own GOPROXY="file://$(go env GOMODCACHE)/cache/download" GOSUMDB=off GOTOOLCHAIN=local GOFLAGS=-modcacherw go -C "$home/src/go" mod download
(
	cd "$home/src/python"
	own python -m venv --without-pip --system-site-packages .venv
	own .venv/bin/python -m pip install --quiet --no-index --no-build-isolation --no-deps --editable .
)
crates=$home/.cache/crates registry=crates # the whole name is that of a host, which nothing here may name
sh "$sources/crates.sh" "$crates"
own CARGO_NET_GIT_FETCH_WITH_CLI=true GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0="url.file://$crates/index.insteadOf" \
	GIT_CONFIG_VALUE_0="https://github.com/rust-lang/$registry.io-index" cargo fetch --quiet --manifest-path "$home/src/rust/Cargo.toml"
rm -rf "$crates" "$plugin"
mkdir "$home/src/plain"
echo plain >"$home/src/plain/README"
for project in "$home"/src/*; do
	git init -q "$project"
	git -C "$project" add .
	git -C "$project" -c user.name=a -c user.email=a@example.invalid commit -q -m all
done

# What no sandbox shows.
for file in .ssh/id_ed25519 .aws/credentials .config/gh/hosts.yml .docker/config.json .gnupg/private-keys-v1.d/key .netrc .git-credentials \
	.npmrc .cargo/credentials.toml .cargo/config.toml .pypirc .config/pip/pip.conf .m2/settings.xml .config/go/env .kube/config \
	.bash_history .profile bin/own-tool .local/bin/other-tool .config/mise/secrets.toml .sdkman/etc/config .local/share/keyrings/login.keyring \
	.nvm/alias/default ".nvm/versions/node/$("$node" --version)/etc/npmrc" ".pyenv/versions/$python/pip.conf" .rustup/tmp/x .bun/install/cache/x; do
	secret "$file"
done
echo "$path"
