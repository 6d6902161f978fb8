//go:build linux

package mcp

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock/op/table"

	"github.com/google/jsonschema-go/jsonschema"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/paddock-dev/paddock/internal/testkit"
	"github.com/paddock-dev/paddock/internal/testkit/boxtest"
	"github.com/paddock-dev/paddock/op"
)

// example is a tool, arguments that it takes, and some that it does not.
// "${exec.exec}" in the arguments stands for what field exec of the last good
// answer of tool exec was, so the order counts; "${mark}" for a name of this run.
type example struct {
	tool string
	good string // arguments as JSON
	bad  string // arguments as JSON that are refused
	want string // what the error names, a regular expression
	// host tools reach the host, where what they need may not be: then a good
	// call may be an answer that says so.
	host bool
}

// TestNullIsAbsent: a client may send null for what it leaves out.
func TestNullIsAbsent(t *testing.T) {
	boxtest.RequireWalls(t)
	s := plain(t)
	s.profile = "full"
	c := startStdio(t, s)
	tools := c.tools(t)
	for _, tt := range []struct {
		tool string
		args map[string]any
		want string
	}{
		{"exec", map[string]any{"command": "pwd"}, "\n/workspace"},
		{"run", map[string]any{"argv": []string{"pwd"}}, "/workspace"},
		{"execute", map[string]any{"command": "pwd"}, "/workspace"},
		{"session_open", map[string]any{"session_id": "s"}, "session s"},
		{"session_run", map[string]any{"session_id": "s", "command": "pwd"}, "/workspace"},
		{"session_run", map[string]any{"session_id": "s", "restart": true}, "Shell session restarted."},
		{"file_list", map[string]any{}, "/workspace"},
	} {
		properties, _ := schemaMap(t, tools[tt.tool].InputSchema)["properties"].(map[string]any)
		for name := range properties {
			if _, given := tt.args[name]; !given {
				tt.args[name] = nil
			}
		}
		if got := c.try(t, tt.tool, tt.args); got.IsError || !strings.Contains(textOf(got), tt.want) {
			t.Errorf("%s %v: %s, want %s", tt.tool, tt.args, textOf(got), tt.want)
		}
	}
	if got, absent := c.refused(t, "file_read", map[string]any{"path": nil}), c.refused(t, "file_read", nil); got != absent {
		t.Errorf("null for what is needed: %s, want %s", got, absent)
	}
}

