package specfile

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock/policy"
)

// A project's file may have each of these, and its spec says the same as any other's.
const allowedProject = `
network: host
limits: {memory: 512MiB, swap: 0, processes: 64, timeout: 2m}
env: {LANG: C.UTF-8, PORT: 8080, "a.b": c}
hostname: pen
caches: [go, ccache]
no_toolchains: true
commands: {allow: [go, git], subcommands: {go: [install]}}
redaction: [{type: email}, {name: t, pattern: "T-[0-9]+"}]
workspace: {mode: copy, access: ro}
level: full
seccomp: strict
`

func TestParseProject(t *testing.T) {
	file, err := ParseProject("p.yaml", []byte(allowedProject))
	if err != nil {
		t.Fatal(err)
	}
	rules := "network: {allow: [{host: '*.example.com', ports: [443]}], deny: [{host: 10.0.0.0/8}]}"
	if _, err := ParseProject("p.yaml", []byte(rules)); err != nil {
		t.Error(err)
	}
	if spec, err := Decode("p.yaml", []byte(allowedProject)); err != nil || !reflect.DeepEqual(spec, file.Spec) {
		t.Errorf("%+v, %v", file.Spec, err)
	}
}

func TestParseProjectRefuses(t *testing.T) {
	const must = "the file of a project must not "
	for _, tt := range []struct{ data, want, hint string }{
		{"backend: host", "p:1: cannot use backend: " + must + "say it", "use `backend` when"},
		{"\nbackend: linux", "p:2: cannot use backend: " + must + "say it", "`backend`"},
		{"docker: {extra_run_args: [--privileged]}", "p:1: cannot use docker: " + must + "say it", "`backend` and the flags"},
		{"codex: {binary: ./evil}", "p:1: cannot use codex: " + must + "say it", "`spec`"},
		{"wrapper: {command: [./evil]}", "p:1: cannot use wrapper: " + must + "say it", "`spec`"},
		{"mounts: [{source: ~/.ssh}]", "p:1: cannot use mounts: " + must + "say it", "`mounts.ro` or `mounts.rw`"},
		{"mounts: [{source: ./inside}]", "p:1: cannot use mounts: " + must + "say it", ""},
		{"mounts: []", "p:1: cannot use mounts: " + must + "say it", ""},
		{"workspace:\n  source: /", "p:2: cannot use workspace.source: " + must + "say it", "`workspace.source`"},
		{"workspace: {source: .}", "p:1: cannot use workspace.source: " + must + "say it", ""},
		{"workspace: {unprotected: ['*']}", "p:1: cannot use workspace.unprotected: " + must + "say it", "`workspace.unprotected`"},
		{"rootfs: ./root", "p:1: cannot use rootfs: " + must + "say it", "`rootfs`"},
		{"allow_degraded: [memory]", "p:1: cannot use allow_degraded: " + must + "say it", "`allow_degraded`"},
		{"level: landlock", `p:1: cannot use level "landlock": ` + must + "weaken a wall; here it must be full", "`level`"},
		{"seccomp: debug", `p:1: cannot use seccomp "debug": ` + must + "weaken a wall; here it must be default or strict", "`seccomp`"},
		{"network: host\nbackend: host\nrootfs: x", "p:2: cannot use backend: " + must + "say it\np:3: cannot use rootfs: " + must + "say it", ""},
		{"network: observe", `p:1: cannot use network.mode "observe": ` + must + "open every name", "use `network` observe when"},
		{"network:\n  mode: observe", `p:2: cannot use network.mode "observe": ` + must + "open every name", "use `network` observe when"},
		{"network:\n  allow:\n  - {host: a.example}\n  - host: '**'", `p:4: cannot use network.allow[1].host "**": ` + must + "open every name", "use `network.allow` '**' when"},
		{"network: {allow: [{host: 10.0.0.5, ports: [22]}, {host: 10.0.0.0/8}]}", `p:1: cannot use network.allow[0].host "10.0.0.5": ` + must + "open addresses\n" +
			`p:1: cannot use network.allow[1].host "10.0.0.0/8": ` + must + "open addresses", "use `network.allow` 10.0.0.5:22 when"},
		{"colour: blue", "p:1: cannot use colour: unknown key", ""},
		{"network: host\nnetwork: none", "p:2: cannot use network: it is given twice, first on line 1", ""},
		{`{"backend": "host"}`, "p:1: cannot use backend: " + must + "say it", ""},
		{"a: &a [*a]", "p:1: cannot read the spec: anchors and aliases are not supported", ""},
		{"--- \nnetwork: none\n---\nbackend: host", "p:4: cannot read the spec: it holds more than one document", ""},
		{"network: \xff", "p:1: cannot read the spec: it is not valid UTF-8", ""},
		{strings.Repeat("#", MaxProject+1), "p: cannot read the spec: it is larger than 16KiB", ""},
	} {
		file, err := ParseProject("p", []byte(tt.data))
		if err == nil || err.Error() != tt.want || file != nil {
			t.Errorf("%.60q: %v\nwant %s", tt.data, err, tt.want)
			continue
		}
		if hint := policy.FieldErrors(err)[0].Hint; !strings.Contains(hint, tt.hint) {
			t.Errorf("%.60q: hint %q, want %q", tt.data, hint, tt.hint)
		}
	}
}

// Every field of a spec is either in the list of what a project's file may say, or refused: a
// field that is added to the spec later is refused until somebody has decided about it.
func TestParseProjectJudgesEveryField(t *testing.T) {
	var allowed []string
	for _, row := range projectFields() {
		allowed = append(allowed, row.path)
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[policy.Spec]()) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		file := &File{lines: map[string]int{name: 1}, Spec: policy.Spec{Level: policy.LevelFull, Seccomp: "default"}}
		if err := file.unfit(name); (err == nil) != (slices.Contains(allowed, name) || name == "workspace") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzParseProject(f *testing.F) {
	f.Add([]byte(allowedProject))
	f.Add([]byte("backend: host\nworkspace: {source: /, unprotected: ['*']}"))
	f.Add([]byte(`{"mounts": [{"source": "/"}], "wrapper": {"command": ["x"]}}`))
	f.Add([]byte("network: {allow: [{host: '**'}, {host: 10.0.0.0/8}, {host: a.example}]}"))
	f.Add([]byte("env: {a.b: c, 'd[0]': e}\nlevel: landlock"))
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := ParseProject("p", data)
		if err != nil {
			if len(policy.FieldErrors(err)) == 0 {
				t.Fatalf("no FieldError: %v", err)
			}
			return
		}
		s := file.Spec
		for _, rule := range s.Network.Allow {
			if host, _, _ := policy.CanonicalHost(rule.Host); host == "**" || policy.IsAddress(host) {
				t.Errorf("%q opens %q", data, host)
			}
		}
		s.Network, s.Limits, s.Env, s.Hostname, s.Commands, s.Redaction = policy.Network{}, policy.Limits{}, nil, "", nil, nil
		s.Caches, s.NoToolchains, s.Workspace.Mode, s.Workspace.Access = nil, false, "", ""
		if s.Level == policy.LevelFull {
			s.Level = ""
		}
		if s.Seccomp == "default" || s.Seccomp == "strict" {
			s.Seccomp = ""
		}
		if !reflect.DeepEqual(s, policy.Spec{}) {
			t.Errorf("%q says %+v", data, s)
		}
	})
}
