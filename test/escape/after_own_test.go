//go:build linux

package escape

// ownAttacks are after files of Paddock's own that lie where commands can write.
func ownAttacks() []later {
	const (
		// grant gives every privilege to whoever starts Paddock.
		grant   = `paddock privilege grant "$(me)" UNSANDBOXED_EXEC`
		outside = `paddock run --backend host -- sh -c ': >"$0"' "$CANARY"`
	)
	// grants makes a file that says so, for commands to copy: the principal's name
	// differs from machine to machine.
	grants := `PADDOCK_PRIVILEGES="$WS/src/forged.json" ` + grant + `; chmod 644 src/forged.json; `
	place := `rm -f grants.json; cp src/forged.json grants.json; chmod 600 grants.json`
	return []later{
		{name: "a file of privileges that is there is replaced", want: wantStopped, env: []string{"PADDOCK_PRIVILEGES=$WS/grants.json"},
			prepare: grants + `PADDOCK_PRIVILEGES="$WS/grants.json" paddock privilege set nobody`, attack: place, trigger: outside},
		{name: "a file of privileges that is there is written", want: wantStopped, env: []string{"PADDOCK_PRIVILEGES=$WS/grants.json"},
			prepare: grants + `PADDOCK_PRIVILEGES="$WS/grants.json" paddock privilege set nobody`, attack: `cat src/forged.json >grants.json`, trigger: outside},
		{name: "a file of privileges that is not there is made", want: wantStopped, env: []string{"PADDOCK_PRIVILEGES=$WS/grants.json"},
			prepare: grants, attack: place, trigger: outside},
		{name: "a file of privileges, named by a flag, is made", want: wantStopped, flags: []string{"--privileges", "$WS/grants.json"},
			prepare: grants, attack: place, trigger: `paddock run --privileges "$WS/grants.json" --backend host -- sh -c ': >"$0"' "$CANARY"`},
		{name: "a model makes the file of privileges", want: wantStopped, by: byModelExec, env: []string{"PADDOCK_PRIVILEGES=$WS/grants.json"},
			prepare: grants, attack: place, trigger: outside},
		{name: "the directory of a file of privileges is replaced", want: wantStopped, env: []string{"PADDOCK_PRIVILEGES=$WS/etc/grants.json"},
			prepare: grants + `mkdir etc; PADDOCK_PRIVILEGES="$WS/etc/grants.json" paddock privilege set nobody`, attack: `mv etc old; mkdir etc; cp src/forged.json etc/grants.json; chmod 600 etc/grants.json`, trigger: outside},
		{name: "a file of privileges through a link", want: wantStopped, env: []string{"PADDOCK_PRIVILEGES=$WS/grants.json"},
			prepare: grants + `PADDOCK_PRIVILEGES="$DIR/real.json" paddock privilege set nobody; ln -s "$DIR/real.json" grants.json`, attack: place, trigger: outside},
		{name: "a file of privileges in a writable mount", want: wantStopped, env: []string{"PADDOCK_PRIVILEGES=$DIR/etc/grants.json"}, flags: []string{"--rw", "$DIR/etc:/mnt/etc"},
			prepare: grants + `mkdir "$DIR/etc"`, attack: `cp src/forged.json /mnt/etc/grants.json || cp src/forged.json "$DIR/etc/grants.json"; chmod 600 /mnt/etc/grants.json "$DIR/etc/grants.json"`, trigger: outside},

		{name: "a state directory in the workspace", want: wantStopped, env: []string{"PADDOCK_STATE_DIR=$WS/state"},
			prepare: grants + `mkdir -m 700 state`, attack: `cp src/forged.json state/privileges.json; chmod 600 state/privileges.json`, trigger: outside},
		{name: "a state directory through a link", want: wantStopped, env: []string{"PADDOCK_STATE_DIR=$WS/state"},
			prepare: grants + `mkdir -m 700 "$DIR/real"; ln -s "$DIR/real" state`,
			attack:  `rm state; mkdir -m 700 state; cp src/forged.json state/privileges.json; chmod 600 state/privileges.json`, trigger: outside},
		{name: "a state directory below a link", want: wantStopped, env: []string{"PADDOCK_STATE_DIR=$WS/var/state"},
			prepare: grants + `mkdir "$DIR/real"; mkdir -m 700 "$DIR/real/state"; ln -s "$DIR/real" var`,
			attack:  `rm var; mkdir -p var/state; chmod 700 var/state; cp src/forged.json var/state/privileges.json; chmod 600 var/state/privileges.json`, trigger: outside},

		{name: "the agent in the workspace", want: wantStopped, env: []string{"PADDOCK_AGENT=$WS/agent"},
			prepare: drop + `cp "$BIN/paddock-agent" agent`, attack: `cp src/impostor agent; rm -f agent; cp src/impostor agent`, trigger: `paddock run -- true` + dropped},
		{name: "the agent through a link", want: wantStopped, env: []string{"PADDOCK_AGENT=$WS/agent"},
			prepare: drop + `ln -s "$BIN/paddock-agent" agent`, attack: `rm agent; cp src/impostor agent`, trigger: `paddock run -- true` + dropped},
		{name: "the agent below a link", want: wantStopped, env: []string{"PADDOCK_AGENT=$WS/tools/paddock-agent"},
			prepare: drop + `ln -s "$BIN" tools`, attack: `rm tools; mkdir tools; cp src/impostor tools/paddock-agent`, trigger: `paddock run -- true` + dropped},
		{name: "the agent through a link, for another workspace", want: wantStopped, env: []string{"PADDOCK_AGENT=$WS/agent"},
			prepare: drop + `ln -s "$BIN/paddock-agent" agent; mkdir "$DIR/other"`, attack: `rm agent; cp src/impostor agent`, trigger: `paddock run -w "$DIR/other" -- true` + dropped},
		{name: "an agent that an earlier sandbox has made", want: wantStopped,
			prepare: drop + `mkdir "$DIR/other"`, attack: `cp src/impostor agent`, trigger: `PADDOCK_AGENT="$WS/agent" paddock run -w "$DIR/other" -- true` + dropped},
		{name: "an agent that an earlier sandbox has made, by a model", want: wantStopped, by: byModelExec,
			prepare: drop + `mkdir "$DIR/other"`, attack: `cp src/impostor agent`, trigger: `PADDOCK_AGENT="$WS/agent" paddock run -w "$DIR/other" -- true` + dropped},
		{name: "Paddock's programs in the workspace", want: wantStopped,
			prepare: `mkdir bin; cp "$BIN/paddock" "$BIN/paddock-agent" bin`, by: byOwn("bin/paddock"), attack: `evil bin/paddock; evil bin/paddock-agent; rm -f bin/paddock bin/paddock-agent; evil bin/paddock; evil bin/paddock-agent`,
			trigger: `bin/paddock run -- true`},
		{name: "the directory of Paddock's programs is moved", want: wantStopped,
			prepare: `mkdir bin; cp "$BIN/paddock" "$BIN/paddock-agent" bin`, by: byOwn("bin/paddock"), attack: `mv bin old; evil bin/paddock`, trigger: `bin/paddock run -- true`},
		{name: "a sibling of Paddock's is made", want: wantStopped,
			prepare: `mkdir bin; cp "$BIN/paddock" "$BIN/paddock-agent" bin`, by: byOwn("bin/paddock"), attack: `evil bin/paddock-server`, trigger: `bin/paddock mcp </dev/null`},

		{name: "a spec that is in use asks for more", want: wantStopped, flags: []string{"--spec", "$WS/spec.yaml"},
			prepare: `mkdir "$DIR/precious"; echo 'network: none' >spec.yaml`, attack: moreSpec,
			trigger: `paddock run --spec spec.yaml -- sh -c 'echo evil >/mnt/precious/x'; grep -q evil "$DIR/precious/x" && harm`,
			control: `grep -q precious spec.yaml && harm`},
		{name: "a model's spec asks for more", want: wantStopped, by: byModelExec, flags: []string{"--spec", "$WS/spec.yaml"},
			prepare: `mkdir "$DIR/precious"; echo 'network: none' >spec.yaml`, attack: moreSpec,
			trigger: `paddock run --spec spec.yaml -- sh -c 'echo evil >/mnt/precious/x'; grep -q evil "$DIR/precious/x" && harm`,
			control: `grep -q precious spec.yaml && harm`},
		{name: "the record of operations is in the workspace", want: wantStopped, env: []string{"PADDOCK_STATE_DIR=$WS/state"},
			prepare: `mkdir -m 700 state; PADDOCK_STATE_DIR="$WS/state" paddock run -- true`, attack: `rm -rf state/audit`,
			trigger: `ls state/audit/* >/dev/null 2>&1 || harm`},
		{name: "tokens in the workspace let others in", want: wantStopped, env: []string{"PADDOCK_STATE_DIR=$WS/state"},
			prepare: `mkdir -m 700 state; PADDOCK_STATE_DIR="$WS/state" paddock privilege grant "$(me)" ALTER_PRIVILEGES >/dev/null; PADDOCK_STATE_DIR="$WS/src" ; export PADDOCK_STATE_DIR; chmod 700 src; paddock privilege grant "$(me)" ALTER_PRIVILEGES; paddock token create agent:evil -w "$WS"; chmod 755 src; chmod 644 src/tokens.json`,
			attack:  `cp src/tokens.json state/tokens.json; chmod 600 state/tokens.json`,
			trigger: `paddock token list | grep -q agent:evil && harm`},
		{name: "the key of TLS is read", want: wantStopped, flags: []string{"--tls-cert", "$WS/cert.pem", "--tls-key", "$WS/key.pem"},
			needs: []string{"openssl"}, by: byHTTP("https", "run", map[string]any{"argv": "{argv}"}), prepare: `openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -subj /CN=localhost -days 2 2>/dev/null; chmod 600 key.pem`,
			attack: `cp key.pem src/stolen`, trigger: `grep -q 'PRIVATE KEY' src/stolen && harm`},
	}
}

// An agent has to be a program of the kernel's, so the attacker's own stands in
// for it, which leaves a file where its identity inside may write.
const (
	drop    = `mkdir -m 777 "$DIR/drop"; cp "$BIN/attacker" src/impostor; `
	dropped = `; test -e "$DIR/drop/ran" && harm`
)

const moreSpec = `printf 'mounts: [{source: %s, target: /mnt/precious, mode: rw}]\n' "$DIR/precious" >spec.yaml`