// examples are all tools, in an order in which each finds what it needs.
var examples = []example{
	{tool: "version", good: `{}`, bad: `{"no_such_field":1}`, want: `no_such_field`},
	{tool: "doctor", good: `{}`, bad: `{"backend":"paper"}`, want: `backend`},
	{tool: "plan", good: `{}`, bad: `{"memory":"much"}`, want: `memory`},
	{tool: "policy_list", good: `{}`, bad: `{"spec_file":"no-such-file.yaml"}`, want: `no-such-file`},
	{tool: "policy_check", good: `{"command":["ls -la"]}`, bad: `{"command":[]}`, want: `command`},
	{tool: "run", good: `{"argv":["echo","hello"]}`, bad: `{"argv":["true"],"timeout":"soon"}`, want: `timeout`},
	{tool: "execute", good: `{"command":["echo hello"]}`, bad: `{"command":["true"],"timeout":"soon"}`, want: `timeout`},
	{tool: "exec", good: `{"command":"seq 1000; echo oops >&2; exit 3"}`, bad: `{"command":"true","argv":["true"]}`, want: `argv`},
	{tool: "output_read", good: `{"output":"${exec.exec}","cursor":100}`, bad: `{"output":"no-such-output"}`, want: `no-such-output`},
	{tool: "exec", good: `{"command":"sleep 1000","background":true}`, bad: `{}`, want: `command`},
	{tool: "exec_kill", good: `{"exec":"${exec.exec}"}`, bad: `{"exec":"no-such-exec"}`, want: `no-such-exec`},
	{tool: "sandbox_create", good: `{"name":"second"}`, bad: `{"name":"third","network":"wide"}`, want: `network`},
	{tool: "sandbox_list", good: `{}`, bad: `{"all":true}`, want: `all`},
	{tool: "sandbox_status", good: `{"sandbox":"second"}`, bad: `{"sandbox":"fourth"}`, want: `fourth`},
	{tool: "sandbox_create", good: `{"name":"named","allow":["example.com"]}`, bad: `{"name":"third","allow":["https://example.com"]}`, want: `URL`},
	{tool: "network_show", good: `{"sandbox":"named"}`, bad: `{"sandbox":"fourth"}`, want: `fourth`},
	{tool: "network_add", good: `{"sandbox":"named","allow":["example.com:8443"]}`, bad: `{"sandbox":"named"}`, want: `allow`},
	{tool: "network_set", good: `{"sandbox":"named","allow":["example.com:8443"]}`, bad: `{"sandbox":"named","allow":["*.*.example.com"]}`, want: `label`},
	{tool: "port_publish", good: `{"sandbox":"named","ports":["3000"]}`, bad: `{"sandbox":"named","ports":["0.0.0.0:80:3000"]}`, want: `leave the address out`},
	{tool: "network_log", good: `{"sandbox":"named"}`, bad: `{"sandbox":"fourth"}`, want: `fourth`},
	{tool: "sandbox_delete", good: `{"sandbox":"second"}`, bad: `{"sandbox":"fourth"}`, want: `fourth`},
	{tool: "shell_open", good: `{"shell_id":"main","wait_for_idle_ms":100}`, bad: `{"shell_id":"other","rows":0}`, want: `rows`},
	{tool: "shell_write", good: `{"shell_id":"main","text":"echo $((6*7))","enter":true,"wait_for":"42"}`, bad: `{"shell_id":"main","keys":["no-such-key"]}`, want: `keys`},
	{tool: "shell_read", good: `{"shell_id":"main","cursor":0}`, bad: `{"shell_id":"nobody"}`, want: `nobody`},
	{tool: "shell_resize", good: `{"shell_id":"main","rows":50,"cols":132}`, bad: `{"shell_id":"main","rows":5000,"cols":132}`, want: `rows`},
	{tool: "shell_list", good: `{}`, bad: `{"sandbox":"fourth"}`, want: `fourth`},
	{tool: "shell_signal", good: `{"shell_id":"main","signal":"INT"}`, bad: `{"shell_id":"main","signal":"WINCH"}`, want: `signal`},
	{tool: "shell_close", good: `{"shell_id":"main"}`, bad: `{"shell_id":"nobody"}`, want: `nobody`},
	{tool: "service_start", good: `{"name":"web","command":"echo begun; touch up; exec sleep 1000","ready_file":"up"}`, bad: `{"name":"other","command":"true","ready_port":70000}`, want: `ready_port`},
	{tool: "service_status", good: `{"name":"web"}`, bad: `{"name":"nobody"}`, want: `nobody`},
	{tool: "service_list", good: `{}`, bad: `{"sandbox":"fourth"}`, want: `fourth`},
	{tool: "service_logs", good: `{"name":"web"}`, bad: `{"name":"web","tail":-1}`, want: `tail`},
	{tool: "service_stop", good: `{"name":"web"}`, bad: `{"name":"nobody"}`, want: `nobody`},
	{tool: "secret_set", good: `{"secrets":{"TOKEN":"${mark}.hidden"}}`, bad: `{"secrets":{"../x":"y"}}`, want: `secrets`},
	{tool: "secret_list", good: `{}`, bad: `{"all":true}`, want: `all`},
	{tool: "secret_delete", good: `{"names":["TOKEN"]}`, bad: `{"names":[]}`, want: `names`},
	{tool: "workspace_import", good: `{"files":[{"path":"in/a.txt","content":"a\n"}]}`, bad: `{"files":[{"path":"../a","content":"a"}]}`, want: `path|\.\./a`},
	{tool: "workspace_export", good: `{"paths":["in"]}`, bad: `{"paths":["no-such-path"]}`, want: `no-such-path`},
	{tool: "file_write", good: `{"path":"src/a.txt","content":"one\ntwo\nthree\n"}`, bad: `{"path":"../../a.txt","content":"x"}`, want: `a.txt`},
	{tool: "file_read", good: `{"path":"src/a.txt"}`, bad: `{"path":"no-such-file"}`, want: `no-such-file`},
	{tool: "file_edit", good: `{"path":"src/a.txt","edits":[{"old":"two","new":"2"}]}`, bad: `{"path":"src/a.txt","edits":[{"old":"four","new":"4"}]}`, want: `edits|old`},
	{tool: "file_list", good: `{"path":"src"}`, bad: `{"path":"no-such-dir"}`, want: `no-such-dir`},
	{tool: "file_stat", good: `{"path":"src/a.txt"}`, bad: `{"path":"no-such-file"}`, want: `no-such-file`},
	{tool: "file_search", good: `{"pattern":"thr.e"}`, bad: `{"pattern":"("}`, want: `pattern`},
	{tool: "file_mkdir", good: `{"path":"lib"}`, bad: `{"path":""}`, want: `path`},
	{tool: "file_move", good: `{"path":"src/a.txt","target":"lib/b.txt"}`, bad: `{"path":"no-such-file","target":"c"}`, want: `no-such-file`},
	{tool: "patch_apply", good: `{"patch":"--- a/lib/b.txt\n+++ b/lib/b.txt\n@@ -1,3 +1,3 @@\n one\n-2\n+zwei\n three\n"}`, bad: `{"patch":"nothing"}`, want: `patch`},
	{tool: "file_delete", good: `{"path":"lib/b.txt"}`, bad: `{"path":"no-such-file"}`, want: `no-such-file`},
	{tool: "session_open", good: `{}`, bad: `{"startup_timeout":"-1s"}`, want: `startup_timeout`},
	{tool: "session_run", good: `{"session_id":"${session_open.session_id}","command":"cd /tmp; x=5"}`, bad: `{"session_id":"nobody","command":"true"}`, want: `nobody|session_id`},
	{tool: "session_list", good: `{}`, bad: `{"all":true}`, want: `all`},
	{tool: "session_restart", good: `{"session_id":"${session_open.session_id}"}`, bad: `{"session_id":"nobody"}`, want: `nobody|session_id`},
	{tool: "session_close", good: `{"session_id":"${session_open.session_id}"}`, bad: `{"session_id":"nobody"}`, want: `nobody|session_id`},
	{tool: "cgroup_read_file", good: `{"path":"cgroup.controllers"}`, bad: `{"path":"../../etc/passwd"}`, want: `(?i)path|outside`, host: true},
	{tool: "cgroup_mkdir", good: `{"path":"paddock-test-${mark}"}`, bad: `{"path":"/etc/here"}`, want: `(?i)path|outside`, host: true},
	{tool: "cgroup_stat", good: `{"path":"paddock-test-${mark}"}`, bad: `{"path":"../etc"}`, want: `(?i)path|outside`, host: true},
	{tool: "cgroup_write_file", good: `{"path":"paddock-test-${mark}/cgroup.max.depth","content":"5"}`, bad: `{"path":"cgroup.procs"}`, want: `content`, host: true},
	{tool: "cgroup_move_pid", good: `{"cgroup_path":"paddock-test-${mark}","pid":4194303}`, bad: `{"cgroup_path":"no-such-group"}`, want: `cgroup_path|pid`, host: true},
	{tool: "cgroup_rmdir", good: `{"path":"paddock-test-${mark}"}`, bad: `{}`, want: `path`, host: true},
	{tool: "linux_unshare_exec", good: `{"command":["true"],"unshare_flags":["--user"]}`, bad: `{"command":"true","timeout":"x"}`, want: `command|timeout`, host: true},
	{tool: "linux_nsenter_exec", good: `{"target_pid":1,"command":["true"],"nsenter_flags":["--uts"]}`, bad: `{"command":["true"]}`, want: `target_pid`, host: true},
	{tool: "privilege_list", good: `{}`, bad: `{"principal":7}`, want: `principal`},
	{tool: "alter_privileges", good: `{"action":"grant","principal":"user:paddock-test","privileges":["UNSANDBOXED_EXEC"]}`, bad: `{"principal":"user:paddock-test"}`, want: `action`},
}

