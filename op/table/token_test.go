package table

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/audit"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/admin"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/privilege"
	"github.com/paddock-dev/paddock/privilege/token"
)

// tokenEnv is that of a local administrator, with an audit log to look at.
func tokenEnv(t *testing.T) (*op.Env, *token.Store) {
	t.Helper()
	state := filepath.Join(t.TempDir(), "state")
	store, err := token.Open(filepath.Join(state, token.FileName))
	if err != nil {
		t.Fatal(err)
	}
	log := audit.At(filepath.Join(state, "audit"), audit.Options{})
	t.Cleanup(func() { _ = log.Close() })
	if err := errors.Join(os.MkdirAll(state, 0o700), os.WriteFile(filepath.Join(state, "written"), []byte("paddock-written 1\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	return &op.Env{
		Options:   paddock.Options{StateDir: state}, // which knows that no sandbox wrote anything: links are followed
		Principal: &privilege.Principal{Name: "user:op", Admin: true}, Audit: log,
		Tokens: func() (*token.Store, error) { return store, nil },
	}, store
}

func callToken(t *testing.T, env *op.Env, name string, input any) (any, error) {
	t.Helper()
	text, err := json.Marshal(input)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range All() {
		if o.Name == name {
			return o.Call(t.Context(), env, text, nil)
		}
	}
	t.Fatalf("there is no %s", name)
	return nil, nil
}

func TestTokens(t *testing.T) {
	env, store := tokenEnv(t)
	work := t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(work, link); err != nil {
		t.Fatal(err)
	}
	out, err := callToken(t, env, "token_create", map[string]any{"principal": "agent:ann", "workspaces": []string{link}, "expires": "30d"})
	if err != nil {
		t.Fatal(err)
	}
	made, _ := out.(admin.TokenCreateOutput)
	if string(made.Workspace) != work || made.Expires == nil || time.Until(*made.Expires).Round(time.Hour) != 30*24*time.Hour {
		t.Errorf("made %+v", made)
	}
	who, err := store.Check(made.Token, time.Now())
	if l := who.Bounds.Ceiling.Limits; l.Tmp != policy.DefaultTmp || l.Processes != policy.DefaultProcesses || l.Disk != policy.DefaultDisk || who.Bounds.Ceiling.Lifetime != policy.DefaultLifetime {
		t.Errorf("its ceiling leaves to defaults: %+v", who.Bounds.Ceiling)
	}
	if err != nil || who.Principal.Name != "agent:ann" || who.Bounds.Ceiling.Workspace[0].Source != work || who.Bounds.Ceiling.Workspace[0].Mode != "rw" {
		t.Errorf("it lets in %+v, %v", who, err)
	}

	out, err = callToken(t, env, "token_list", map[string]any{})
	listed, _ := json.Marshal(out)
	if err != nil || !strings.Contains(string(listed), made.ID) || strings.Contains(string(listed), made.Token) {
		t.Errorf("the list is %s, %v", listed, err)
	}
	if _, err := callToken(t, env, "token_revoke", map[string]any{"id": made.ID}); err != nil {
		t.Error(err)
	}
	if _, err := store.Check(made.Token, time.Now()); !errors.Is(err, token.ErrUnknown) {
		t.Errorf("revoked: %v", err)
	}
	// A whole token by mistake is refused before it is put on record.
	if _, err := callToken(t, env, "token_revoke", map[string]any{"id": made.Token}); err == nil || strings.Contains(err.Error(), made.Token[13:]) {
		t.Errorf("a token for an ID: %v", err)
	}
	if err := env.Audit.Close(); err != nil {
		t.Fatal(err)
	}
	recorded := ""
	files, _ := filepath.Glob(filepath.Join(filepath.Dir(store.Path()), "audit", "*"))
	for _, file := range files {
		data, _ := os.ReadFile(file)
		recorded += string(data)
	}
	if !strings.Contains(recorded, `"token_create"`) || !strings.Contains(recorded, "agent:ann") || strings.Contains(recorded, made.Token[13:]) {
		t.Errorf("the audit has %s", recorded)
	}
}

func TestTokenRefusals(t *testing.T) {
	env, _ := tokenEnv(t)
	dir := t.TempDir()
	ceiling, wide := filepath.Join(dir, "ceiling.yaml"), filepath.Join(dir, "wide.yaml")
	for path, text := range map[string]string{
		ceiling: "workspace: [{source: " + dir + ", mode: rw}]\nlimits: {memory: 1GiB}\n",
		wide:    "network: host\nworkspace: {source: " + dir + "}\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	type in map[string]any
	if _, err := callToken(t, env, "token_create", in{"principal": "there", "workspaces": []string{dir}}); err != nil {
		t.Fatal(err)
	}
	nobody := *env
	nobody.Principal = &privilege.Principal{Name: "user:x"}
	nobody.Privileges = func() (privilege.Store, error) {
		return privilege.OpenFile(filepath.Join(dir, "privileges.json"))
	}
	grants := *env
	grants.Privileges = nobody.Privileges
	store, err := grants.Privileges()
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := store.Update(t.Context(), "agent:host", func(s privilege.Set) privilege.Set { return s | privilege.UnsandboxedExec }); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"agent:host", "user:x"} { // the control
		if _, err := callToken(t, &grants, "token_create", in{"principal": name, "workspaces": []string{dir}, "with_privileges": true}); err != nil {
			t.Errorf("%s, meant: %v", name, err)
		}
	}
	broken := *env
	broken.Privileges = func() (privilege.Store, error) { return nil, errors.New("broken") }
	for name, tt := range map[string]struct {
		env  *op.Env
		op   string
		in   in
		want string
	}{
		"who holds privileges": {&grants, "token_create", in{"principal": "agent:host"}, "it holds UNSANDBOXED_EXEC, and whoever has the token would too choose a name"},
		"a local user":         {&grants, "token_create", in{"principal": "user:x"}, "it is the name of a local user or its models"},
		"root":                 {env, "token_create", in{"principal": "root", "workspaces": []string{dir}}, "or say that this is meant: --with-privileges"},
		"a user by number":     {env, "token_create", in{"principal": "uid:0", "workspaces": []string{dir}}, "it is the name of a local user"},
		"models of a user":     {env, "token_create", in{"principal": "model:op", "workspaces": []string{dir}}, "it is the name of a local user"},
		"a store that fails":   {&broken, "token_create", in{"principal": "b", "workspaces": []string{dir}}, "broken"},
		"no privilege":         {&nobody, "token_create", in{"principal": "a", "workspaces": []string{dir}}, "ALTER_PRIVILEGES"},
		"no privilege to end":  {&nobody, "token_revoke", in{"principal": "a"}, "ALTER_PRIVILEGES"},
		"no principal":         {env, "token_create", in{"workspaces": []string{dir}}, "cannot use the principal"},
		"no bounds":            {env, "token_create", in{"principal": "a"}, "--workspace DIR"},
		"a ceiling alone":      {env, "token_create", in{"principal": "a", "ceiling_file": ceiling}, "the default sandbox has no workspace"},
		"outside the ceiling":  {env, "token_create", in{"principal": "a", "ceiling_file": ceiling, "workspaces": []string{"/usr"}}, "the ceiling does not allow it"},
		"a spec without":       {env, "token_create", in{"principal": "a", "spec_file": ceiling}, "cannot use"},
		"a spec above it":      {env, "token_create", in{"principal": "a", "ceiling_file": ceiling, "spec_file": wide}, "network"},
		"no directory":         {env, "token_create", in{"principal": "a", "workspaces": []string{ceiling}}, `cannot use workspaces[0] "` + ceiling + `": it is not a directory`},
		"a missing one":        {env, "token_create", in{"principal": "a", "workspaces": []string{dir, dir + "/x"}}, "workspaces[1]"},
		"an empty name":        {env, "token_create", in{"principal": "a", "workspaces": []string{""}}, "it is empty"},
		"no lifetime":          {env, "token_create", in{"principal": "a", "workspaces": []string{dir}, "expires": "soon"}, "expires"},
		"a lifetime of none":   {env, "token_create", in{"principal": "a", "workspaces": []string{dir}, "expires": "0d"}, "it is not from 1s to 3660d"},
		"a lifetime too long":  {env, "token_create", in{"principal": "a", "workspaces": []string{dir}, "expires": "99999d"}, "expires"},
		"other bounds":         {env, "token_create", in{"principal": "there", "workspaces": []string{"/usr"}}, "its other tokens have other bounds"},
		"nothing to revoke":    {env, "token_revoke", in{}, "name either one token"},
		"too much to revoke":   {env, "token_revoke", in{"id": "abc", "principal": "a"}, "name either one token"},
		"revoke what is not":   {env, "token_revoke", in{"id": "abc"}, "it is unknown"},
		"no store at the door": {&op.Env{Principal: env.Principal, Audit: env.Audit}, "token_list", in{}, "this door has no store"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := callToken(t, tt.env, tt.op, tt.in)
			if err == nil || !strings.Contains(err.Error()+" "+op.HintOf(err), tt.want) {
				t.Errorf("%v (%s), want %s", err, op.HintOf(err), tt.want)
			}
		})
	}
}
