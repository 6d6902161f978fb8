package docker

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock/internal/testkit"
)

// made is what a docker and a podman say of a container that is as asked for.
func made() (*build, map[string]string) {
	b := &build{agent: agentFile, container: plain()}
	b.user, b.memory, b.cpus, b.readOnly = "0:0", 64<<20, "0.5", true
	b.mounts = append(b.mounts, mount{kind: mountBind, source: "/host/agent", target: agentFile, readOnly: true})
	b.tmpfs = []tmpfs{{"/tmp", 1 << 20}}
	mounts := `"Mounts":[{"Type":"bind","Source":"/w","Destination":"/w","RW":true},{"Type":"bind","Source":"/host/agent","Destination":"/.paddock-agent","RW":false}]`
	host := `"Privileged":false,"NetworkMode":"none","ReadonlyRootfs":true,"PidsLimit":4096,"Memory":67108864,"MemorySwap":67108864,"IpcMode":"private","SecurityOpt":["no-new-privileges"],"LogConfig":{"Type":"none"},"Tmpfs":{"/tmp":"rw"}`
	return b, map[string]string{
		"docker": `{"Config":{"User":"0:0","Labels":{"dev.paddock.sandbox":"ID"}},` + mounts + `,"HostConfig":{` + host + `,"MaskedPaths":["/proc/acpi"],"DeviceCgroupRules":null,"GroupAdd":null,"CapAdd":null,"CapDrop":["ALL"],"NanoCpus":500000000,"PidMode":""}}`,
		"podman": `{"Config":{"User":"0:0","Labels":{"dev.paddock.sandbox":"ID"}},` + mounts + `,"EffectiveCaps":null,"BoundingCaps":null,"HostConfig":{` + host +
			`,"CapAdd":[],"CapDrop":["CAP_CHOWN","CAP_KILL"],"CpuPeriod":100000,"CpuQuota":50000,"PidMode":"private"}}`,
	}
}

func verified(t *testing.T, b *build, text string) ([]string, error) {
	t.Helper()
	var got inspected
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatal(err)
	}
	return b.verify(&got)
}

func TestVerify(t *testing.T) {
	b, answers := made()
	for engine, text := range answers {
		if lost, err := verified(t, b, text); err != nil || len(lost) > 0 {
			t.Errorf("%s: %q, %v", engine, lost, err)
		}
	}
}

// Each difference ends a sandbox, unless the user's own words explain it.
func TestVerifyFinds(t *testing.T) {
	for _, tt := range []struct{ old, new, want, extra string }{
		{`"Privileged":false`, `"Privileged":true`, "privileged", "--privileged"},
		{`"CapAdd":null`, `"CapAdd":["NET_RAW"]`, "NET_RAW", "--cap-add=NET_RAW"},
		{`"CapDrop":["ALL"]`, `"CapDrop":null`, "keeps capabilities", "--cap-add=ALL"},
		{`"SecurityOpt":["no-new-privileges"]`, `"SecurityOpt":null`, "no-new-privileges", "--security-opt=no-new-privileges=false"},
		{`["no-new-privileges"]`, `["no-new-privileges","seccomp=unconfined"]`, "seccomp", "--security-opt=seccomp=unconfined"},
		{`["no-new-privileges"]`, `["no-new-privileges","apparmor=unconfined"]`, "apparmor=unconfined", "--security-opt=apparmor=unconfined"},
		{`["no-new-privileges"]`, `["no-new-privileges","label=disable"]`, "label=disable", "--security-opt=label=disable"},
		{`["no-new-privileges"]`, `["no-new-privileges","unmask=ALL"]`, "unmask=ALL", "--security-opt=unmask=ALL"},
		{`"MaskedPaths":["/proc/acpi"]`, `"MaskedPaths":[]`, "masked", "--security-opt=systempaths=unconfined"},
		{`"DeviceCgroupRules":null`, `"DeviceCgroupRules":["c 1:1 rwm"]`, "c 1:1 rwm", "--device-cgroup-rule=c 1:1 rwm"},
		{`"GroupAdd":null`, `"GroupAdd":["0"]`, "groups were added: 0", "--group-add=0"},
		{`"Type":"none"`, `"Type":"json-file"`, "its log is", "--log-driver=json-file"},
		{`"dev.paddock.sandbox":"ID"`, `"dev.paddock.sandbox":"x"`, "its label", "--label-file=x"},
		{`"NetworkMode":"none"`, `"NetworkMode":"host"`, "network", "--net=host"},
		{`"ReadonlyRootfs":true`, `"ReadonlyRootfs":false`, "root file system", "--read-only=false"},
		{`"PidsLimit":4096`, `"PidsLimit":null`, "processes is 0", "--pids-limit=-1"},
		{`"Memory":67108864`, `"Memory":0`, "memory is 0", "--memory=0"},
		{`"MemorySwap":67108864`, `"MemorySwap":134217728`, "memory with swap", "--memory-swap=128m"},
		{`"NanoCpus":500000000`, `"NanoCpus":0`, "processors", "--cpus=0"},
		{`"IpcMode":"private"`, `"IpcMode":"host"`, "ipc namespace", "--ipc=host"},
		{`"PidMode":""`, `"PidMode":"container:x"`, "pid namespace", "--pid=container:x"},
		{`"User":"0:0"`, `"User":"1:1"`, "runs as", "--user=1:1"},
		{`"RW":false`, `"RW":true`, "is writable", "--mount=x"},
		{`"Source":"/w"`, `"Source":"/other"`, "/w is bind /other", "-v/other:/w"},
		{`"Mounts":[`, `"Mounts":[{"Type":"volume","Source":"/v","Destination":"/data","RW":true},`, "mounted at /data", "-v/data"},
		{`"Tmpfs":{"/tmp":"rw"}`, `"Tmpfs":{"/tmp":"rw","/run":""}`, "tmpfs is mounted at /run", "--tmpfs=/run"},
		{`{"Type":"bind","Source":"/w","Destination":"/w","RW":true},`, ``, "/w is not mounted", "--volume=x"},
	} {
		b, answers := made()
		text := strings.Replace(answers["docker"], tt.old, tt.new, 1)
		if text == answers["docker"] {
			t.Fatalf("%s is not in the answer", tt.old)
		}
		if _, err := verified(t, b, text); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.new, err, tt.want)
		}
		b.extra = []string{tt.extra}
		if lost, err := verified(t, b, text); err != nil || len(lost) == 0 {
			t.Errorf("%s with %s: %q, %v", tt.new, tt.extra, lost, err)
		}
		b.extra = []string{"--ulimit=nofile=64"}
		if _, err := verified(t, b, text); err == nil {
			t.Errorf("%s is explained by words that have nothing to do with it", tt.new)
		}
	}
}

// An engine that lists a container which has ended, because it failed to remove it, is asked again.
func TestGoneAsksAgain(t *testing.T) {
	dir := t.TempDir()
	script := "#!/bin/sh\ncase $1 in rm) echo \"$*\" >>$0.asked ;; ps) [ -e $0.asked ] || echo ID ;; esac\n"
	testkit.Write(t, dir+"/docker", script, 0o755)
	e := &engine{client: &client{binary: dir + "/docker", name: "docker"}}
	gone, err := e.gone(t.Context(), &container{id: "ID"})
	asked, _ := os.ReadFile(dir + "/docker.asked")
	if !gone || err != nil || string(asked) != "rm --force --volumes paddock-ID\n" {
		t.Errorf("%v, %v, asked %q", gone, err, asked)
	}
}