// answer is what a client heard.
type answer struct {
	text       string
	structured json.RawMessage
	failed     bool
}

// caller calls one tool, by whatever client.
type caller func(t *testing.T, tool, args string) answer

// knows fails where the table does not name every tool, or one that is none.
func knows(t *testing.T, tools map[string]*sdk.Tool) {
	t.Helper()
	tried := make(map[string]bool)
	for _, e := range examples {
		tried[e.tool] = true
	}
	for _, name := range slices.Sorted(maps.Keys(tools)) {
		if !tried[name] {
			t.Errorf("tool %s is not tried: add a line to examples in tools_test.go", name)
		}
	}
	want := offered(op.ProfileFull, privileged())
	if got := slices.Sorted(maps.Keys(tools)); !slices.Equal(got, want) {
		t.Errorf("%d tools are offered:\n%v\nwant the %d of the table:\n%v", len(got), got, len(want), want)
	}
}

// privileged says whether the tests can give themselves privileges.
func privileged() bool { return os.Geteuid() == 0 }

// offered are the names of the tools of a profile, for who holds all privileges,
// or none.
func offered(profile op.Profile, all bool) (names []string) {
	for _, o := range table.All() {
		may := all || o.Needs == 0
		if !o.Local && profile.Offers(o.Profile) && may {
			names = append(names, o.Name)
		}
	}
	slices.Sort(names)
	return names
}

