package policy

import (
	"encoding/json"
	"reflect"
	"testing"
)

func TestStoredSpec(t *testing.T) {
	for name, s := range map[string]Spec{
		"empty": {},
		"bytes": {
			RootFS: "/r\xff", Home: "/h\xff", Env: map[string]string{"A": "\xff"}, HostSockets: []string{"/s\xff"},
			Workspace: Workspace{Source: "/w\xff", Mode: "overlay", Layers: "/l\xff", Unprotected: []string{"*", "n\xe9/.git"}},
			Mounts:    []Mount{{"/a\xff", "/b\xff", "rw"}, {Source: "/c"}}, Network: Network{Mode: "none"}, Limits: Limits{Memory: 1 << 20},
		},
	} {
		text, err := json.Marshal(StoredSpec(s))
		if err != nil {
			t.Fatal(err)
		}
		var got StoredSpec
		if err := json.Unmarshal(text, &got); err != nil || !reflect.DeepEqual(Spec(got), s) {
			t.Errorf("%s: %s is %+v, %v; want %+v", name, text, got, err, s)
		}
	}
	// What earlier versions have stored is read.
	old, err := json.Marshal(Spec{Home: "/h", Workspace: Workspace{Source: "/w"}, Mounts: []Mount{{Source: "/m", Target: "/n"}}})
	if err != nil {
		t.Fatal(err)
	}
	var got StoredSpec
	if err := json.Unmarshal(old, &got); err != nil || got.Home != "/h" || got.Workspace.Source != "/w" || got.Mounts[0].Target != "/n" {
		t.Errorf("%s is %+v, %v", old, got, err)
	}
}
