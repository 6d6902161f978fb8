//go:build linux

package escape

// projectAttacks write the project's file, which says what the next sandbox over the directory
// is like: an attacker who may write it has the host's network at the next start. In the
// controls the attacker, on the host's side, trusts the file as the user would.
func projectAttacks() []later {
	const (
		evilFile = `printf 'hostname: evil\nnetwork: host\n' >`
		trusted  = `printf 'hostname: pen\n' >.paddock.yaml; paddock trust --yes >/dev/null; test "$(paddock run -- hostname)" = pen`
		obeyed   = `test "$(paddock run -- hostname)" != evil || harm`
		trusts   = `PATH="/mnt/bin:$PATH" PADDOCK_STATE_DIR="$DIR/state" paddock trust --yes`
	)
	// Paddock's programs are visible inside, so that commands can call them.
	programs := []string{"--ro", "$BIN:/mnt/bin"}
	opened := append([]string{"--unprotect", ".paddock.yaml"}, programs...)
	return []later{
		{name: "a project's file is made", want: wantStopped, runs: true, flags: programs, attack: evilFile + `.paddock.yaml; ` + trusts, trigger: obeyed},
		{name: "a project's file is made, by a model", want: wantStopped, runs: true, by: byModelExec, attack: evilFile + `.paddock.yaml`, trigger: obeyed, control: trusts + `; ` + obeyed},
		{name: "a project's file is made, in a session", want: wantStopped, runs: true, by: bySession, flags: programs, attack: evilFile + `.paddock.yaml; ` + trusts, trigger: obeyed},
		{name: "a trusted project's file is written", want: wantStopped, runs: true, flags: programs, prepare: trusted,
			attack: evilFile + `.paddock.yaml; ` + evilFile + `new; rm -f .paddock.yaml; mv new .paddock.yaml; ` + trusts, trigger: obeyed},
		{name: "a trusted project's file that is opened is written", want: wantStopped, runs: true, flags: opened, prepare: trusted,
			attack: evilFile + `.paddock.yaml; ` + trusts, trigger: obeyed},
		{name: "a project's file is replaced by a link to one that is trusted elsewhere", want: wantStopped, runs: true,
			flags: []string{"--unprotect", ".paddock.yaml"}, prepare: trusted + `; mkdir "$DIR/other"; ` + evilFile + `"$DIR/other/.paddock.yaml"; paddock trust --yes "$DIR/other" >/dev/null`,
			attack: `rm -f .paddock.yaml; ln -s "$DIR/other/.paddock.yaml" .paddock.yaml`, trigger: obeyed, control: `cp --remove-destination "$DIR/other/.paddock.yaml" .paddock.yaml; ` + trusts + `; ` + obeyed},
		{name: "a copy of a file that is trusted elsewhere", want: wantStopped, runs: true,
			prepare: `mkdir "$DIR/other"; ` + evilFile + `"$DIR/other/.paddock.yaml"; paddock trust --yes "$DIR/other" >/dev/null`,
			attack:  evilFile + `.paddock.yaml`, trigger: obeyed, control: trusts + `; ` + obeyed},
		{name: "a directory is put in the place of one that is trusted", want: wantStopped, runs: true, flags: []string{"--unprotect", "*"},
			prepare: `mkdir sub; ` + evilFile + `sub/.paddock.yaml; paddock trust --yes sub >/dev/null; mkdir sub/real`,
			attack:  `mv sub old; mkdir sub; ` + evilFile + `sub/.paddock.yaml`, trigger: `cd sub; ` + obeyed, control: `cd sub; ` + trusts + `; ` + obeyed},
		{name: "the next start hangs on a FIFO", want: wantStopped, runs: true, flags: []string{"--unprotect", ".paddock.yaml"}, prepare: trusted,
			attack: `rm -f .paddock.yaml; mkfifo .paddock.yaml`, trigger: `hangs 60 paddock run -- true`, control: `hangs 1 cat .paddock.yaml`},
	}
}
