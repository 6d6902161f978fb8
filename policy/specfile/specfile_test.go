package specfile

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/paddock-dev/paddock/policy"
)

const fullYAML = `# everything
backend: linux
level: full
seccomp: strict
rootfs: ./image
allow_degraded: [memory, cpus]
caches: [go, npm]
home: keep
workspace: {source: ., mode: bind, layers: /l, access: ro, unprotected: [.envrc]}
mounts:
  - {source: ~/go/pkg/mod}
  - source: /data
    target: /data
    mode: rw
network: none
limits: {timeout: 120s, max_timeout: 5m, output: 1.5MiB, cpu_time: 1m30s, file_size: 4096, open_files: 256, processes: 128, tmp: "1GB",
  memory: 512MiB, memory_high: 400MiB, swap: 1MiB, cpus: 1.5, disk: 2GiB}
env: {LANG: C.UTF-8, PORT: 8080, MODE: 0644, DEBUG: true, RATIO: 1.50, EMPTY: "", NO: no, DAY: 2024-01-02}
host_sockets: [/run/db.sock]
ssh_agent: {keys: [SHA256:x], sign: true}
no_toolchains: true
hostname: box
commands: {allow: [git, go, python3], subcommands: {pip: [install, uninstall]}}
redaction: [{type: email, strategy: mask}, {name: ticket, type: custom, pattern: "JIRA-[0-9]+", strategy: hash}]
docker: {binary: podman, image: debian, network_enabled: true, user: "1000:1000", read_only_rootfs: true,
  remove_container_on_exit: false, extra_run_args: [--label, a=b]}
codex: {binary: codex2, platform: linux, config_overrides: {a.b: true, c: [1, x, 1.5, {d: no}], e: {f: "1"}}}
wrapper: {command: [ssh, host], agent: /opt/agent, quote: never, workspace: /work}
`

func fullSpec() policy.Spec {
	return policy.Spec{
		Backend: "linux", Level: "full", Seccomp: "strict", RootFS: "./image", AllowDegraded: []string{"memory", "cpus"}, Caches: []string{"go", "npm"}, Home: "keep",
		Workspace: policy.Workspace{Source: ".", Mode: "bind", Layers: "/l", Access: "ro", Unprotected: []string{".envrc"}},
		Mounts:    []policy.Mount{{Source: "~/go/pkg/mod"}, {Source: "/data", Target: "/data", Mode: "rw"}},
		Network:   policy.Network{Mode: "none"},
		Limits: policy.Limits{Timeout: policy.Duration(2 * time.Minute), MaxTimeout: policy.Duration(5 * time.Minute), Output: 3 << 19,
			CPUTime: policy.Duration(90 * time.Second), FileSize: 4096, OpenFiles: 256, Processes: 128, Tmp: 1e9,
			Memory: 512 << 20, MemoryHigh: 400 << 20, Swap: 1 << 20, CPUs: 1500, Disk: 2 << 30},
		Env: map[string]string{"LANG": "C.UTF-8", "PORT": "8080", "MODE": "0644", "DEBUG": "true",
			"RATIO": "1.50", "EMPTY": "", "NO": "no", "DAY": "2024-01-02"},
		HostSockets: []string{"/run/db.sock"}, SSHAgent: &policy.SSHAgent{Keys: []string{"SHA256:x"}, Sign: true},
		NoToolchains: true,
		Hostname:     "box",
		Commands:     &policy.Commands{Allow: []string{"git", "go", "python3"}, Subcommands: map[string][]string{"pip": {"install", "uninstall"}}},
		Redaction:    []policy.Redaction{{Type: "email", Strategy: "mask"}, {Name: "ticket", Type: "custom", Pattern: "JIRA-[0-9]+", Strategy: "hash"}},
		Docker: &policy.Docker{Binary: "podman", Image: "debian", NetworkEnabled: true, User: "1000:1000", ReadOnlyRootFS: true,
			RemoveContainerOnExit: new(bool), ExtraRunArgs: []string{"--label", "a=b"}},
		Codex: &policy.Codex{Binary: "codex2", Platform: "linux", ConfigOverrides: map[string]any{
			"a.b": true, "c": []any{int64(1), "x", 1.5, map[string]any{"d": "no"}}, "e": map[string]any{"f": "1"}}},
		Wrapper: &policy.Wrapper{Command: []string{"ssh", "host"}, Agent: "/opt/agent", Quote: "never", Workspace: "/work"},
	}
}

