package table

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	osexec "os/exec"
	"path"
	"strconv"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/cgroup"
	"github.com/paddock-dev/paddock/namespace"
)

func TestMain(m *testing.M) {
	namespace.Helper()
	if self, err := os.Executable(); err == nil { // backends of tests start no egress program
		_ = os.Setenv(paddock.EgressEnv, self)
	}
	status := m.Run()
	cleanUp()
	os.Exit(status)
}

// ask calls an operation and gives its answer as programs see it.
func ask(t testing.TB, name, input string) map[string]any {
	t.Helper()
	out, err := operation(t, name).Call(t.Context(), office(t), []byte(input), nil)
	if err != nil {
		t.Fatalf("%s %s is an error, not an answer: %v", name, input, err)
	}
	data, err := json.Marshal(out)
	if err != nil {
		t.Fatal(err)
	}
	var answer map[string]any
	if err := json.Unmarshal(data, &answer); err != nil {
		t.Fatal(err)
	}
	return answer
}

// quote is JSON text.
func quote(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(data)
}

// own is a group that the test has made with the tools alone.
func own(t *testing.T) (mount, dir string) {
	t.Helper()
	tree, err := cgroup.OpenTree()
	if err != nil {
		t.Skipf("no control groups here: %v", err)
	}
	defer tree.Close()
	group, err := cgroup.Own()
	if err != nil {
		t.Fatal(err)
	}
	dir = path.Join(tree.Mount(), group, fmt.Sprintf("paddock-test-op-%d-%s", os.Getpid(), path.Base(t.Name())))
	made := ask(t, "cgroup_mkdir", `{"path":`+quote(dir)+`}`)
	if made["success"] != true {
		if strings.Contains(fmt.Sprint(made["error"]), "permission denied") {
			t.Skip("control groups need root here: ", made["error"])
		}
		t.Fatal(made)
	}
	if made["path"] != dir {
		t.Errorf("%v", made)
	}
	t.Cleanup(func() {
		if gone := ask(t, "cgroup_rmdir", `{"path":`+quote(dir)+`}`); gone["success"] != true || gone["path"] != dir {
			t.Error(gone)
		}
	})
	return tree.Mount(), dir
}

