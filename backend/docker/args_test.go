package docker

import (
	"encoding/csv"
	"slices"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/policy"
)

func plain() container {
	return container{id: "ID", image: "IMG", network: networkNone, hostname: "paddock", pids: 4096, shm: 1 << 30, dir: "/w",
		mounts: []mount{{kind: mountBind, source: "/w", target: "/w"}}}
}

// Each option makes the words that shells in containers are usually run with,
// in their usual order.
func TestArgs(t *testing.T) {
	hardened := "--cap-drop ALL --security-opt no-new-privileges --shm-size 1073741824 --stop-timeout 0 --pull never --entrypoint  --ipc private --log-driver none"
	for _, tt := range []struct {
		name   string
		change func(*container)
		want   string
	}{
		{"defaults", func(*container) {},
			"run -i --rm --name paddock-ID --label dev.paddock.sandbox=ID --network none --hostname paddock --pids-limit 4096 --mount type=bind,src=/w,dst=/w -w /w " + hardened + " IMG"},
		{"everything", func(c *container) {
			c.memory, c.swap, c.cpus, c.user, c.readOnly = 64<<20, 1<<20, "0.5", "1000:1000", true
			c.tmpfs = []tmpfs{{"/tmp", 1 << 20}}
			c.extra = []string{"--ulimit", "nofile=64"}
		}, "run -i --rm --name paddock-ID --label dev.paddock.sandbox=ID --network none --hostname paddock --memory 67108864 --memory-swap 68157440 --pids-limit 4096 " +
			"--mount type=bind,src=/w,dst=/w -w /w --read-only --tmpfs /tmp:rw,exec,nosuid,nodev,size=1048576,mode=1777,uid=1000,gid=1000 " + hardened +
			" --cpus 0.5 --user 1000:1000 --ulimit nofile=64 IMG"},
		{"the engine's network", func(c *container) { c.network = "" },
			"run -i --rm --name paddock-ID --label dev.paddock.sandbox=ID --hostname paddock --pids-limit 4096 --mount type=bind,src=/w,dst=/w -w /w " + hardened + " IMG"},
		{"the host's network", func(c *container) { c.network = networkHost },
			"run -i --rm --name paddock-ID --label dev.paddock.sandbox=ID --network host --pids-limit 4096 --mount type=bind,src=/w,dst=/w -w /w " + hardened + " IMG"},
		{"a network of the user's own", func(c *container) { c.extra = []string{"--net=mine"} },
			"run -i --rm --name paddock-ID --label dev.paddock.sandbox=ID --pids-limit 4096 --mount type=bind,src=/w,dst=/w -w /w " + hardened + " --net=mine IMG"},
		{"kept, and no bound of processes", func(c *container) { c.keep, c.pids = true, 0 },
			"run -i --name paddock-ID --label dev.paddock.sandbox=ID --network none --hostname paddock --mount type=bind,src=/w,dst=/w -w /w " + hardened + " IMG"},
		{"nerdctl", func(c *container) { c.kind = nerdctl },
			"run -i --rm --name paddock-ID --label dev.paddock.sandbox=ID --network none --hostname paddock --pids-limit 4096 --mount type=bind,src=/w,dst=/w -w /w " +
				strings.TrimSuffix(hardened, " --ipc private --log-driver none") + " IMG"},
		{"podman, read-only", func(c *container) { c.kind, c.readOnly, c.keepID = podman, true, true },
			"run -i --rm --name paddock-ID --label dev.paddock.sandbox=ID --network none --hostname paddock --pids-limit 4096 --mount type=bind,src=/w,dst=/w -w /w --read-only " +
				hardened + " --read-only-tmpfs=false --userns keep-id IMG"},
	} {
		c := plain()
		tt.change(&c)
		if got := strings.Join(c.args(), " "); got != tt.want {
			t.Errorf("%s:\n got %s\nwant %s", tt.name, got, tt.want)
		}
	}
}