func TestDecode(t *testing.T) {
	got, err := Decode("spec.yaml", []byte(fullYAML))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(fullSpec(), got); diff != "" {
		t.Error(diff)
	}
}

// TestDecodeKnowsEveryField fails when a field is added to the spec and not
// to the document that TestDecode reads.
func TestDecodeKnowsEveryField(t *testing.T) {
	spec := fullSpec()
	for _, v := range []any{spec, spec.Workspace, spec.Limits, spec.Mounts[1], *spec.Docker, *spec.Codex, *spec.Wrapper} {
		for field, value := range reflect.ValueOf(v).Fields() {
			if value.IsZero() {
				t.Errorf("%T.%s is not in the document", v, field.Name)
			}
		}
	}
}

func TestDecodeReadsWhatJSONWrites(t *testing.T) {
	want := fullSpec()
	want.Env["FACE"] = "\U0001F600\t<"
	data, err := json.MarshalIndent(want, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"spec.json", "-"} {
		got, err := Decode(name, data)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v %s", name, err, diff)
		}
	}
	got, err := Decode("s.json", []byte(`{"env":{"A":"\ud83d\ude00","B":1e3,"C":false},"limits":{"file_size":5}}`))
	want = policy.Spec{Env: map[string]string{"A": "\U0001F600", "B": "1e3", "C": "false"}, Limits: policy.Limits{FileSize: 5}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
}

func TestDecodeEmpty(t *testing.T) {
	for _, data := range []string{"", " \n\t\n", "# nothing\n", "---\n", "---\n# nothing\n...\n", "{}", "\ufeff", "\ufeff{}\n"} {
		got, err := Decode("spec.yaml", []byte(data))
		if diff := cmp.Diff(policy.Spec{}, got); diff != "" || err != nil {
			t.Errorf("%q: %v %s", data, err, diff)
		}
	}
}

