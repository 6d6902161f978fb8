package execution_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/policy/execution"
	"github.com/paddock-dev/paddock/policy/specfile"
)

// TestDocs: the page about sessions lists the fields of each type, with their defaults.
func TestDocs(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "sessions.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range execution.Types() {
		text, err := json.Marshal(execution.New(name))
		var fields map[string]any
		if err = errors.Join(err, json.Unmarshal(text, &fields)); err != nil || len(fields) < 5 {
			t.Fatalf("%s: %s, %v", name, text, err)
		}
		for field, value := range fields {
			_, row, found := strings.Cut(string(page), "\n| `"+field+"` | ")
			row, _, _ = strings.Cut(row, "\n")
			types, row, _ := strings.Cut(row, " | ")
			shown := fmt.Sprint(value)
			if value == nil || value == "" {
				shown = ""
			}
			if !found || types != "all" && !slices.Contains(strings.Split(types, ", "), name) || !strings.Contains(row, shown) {
				t.Errorf("%s: there is no row for %s with the default %q", name, field, shown)
			}
		}
	}
}

// TestContract goes through the contract's section 002, line by line: defaults,
// conversions and error texts. What concerns argument lists and processes is
// tested where these are made: backend/docker, backend/codex, backend/host.
func TestContract(t *testing.T) {
	second := policy.Duration(time.Second)
	session := execution.Session{CommandTimeout: 30 * second, StartupTimeout: 30 * second, TerminationTimeout: 10 * second, MaxOutputLines: 100}
	yes, no := true, false
	docker := func(change func(*policy.Docker)) *policy.Docker {
		d := &policy.Docker{Binary: "docker", Image: "python:3.12-alpine3.19", RemoveContainerOnExit: &yes}
		if change != nil {
			change(d)
		}
		return d
	}
	tests := []struct {
		policy  string
		spec    policy.Spec
		session *execution.Session // nil: the default one
		err     string
	}{
		// Base fields.
		{policy: `{"type":"host"}`, spec: policy.Spec{Backend: "host"}},
		{policy: `{"type":"host","command_timeout":1.5,"startup_timeout":2,"termination_timeout":0.25,"max_output_lines":7,"max_output_bytes":9}`,
			spec: policy.Spec{Backend: "host"}, session: &execution.Session{CommandTimeout: policy.Duration(1500 * time.Millisecond),
				StartupTimeout: 2 * second, TerminationTimeout: policy.Duration(250 * time.Millisecond), MaxOutputLines: 7, MaxOutputBytes: 9}},
		{policy: `{"type":"host","max_output_bytes":null}`, spec: policy.Spec{Backend: "host"}},
		{policy: `{"type":"host","max_output_lines":0}`, err: "max_output_lines must be positive."},
		{policy: `{"type":"docker","max_output_lines":-3}`, err: "max_output_lines must be positive."},
		{policy: `{"type":"codex","max_output_lines":0}`, err: "max_output_lines must be positive."},

		// Host.
		{policy: `{"type":"host","cpu_time_seconds":null,"memory_bytes":null,"create_process_group":true}`, spec: policy.Spec{Backend: "host"}},
		{policy: `{"type":"host","cpu_time_seconds":3,"memory_bytes":268435456}`, spec: policy.Spec{Backend: "host",
			AllowDegraded: []string{"memory"}, Limits: policy.Limits{CPUTime: 3 * second, Memory: 256 * policy.MiB}}},
		{policy: `{"type":"host","cpu_time_seconds":0}`, err: "cpu_time_seconds must be positive if provided."},
		{policy: `{"type":"host","memory_bytes":-1}`, err: "memory_bytes must be positive if provided."},
		{policy: `{"type":"host","create_process_group":false}`, err: "create_process_group must be true: every command has a session of its own."},

		// Codex.
		{policy: `{"type":"codex"}`, spec: policy.Spec{Backend: "codex", Codex: &policy.Codex{Binary: "codex", Platform: "auto"}}},
		{policy: `{"type":"codex","binary":"/opt/codex","platform":"macos","config_overrides":{"b":[1,"x"],"a.c":true}}`,
			spec: policy.Spec{Backend: "codex", Codex: &policy.Codex{Binary: "/opt/codex", Platform: "macos",
				ConfigOverrides: map[string]any{"b": []any{int64(1), "x"}, "a.c": true}}}},
		{policy: `{"type":"codex","platform":"windows"}`, err: `platform cannot be used: it must be "auto", "linux" or "macos".`},

		// Docker.
		{policy: `{"type":"docker"}`, spec: policy.Spec{Backend: "docker", Docker: docker(nil)}},
		{policy: `{"type":"docker","binary":"podman","image":"x","remove_container_on_exit":false,"network_enabled":true,"extra_run_args":["--init"],` +
			`"memory_bytes":8388608,"cpus":"1.5","read_only_rootfs":true,"user":"1000:1000"}`,
			spec: policy.Spec{Backend: "docker", Limits: policy.Limits{Memory: 8 * policy.MiB, CPUs: 1500}, Docker: docker(func(d *policy.Docker) {
				*d = policy.Docker{Binary: "podman", Image: "x", RemoveContainerOnExit: &no, NetworkEnabled: true, ExtraRunArgs: []string{"--init"},
					ReadOnlyRootFS: true, User: "1000:1000"}
			})}},
		{policy: `{"type":"docker","extra_run_args":[],"memory_bytes":null,"cpu_time_seconds":null,"cpus":null,"user":null}`,
			spec: policy.Spec{Backend: "docker", Docker: docker(func(d *policy.Docker) { d.ExtraRunArgs = []string{} })}},
		{policy: `{"type":"docker","memory_bytes":0}`, err: "memory_bytes must be positive if provided."},
		{policy: `{"type":"docker","cpu_time_seconds":1}`,
			err: "DockerExecutionPolicy does not support cpu_time_seconds; configure CPU limits using Docker run options such as '--cpus'."},
		{policy: `{"type":"docker","cpus":""}`, err: "cpus must be a non-empty string when provided."},
		{policy: `{"type":"docker","user":""}`, err: "user must be a non-empty string when provided."},
		{policy: `{"type":"docker","cpus":"  "}`, err: "cpus must be a non-empty string when provided."},
		{policy: `{"type":"docker","user":" \t"}`, err: "user must be a non-empty string when provided."},
		{policy: `{"type":"linux","cpus":" "}`, err: "cpus must be a non-empty string when provided."},

		// Paddock's own.
		{policy: `{"type":"linux","cpu_time_seconds":3,"memory_bytes":8388608,"cpus":"0.5","network_enabled":true}`, spec: policy.Spec{Backend: "linux",
			Network: policy.Network{Mode: "host"}, Limits: policy.Limits{CPUTime: 3 * second, Memory: 8 * policy.MiB, CPUs: 500}}},
		{policy: `{"type":"wrapper","command":["ssh","host"],"agent":"upload"}`, spec: policy.Spec{Backend: "wrapper",
			Wrapper: &policy.Wrapper{Command: []string{"ssh", "host"}, Agent: "upload"}}},
		{policy: `{"type":"wrapper"}`, err: "command cannot be used: it is empty."},

		// What was not validated: NaN, negative, absurd values, images, keys.
		{policy: "type: host\ncommand_timeout: .nan", err: `p:2: cannot use command_timeout ".nan": it must be a finite number`},
		{policy: "type: host\nstartup_timeout: .inf", err: `p:2: cannot use startup_timeout ".inf": it must be a finite number`},
		{policy: `{"type":"host","command_timeout":"30"}`, err: `p:1: cannot use command_timeout "30": it must be a number`},
		{policy: `{"type":"host","command_timeout":0}`, err: "command_timeout must be positive."},
		{policy: `{"type":"host","startup_timeout":-1}`, err: "startup_timeout must be positive."},
		{policy: `{"type":"host","termination_timeout":1e-9}`, err: "termination_timeout must be at least a millisecond."},
		{policy: `{"type":"host","command_timeout":1e300}`, err: "command_timeout must be at most 604800 seconds."},
		{policy: `{"type":"host","max_output_lines":1e3}`, err: `p:1: cannot use max_output_lines "1e3": it must be a whole number of 64 bits, in digits`},
		{policy: `{"type":"host","max_output_lines":99999999999}`, err: "max_output_lines must be at most 2147483648."},
		{policy: `{"type":"host","max_output_bytes":0}`, err: "max_output_bytes must be positive if provided."},
		{policy: `{"type":"host","max_output_bytes":1073741825}`, err: "max_output_bytes must be at most 1073741824."},
		{policy: `{"type":"host","memory_bytes":1}`, err: "memory_bytes must be at least 4194304."},
		{policy: `{"type":"host","cpu_time_seconds":9999999999}`, err: "cpu_time_seconds must be at most 31536000."},
		{policy: `{"type":"docker","image":"--privileged"}`, err: "image cannot be used: it looks like an option."},
		{policy: `{"type":"docker","user":"a b"}`, err: "user cannot be used: it contains a space."},
		{policy: `{"type":"docker","extra_run_args":["debian"]}`, err: "extra_run_args[0] cannot be used: it is no option, and would be taken for the image."},
		{policy: `{"type":"docker","cpus":"-1"}`, err: `cpus must be a number of processors of at least 0.01, such as "1.5", not "-1".`},
		{policy: `{"type":"docker","cpus":"nan"}`, err: `cpus must be a number of processors of at least 0.01, such as "1.5", not "nan".`},
		{policy: `{"type":"codex","config_overrides":{"a=b=c":1}}`, err: `config_overrides."a=b=c" cannot be used: the key is not made of names with dots between them.`},
		{policy: `{"type":"codex","binary":"-c"}`, err: "binary cannot be used: it looks like an option."},

		// Strict reading.
		{policy: ``, err: "p: cannot use type: it is missing"},
		{policy: `[]`, err: "p: cannot use type: it is missing"},
		{policy: `{"image":"x"}`, err: "p: cannot use type: it is missing"},
		{policy: `{"type":"vm"}`, err: `p:1: cannot use type "vm": unknown value`},
		{policy: `{"type":"host","image":"x"}`, err: "p:1: cannot use image: unknown key"},
		{policy: `{"type":"host","type":"docker"}`, err: "p:1: cannot use type: unknown key"},
		{policy: `{"type":"docker","network_enabled":"false"}`, err: `p:1: cannot use network_enabled "false": it must be true or false`},
	}
	for _, tt := range tests {
		p, err := specfile.DecodeExecution("p", []byte(tt.policy))
		if tt.err != "" {
			if err == nil || err.Error() != tt.err {
				t.Errorf("%s\ngot  %v\nwant %s", tt.policy, err, tt.err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", tt.policy, err)
			continue
		}
		if diff := cmp.Diff(tt.spec, p.Spec()); diff != "" {
			t.Errorf("%s: spec (-want +got):\n%s", tt.policy, diff)
		}
		want := session
		if tt.session != nil {
			want = *tt.session
		}
		if diff := cmp.Diff(want, p.Session()); diff != "" {
			t.Errorf("%s: session (-want +got):\n%s", tt.policy, diff)
		}
		if _, err := p.Spec().Resolve(policy.Base{Dir: "/work"}); err != nil {
			t.Errorf("%s: the spec cannot be used: %v", tt.policy, err)
		}
	}
}

// TestCheckInGo has what no file can say.
func TestCheckInGo(t *testing.T) {
	empty := ""
	tests := []struct {
		change func(*execution.DockerExecutionPolicy)
		want   string
	}{
		{func(p *execution.DockerExecutionPolicy) { p.CommandTimeout = math.NaN() }, "command_timeout must be a number of seconds."},
		{func(p *execution.DockerExecutionPolicy) { p.StartupTimeout = math.Inf(1) }, "startup_timeout must be at most 604800 seconds."},
		{func(p *execution.DockerExecutionPolicy) { p.TerminationTimeout = math.Inf(-1) }, "termination_timeout must be positive."},
		{func(p *execution.DockerExecutionPolicy) { p.CPUs = &empty }, "cpus must be a non-empty string when provided."},
		{func(p *execution.DockerExecutionPolicy) { p.User = &empty }, "user must be a non-empty string when provided."},
		{func(p *execution.DockerExecutionPolicy) { p.Image = "" }, "image must be a non-empty string."},
		{func(p *execution.DockerExecutionPolicy) { p.Image, p.MaxOutputLines = "a\x00b", 0 },
			"max_output_lines must be positive.\nimage cannot be used: it contains a control character."},
	}
	for _, tt := range tests {
		p, ok := execution.New(execution.TypeDocker).(*execution.DockerExecutionPolicy)
		if !ok {
			t.Fatal("it is no docker policy")
		}
		tt.change(p)
		if err := p.Check(); err == nil || err.Error() != tt.want {
			t.Errorf("got %v, want %s", err, tt.want)
		}
	}
}
