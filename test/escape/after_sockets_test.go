//go:build linux

package escape

import "strings"

// serving starts a server of the host's user: serving NETWORK PATH. Whoever asks it makes
// $DIR/reached.
const serving = `
cp "$BIN/attacker" src/ask
serving() {
	"$BIN/attacker" serve "$1" "$2" "$DIR/reached" </dev/null >/dev/null 2>&1 &
	i=0; until [ -S "$2" ] || [ "${2#@}" != "$2" ] || [ $i -gt 200 ]; do sleep 0.05; i=$((i+1)); done
}
`

// serves is what ordinary work does with servers: served NETWORK PATH starts one where an earlier one
// may have left its socket, and asks it.
const serves = `
served() {
	rm -f "$2"; src/ask serve "$1" "$2" "$PWD/asked" </dev/null >/dev/null 2>&1 &
	i=0; until [ -S "$2" ]; do sleep 0.05; i=$((i+1)); test $i -lt 400; done
	src/ask ask "$1" "$2"
}
`

// hostSocketAttacks ask programs of the host that listen at Unix sockets, or put something else where
// programs of the host connect.
func hostSocketAttacks() []later {
	const (
		harmed = `i=0; until [ -e "$DIR/reached" ] || [ $i -gt 4 ]; do sleep 0.05; i=$((i+1)); done; [ ! -e "$DIR/reached" ] || harm`
		agent  = `mkdir run; serving unix "$WS/run/agent"`
		other  = `serving unix "$DIR/other"; ` + agent
	)
	rows := []later{
		{name: "in the workspace", prepare: `serving unix "$WS/agent"`, attack: `src/ask ask unix "$PWD/agent"`},
		{name: "in a directory of it", prepare: agent, attack: `src/ask ask unix "$PWD/run/agent"`},
		{name: "that takes packets", prepare: `serving unixpacket "$WS/agent"`, attack: `src/ask ask unixpacket "$PWD/agent"`},
		{name: "that takes datagrams", prepare: `serving unixgram "$WS/agent"`, attack: `src/ask ask unixgram "$PWD/agent"`},
		{name: "that was renamed", prepare: agent + `; mv run/agent src/agent`, attack: `src/ask ask unix "$PWD/src/agent"`},
		{name: "with a second name", prepare: agent + `; ln run/agent src/agent`, attack: `src/ask ask unix "$PWD/src/agent"`},
		{name: "in a directory that is moved", prepare: agent, attack: `mv run moved; src/ask ask unix "$PWD/moved/agent"`},
		{name: "that gets a second name", prepare: agent, attack: `ln run/agent src/agent; src/ask ask unix "$PWD/src/agent"`},
		{name: "over a link", prepare: agent, attack: `ln -s ../run/agent src/agent; src/ask ask unix "$PWD/src/agent"`},
		{name: "over a link that was there", prepare: agent + `; ln -s ../run/agent src/agent`, attack: `src/ask ask unix "$PWD/src/agent"`},
		{name: "by /proc", prepare: agent, attack: `src/ask ask unix /proc/self/cwd/run/agent`},
		{name: "in a directory that git keeps its objects in", prepare: `mkdir .git/objects/run; serving unix "$WS/.git/objects/run/agent"`, attack: `src/ask ask unix "$PWD/.git/objects/run/agent"`},
		{name: "in a read-only mount", prepare: `mkdir "$DIR/shown"; serving unix "$DIR/shown/agent"`, flags: []string{"--ro", "$DIR/shown"}, attack: `src/ask ask unix "$DIR/shown/agent"`},
		{name: "in a writable mount", prepare: `mkdir "$DIR/shown"; serving unix "$DIR/shown/agent"`, flags: []string{"--rw", "$DIR/shown"}, attack: `src/ask ask unix "$DIR/shown/agent"`},
		{name: "abstract", prepare: `serving unix "@$DIR"; sleep 0.5`, attack: `src/ask ask unix "@$DIR"`},
		{name: "abstract, with the host's network", prepare: `serving unix "@$DIR"; sleep 0.5`, flags: []string{"--network", "host"}, attack: `src/ask ask unix "@$DIR"`},
		{name: "in a session", by: bySession, prepare: agent, attack: `src/ask ask unix "$PWD/run/agent"`},
		{name: "by a model", by: byModelExec, prepare: agent, attack: `src/ask ask unix "$PWD/run/agent"`},
		{name: "in an overlay", prepare: agent, flags: []string{"--workspace-mode", "overlay"}, attack: `src/ask ask unix "$PWD/run/agent"`},
		{name: "tmux", needs: []string{"tmux"}, prepare: `tmux -f /dev/null -S "$WS/t" new-session -d "sleep 60"`, attack: `tmux -S "$PWD/t" run-shell ': >"'"$DIR"'/reached"'`, trigger: harmed + `; tmux -S "$WS/t" kill-server`},
	}
	for i := range rows {
		rows[i].want, rows[i].runs = wantStopped, true
	}
	const begins = `( i=0; until [ -e "$WS/begin" ] || [ $i -gt 200 ]; do sleep 0.05; i=$((i+1)); done; exec "$BIN/attacker" serve unix "$WS/run/agent" "$DIR/reached" ) </dev/null >/dev/null 2>&1 &`
	rows = append(rows,
		later{name: "that appears later", want: wantTold, tells: "run/agent", prepare: `mkdir run; ` + begins,
			attack: `: >begin; i=0; until [ -S run/agent ] || [ $i -gt 200 ]; do sleep 0.05; i=$((i+1)); done; src/ask ask unix "$PWD/run/agent"`},
		later{name: "another in its place", want: wantTold, tells: "run/agent", prepare: other, attack: `mv run moved; mkdir run; ln -s "$DIR/other" run/agent`, trigger: `"$BIN/attacker" ask unix "$WS/run/agent"; ` + harmed},
		later{name: "another in its place, at the landlock level", want: wantTold, tells: "run/agent", flags: []string{"--level", "landlock", "--allow-degraded", "identity"}, prepare: other, attack: `mv run moved; mkdir run; ln -s "$DIR/other" run/agent`, trigger: `"$BIN/attacker" ask unix "$WS/run/agent"; ` + harmed},
		later{name: "where git asks what has changed", want: wantTold, tells: ".git/fsmonitor--daemon.ipc", prepare: `serving unix "$DIR/other"`, attack: `ln -s "$DIR/other" .git/fsmonitor--daemon.ipc`, trigger: `"$BIN/attacker" ask unix "$WS/.git/fsmonitor--daemon.ipc"; ` + harmed},
		later{name: "where git asks what has changed, landed", want: wantStopped, by: byLanding(""), prepare: `serving unix "$DIR/other"`, attack: `ln -s "$DIR/other" .git/fsmonitor--daemon.ipc`, trigger: `"$BIN/attacker" ask unix "$WS/.git/fsmonitor--daemon.ipc"; ` + harmed, accepts: "*"},
	)
	for i := range rows {
		r := &rows[i]
		r.prepare = strings.TrimSpace(serving) + "\n" + r.prepare
		if r.trigger == "" {
			r.trigger = harmed
		}
	}
	return rows
}