func TestDecodeErrors(t *testing.T) {
	const (
		sizes  = "the units are B, KiB, MiB, GiB, TiB, KB, MB, GB and TB"
		absent = "leave the key out for the default"
		alias  = "write the value out where it is needed; quote a text that starts with & or *"
	)
	for _, tt := range []struct{ data, err, hint string }{
		{"network: none\nlimits:\n  tmp: 12 parsecs\n", `f:3: cannot use limits.tmp "12 parsecs": unknown unit "parsecs"`, sizes},
		{"limits: {timeout: 30}", `f:1: cannot use limits.timeout "30": a unit is missing`, `did you mean "30s"?`},
		{"limits: {timeout: -3s}", `f:1: cannot use limits.timeout "-3s": it must not be negative`, ""},
		{"limits: {output: true}", `f:1: cannot use limits.output "true": it does not start with a number`, ""},
		{"limits: {tmp: [1]}", `f:1: cannot use limits.tmp: it must be a text`, ""},
		{"docker: {network_enabled: yes please}", `f:1: cannot use docker.network_enabled "yes please": it must be true or false`, ""},
		{`docker: {network_enabled: "true"}`, `f:1: cannot use docker.network_enabled "true": it must be true or false`, "remove the quotes"},
		{"docker: {network_enabled: 1}", `f:1: cannot use docker.network_enabled "1": it must be true or false`, ""},
		{"docker: {image: 3}", `f:1: cannot use docker.image "3": it must be a text, not a number`, "put it in quotes"},
		{"codex: {config_overrides: {a: null}}", `f:1: cannot use codex.config_overrides.a: it is null`, absent},
		{"codex: {config_overrides: {a: .nan}}", `f:1: cannot use codex.config_overrides.a ".nan": it must be a finite number`, ""},
		{"codex: {config_overrides: {a: 0x10}}", `f:1: cannot use codex.config_overrides.a "0x10": it must be a whole number of 64 bits, in digits`, ""},
		{"codex: {config_overrides: {a: [~]}}", `f:1: cannot use codex.config_overrides.a[0]: it is null`, absent},
		{"wrapper: {command: ssh}", `f:1: cannot use wrapper.command "ssh": it must be a list`, "put the value in brackets: [value]"},
		{"limits: {output: 0}", `f:1: cannot use limits.output "0": 0 would count as not given`, absent},
		{"limits: {timeout: 0s}", `f:1: cannot use limits.timeout "0s": 0 would count as not given`, absent},
		{"limits: {processes: 0}", `f:1: cannot use limits.processes "0": 0 would count as not given`, absent},
		{"limits: {processes: -1}", `f:1: cannot use limits.processes "-1": it must not be negative`, ""},
		{"limits: {processes: 1.5}", `f:1: cannot use limits.processes "1.5": it must be a whole number`, ""},
		{"limits: {processes: 0x10}", `f:1: cannot use limits.processes "0x10": it must be a whole number`, ""},
		{"limits: {processes: many}", `f:1: cannot use limits.processes "many": it must be a whole number`, ""},
		{"limits: {processes: \"5\"}", `f:1: cannot use limits.processes "5": it must be a whole number`, "remove the quotes"},
		{"limits: {processes: {}}", `f:1: cannot use limits.processes: it must be a whole number`, ""},
		{"limits: {processes: 99999999999999999999}", `f:1: cannot use limits.processes "99999999999999999999": it is too large`, ""},
		{"limits: []", `f:1: cannot use limits: it must be a mapping of keys to values`, ""},
		{"limits: 5", `f:1: cannot use limits "5": it must be a mapping of keys to values`, ""},
		{"a: 1\n", `f:1: cannot use a: unknown key`, "the keys here are allow_degraded, backend, caches, codex, commands, docker, env, home, host_sockets, hostname, level, limits, mounts, network, no_toolchains, redaction, rootfs, seccomp, ssh_agent, workspace, wrapper"},
		{"\nnetwrok: none", `f:2: cannot use netwrok: unknown key`, `did you mean "network"?`},
		{"timeout: 30s", `f:1: cannot use timeout: unknown key`, `did you mean "limits.timeout"?`},
		{"Network: none", `f:1: cannot use Network: unknown key`, `did you mean "network"?`},
		{"limits:\n  tmp: 1MiB\n  cputime: 1s", `f:3: cannot use limits.cputime: unknown key`, `did you mean "cpu_time"?`},
		{"mounts: [{source: a, targte: /b}]", `f:1: cannot use mounts[0].targte: unknown key`, `did you mean "target"?`},
		{`"a\nb": 1`, `f:1: cannot use "a\nb": unknown key`, "the keys here are allow_degraded, backend, caches, codex, commands, docker, env, home, host_sockets, hostname, level, limits, mounts, network, no_toolchains, redaction, rootfs, seccomp, ssh_agent, workspace, wrapper"},
		{"network: none\n\nnetwork: host\n", `f:3: cannot use network: it is given twice, first on line 1`, ""},
		{"env:\n  A: 1\n  A: 2\n", `f:3: cannot use env.A: it is given twice, first on line 2`, ""},
		{"network:\nhostname: a", `f:1: cannot use network: it is null`, absent},
		{"limits: ~", `f:1: cannot use limits: it is null`, absent},
		{"mounts:\n- source: a\n-\n", `f:3: cannot use mounts[1]: it is null`, absent},
		{"env: {A: null}", `f:1: cannot use env.A: it is null`, `write "" for an empty value`},
		{"env: {A: [b]}", `f:1: cannot use env.A: it must be a text`, ""},
		{"env: [A]", `f:1: cannot use env: it must be a mapping of names to values`, ""},
		{"env: A=secret", `f:1: cannot use env: it must be a mapping of names to values`, ""},
		{"network: ''", `f:1: cannot use network: it is empty`, absent},
		{"workspace: {source: \"\"}", `f:1: cannot use workspace.source: it is empty`, absent},
		{"workspace: {unprotected: .envrc}", `f:1: cannot use workspace.unprotected ".envrc": it must be a list`, "put the value in brackets: [value]"},
		{"network: 7", `f:1: cannot use network "7": it must be a text, not a number`, "put it in quotes"},
		{"network:", `f:1: cannot use network: it is null`, absent},
		{"network: ''", `f:1: cannot use network: it is empty`, absent},
		{"network: {mode: allow, allowed: []}", `f:1: cannot use network.allowed: unknown key`, `did you mean "allow"?`},
		{"network:\n  allow:\n  - host: a.example\n    port: [1]", `f:4: cannot use network.allow[0].port: unknown key`, `did you mean "ports"?`},
		{"network:\n  allow: [a.example]", `f:2: cannot use network.allow[0] "a.example": it must be a mapping of keys to values`, "write {host: a.example}"},
		{"network: {allow: [{host: a.example, ports: 443}]}", `f:1: cannot use network.allow[0].ports "443": it must be a list`, "put the value in brackets: [value]"},
		{"network: {allow: [{host: a.example, ports: [0]}]}", `f:1: cannot use network.allow[0].ports[0] "0": 0 would count as not given`, absent},
		{"network: {allow: [{host: a.example, ports: [https]}]}", `f:1: cannot use network.allow[0].ports[0] "https": it must be a whole number`, ""},
		{"network: {limits: {bytes_out: 1G}}", `f:1: cannot use network.limits.bytes_out "1G": unit "G" is ambiguous`, `write "1GiB" (powers of 1024) or "1GB" (powers of 1000)`},
		{"network:\n  allow:\n  - host: *.example.com", `f:3: cannot read the spec: did not find expected alphabetic or numeric character`, "quote a text that starts with & or *"},
		{"mounts: {source: a}", `f:1: cannot use mounts: it must be a list`, ""},
		{"hostname: 12", `f:1: cannot use hostname "12": it must be a text, not a number`, "put it in quotes"},
		{"hostname: true", `f:1: cannot use hostname "true": it must be a text, not true or false`, "put it in quotes"},
		{"hostname: [a]", `f:1: cannot use hostname: it must be a text`, ""},
		{"? [a]\n: b\n", `f:1: cannot read the spec: a key must be a text`, ""},
		{"- a", `f:1: cannot read the spec: it must be a mapping of keys to values`, ""},
		{"null", `f:1: cannot read the spec: it must be a mapping of keys to values`, ""},
		{"a: &x b\n", `f:1: cannot read the spec: anchors and aliases are not supported`, alias},
		{"env: &e {A: b}\nlimits:\n  <<: *e\n", `f:1: cannot read the spec: anchors and aliases are not supported`, alias},
		{"a: &a [*a]", `f:1: cannot read the spec: anchors and aliases are not supported`, alias},
		{"\nhostname: !!str 5", `f:2: cannot read the spec: tags are not supported`, "remove the tag; quote a text that starts with !"},
		{"hostname: !x y", `f:1: cannot read the spec: tags are not supported`, "remove the tag; quote a text that starts with !"},
		{"hostname: a\n---\nhostname: b\n", `f:3: cannot read the spec: it holds more than one document`, `a spec is one document: remove what follows "---"`},
		{"hostname: a\nnetwork: [\n", `f:2: cannot read the spec: did not find expected node content`, ""},
		{"hostname: \xff", `f:1: cannot read the spec: it is not valid UTF-8`, ""},
		{"hostname: a\nenv: {A: \"\x01\"}", `f: cannot read the spec: control characters are not allowed`, ""},
		{strings.Repeat("#", MaxSize+1), `f: cannot read the spec: it is larger than 1MiB`, ""},
	} {
		_, err := Decode("f", []byte(tt.data))
		checkError(t, err, tt.err, tt.hint)
	}
}

