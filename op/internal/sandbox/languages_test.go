package sandbox

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/policy/specfile"
)

// What init writes is valid for every language and for all of them, as it is, and with every
// suggestion taken up.
func TestProjectTexts(t *testing.T) {
	suggestion := regexp.MustCompile(`(?m)^( *)# ( *(?:[A-Za-z_]+:|- \{))`)
	all := languages()
	choices := map[string][]language{"nothing": nil, "everything": all}
	for i, l := range all {
		choices[l.name] = all[i : i+1]
	}
	for name, langs := range choices {
		t.Run(name, func(t *testing.T) {
			var found []string
			for _, l := range langs {
				found = append(found, l.files[0])
			}
			written := projectText(langs, found)
			for _, content := range []string{written, suggestion.ReplaceAllString(strings.Replace(written, "\n# none: ", "\n#none: ", 1), "$1$2")} {
				file, err := specfile.ParseProject(specfile.ProjectName, []byte(content))
				if err != nil {
					t.Fatalf("%v\n%s", err, content)
				}
				file.Spec.Workspace.Source = "/ws"
				if _, err := file.Spec.Resolve(policy.Base{Dir: "/ws"}); err != nil {
					t.Errorf("%v\n%s", err, content)
				}
				if taken := content != written; taken != (file.Spec.Limits.Memory > 0 && len(file.Spec.Redaction) == 1 && len(file.Spec.Env) > 0) || file.Spec.Network.Mode != "none" {
					t.Errorf("with suggestions taken up (%v) it says %+v\n%s", taken, file.Spec, content)
				}
				if rules := file.Spec.Commands != nil; rules != (content != written && strings.Contains(content, "\n  allow:")) {
					t.Errorf("rules: %v\n%s", rules, content)
				}
			}
			for _, l := range langs {
				if !strings.Contains(written, l.files[0]) {
					t.Errorf("it does not say that it is for %s:\n%s", l.files[0], written)
				}
			}
		})
	}
}

// Everything that a file sets is told, the network first.
func TestSays(t *testing.T) {
	file, err := specfile.ParseProject("p", []byte(`
env: {B: "x\u202ey", A: "`+strings.Repeat("a", 300)+`"}
seccomp: strict
level: full
hostname: pen
limits: {processes: 4096, tmp: 2GiB, memory: 1GiB}
workspace: {mode: copy, access: ro}
redaction: [{name: t, pattern: "T-[0-9]+"}]
commands: {allow: [go], subcommands: {go: [install, get]}}
network: host
`))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"network: commands can use this host's network, with everything that listens on it",
		"workspace: commands change a copy in memory, which ends with the sandbox",
		"workspace: commands cannot change the directory",
		"level: full, as without the file",
		"seccomp: strict, for programs that need little",
		"hostname: pen",
		"limit of processes: 4096",
		"limit of tmp: 2GiB, above the default of 1GiB",
		"limit of memory: 1GiB",
		text.Truncate("variable: A="+strings.Repeat("a", 300), maxSaid),
		`variable: B=x\u202ey`,
		"commands: only these programs can be started: go",
		"commands: go without install, get",
		"replaced in output: t, T-[0-9]+",
	}
	got := says(file.Spec)
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i] != want[i] {
			t.Fatalf("got  %q\nwant %q", got, want)
		}
	}
}

// Rules of the network are told one by one, before anything else.
func TestSaysRules(t *testing.T) {
	file, err := specfile.ParseProject("p", []byte(`
hostname: pen
network:
  allow: [{host: api.example.com}, {host: "*.example.org", ports: [8443, 22]}]
  deny: [{host: telemetry.example.org, reason: not needed}, {host: x.example.org}]
  limits: {connections: 8, bytes_out: 1GiB}
`))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"network: commands can reach hosts by name, these and no others:",
		"network: open api.example.com, ports 443, 80",
		"network: open *.example.org, ports 8443, 22",
		"network: closed telemetry.example.org: not needed",
		"network: closed x.example.org",
		"network: at most 8 connections at once",
		"network: at most 1GiB sent",
		"hostname: pen",
	}
	if got := says(file.Spec); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
