package table

import (
	"bytes"
	"errors"
	"os"
	osexec "os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/op"
)

// userFlags are those with which an ordinary user may make namespaces.
func userFlags(t *testing.T) string {
	t.Helper()
	got := ask(t, "linux_unshare_exec", `{"command":["true"],"unshare_flags":["U","r"]}`)
	if got["success"] != true {
		t.Skipf("user namespaces are forbidden here: %v", got["error"])
	}
	return `"U","map-root-user"`
}

func TestUnshareTool(t *testing.T) {
	flags := userFlags(t)
	t.Setenv("PADDOCK_SECRET", "leaked")
	tests := []struct{ input, want string }{
		{`{"command":["sh","-c","echo \" out \"; echo err >&2; exit 3"]}`,
			`{"success":true,"returncode":3,"stdout":"out","stderr":"err","command":["unshare","--","sh","-c","echo \" out \"; echo err >&2; exit 3"]}`},
		{`{"command":["sh","-c","echo $$","x",1,true,null,1.5],"unshare_flags":[` + flags + `,"p","--fork"],"timeout":9999}`,
			`{"success":true,"returncode":0,"stdout":"1","stderr":"","command":["unshare","-U","--map-root-user","-p","--fork","--","sh","-c","echo $$","x","1","True","None","1.5"]}`},
		{`{"command":["sh","-c","kill -9 $$"],"unshare_flags":null,"timeout":null}`,
			`{"success":true,"returncode":-9,"stdout":"","stderr":"","command":["unshare","--","sh","-c","kill -9 $$"]}`},
		{`{"command":["env"]}`,
			`{"success":true,"returncode":0,"stdout":"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\nLANG=C.UTF-8\nHOME=/\nTERM=dumb","stderr":"","command":["unshare","--","env"]}`},
		{`{"command":["no-such-program"]}`,
			`{"success":false,"error":"Executable not found: no-such-program","returncode":-1,"stdout":"","stderr":"Executable not found: no-such-program","command":["unshare","--","no-such-program"]}`},
		{`{"command":["/etc/passwd"]}`,
			`{"success":false,"error":"cannot execute \"/etc/passwd\": permission denied","returncode":-1,"stdout":"","stderr":"cannot execute \"/etc/passwd\": permission denied","command":["unshare","--","/etc/passwd"]}`},
		{`{"command":["sh","-c","echo out; echo err >&2; sleep 1000"],"timeout":8}`,
			`{"success":false,"error":"Command timed out after 8s.","returncode":-1,"stdout":"out","stderr":"err\nCommand timed out after 8s.","command":["unshare","--","sh","-c","echo out; echo err >&2; sleep 1000"],"timed_out":true,"survivors":2,"survivors_killed":2}`},
		{`{"command":["sleep","1000"],"timeout":-3}`,
			`{"success":false,"error":"Command timed out after 1s.","returncode":-1,"stdout":"","stderr":"Command timed out after 1s.","command":["unshare","--","sleep","1000"],"timed_out":true,"survivors":1,"survivors_killed":1}`},
	}
	for _, tt := range tests {
		got := ask(t, "linux_unshare_exec", tt.input)
		if got["death_proved"] != true {
			t.Errorf("%s: %v", tt.input, got)
		}
		delete(got, "death_proved")
		for name, usual := range map[string]any{"timed_out": false, "survivors": 0.0, "survivors_killed": 0.0} {
			if got[name] == usual {
				delete(got, name)
			}
		}
		sameJSON(t, tt.input, got, tt.want)
	}
}

// Each stream is kept to a bound in bytes, while it comes.
// truncated ends what was cut, as the contract says.
const truncated = "\n... [truncated]"

func TestUnshareToolOutput(t *testing.T) {
	got := ask(t, "linux_unshare_exec", `{"command":["sh","-c","yes é | head -c 3000000; yes | head -c 400000 >&2"],"timeout":60}`)
	stdout, _ := got["stdout"].(string)
	body, cut := strings.CutSuffix(stdout, truncated)
	if stderr, _ := got["stderr"].(string); len(stderr) != 256<<10+len(truncated) {
		t.Errorf("%d bytes of errors", len(stderr))
	}
	if got["returncode"] != 0.0 || !cut || len(body) < 256<<10-3 || len(body) > 256<<10+3 || !strings.HasPrefix(body, "é\né\n") {
		t.Errorf("%v: %d bytes, cut %v", got["returncode"], len(body), cut)
	}
}