func checkError(t *testing.T, err error, text, hint string) {
	t.Helper()
	found := policy.FieldErrors(err)
	if len(found) != 1 {
		t.Errorf("error = %v, want one: %s", err, text)
		return
	}
	if err.Error() != text || found[0].Hint != hint {
		t.Errorf("error:\n got %s\nhint %s\nwant %s\nhint %s", err, found[0].Hint, text, hint)
	}
}

func TestDecodeJSONErrors(t *testing.T) {
	for _, tt := range []struct{ data, err string }{
		{"{\n \"network\": \"none\",\n}", `s.json:3: cannot read the spec: invalid character '}' looking for beginning of object key string`},
		{"{", `s.json:1: cannot read the spec: unexpected end of JSON input`},
		{"{}\n{}", `s.json:2: cannot read the spec: invalid character '{' after top-level value`},
		{"network: none", `s.json:1: cannot read the spec: invalid character 'e' in literal null (expecting 'u')`},
		{"[]", `s.json:1: cannot read the spec: it must be a mapping of keys to values`},
		{"{\n\"limits\": {\n\"timeout\": 30}}", `s.json:3: cannot use limits.timeout "30": a unit is missing`},
		{"{\"limits\": {\n\"tmp\": 1.5}}", `s.json:2: cannot use limits.tmp "1.5": a byte cannot be divided`},
		{"{\"limits\": {\n\"open_files\": 2.0}}", `s.json:2: cannot use limits.open_files "2.0": it must be a whole number`},
		{"{\"network\": null}", `s.json:1: cannot use network: it is null`},
		{"{\"env\": {\"A\": 1,\n\"A\": 2}}", `s.json:2: cannot use env.A: it is given twice, first on line 1`},
		{"{\"hostname\": 1e3}", `s.json:1: cannot use hostname "1e3": it must be a text, not a number`},
		{strings.Repeat("[", 20000), `s.json:1: cannot read the spec: invalid character '[' exceeded max depth`},
	} {
		_, err := Decode("s.json", []byte(tt.data))
		if err == nil || err.Error() != tt.err {
			t.Errorf("error:\n got %v\nwant %s", err, tt.err)
		}
	}
}