// A path is one field, whatever is in it.
func TestMountText(t *testing.T) {
	for _, path := range []string{"/a b", "/a,b", `/a"b`, "/a:b", "/a=b,ro", `/","`, "/ä'$(x)"} {
		m := mount{kind: mountBind, source: path, target: path, readOnly: true}
		fields, err := csv.NewReader(strings.NewReader(m.String())).Read()
		if want := []string{"type=bind", "src=" + path, "dst=" + path, "ro"}; err != nil || !slices.Equal(fields, want) {
			t.Errorf("%s is read as %q, %v", m, fields, err)
		}
	}
	cover := mount{kind: mountTmpfs, target: "/x", readOnly: true}
	if got := cover.String(); got != "type=tmpfs,dst=/x,tmpfs-size=4096,tmpfs-mode=0555,ro" {
		t.Error(got)
	}
}

func TestReserved(t *testing.T) {
	for _, tt := range []struct {
		extra []string
		bad   string
	}{
		{nil, ""},
		{[]string{"--ulimit", "nofile=64", "--privileged", "-v", "/:/host", "--network=host", "--cap-add", "SYS_PTRACE", "--pull", "missing"}, ""},
		{[]string{"--env", "A=b", "--name", "x"}, "--name"},
		{[]string{"--name=x"}, "--name"},
		{[]string{"--entrypoint=/bin/sh"}, "--entrypoint"},
		{[]string{"-d"}, "-d"},
		{[]string{"--detach=true"}, "--detach"},
		{[]string{"--tty"}, "--tty"},
		{[]string{"--restart", "always"}, "--restart"},
		{[]string{"--rm=false"}, "--rm"},
		{[]string{"-i=false"}, "-i"},
		{[]string{"-Pd"}, "-Pd"},
		{[]string{"-itv/:/x"}, "-itv"},
		{[]string{"--label", "dev.paddock.sandbox=x"}, "--label"},
		{[]string{"--label=dev.paddock.sandbox"}, "--label=dev.paddock.sandbox"},
		{[]string{"-l", "dev.paddock.sandbox=x"}, "-l"},
		{[]string{"-ldev.paddock.sandbox=x"}, "-ldev"},
		{[]string{"-Pldev.paddock.sandbox=x"}, "-Pl"},
		{[]string{"--label", "dev.paddock.other=x", "-lx"}, ""},
		{[]string{"evil"}, "evil"},
		{[]string{"--env=A=b", "evil"}, "evil"},
		{[]string{"--env", "A=b", "evil"}, "evil"},
		{[]string{"--privileged", "evil"}, "evil"},
		{[]string{"-P", "evil"}, "evil"},
		{[]string{"--", "evil"}, "--"},
		{[]string{""}, "run_args[0]"},
		{[]string{"-e", "A=b", "-m64m", "-u", "1", "--memory-swap", "-1"}, ""},
	} {
		err := reserved(tt.extra)
		if (err == nil) != (tt.bad == "") || err != nil && !strings.Contains(err.Error(), tt.bad) {
			t.Errorf("%q: %v", tt.extra, err)
		}
		if err != nil && policy.FieldErrors(err)[0].Hint == "" {
			t.Errorf("%q: no remedy", tt.extra)
		}
	}
}