func TestCgroupTools(t *testing.T) {
	mount, dir := own(t)
	cmd := osexec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	pid := strconv.Itoa(cmd.Process.Pid)
	rel := strings.TrimPrefix(dir, mount+"/")
	inner := dir + "/inner"
	steps := []struct{ tool, input, want string }{
		{"cgroup_mkdir", `{"path":` + quote(rel+"/inner/most") + `}`, `{"success":true,"path":` + quote(inner+"/most") + `}`},
		{"cgroup_mkdir", `{"path":` + quote(inner) + `,"parents":false}`, `{"success":true,"path":` + quote(inner) + `}`},
		{"cgroup_rmdir", `{"path":` + quote(inner+"/most/") + `}`, `{"success":true,"path":` + quote(inner+"/most") + `}`},
		{"cgroup_move_pid", `{"cgroup_path":` + quote(inner) + `,"pid":` + pid + `}`, `{"success":true,"cgroup_path":` + quote(inner) + `,"pid":` + pid + `}`},
		{"cgroup_read_file", `{"path":` + quote(inner+"/cgroup.procs") + `}`,
			`{"success":true,"path":` + quote(inner+"/cgroup.procs") + `,"content":` + quote(pid+"\n") + `,"bytes_read":` + strconv.Itoa(len(pid)+1) + `}`},
		{"cgroup_read_file", `{"path":` + quote(inner+"/cgroup.procs") + `,"max_bytes":-5}`,
			`{"success":true,"path":` + quote(inner+"/cgroup.procs") + `,"content":` + quote(pid[:1]+"\n... [truncated]") + `,"bytes_read":1}`},
		{"cgroup_read_file", `{"path":` + quote(inner+"/cgroup.procs") + `,"max_bytes":"1"}`,
			`{"success":true,"path":` + quote(inner+"/cgroup.procs") + `,"content":` + quote(pid[:1]+"\n... [truncated]") + `,"bytes_read":1}`},
		{"cgroup_write_file", `{"path":` + quote(inner+"/cgroup.freeze") + `,"content":"1\n"}`,
			`{"success":true,"path":` + quote(inner+"/cgroup.freeze") + `,"bytes_written":2}`},
		{"cgroup_read_file", `{"path":` + quote(dir+"/x/../inner/cgroup.freeze") + `,"max_bytes":99999999}`,
			`{"success":true,"path":` + quote(inner+"/cgroup.freeze") + `,"content":"1\n","bytes_read":2}`},
		{"cgroup_write_file", `{"path":` + quote(inner+"/cgroup.freeze") + `,"content":"0"}`,
			`{"success":true,"path":` + quote(inner+"/cgroup.freeze") + `,"bytes_written":1}`},
		{"cgroup_rmdir", `{"path":` + quote(inner) + `}`,
			`{"success":false,"error":"rmdir failed (directory must be empty): device or resource busy: ` + inner + `","hint":"processes live in it, or groups are inside of it"}`},
		{"cgroup_mkdir", `{"path":` + quote(inner+"/a/b") + `,"parents":false}`,
			`{"success":false,"error":"mkdir failed: no such file or directory: ` + inner + `/a"}`},
		{"cgroup_move_pid", `{"cgroup_path":` + quote(dir) + `,"pid":"` + pid + `"}`, `{"success":true,"cgroup_path":` + quote(dir) + `,"pid":` + pid + `}`},
		{"cgroup_rmdir", `{"path":` + quote(inner) + `}`, `{"success":true,"path":` + quote(inner) + `}`},
		{"cgroup_read_file", `{"path":` + quote(inner+"/cgroup.procs") + `}`,
			`{"success":false,"error":"Read failed: no such file or directory: ` + inner + `/cgroup.procs"}`},
		{"cgroup_read_file", `{"path":` + quote(dir) + `}`, `{"success":false,"error":"Read failed: is a directory: ` + dir + `"}`},
		{"cgroup_write_file", `{"path":` + quote(dir+"/new") + `,"content":"x"}`,
			`{"success":false,"error":"Write failed: no such file or directory: ` + dir + `/new"}`},
		{"cgroup_write_file", `{"path":` + quote(dir+"/cgroup.procs") + `,"content":"0"}`, `{"success":false,"error":"pid must be a positive integer."}`},
		{"cgroup_write_file", `{"path":` + quote(dir+"/cgroup.procs") + `,"content":"1"}`, `{"success":false,"error":"Refusing to move process 1: it is the init process."}`},
		{"cgroup_move_pid", `{"cgroup_path":` + quote(dir) + `,"pid":4194305}`,
			`{"success":false,"error":"Could not write PID to cgroup.procs: no such process: ` + dir + `/cgroup.procs"}`},
		{"cgroup_move_pid", `{"cgroup_path":` + quote(dir) + `,"pid":` + strconv.Itoa(os.Getpid()) + `}`,
			`{"success":false,"error":"Refusing to move process ` + strconv.Itoa(os.Getpid()) + `: it is Paddock itself."}`},
		{"cgroup_write_file", `{"path":` + quote(dir+"/cgroup.kill") + `,"content":"1"}`, `{"success":true,"path":` + quote(dir+"/cgroup.kill") + `,"bytes_written":1}`},
	}
	for _, s := range steps {
		sameJSON(t, s.tool+" "+s.input, ask(t, s.tool, s.input), s.want)
	}
	var killed *osexec.ExitError
	if err := cmd.Wait(); !errors.As(err, &killed) {
		t.Errorf("the group was not killed: %v", err)
	}
	stat := ask(t, "cgroup_stat", `{"path":`+quote(dir)+`}`)
	if stat["success"] != true || stat["path"] != dir || stat["populated"] != false || stat["frozen"] != false {
		t.Errorf("%v", stat)
	}
}