func TestDecodeReportsAll(t *testing.T) {
	_, err := Decode("f", []byte("netwrok: none\nlimits:\n  tmp: 5M\n  timeout: 3\nhostname:\n"))
	want := `f:1: cannot use netwrok: unknown key
f:3: cannot use limits.tmp "5M": unit "M" is ambiguous
f:4: cannot use limits.timeout "3": a unit is missing
f:5: cannot use hostname: it is null`
	if err == nil || err.Error() != want {
		t.Errorf("error:\n got %v\nwant %s", err, want)
	}
	_, err = Decode("f", []byte("env: {"+strings.Repeat("A: [], B: [], ", 1000)+"}\nmounts: ["+strings.Repeat("1,", 1000)+"]"))
	found := policy.FieldErrors(err)
	if want := "f:1: cannot read the spec: there are more than 20 problems; this is where the 21st is"; len(found) != 21 || found[20].Error() != want {
		t.Errorf("%d problems, %v", len(found), found[len(found)-1])
	}
}

func TestLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "spec.yaml")
	if err := os.WriteFile(path, []byte("hostname: a\nnetwork: [x]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path); err == nil || err.Error() != path+":2: cannot use network: it must be a word, or a mapping of keys to values" {
		t.Errorf("Load = %v", err)
	}
	if _, err := Load(path + "x"); !errors.Is(err, fs.ErrNotExist) || !strings.HasPrefix(err.Error(), "cannot read the spec: ") {
		t.Errorf("Load of a missing file = %v", err)
	}
	if _, err := Load(filepath.Dir(path)); err == nil || !strings.HasPrefix(err.Error(), "cannot read the spec: ") {
		t.Errorf("Load of a directory = %v", err)
	}
	if err := os.WriteFile(path, []byte("hostname: a\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if spec, err := Load(path); err != nil || spec.Hostname != "a" {
		t.Errorf("Load = %+v, %v", spec, err)
	}
	if err := os.WriteFile(path, make([]byte, MaxSize+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path); err == nil || err.Error() != path+": cannot read the spec: it is larger than 1MiB" {
		t.Errorf("Load of a large file = %v", err)
	}
}

func TestLocate(t *testing.T) {
	file, err := Parse("f", []byte(`
network: bridge
mounts:
  - source: /a
    target: /usr/a
  - source: /usr/b
env:
  "1.A": x
limits: {timeout: 1ns}
`))
	if err != nil {
		t.Fatal(err)
	}
	_, err = file.Spec.Resolve(policy.Base{})
	want := `cannot use workspace.source ".": it is relative, and the directory it starts from is not known
f:5: cannot use mounts[0].target "/usr/a": /usr is read-only inside
f:6: cannot use mounts[1].target "/usr/b": /usr is read-only inside
f:2: cannot use network "bridge": it must be "none", "allow", "observe" or "host"
f:9: cannot use limits.timeout "1ns": it is less than 1ms
f:8: cannot use env."1.A": a name is letters, digits and underscores, and does not start with a digit`
	if err := file.Locate(err); err == nil || err.Error() != want {
		t.Errorf("error:\n got %v\nwant %s", err, want)
	}
	if other := errors.New("x"); file.Locate(other) != other || file.Locate(nil) != nil {
		t.Error("Locate changes other errors")
	}
}