// An argument is reported by name, in whatever form it is written, unless it is known to be harmless.
func TestUnknown(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "--ulimit nofile=64 -e A=b -eA=--privileged --env=X -m 64m -h x -w /x --pull never -q --pids-limit=5": "", // the control
		"--group-add=0":                         "--group-add=0",
		"--group-add 0 --memory 1g":             "--group-add=0",
		"--security-opt=systempaths=unconfined": "--security-opt=systempaths=unconfined",
		"--security-opt systempaths=unconfined": "--security-opt=systempaths=unconfined",
		"--log-driver json-file":                "--log-driver=json-file",
		"--device-cgroup-rule=c":                "--device-cgroup-rule=c",
		"--cgroupns=host":                       "--cgroupns=host",
		"--cgroupns host -e A --privileged":     "--cgroupns=host --privileged",
		"--label a=b":                           "--label=a=b",
		"--label-file /x":                       "--label-file=/x",
		"--env --privileged":                    "--privileged",
		"-v/:/x":                                "--volume=/:/x",
		"-qPv /:/x":                             "--publish-all --volume=/:/x",
		"-u0":                                   "--user=0",
		"--of-the-future":                       "--of-the-future",
		"-Z":                                    "-Z",
		"--ulimits=x":                           "--ulimits=x",
		"--privileged --privileged --group-add=0=1": "--privileged --group-add=0=1",
	} {
		var names []string
		for _, lost := range unknown(strings.Fields(text)) {
			names = append(names, strings.TrimSuffix(strings.TrimPrefix(lost, "what "), " changes is not known to be harmless (docker.extra_run_args)"))
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

func TestWantsPull(t *testing.T) {
	for text, want := range map[string]bool{"": false, "--pull never": false, "--pull missing": true, "--pull=always": true, "--pull=never": false, "--pull": false, "--name pull": false} {
		if got := wantsPull(strings.Fields(text)); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
	for name, ok := range map[string]bool{"python:3.12": true, "-v/:/x": false, "a b": false, "--privileged": false, "host:5000/a@sha256:00": true} {
		if err := checkImage(name); (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestLoosened(t *testing.T) {
	c := container{extra: []string{"--cap-add=NET_RAW", "-v/:/host", "--net", "host"}}
	for flag, want := range map[string]bool{"cap-add": true, "v": true, "net": true, "memory": false, "security-opt": false} {
		if got := c.loosened(flag); got != want {
			t.Errorf("%s: %v", flag, got)
		}
	}
	if c := (container{extra: []string{"--privileged"}}); !c.loosened("security-opt") {
		t.Error("--privileged undoes everything, and is not seen to")
	}
}

// Nothing of the caller's environment reaches the engine's client but what
// that needs.
func TestClientEnv(t *testing.T) {
	got := clientEnv([]string{"PATH=/bin", "TOKEN=secret", "DOCKER_HOST=unix:///x", "DOCKER_PASSWORD=y", "HOME=/root", "LD_PRELOAD=z", "XDG_RUNTIME_DIR=/run/user/1"})
	if want := []string{"PATH=/bin", "DOCKER_HOST=unix:///x", "HOME=/root", "XDG_RUNTIME_DIR=/run/user/1"}; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

func TestNoClient(t *testing.T) {
	_, err := findClient(policy.Docker{Binary: "no-such-engine"}, "", nil)
	const want = "Docker execution policy requires the 'no-such-engine' CLI to be installed and available on PATH."
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v", err)
	}
}

func TestCleanup(t *testing.T) {
	for _, tt := range []struct {
		keep, uploads bool
		want          string
	}{
		{false, false, "rm --force --volumes paddock-ID"},
		{true, false, "stop -t 0 paddock-ID"},
		{false, true, "rm --force --volumes paddock-ID; rm --force paddock-ID-load; volume rm --force paddock-ID"},
	} {
		b := build{uploads: tt.uploads, container: container{id: "ID", keep: tt.keep}}
		var all []string
		for _, args := range b.cleanup() {
			all = append(all, strings.Join(args, " "))
		}
		if got := strings.Join(all, "; "); got != tt.want {
			t.Errorf("%+v: %s", tt, got)
		}
	}
}

// What the user puts at a place of Paddock's own stays.
func TestTmpfsPlaces(t *testing.T) {
	b := build{shown: []hostpath.Mount{{Target: "/srv/w"}, {Target: "/tmp"}}}
	for target, want := range map[string]bool{"/tmp": false, "/tmp/x": false, "/srv": true, "/srv/w/x": false, "/home/agent": true} {
		if got := b.addTmpfs(target, 1); got != want {
			t.Errorf("%s: %v", target, got)
		}
	}
	if b.addTmpfs("/home/agent", 1) {
		t.Error("one place twice")
	}
}