// runExamples calls every tool once well and once wrongly, and checks each
// answer against the tool's schema.
func runExamples(t *testing.T, tools map[string]*sdk.Tool, call caller) {
	t.Helper()
	knows(t, tools)
	last := map[string]map[string]any{}
	for _, e := range examples {
		tool := tools[e.tool]
		if tool == nil {
			continue // knows has said so
		}
		t.Run(e.tool, func(t *testing.T) {
			got := call(t, e.tool, fill(t, e.good, last))
			if got.failed && !e.host {
				t.Fatalf("%s: %s", e.good, got.text)
			}
			if e.host && !strings.HasPrefix(got.text, `{"success":`) {
				t.Errorf("the text is not the contract's JSON: %s", got.text)
			}
			if !got.failed || e.host && len(got.structured) > 0 {
				fits(t, tool, got.structured)
				last[e.tool] = fieldsOf(t, got.structured)
			}
			got = call(t, e.tool, fill(t, e.bad, last))
			if !got.failed {
				t.Errorf("%s was taken: %s", e.bad, got.text)
			} else if !regexp.MustCompile(e.want).MatchString(got.text) {
				t.Errorf("%s: the error does not name %s: %s", e.bad, e.want, got.text)
			}
		})
	}
}

func fieldsOf(t *testing.T, structured json.RawMessage) (fields map[string]any) {
	t.Helper()
	if err := json.Unmarshal(structured, &fields); err != nil {
		t.Fatalf("the structured content %q is no object: %v", structured, err)
	}
	return fields
}

var placeholder = regexp.MustCompile(`\$\{(\w+)\.?(\w*)\}`)

// fill puts values of earlier answers into arguments.
func fill(t *testing.T, args string, last map[string]map[string]any) string {
	t.Helper()
	return placeholder.ReplaceAllStringFunc(args, func(p string) string {
		m := placeholder.FindStringSubmatch(p)
		if m[1] == "mark" {
			return itoa(os.Getpid())
		}
		v, ok := last[m[1]][m[2]]
		if !ok && last[m[1]] != nil {
			t.Fatalf("%s: the last answer of %s has no %s: %v", args, m[1], m[2], last[m[1]])
		}
		return fmt.Sprint(v)
	})
}

// fits checks structured content against the tool's output schema.
func fits(t *testing.T, tool *sdk.Tool, structured json.RawMessage) {
	t.Helper()
	if tool.OutputSchema == nil {
		t.Fatalf("%s has no output schema", tool.Name)
	}
	data, err := json.Marshal(tool.OutputSchema)
	if err != nil {
		t.Fatal(err)
	}
	var schema jsonschema.Schema
	if err := json.Unmarshal(data, &schema); err != nil {
		t.Fatal(err)
	}
	resolved, err := schema.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	var content any
	if err := json.Unmarshal(structured, &content); err != nil {
		t.Fatalf("the structured content %q: %v", structured, err)
	}
	if err := resolved.Validate(content); err != nil {
		t.Errorf("the answer is not as the output schema wants it: %v\n%s", err, structured)
	}
}

// TestTools calls every tool with the protocol's own Go client.
func TestTools(t *testing.T) {
	boxtest.RequireWalls(t)
	c := startStdio(t, everything(t))
	tools := c.tools(t)
	runExamples(t, tools, c.caller())
	for _, tool := range tools {
		if tool.Description == "" || tool.Title == "" || tool.Annotations == nil || tool.OutputSchema == nil {
			t.Errorf("%s is not described: %+v", tool.Name, tool)
		}
	}
}

// TestToolsHTTP does the same over HTTP.
func TestToolsHTTP(t *testing.T) {
	boxtest.RequireWalls(t)
	t.Parallel()
	s := everything(t)
	spec := filepath.Join(t.TempDir(), "spec.yaml")
	testkit.Write(t, spec, "network: {allow: [{host: example.com, ports: [80, 443, 8443]}], publish: [any]}\n", 0o600)
	token := s.token(t, localPrincipal(t), s.workspace, "--spec", spec, "--with-privileges") // without one there is no server
	c := startHTTP(t, s).connect(t, token)
	runExamples(t, c.tools(t), c.caller())
}

// caller calls tools with the Go client.
func (c *client) caller() caller {
	return func(t *testing.T, tool, args string) answer {
		t.Helper()
		got := c.try(t, tool, json.RawMessage(args))
		data, err := json.Marshal(got.StructuredContent)
		if err != nil {
			t.Fatal(err)
		}
		return answer{textOf(got), data, got.IsError}
	}
}

// TestProfiles counts the tools of each profile, and those of who holds nothing.
func TestProfiles(t *testing.T) {
	boxtest.RequireWalls(t)
	for profile, least := range map[string]op.Profile{"run": op.ProfileRun, "workspace": op.ProfileWorkspace, "full": op.ProfileFull} {
		s := plain(t)
		s.profile = profile
		want := offered(least, false)
		got := slices.Sorted(maps.Keys(startStdio(t, s).tools(t)))
		if !slices.Equal(got, want) {
			t.Errorf("profile %s has\n%s\nwant\n%s", profile, strings.Join(got, " "), strings.Join(want, " "))
		}
	}
}
