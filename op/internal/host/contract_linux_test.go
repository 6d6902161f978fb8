package host

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/privilege"
)

// inputs are what the tools of the contract take.
var inputs = map[string]any{
	"cgroup_read_file": CgroupReadInput{}, "cgroup_write_file": CgroupWriteInput{}, "cgroup_mkdir": CgroupMkdirInput{}, "cgroup_rmdir": CgroupRmdirInput{},
	"cgroup_move_pid": CgroupMoveInput{}, "linux_unshare_exec": UnshareInput{}, "linux_nsenter_exec": NsenterInput{},
}

func byName(t *testing.T, name string) op.Op {
	t.Helper()
	for _, o := range Ops() {
		if o.Name == name {
			return o
		}
	}
	t.Fatalf("there is no %s", name)
	return op.Op{}
}

// The contract is a file; this is its fingerprint.
const contractSum = "9a207f1e241b2c817c3d0e0975a17a74ace970a38e242446db38e97743f5c61d"

func TestContract(t *testing.T) {
	sum := sha256.Sum256(hostTools)
	if got := hex.EncodeToString(sum[:]); got != contractSum {
		t.Errorf("the contract has changed: %s", got)
	}
	names := []string{"cgroup_read_file", "cgroup_write_file", "cgroup_mkdir", "cgroup_rmdir", "cgroup_move_pid", "linux_unshare_exec", "linux_nsenter_exec"}
	tools := contractTools()
	if len(tools) != len(names) {
		t.Errorf("%d tools", len(tools))
	}
	for _, name := range append(names, "cgroup_stat") {
		o := byName(t, name)
		want := tools[name]
		if o.Needs != privilege.UnsandboxedExec || o.Description != want.Description || string(o.Schema) != string(want.Parameters) {
			t.Errorf("%s: %+v", name, o.Desc)
		}
		if name == "cgroup_stat" {
			continue
		}
		var schema struct {
			Properties map[string]struct{ Type string }
		}
		if err := json.Unmarshal(o.Schema, &schema); err != nil || len(schema.Properties) == 0 {
			t.Fatal(name, err)
		}
		kinds := map[string]string{}
		for _, f := range reflect.VisibleFields(reflect.TypeOf(inputs[name])) {
			key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			kinds[key] = strings.TrimPrefix(f.Type.String(), "*")
		}
		for property, p := range schema.Properties {
			want := map[string]string{"string": "host.looseText", "integer": "host.looseInt", "array": "host.looseList", "boolean": "bool"}[p.Type]
			if kinds[property] != want {
				t.Errorf("%s takes %s as %q, not %q", name, property, kinds[property], want)
			}
		}
	}
}
