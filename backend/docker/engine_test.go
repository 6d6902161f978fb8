package docker

import (
	"runtime"
	"strings"
	"testing"
)

func TestParseInfo(t *testing.T) {
	docker := `{"ServerVersion":"20.10.24","Architecture":"x86_64","OSType":"linux","SecurityOptions":["name=seccomp,profile=default"],"MemoryLimit":true,"SwapLimit":true,"CpuCfsQuota":true,"PidsLimit":true,"CgroupVersion":"1"}`
	podman := `{"host":{"arch":"amd64","cgroupVersion":"v2","cgroupControllers":["memory","pids"],"serviceIsRemote":true,"security":{"rootless":true,"seccompEnabled":true}},"version":{"Version":"4.3.1"}}`
	for _, tt := range []struct {
		name, text string
		check      func(*engine) bool
		err        string
	}{
		{"docker", docker, func(e *engine) bool {
			return e.kind == "docker" && e.version == "20.10.24" && e.arch == "amd64" && e.memory && e.swap && e.cpus && e.pids && e.seccomp && !e.rootless && e.cgroups == "1"
		}, ""},
		{"podman", podman, func(e *engine) bool {
			return e.kind == "podman" && e.version == "4.3.1" && e.arch == "amd64" && e.memory && e.pids && !e.cpus && e.rootless && !e.local && e.cgroups == "2"
		}, ""},
		{"rootless docker", strings.Replace(docker, `"name=seccomp,profile=default"`, `"name=rootless","name=userns"`, 1),
			func(e *engine) bool { return e.rootless && e.remapped && !e.seccomp }, ""},
		{"no controllers", `{"ServerVersion":"20"}`, func(e *engine) bool { return !e.memory && !e.pids && e.arch == runtime.GOARCH }, ""},
		{"no daemon", `{"ServerErrors":["Cannot connect to the Docker daemon at unix:///x. Is the docker daemon running?"]}`, nil, "Cannot connect"},
		{"no version", `{}`, nil, "does not say its version"},
		{"windows", `{"ServerVersion":"20","OSType":"windows"}`, nil, "windows containers"},
		{"no JSON", `hello`, nil, "its answer to info cannot be understood"},
		{"another JSON", `[1]`, nil, "its answer to info cannot be understood"},
	} {
		e, err := (&client{name: "docker"}).parseInfo([]byte(tt.text))
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%s: %v", tt.name, err)
			}
		} else if err != nil || !tt.check(e) {
			t.Errorf("%s: %+v, %v", tt.name, e, err)
		}
	}
	if e, err := (&client{name: "/usr/bin/nerdctl"}).parseInfo([]byte(docker)); err != nil || e.kind != "nerdctl" {
		t.Errorf("%+v, %v", e, err)
	}
}

func TestIsLocal(t *testing.T) {
	for endpoint, want := range map[string]bool{"": true, "unix:///run/docker.sock": true, "tcp://h:2375": false, "ssh://u@h": false, "npipe:////./pipe/docker": false} {
		if isLocal(endpoint) != want {
			t.Errorf("%q", endpoint)
		}
	}
}

// What engines say comes with a remedy.
func TestRemedies(t *testing.T) {
	c := &client{name: "docker"}
	for said, want := range map[string]string{
		"Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?":    "start the engine",
		"permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock": "join the group",
		"no answer within 30s": "does not answer",
		"runc create failed: unable to start container process: error setting rlimit type 7: operation not permitted": "ulimit",
		"OCI runtime error: crun: cgroups in hybrid mode not supported, drop all controllers from cgroupv2":           "runc",
		"something else": "",
	} {
		if got := c.remedy(said); !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("%s: %q", said, got)
		}
	}
}

func TestLastWords(t *testing.T) {
	for said, want := range map[string]string{
		"":                                   "",
		"WARNING: x\nError: no such thing\n": "Error: no such thing",
		"docker: Cannot connect.\n\nRun 'docker run --help' for more information\n": "docker: Cannot connect.",
		"time=\"x\" level=warning msg=\"y\"\nboom\x1b[31m\n":                        "boom [31m",
		strings.Repeat("x", 1000):                                                   strings.Repeat("x", 400) + "…",
	} {
		if got := lastWords([]byte(said)); got != want {
			t.Errorf("%q: %q", said, got)
		}
	}
}
