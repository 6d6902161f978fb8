package policy

import (
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files anew")

// fieldTable is the table of fields as SPEC.md has it.
func fieldTable() string {
	var b strings.Builder
	b.WriteString("| Field |")
	for _, name := range Backends() {
		b.WriteString(" " + name + " |")
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(Backends())) + "\n")
	for _, row := range Fields() {
		name := "`" + row.Field + "`"
		if row.Value != "" {
			name = "`" + row.Field + ": " + row.Value + "`"
		}
		b.WriteString("| " + name + " |")
		for _, backend := range Backends() {
			s := row.Support(backend)
			switch {
			case s.Kept():
				b.WriteString(" kept |")
			case s.Allow != "":
				b.WriteString(" with `allow_degraded: " + s.Allow + "`: " + s.Reason + " |")
			default:
				b.WriteString(" refused: " + s.Reason + " |")
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

func TestFieldTable(t *testing.T) {
	got := fieldTable()
	file := filepath.Join("testdata", "fields.md")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("the table has changed; go test ./policy -update, and look at it: %s", diff)
	}
	spec, err := os.ReadFile(filepath.Join("..", "SPEC.md"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(spec), got) {
		t.Error("SPEC.md does not have the table of testdata/fields.md")
	}
}

// jsonPaths lists the paths of a spec's fields, the options of backends as one
// each.
func jsonPaths(typ reflect.Type, prefix string) []string {
	var all []string
	for f := range typ.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Type == reflect.TypeFor[Workspace]() || f.Type == reflect.TypeFor[Limits]() {
			all = append(all, jsonPaths(f.Type, prefix+name+".")...)
		} else {
			all = append(all, prefix+name)
		}
	}
	return all
}

func TestFieldTableHasEveryField(t *testing.T) {
	var have []string
	for _, row := range Fields() {
		have = append(have, row.Field)
		if row.written == nil {
			t.Errorf("%s: nothing says whether it is written", row.Field)
		}
		for name, s := range row.By {
			if s.Kept() || !slices.Contains(Backends(), name) {
				t.Errorf("%s: the entry for %q says nothing", row.Field, name)
			}
		}
	}
	for _, path := range jsonPaths(reflect.TypeFor[Spec](), "") {
		if path != "backend" && !slices.Contains(have, path) {
			t.Errorf("%s is not in the table", path)
		}
	}
}

// written is a spec in which every field that a table row names is written.
func written(backend string) Spec {
	return Spec{
		Backend: backend, Level: "full", Seccomp: "strict", RootFS: "/img", Network: Network{Mode: "none"}, Hostname: "box",
		Workspace: Workspace{Mode: "copy", Layers: "/l", Access: "ro"},
		Mounts:    []Mount{{Source: "/a"}, {Source: "/b"}},
		Limits: Limits{Timeout: Duration(time.Minute), MaxTimeout: Duration(time.Hour), Output: MiB, CPUTime: Duration(time.Minute),
			FileSize: MiB, OpenFiles: 64, Processes: 64, Tmp: MiB, Memory: GiB, MemoryHigh: MiB * 8, Swap: MiB, CPUs: 1500, Disk: MiB},
		Env: map[string]string{"A": "b"}, SSHAgent: &SSHAgent{}, HostSockets: []string{"/s/a", "/s/b"}, Commands: &Commands{Allow: []string{"ls"}}, Caches: []string{"go"}, Home: "/h",
		Docker: &Docker{}, Codex: &Codex{}, Wrapper: &Wrapper{Command: []string{"bwrap"}},
	}
}

func TestWhatABackendCannotKeepIsRefused(t *testing.T) {
	for _, backend := range Backends() {
		want := map[string]bool{}
		for _, row := range Fields() {
			if s := row.Support(backend); !s.Kept() && row.Value != NetworkHost && row.Value != ModeOverlay && !ByName(row.Value) {
				want[row.Field] = true
			}
		}
		if want["mounts"] {
			delete(want, "mounts")
			want["mounts[0]"], want["mounts[1]"] = true, true
		}
		if want["host_sockets"] {
			delete(want, "host_sockets")
			want["host_sockets[0]"], want["host_sockets[1]"] = true, true
		}
		_, err := written(backend).Resolve(testBase)
		got := map[string]bool{}
		for _, e := range FieldErrors(err) {
			if e.Hint != "" && e.Reason != "" {
				got[e.Field] = true
			}
		}
		for field := range want {
			if !got[field] {
				t.Errorf("%s: %s is not refused: %v", backend, field, err)
			}
		}
	}
}

func TestResolveFillsInWhatTheBackendHas(t *testing.T) {
	yes := true
	at := Workspace{Source: "/srv/project", Mode: "bind", Access: "rw"}
	tests := []struct{ in, want Spec }{
		{Spec{Backend: "host"}, Spec{Backend: "host", Workspace: at, Network: Network{Mode: "host"}, Limits: Limits{Output: MiB}}},
		{Spec{Backend: "host", Network: Network{Mode: "host"}, AllowDegraded: []string{"memory"}, Limits: Limits{Memory: GiB}},
			Spec{Backend: "host", Network: Network{Mode: "host"}, AllowDegraded: []string{"memory"}, Workspace: at, Limits: Limits{Memory: GiB, Output: MiB}}},
		{Spec{Backend: "docker"}, Spec{Backend: "docker", Seccomp: "default", Workspace: at, Network: Network{Mode: "none"}, Hostname: "paddock",
			Limits: Limits{Output: MiB, Tmp: GiB, Processes: 4096},
			Docker: &Docker{Binary: "docker", Image: "python:3.12-alpine3.19", RemoveContainerOnExit: &yes}}},
		{Spec{Backend: "docker", Workspace: Workspace{Mode: "copy"}, Docker: &Docker{Image: "x", NetworkEnabled: true}},
			Spec{Backend: "docker", Seccomp: "default", Workspace: Workspace{Source: "/srv/project", Mode: "copy", Access: "rw"}, Hostname: "paddock",
				Limits: Limits{Output: MiB, Tmp: GiB, Processes: 4096, Disk: GiB},
				Docker: &Docker{Binary: "docker", Image: "x", NetworkEnabled: true, RemoveContainerOnExit: &yes}}},
		{Spec{Backend: "codex"}, Spec{Backend: "codex", Seccomp: "default", Workspace: at, Network: Network{Mode: "none"}, Limits: Limits{Output: MiB},
			Codex: &Codex{Binary: "codex", Platform: "auto"}}},
		{Spec{Backend: "wrapper", Wrapper: &Wrapper{Command: []string{"/usr/bin/bwrap", "--bind", "/", "/"}}},
			Spec{Backend: "wrapper", Seccomp: "default", Workspace: at, Limits: Limits{Output: MiB},
				Wrapper: &Wrapper{Command: []string{"/usr/bin/bwrap", "--bind", "/", "/"}, Agent: "shared", Quote: "never"}}},
		{Spec{Backend: "wrapper", Wrapper: &Wrapper{Command: []string{"ssh", "host"}}},
			Spec{Backend: "wrapper", Seccomp: "default", Workspace: Workspace{Mode: "bind", Access: "rw"}, Limits: Limits{Output: MiB},
				Wrapper: &Wrapper{Command: []string{"ssh", "host"}, Agent: "upload", Quote: "always"}}},
		{Spec{Backend: "wrapper", Wrapper: &Wrapper{Command: []string{"podman", "exec", "-i", "c"}, Agent: "/opt/agent", Workspace: "/work"}},
			Spec{Backend: "wrapper", Seccomp: "default", Workspace: at, Limits: Limits{Output: MiB},
				Wrapper: &Wrapper{Command: []string{"podman", "exec", "-i", "c"}, Agent: "/opt/agent", Quote: "never", Workspace: "/work"}}},
	}
	for _, tt := range tests {
		got, err := tt.in.Resolve(testBase)
		if err != nil {
			t.Errorf("%+v: %v", tt.in, err)
			continue
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Error(diff)
		}
		again, err := got.Resolve(Base{})
		if diff := cmp.Diff(got, again); diff != "" || err != nil {
			t.Errorf("Resolve is not idempotent: %v %s", err, diff)
		}
	}
}

func TestOptionsOfBackendsAreChecked(t *testing.T) {
	docker := func(d Docker) Spec { return Spec{Backend: "docker", Docker: &d} }
	codex := func(c Codex) Spec { return Spec{Backend: "codex", Codex: &c} }
	key := func(key string, value any) Spec { return codex(Codex{ConfigOverrides: map[string]any{key: value}}) }
	wrapper := func(w Wrapper) Spec { return Spec{Backend: "wrapper", Wrapper: &w} }
	deep := any("x")
	for range 3 {
		deep = []any{deep}
	}
	const names = "the key is not made of names with dots between them"
	tests := []struct {
		spec Spec
		want string // empty: it can be used
	}{
		{docker(Docker{Image: "a/b:1@sha256:00", User: "1000:1000", Binary: "/opt/podman", ExtraRunArgs: []string{"--label", ""}}), ""},
		{docker(Docker{Image: "-v"}), `docker.image "-v": it looks like an option`},
		{docker(Docker{Image: "a b"}), `docker.image "a b": it contains a space`},
		{docker(Docker{Image: "a\n"}), `docker.image "a\n": it contains a control character`},
		{docker(Docker{Image: "a\xff"}), `docker.image "a\xff": it is not valid UTF-8`},
		{docker(Docker{Image: strings.Repeat("a", 1025)}), `docker.image "` + strings.Repeat("a", 80) + `"…: it is too long`},
		{docker(Docker{Binary: "-H"}), `docker.binary "-H": it looks like an option`},
		{docker(Docker{Binary: "a\x00"}), `docker.binary "a\x00": it contains a control character`},
		{docker(Docker{User: "root"}), ""},
		{docker(Docker{User: "-u"}), `docker.user "-u": it looks like an option`},
		{docker(Docker{User: "a:"}), `docker.user "a:": it is not UID[:GID], or names of letters, digits and . _ - in their place`},
		{docker(Docker{User: "4294967295"}), `docker.user "4294967295": it is not UID[:GID], or names of letters, digits and . _ - in their place`},
		{docker(Docker{User: "a,b"}), `docker.user "a,b": it is not UID[:GID], or names of letters, digits and . _ - in their place`},
		{docker(Docker{ExtraRunArgs: []string{"--init", "--"}}), `docker.extra_run_args[1] "--": it ends the options`},
		{docker(Docker{ExtraRunArgs: []string{"image"}}), `docker.extra_run_args[0] "image": it is no option, and would be taken for the image`},
		{docker(Docker{ExtraRunArgs: []string{"-a", "b\x1b"}}), `docker.extra_run_args[1] "b\x1b": it contains a control character`},
		{docker(Docker{ExtraRunArgs: slices.Repeat([]string{"-a"}, 257)}), `docker.extra_run_args: it has more than 256 entries`},
		{docker(Docker{ExtraRunArgs: slices.Repeat([]string{"-" + strings.Repeat("a", 1<<16)}, 17)}), `docker.extra_run_args: it is larger than 1MiB in total`},
		{docker(Docker{ExtraRunArgs: []string{"-" + strings.Repeat("a", 1<<17)}}), `docker.extra_run_args[0] "-` + strings.Repeat("a", 79) + `"…: it is longer than 128KiB, the kernel's bound`},
		{Spec{Backend: "docker", Network: Network{Mode: "none"}, Docker: &Docker{NetworkEnabled: true}}, `docker.network_enabled "true": network says something else: "none"`},
		{Spec{Backend: "docker", Workspace: Workspace{Mode: "copy", Access: "ro"}}, `workspace.access "ro": commands would get a copy that they cannot change`},

		{key("a.b-c.D_1", map[string]any{"x": []any{1, "y", true, 1.5}}), ""},
		{codex(Codex{Platform: "windows"}), `codex.platform "windows": it must be "auto", "linux" or "macos"`},
		{codex(Codex{Binary: "--x"}), `codex.binary "--x": it looks like an option`},
		{key("a=b", "c"), `codex.config_overrides."a=b": ` + names},
		{key("a=b=c", 1), `codex.config_overrides."a=b=c": ` + names},
		{key("", 1), `codex.config_overrides."": ` + names},
		{key("a..b", 1), `codex.config_overrides."a..b": ` + names},
		{key(".a", 1), `codex.config_overrides.".a": ` + names},
		{key("-c", 1), `codex.config_overrides.-c: ` + names},
		{key("a b", 1), `codex.config_overrides."a b": ` + names},
		{key(strings.Repeat("a.", 128)+"a", 1), `codex.config_overrides."` + strings.Repeat("a.", 40) + `"…: the key is longer than 255 bytes`},
		{key("a", nil), `codex.config_overrides.a: it is null`},
		{key("a", func() {}), `codex.config_overrides.a: the value cannot be written as JSON`},
		{key("a", strings.Repeat("x", 64<<10)), `codex.config_overrides.a: the value is larger than 64KiB`},
		{key("a", deep), ""},

		{Spec{Backend: "wrapper"}, `wrapper.command: it is empty`},
		{wrapper(Wrapper{Command: []string{""}}), `wrapper.command[0]: it is empty`},
		{wrapper(Wrapper{Command: []string{"-x"}}), `wrapper.command[0] "-x": it looks like an option`},
		{wrapper(Wrapper{Command: []string{"ssh", "a\nb"}}), `wrapper.command[1] "a\nb": it contains a control character`},
		{wrapper(Wrapper{Command: []string{"ssh"}, Quote: "maybe"}), `wrapper.quote "maybe": it must be "always" or "never"`},
		{wrapper(Wrapper{Command: []string{"x"}, Agent: "agent"}), `wrapper.agent "agent": it is not an absolute path`},
		{wrapper(Wrapper{Command: []string{"x"}, Agent: "/a/../b"}), `wrapper.agent "/a/../b": it is not a clean path`},
		{wrapper(Wrapper{Command: []string{"x"}, Workspace: "w"}), `wrapper.workspace "w": it is not an absolute path`},
		{Spec{Backend: "wrapper", Workspace: Workspace{Source: "/a"}, Wrapper: &Wrapper{Command: []string{"ssh"}}},
			`workspace.source "/a": the agent is uploaded, and no directory of the host is seen where it runs`},

		{Spec{Docker: &Docker{}}, `docker: it is for backend docker`},
		{Spec{Backend: "docker", Wrapper: &Wrapper{}}, `wrapper: it is for backend wrapper`},
		{Spec{Backend: "host", Network: Network{Mode: "none"}}, `network "none": commands use the host's network`},
		{Spec{Backend: "host", Limits: Limits{Memory: GiB}}, `limits.memory "1GiB": backend host bounds the memory of each process alone`},
		{Spec{Backend: "codex", Limits: Limits{CPUs: 1500}}, `limits.cpus "1.5": backend codex cannot bound the use of processors`},
		{Spec{Backend: "codex", Level: "full"}, `level "full": backend codex has one level`},
	}
	for _, tt := range tests {
		_, err := tt.spec.Resolve(testBase)
		got := ""
		if err != nil {
			got = strings.TrimPrefix(err.Error(), "cannot use ")
		}
		if got != tt.want {
			t.Errorf("got  %s\nwant %s", got, tt.want)
		}
	}
}
