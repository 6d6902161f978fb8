package main

import (
	"os/exec"
	"strings"
)

// raceMode says whether the race detector is used, and why not.
type raceMode struct {
	on  bool
	why string // empty where it is on
}

// String is the mode in the words of the summary.
func (m raceMode) String() string {
	if m.on {
		return "race detector on"
	}
	return "race detector off (" + m.why + ")"
}

// detectRace decides whether the race detector is used. It needs a C compiler
// with its headers, and a platform that has it; whether all of that is there
// is found by building and running a small program with it.
func (c *config) detectRace() raceMode {
	switch c.race {
	case "on":
		return raceMode{on: true}
	case "off":
		return raceMode{why: "not asked for"}
	}
	out, err := exec.Command("go", "env", "CC").Output()
	if err != nil {
		return raceMode{why: "go env does not work"}
	}
	cc := strings.Fields(string(out))
	if len(cc) == 0 {
		return raceMode{why: "no C compiler"}
	}
	if _, err := exec.LookPath(cc[0]); err != nil {
		return raceMode{why: "no C compiler: " + cc[0] + " is not there"}
	}
	probe := exec.Command("go", "run", "-race", "./internal/testsum/raceprobe")
	probe.Dir = c.dir
	if said, err := probe.CombinedOutput(); err != nil {
		return raceMode{why: "it does not work here: " + lastLine(string(said))}
	}
	return raceMode{on: true}
}

// lastLine is the last line of text that is not empty.
func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndexByte(text, '\n')+1:]
}
