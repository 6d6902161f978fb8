//go:build linux

package escape

// linkAttacks have the next start follow, read or wait for what commands have
// left where a person or a program names it again.
func linkAttacks() []later {
	const (
		secret   = `mkdir -p "$HOME/.ssh"; echo secret >"$HOME/.ssh/id"`
		toHome   = `rm -rf cache; ln -s "$DIR/home" cache`
		evilHome = `grep -q evil "$HOME/.bashrc" && harm`
	)
	// next is a start over what was named before; plain is what it amounts to
	// without walls.
	next := func(name, prepare, attack, start, plain, harm string) later {
		return later{name: name, want: wantStopped, prepare: prepare, attack: attack, trigger: start + "\n" + harm, control: plain + "\n" + harm}
	}
	fifo := func(name, plant, start string) later {
		return later{name: name, want: wantStopped, prepare: `rm -rf .git`, attack: plant,
			trigger: `hangs 30 ` + start, control: `for f in .git .git/config .git/HEAD .git/commondir inc spec.yaml config.json; do [ -p $f ] && hangs 1 cat $f; done`}
	}
	return []later{
		next("a mount's source becomes a link to the home", secret+`; mkdir cache`, toHome,
			`paddock run --rw cache:/cache -- sh -c 'echo evil >>/cache/.bashrc'`, `echo evil >>cache/.bashrc`, evilHome),
		next("a read-only mount's source becomes a link", secret+`; mkdir cache`, toHome,
			`paddock run --ro cache:/cache -- cat /cache/.ssh/id >got`, `cat cache/.ssh/id >got`, `grep -q secret got && harm`),
		next("a part of a mount's path becomes a link", secret+`; mkdir -p cache/deep`, `mkdir "$DIR/home/deep"; `+toHome,
			`mkdir -p "$HOME/deep"; paddock run --rw cache/deep:/cache -- sh -c 'echo evil >>/cache/x'`, `mkdir -p "$HOME/deep"; echo evil >>cache/deep/x`, `grep -q evil "$HOME/deep/x" && harm`),
		next("the workspace becomes a link to the home", secret+`; mkdir cache`, toHome,
			`paddock run -w cache -- sh -c 'echo evil >>.bashrc'`, `cd cache && echo evil >>.bashrc`, evilHome),
		next("a session's workspace becomes a link to the home", secret+`; mkdir cache`, toHome,
			`echo '{"command":"echo evil >>.bashrc"}' | paddock session --json -w cache`, `cd cache && echo evil >>.bashrc`, evilHome),
		next("a link in a link", secret+`; mkdir cache`, `ln -s "$DIR/home" there; rm -rf cache; ln -s there cache`,
			`paddock run --rw cache:/cache -- sh -c 'echo evil >>/cache/.bashrc'`, `echo evil >>cache/.bashrc`, evilHome),
		next("a spec's mount becomes a link", secret+`; mkdir cache; printf 'mounts: [{source: %s, target: /cache, mode: rw}]\n' "$WS/cache" >"$DIR/spec.yaml"`, toHome,
			`paddock run --spec "$DIR/spec.yaml" -- sh -c 'echo evil >>/cache/.bashrc'`, `echo evil >>cache/.bashrc`, evilHome),
		next("the root file system becomes a link", `mkdir -p cache "$DIR/root/usr/bin" "$DIR/root/usr/lib" "$DIR/root/usr/lib64"; ln -s usr/bin usr/lib usr/lib64 "$DIR/root"; mkdir "$DIR/root/etc"; cp /usr/bin/cat "$DIR/root/usr/bin"
			for f in $(ldd /usr/bin/cat | grep -o '/[^ ]*'); do cp -L --parents "$f" "$DIR/root"; done; echo secret >"$DIR/root/usr/key"`,
			`rm -rf cache; ln -s "$DIR/root" cache`, `paddock run --rootfs cache -- cat /usr/key >got`, `cat cache/usr/key >got`, `grep -q secret got && harm`),
		next("a file that an export writes becomes a link", secret+`; touch out.tar`, `ln -sf "$DIR/home/.bashrc" out.tar`,
			`echo precious >"$HOME/.bashrc"; paddock workspace export -o out.tar src`, `echo precious >"$HOME/.bashrc"; tar -cf out.tar src`, `grep -q precious "$HOME/.bashrc" || harm`),
		{name: "a mount of an earlier sandbox has the link", want: wantStopped, prepare: secret + `; mkdir -p "$DIR/shared/cache"`, flags: []string{"--rw", "$DIR/shared:/mnt/shared"},
			attack:  `cd /mnt/shared 2>/dev/null || cd "$DIR/shared"; ` + toHome,
			trigger: `paddock run --rw "$DIR/shared/cache:/cache" -- sh -c 'echo evil >>/cache/.bashrc'; ` + evilHome,
			control: `echo evil >>"$DIR/shared/cache/.bashrc"; ` + evilHome},
		{name: "a model's next workspace is a link that it has made", want: wantStopped, by: byTools(
			toolCall{"exec", map[string]any{"command": "{script}"}},
			toolCall{"run", map[string]any{"argv": []string{"sh", "-c", "echo evil >>.bashrc"}, "workspace": "{at}"}}), at: "cache",
			prepare: `mkdir cache`, attack: `cd "$WS" 2>/dev/null; ` + toHome, trigger: evilHome, control: `echo evil >>cache/.bashrc; ` + evilHome},

		fifo(".git/config is a FIFO, and run", `mkdir .git; mkfifo .git/config`, `paddock run -- true`),
		fifo(".git/config is a FIFO, and session", `mkdir .git; mkfifo .git/config`, `paddock session -w .`),
		fifo(".git/config is a FIFO, and plan", `mkdir .git; mkfifo .git/config`, `paddock plan`),
		fifo(".git/config is a FIFO, and exec", `mkdir .git; mkfifo .git/config`, `paddock file list .`),
		fifo(".git/HEAD is a FIFO", `mkdir .git; mkfifo .git/HEAD`, `paddock run -- true`),
		fifo(".git/commondir is a FIFO", `mkdir .git; mkfifo .git/commondir`, `paddock run -- true`),
		fifo(".git is a FIFO", `mkfifo .git`, `paddock run -- true`),
		fifo("what the configuration includes is a FIFO", `mkdir .git; printf '[include]\n\tpath = ../inc\n' >.git/config; mkfifo inc`, `paddock run -- true`),
		fifo("a spec is a FIFO", `mkfifo spec.yaml`, `paddock run --spec spec.yaml -- true`),
		fifo("a config.json is a FIFO", `mkfifo config.json`, `paddock execute --config config.json 'true'`),
		{name: "a FIFO meets a server, and a model", want: wantStopped, prepare: `rm -rf .git`, attack: `mkdir .git; mkfifo .git/config`,
			trigger: `cat >calls <<'END'
{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"exec","arguments":{"command":"true"}}}
END
timeout -k 1 30 paddock mcp --workspace . <calls; case $? in 124|137) harm;; esac`, control: `hangs 1 cat .git/config`},
		{name: "a file of privileges is a FIFO", want: wantStopped, attack: `mkfifo grants.json`, env: []string{"PADDOCK_PRIVILEGES=$WS/grants.json"},
			trigger: `hangs 30 paddock privilege list`, control: `hangs 1 cat grants.json`},
	}
}