func TestNsenterTool(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may enter every namespace")
	}
	cmd := osexec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	pid := strconv.Itoa(cmd.Process.Pid)
	got := ask(t, "linux_nsenter_exec", `{"target_pid":"`+pid+`","command":["echo","hi"],"nsenter_flags":["a"]}`)
	if got["success"] != true || got["stdout"] != "hi" || quote(got["command"]) != `["nsenter","-t","`+pid+`","-a","--","echo","hi"]` {
		t.Errorf("%v", got)
	}
}

// People have switches for what programs write into a list.
func TestSwitches(t *testing.T) {
	for _, tt := range []struct{ tool, input, want string }{
		{"linux_unshare_exec", `{"user":true,"map-root-user":true,"fork":true,"pid":true,"wd":"/","setuid":"0","propagation":"slave","unshare_flags":["mount-proc"],"command":["true"]}`,
			`["unshare","--pid","--user","--fork","--map-root-user","--propagation=slave","--wd=/","--setuid=0","--mount-proc","--","true"]`},
		{"linux_nsenter_exec", `{"target_pid":` + strconv.Itoa(os.Getpid()) + `,"net":true,"no-fork":true,"command":["true"]}`,
			`["nsenter","-t","` + strconv.Itoa(os.Getpid()) + `","--net","--no-fork","--","true"]`},
		{"linux_unshare_exec", `{"user":"true","map-user":"0","time":true,"net":"false","monotonic":"5","keep-caps":true,"command":["true"]}`,
			`["unshare","--user","--time","--map-user=0","--keep-caps","--monotonic=5","--","true"]`},
		{"linux_nsenter_exec", `{"target_pid":` + strconv.Itoa(os.Getpid()) + `,"net":"/proc/self/ns/net","wd":"/","env":true,"follow-context":true,"command":["true"]}`,
			`["nsenter","-t","` + strconv.Itoa(os.Getpid()) + `","--net=/proc/self/ns/net","--wd=/","--env","--follow-context","--","true"]`},
	} {
		if tt.tool == "linux_unshare_exec" {
			userFlags(t)
		}
		if got := ask(t, tt.tool, tt.input); got["success"] != true || quote(got["command"]) != tt.want {
			t.Errorf("%v", got)
		}
	}
}

// People see errors where programs see answers, and the command's output as it comes.
func TestHostToolsForPeople(t *testing.T) {
	for _, tt := range []struct {
		tool, input    string
		status         int
		stdout, stderr string
		wantErr        string
		is             error
	}{
		{"linux_unshare_exec", `{"command":["sh","-c","echo out; exit 7"]}`, 7, "out\n", "", "", nil},
		{"linux_unshare_exec", `{"command":["sh","-c","kill -15 $$"]}`, 128 + 15, "", "", "", nil},
		{"linux_unshare_exec", `{"command":["sh","-c","echo out; sleep 1000"],"timeout":8}`, 124, "out\n", "paddock: Command timed out after 8s.\n", "", nil},
		{"linux_unshare_exec", `{"command":["no-such-program"]}`, 0, "", "", "Executable not found: no-such-program", paddock.ErrNotFound},
		{"linux_unshare_exec", `{"command":["/etc/passwd"]}`, 0, "", "", `cannot execute "/etc/passwd": permission denied`, paddock.ErrNotExecutable},
		{"linux_unshare_exec", `{"command":["sh","-c","kill -1 $$"]}`, 128 + 1, "", "", "", nil}, // its returncode is -1, too
		{"linux_nsenter_exec", `{"target_pid":4194305,"command":["true"]}`, 125, "", "", "cannot enter process 4194305: there is no such process", nil},
		{"linux_unshare_exec", `{"command":[]}`, 125, "", "", "command must be a non-empty list of strings.", nil},
		{"cgroup_rmdir", `{"path":"."}`, 125, "", "", "Refusing to remove the cgroup mount root.", nil},
	} {
		var stdout, stderr, rendered bytes.Buffer
		o := operation(t, tt.tool)
		out, err := o.Call(t.Context(), office(t), []byte(tt.input), &op.Stream{Stdout: &stdout, Stderr: &stderr})
		if err != nil {
			t.Fatal(err)
		}
		err = o.Render(&rendered, out)
		if tt.wantErr != "" {
			if err == nil || err.Error() != tt.wantErr || tt.is != nil && !errors.Is(err, tt.is) {
				t.Errorf("%s: %v", tt.input, err)
			}
		} else if err != nil {
			t.Errorf("%s: %v", tt.input, err)
		}
		if status := out.(op.Statuser).ExitStatus(); tt.status != 0 && status != tt.status {
			t.Errorf("%s: status %d, want %d", tt.input, status, tt.status)
		}
		if stdout.String() != tt.stdout || stderr.String() != tt.stderr || rendered.Len() != 0 {
			t.Errorf("%s: %q, %q, %q", tt.input, stdout.String(), stderr.String(), rendered.String())
		}
	}
}
