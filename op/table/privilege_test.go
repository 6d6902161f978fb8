package table

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/admin"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/privilege"
)

// privilegeEnv is a door with a store of its own.
func privilegeEnv(t *testing.T, who *privilege.Principal) *op.Env {
	t.Helper()
	store, err := privilege.OpenFile(filepath.Join(t.TempDir(), "state", "p.json"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	env := office(t)
	env.Principal, env.Privileges = who, func() (privilege.Store, error) { return store, nil }
	return env
}

// askAs calls an operation and gives its output as people read it, or its error.
func askAs(t *testing.T, o op.Op, env *op.Env, input string) string {
	t.Helper()
	out, err := o.Call(t.Context(), env, []byte(input), nil)
	if err != nil {
		return err.Error()
	}
	var b bytes.Buffer
	if err := o.Render(&b, out); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

var localAdmin = &privilege.Principal{Name: "user:root", Admin: true}

func TestAlterPrivileges(t *testing.T) {
	env := privilegeEnv(t, localAdmin)
	changed := func(who, before, after string) string {
		return fmt.Sprintf("principal  %s\nbefore     %s\nafter      %s\n", who, before, after)
	}
	const exec = "UNSANDBOXED_EXEC (0x4)"
	steps := []struct{ input, want string }{
		{`{"action":"grant","principal":"user:ann","privileges":["UNSANDBOXED_EXEC"]}`, changed("user:ann", "none", exec)},
		{`{"action":"add","user":"user:ann","privileges":["unsandboxed-exec"]}`, changed("user:ann", exec, exec)},
		{`{"action":"Give","principal":"user:ann","user":"user:ann","privileges":["alter","bit_7"]}`,
			changed("user:ann", exec, "ALTER_PRIVILEGES UNSANDBOXED_EXEC bit_7 (0x85)")},
		{`{"action":"revoke","principal":"user:ann","privileges":["bit_7","bit_8"]}`,
			changed("user:ann", "ALTER_PRIVILEGES UNSANDBOXED_EXEC bit_7 (0x85)", "ALTER_PRIVILEGES UNSANDBOXED_EXEC (0x5)")},
		{`{"action":"take","principal":"user:ann","mask":"1"}`, changed("user:ann", "ALTER_PRIVILEGES UNSANDBOXED_EXEC (0x5)", exec)},
		{`{"action":"set","principal":"user:ann","privileges":["bit_1"],"mask":"0x8000000000000000"}`,
			changed("user:ann", exec, "bit_1 STARGAZER_USE (0x8000000000000002)")},
		{`{"action":"replace","principal":"user:ann"}`, changed("user:ann", "bit_1 STARGAZER_USE (0x8000000000000002)", "none")},

		{`{"action":"destroy","principal":"a","privileges":["alter"]}`, `cannot use action "destroy": it is neither grant, revoke nor set`},
		{`{"action":"grant","principal":"a"}`, "cannot use privileges: there is nothing to grant"},
		{`{"action":"grant","privileges":["alter"]}`, "cannot use principal: it is missing"},
		{`{"action":"grant","principal":"a","user":"b","privileges":["alter"]}`, `cannot use user "b": principal is a`},
		{`{"action":"grant","principal":"a b","privileges":["alter"]}`, `cannot use the principal "a b": a name is letters, digits and the signs . _ @ : -`},
		{`{"action":"grant","principal":"a","privileges":["root"]}`,
			`unknown privilege "root" (the names are ALTER_PRIVILEGES, UNSANDBOXED_EXEC, STARGAZER_USE, bit_0 to bit_63, or a mask as 0x…)`},
		{`{"action":"grant","principal":"a","mask":"all"}`, `cannot use the mask "all": it must be a number from 0 to 2^64-1`},
	}
	for _, step := range steps {
		if got := askAs(t, op.Of[admin.AlterPrivilegesInput](), env, step.input); got != step.want {
			t.Errorf("%s gives %q, want %q", step.input, got, step.want)
		}
	}
}

func TestAlterPrivilegesOutput(t *testing.T) {
	out, err := op.Of[admin.AlterPrivilegesInput]().Call(t.Context(), privilegeEnv(t, localAdmin),
		[]byte(`{"action":"give","principal":"7","privileges":["bit_9"]}`), nil)
	data, jsonErr := json.Marshal(out)
	want := `{"action":"grant","principal":"7","changed":true,"before":{"names":[],"mask":"0x0"},"after":{"names":["bit_9"],"mask":"0x200"}}`
	if err != nil || jsonErr != nil || string(data) != want {
		t.Errorf("got %s, %v, %v", data, err, jsonErr)
	}
}

// TestOwnerGrantsThemselves: an administrator does not hold UNSANDBOXED_EXEC
// before they have granted it, also to themselves.
func TestOwnerGrantsThemselves(t *testing.T) {
	env := privilegeEnv(t, localAdmin)
	check := func(need privilege.Set) error {
		return privilege.CheckOpened(t.Context(), env.Privileges, env.Principal, need)
	}
	if err := check(op.Of[admin.AlterPrivilegesInput]().Needs); err != nil {
		t.Fatal(err)
	}
	denied := (*privilege.Denied)(nil)
	if err := check(privilege.UnsandboxedExec); !errors.As(err, &denied) || denied.Hint != "paddock privilege grant user:root UNSANDBOXED_EXEC" {
		t.Fatalf("before: %v", err)
	}
	askAs(t, op.Of[admin.AlterPrivilegesInput](), env, `{"action":"grant","principal":"user:root","privileges":["UNSANDBOXED_EXEC"]}`)
	if err := check(privilege.UnsandboxedExec); err != nil {
		t.Errorf("after: %v", err)
	}
	env.Principal = &privilege.Principal{Name: "user:ann"}
	if err := check(op.Of[admin.AlterPrivilegesInput]().Needs); err == nil ||
		err.Error() != "The user does not have the ALTER_PRIVILEGES privilege. Ask an admin to grant it with the alter_privileges tool." {
		t.Errorf("somebody else: %v", err)
	}
}

func TestPrivilegeList(t *testing.T) {
	env := privilegeEnv(t, localAdmin)
	if got := askAs(t, op.Of[admin.PrivilegeListInput](), env, `{}`); got != "no privileges are granted\n" {
		t.Errorf("got %q", got)
	}
	for _, name := range []string{"user:bob", "42"} {
		askAs(t, op.Of[admin.AlterPrivilegesInput](), env, `{"action":"grant","principal":"`+name+`","privileges":["UNSANDBOXED_EXEC","bit_5"]}`)
	}
	const (
		bob     = "user:bob  0x24  UNSANDBOXED_EXEC bit_5\n"
		lacking = "The user does not have the ALTER_PRIVILEGES privilege. Ask an admin to grant it with the alter_privileges tool."
	)
	bobHimself := &privilege.Principal{Name: "user:bob"}
	tests := []struct {
		who         *privilege.Principal
		input, want string
	}{
		{localAdmin, `{}`, "42        0x24  UNSANDBOXED_EXEC bit_5\n" + bob},
		{localAdmin, `{"principal":"user:bob"}`, bob},
		{localAdmin, `{"principal":"user:ann"}`, "user:ann  0x0  none\n"},
		{localAdmin, `{"principal":"user ann"}`, `cannot use the principal "user ann": a name is letters, digits and the signs . _ @ : -`},
		{bobHimself, `{}`, bob},
		{bobHimself, `{"principal":"user:bob"}`, bob},
		{bobHimself, `{"principal":"42"}`, lacking},
		{&privilege.Principal{Name: "nobody"}, `{}`, "nobody  0x0  none\n"},
		{nil, `{}`, "No context."},
	}
	for _, tt := range tests {
		env.Principal = tt.who
		if got := askAs(t, op.Of[admin.PrivilegeListInput](), env, tt.input); got != tt.want {
			t.Errorf("%+v asks %s: %q, want %q", tt.who, tt.input, got, tt.want)
		}
	}
	env.Principal = bobHimself
	out, err := op.Of[admin.PrivilegeListInput]().Call(t.Context(), env, []byte(`{}`), nil)
	data, _ := json.Marshal(out)
	if want := `{"principals":[{"principal":"user:bob","names":["UNSANDBOXED_EXEC","bit_5"],"mask":"0x24"}]}`; err != nil || string(data) != want {
		t.Errorf("got %s, %v", data, err)
	}
}

// TestPrivilegesUnavailable has stores that cannot be used.
func TestPrivilegesUnavailable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "p.json")
	if err := errors.Join(os.Chmod(filepath.Dir(path), 0o700), os.WriteFile(path, []byte("{"), 0o600)); err != nil {
		t.Fatal(err)
	}
	broken, none, ann := privilegeEnv(t, localAdmin), privilegeEnv(t, localAdmin), privilegeEnv(t, &privilege.Principal{Name: "ann"})
	broken.Privileges = func() (privilege.Store, error) { return privilege.OpenFile(path) }
	ann.Privileges, none.Privileges = broken.Privileges, nil
	const grant = `{"action":"grant","principal":"a","privileges":["alter"]}`
	for _, got := range []string{askAs(t, op.Of[admin.AlterPrivilegesInput](), broken, grant), askAs(t, op.Of[admin.PrivilegeListInput](), broken, `{}`)} {
		if !strings.HasPrefix(got, "cannot use the privileges in "+path+": it is not what Paddock writes") {
			t.Errorf("with a broken store: %s", got)
		}
	}
	for _, got := range []string{askAs(t, op.Of[admin.AlterPrivilegesInput](), none, grant), askAs(t, op.Of[admin.PrivilegeListInput](), none, `{}`)} {
		if got != "cannot use privileges: this door has no store of them" {
			t.Errorf("without a store: %s", got)
		}
	}
	if got := askAs(t, op.Of[admin.PrivilegeListInput](), ann, `{}`); got != "Privilege system unavailable." {
		t.Errorf("got %s", got)
	}
}

// TestCeilingOfVariables: what of the caller's environment is handed on has a
// ceiling, since a spec does not tell it from other variables.
func TestCeilingOfVariables(t *testing.T) {
	env := &op.Env{
		Ceiling:   &policy.Ceiling{Workspace: []policy.Place{{Source: "/srv", Mode: "rw"}}, Env: []string{"LANG"}},
		LookupEnv: func(name string) (string, bool) { return "value of " + name, true },
	}
	spec, err := op.SpecInput{EnvPass: []string{"LANG"}}.Spec(t.Context(), env)
	if err != nil || spec.Env["LANG"] != "value of LANG" {
		t.Errorf("%v, %v", spec.Env, err)
	}
	_, err = op.SpecInput{EnvPass: []string{"LANG", "TOKEN"}}.Spec(t.Context(), env)
	if found := (*policy.CeilingError)(nil); !errors.As(err, &found) || err.Error() != `cannot use env_pass "TOKEN": the ceiling does not let it be handed on` {
		t.Error(err)
	}
}
