package specfile

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/paddock-dev/paddock/policy"
)

const ceilingYAML = `
backends: [linux, docker, codex, wrapper]
docker: {binary: [podman], images: ["debian:*"], users: ["1000"], extra_run_args: [--init]}
codex: {binary: [codex], config_overrides: [a.b, c=1]}
wrapper: {commands: [[ssh, host], [bwrap]], agents: [/opt/agent], workspaces: [/work]}
levels: [full, landlock]
seccomp: [strict]
rootfs: [host, /images]
workspace: [{source: /srv/agents, mode: rw}]
unprotected: [.envrc]
mounts:
  - {source: /data}
network: [none, host]
env: [LANG, LC_*]
allow_degraded: [memory]
limits: {memory: 1GiB, swap: 0, timeout: 10m}
`

func TestLoadCeiling(t *testing.T) {
	want := &policy.Ceiling{
		Backends: []string{"linux", "docker", "codex", "wrapper"}, Levels: []string{"full", "landlock"}, Seccomp: []string{"strict"}, RootFS: []string{"host", "/images"},
		Workspace: []policy.Place{{Source: "/srv/agents", Mode: "rw"}}, Unprotected: []string{".envrc"}, Mounts: []policy.Place{{Source: "/data"}},
		Network: []string{"none", "host"}, Env: []string{"LANG", "LC_*"}, AllowDegraded: []string{"memory"},
		Limits: policy.Limits{Memory: policy.GiB, Timeout: policy.Duration(10 * time.Minute)},
		Docker: &policy.DockerCeiling{Binary: []string{"podman"}, Images: []string{"debian:*"}, Users: []string{"1000"}, ExtraRunArgs: []string{"--init"}},
		Codex:  &policy.CodexCeiling{Binary: []string{"codex"}, ConfigOverrides: []string{"a.b", "c=1"}},
		Wrapper: &policy.WrapperCeiling{Commands: [][]string{{"ssh", "host"}, {"bwrap"}}, Agents: []string{"/opt/agent"},
			Workspaces: []string{"/work"}},
	}
	path := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(path, []byte(ceilingYAML), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := LoadCeiling(path)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
	got, err = DecodeCeiling("c.json", []byte(`{"workspace":[{"source":"/srv","mode":"ro"}],"limits":{"processes":64}}`))
	want = &policy.Ceiling{Workspace: []policy.Place{{Source: "/srv", Mode: "ro"}}, Limits: policy.Limits{Processes: 64}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
	if _, err := LoadCeiling(path + "x"); err == nil {
		t.Error("a file that is not there is a ceiling")
	}
}

func TestCeilingErrors(t *testing.T) {
	for _, tt := range []struct{ data, err string }{
		{"", "cannot use workspace: no directory may be a workspace, and every spec has one"},
		{"workspace: [{source: /a}]\nnetworks: [host]", "c:2: cannot use networks: unknown key"},
		{"workspace:\n- {source: /a, mod: rw}", "c:2: cannot use workspace[0].mod: unknown key"},
		{"workspace:\n- {source: /a}\n- {source: b}", `c:3: cannot use workspace[1].source "b": it is not an absolute path`},
		{"workspace: [{source: /a}]\nlevels: []", "c:2: cannot use levels: it allows nothing, and every spec needs one"},
		{"workspace: [{source: /a}]\nlimits: {memory: 1}", `c:2: cannot use limits.memory "1B": it is less than 4MiB`},
		{"workspace: [{source: /a}]\nlimits: {memory: 5M}", `c:2: cannot use limits.memory "5M": unit "M" is ambiguous`},
		{"workspace: [{source: /a}]\nallow_degraded: [namespaces]", `c:2: cannot use allow_degraded "namespaces": it gives the landlock level, which levels does not allow`},
	} {
		if c, err := DecodeCeiling("c", []byte(tt.data)); err == nil || err.Error() != tt.err || c != nil {
			t.Errorf("got %v, want %s", err, tt.err)
		}
	}
}