func sameJSON(t *testing.T, what string, got map[string]any, want string) {
	t.Helper()
	var wanted map[string]any
	if err := json.Unmarshal([]byte(want), &wanted); err != nil {
		t.Fatal(err)
	}
	if quote(got) != quote(wanted) {
		t.Errorf("%s\n got %s\nwant %s", what, quote(got), quote(wanted))
	}
}

// TestContractErrors has what does not depend on where it runs: texts of the contract, and of bad types.
func TestContractErrors(t *testing.T) {
	tree, err := cgroup.OpenTree()
	if err != nil {
		t.Skipf("no control groups here: %v", err)
	}
	tree.Close()
	outside := "Path must be under cgroup mount " + tree.Mount() + "."
	tests := []struct{ tool, input, want string }{
		{"cgroup_read_file", `{}`, "Empty path."},
		{"cgroup_read_file", `{"path":""}`, "Empty path."},
		{"cgroup_read_file", `{"path":null}`, "Empty path."},
		{"cgroup_read_file", `{"path":" \n"}`, "Empty path."},
		{"cgroup_read_file", `{"path":"../x"}`, outside},
		{"cgroup_read_file", `{"path":"/etc/passwd"}`, outside},
		{"cgroup_read_file", `{"path":` + quote(tree.Mount()+"/../x") + `}`, outside},
		{"cgroup_read_file", `{"path":` + quote("/sys/fs/cgroupx/y") + `}`, outside},
		{"cgroup_read_file", `{"path":"a\u0000b"}`, "Could not resolve path: it holds a NUL byte"},
		{"cgroup_read_file", `{"path":7}`, "path must be a string."},
		{"cgroup_read_file", `{"path":["a"]}`, "path must be a string."},
		{"cgroup_read_file", `{"path":"\ud800"}`, "cannot read the input of cgroup_read_file: an escape in it is half of a character"},
		{"cgroup_read_file", `{"path":"a","max_bytes":"many"}`, "max_bytes must be an integer."},
		{"cgroup_read_file", `{"path":"a","max_bytes":1.5}`, "max_bytes must be an integer."},
		{"cgroup_read_file", `{"path":"a","max_bytes":{}}`, "max_bytes must be an integer."},
		{"cgroup_read_file", `{"file":"a"}`, `cannot read the input of cgroup_read_file: unknown field "file"`},
		{"cgroup_read_file", `[]`, "cannot read the input of cgroup_read_file: it must be an object, not a JSON array"},
		{"cgroup_write_file", `{"path":"","content":""}`, "Empty path."},
		{"cgroup_write_file", `{"path":"a","content":5}`, "content must be a string."},
		{"cgroup_write_file", `{"path":"a"}`, "content must be a string."},
		{"cgroup_write_file", `{"path":"a","content":null}`, "content must be a string."},
		{"cgroup_write_file", `{"path":"a","content":"x\udc00"}`, "cannot read the input of cgroup_write_file: an escape in it is half of a character"},
		{"cgroup_write_file", `{"path":"memory.max","content":"1"}`, "Refusing to write to " + tree.Mount() + ": it is the root of the hierarchy."},
		{"cgroup_write_file", `{"path":"./cgroup.kill","content":"1"}`, "Refusing to write to " + tree.Mount() + ": it is the root of the hierarchy."},
		{"cgroup_mkdir", `{"path":"/tmp/x"}`, outside},
		{"cgroup_mkdir", `{"path":"a","parents":"yes"}`, "cannot read the input of cgroup_mkdir: parents must not be a JSON string"},
		{"cgroup_rmdir", `{"path":"."}`, "Refusing to remove the cgroup mount root."},
		{"cgroup_rmdir", `{"path":` + quote(tree.Mount()+"/a/..") + `}`, "Refusing to remove the cgroup mount root."},
		{"cgroup_rmdir", `{"path":"no-such-group"}`, "rmdir failed (directory must be empty): no such file or directory: " + tree.Mount() + "/no-such-group"},
		{"cgroup_move_pid", `{"cgroup_path":"no-such-group","pid":1}`, "cgroup_path must be an existing cgroup directory."},
		{"cgroup_move_pid", `{"cgroup_path":"cgroup.procs","pid":1}`, "cgroup_path must be an existing cgroup directory."},
		{"cgroup_move_pid", `{"cgroup_path":".","pid":0}`, "pid must be a positive integer."},
		{"cgroup_move_pid", `{"cgroup_path":".","pid":-1}`, "pid must be a positive integer."},
		{"cgroup_move_pid", `{"cgroup_path":".","pid":"x"}`, "pid must be a positive integer."},
		{"cgroup_move_pid", `{"cgroup_path":"."}`, "pid must be a positive integer."},
		{"cgroup_move_pid", `{"cgroup_path":".","pid":1}`, "Refusing to move process 1: it is the init process."},
		{"linux_unshare_exec", `{}`, "command must be a non-empty list of strings."},
		{"linux_unshare_exec", `{"command":[]}`, "command must be a non-empty list of strings."},
		{"linux_unshare_exec", `{"command":"ls"}`, "command must be a non-empty list of strings."},
		{"linux_unshare_exec", `{"command":[["ls"]]}`, "command must be a non-empty list of strings."},
		{"linux_unshare_exec", `{"command":[""]}`, "command must be a non-empty list of strings."},
		{"linux_unshare_exec", `{"command":["a\u0000b"]}`, "command must not hold NUL bytes."},
		{"linux_unshare_exec", `{"command":["true"],"unshare_flags":"m"}`, "unshare_flags must be a list of strings."},
		{"linux_unshare_exec", `{"command":["true"],"unshare_flags":["m",""]}`, "unshare_flags entries must be non-empty strings."},
		{"linux_unshare_exec", `{"command":["true"],"unshare_flags":[5]}`, "unshare_flags entries must be non-empty strings."},
		{"linux_unshare_exec", `{"command":["true"],"unshare_flags":["--"]}`, `cannot use flag "--": it is not on the list`},
		{"linux_unshare_exec", `{"command":["true"],"unshare_flags":["-t1"]}`, `cannot use flag "-t1": it is not on the list`},
		{"linux_unshare_exec", `{"command":["true"],"unshare_flags":["root","/"]}`, `cannot use flag "--root": its value is missing: write --root=VALUE as one element`},
		{"linux_unshare_exec", `{"command":["true"],"timeout":"soon"}`, "timeout must be an integer."},
		{"linux_nsenter_exec", `{}`, "target_pid must be a positive integer."},
		{"linux_nsenter_exec", `{"target_pid":0,"command":[]}`, "target_pid must be a positive integer."},
		{"linux_nsenter_exec", `{"target_pid":"x","command":["true"]}`, "target_pid must be a positive integer."},
		{"linux_nsenter_exec", `{"target_pid":1}`, "command must be a non-empty list of strings."},
		{"linux_nsenter_exec", `{"target_pid":1,"command":["true"],"nsenter_flags":{}}`, "nsenter_flags must be a list of strings."},
		{"linux_nsenter_exec", `{"target_pid":1,"command":["true"],"nsenter_flags":[""]}`, "nsenter_flags entries must be non-empty strings."},
		{"linux_nsenter_exec", `{"target_pid":1,"command":["true"],"nsenter_flags":["-t","2"]}`, `cannot use flag "-t": it is not on the list`},
		{"linux_nsenter_exec", `{"target_pid":4194305,"command":["true"]}`, "cannot enter process 4194305: there is no such process"},
	}
	for _, tt := range tests {
		got := ask(t, tt.tool, tt.input)
		if got["success"] != false || got["error"] != tt.want {
			t.Errorf("%s %s\n got %s\nwant %s", tt.tool, tt.input, quote(got), tt.want)
		}
	}
	out, err := operation(t, "cgroup_stat").Call(t.Context(), nil, []byte(`{`), nil)
	if err != nil || quote(out) != `{"success":false,"error":"No context.","hint":"name a principal: only known principals may use operations on the host"}` {
		t.Errorf("%s, %v", quote(out), err)
	}
}
