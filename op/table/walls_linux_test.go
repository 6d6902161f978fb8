package table

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"sync"
	"testing"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/output"
	"github.com/paddock-dev/paddock/op/internal/registry"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/privilege"
)

// built is the agent's program, beside those that keep and end sandboxes, made once for all tests that need walls.
var built = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "paddock-op-")
	if err != nil {
		return "", err
	}
	if err := os.Chmod(dir, 0o755); err != nil { // inside, everyone is someone else
		return "", err
	}
	builtIn = dir
	agent := filepath.Join(dir, "paddock-agent")
	build := osexec.Command("go", "build", "-o", dir+"/", "../../cmd/paddock-agent", "../../cmd/paddock-keeper", "../../cmd/paddock")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("cannot build the programs: %w\n%s", err, out)
	}
	return agent, nil
})

// builtIn is its directory.
var builtIn string

// cleanUp removes what built has made.
func cleanUp() {
	if builtIn != "" {
		_ = os.RemoveAll(builtIn)
	}
}

// lasting is the environment of a door that lasts, over a workspace of its own.
// Tests without user namespaces are skipped.
func lasting(t testing.TB) *op.Env {
	t.Helper()
	agent, err := built()
	if err != nil {
		t.Fatal(err)
	}
	o := paddock.Options{Agent: agent, StateDir: filepath.Join(t.TempDir(), "state")}
	report, err := paddock.Probe(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range report.Features {
		if f.Name == "user namespaces" && !f.OK {
			t.Skip("user namespaces are forbidden here: " + f.Detail)
		}
	}
	env := &op.Env{Options: o, Default: &policy.Spec{Workspace: policy.Workspace{Source: t.TempDir()}},
		Principal: &privilege.Principal{Name: "ann"}, Sandboxes: &registry.Sandboxes{}, Sessions: &registry.Sessions{}, Outputs: &output.Outputs{}}
	t.Cleanup(func() {
		if err := env.Sessions.Close(); err != nil {
			t.Error(err)
		}
		if err := env.Sandboxes.Close(); err != nil {
			t.Error(err)
		}
		if err := env.Outputs.Close(); err != nil {
			t.Error(err)
		}
		all, err := paddock.ListLasting(context.Background(), o)
		for _, k := range all {
			_, gone := paddock.Remove(context.Background(), k.ID, true, o)
			err = errors.Join(err, gone)
		}
		if err != nil {
			t.Error(err)
		}
	})
	return env
}

// as is the same door for another principal.
func as(env *op.Env, name string) *op.Env {
	other := *env
	other.Principal = &privilege.Principal{Name: name}
	return &other
}

// Well calls an operation with fields, which must succeed.
func well[O any](t testing.TB, env *op.Env, name string, fields map[string]any) O {
	t.Helper()
	out, err := try[O](t.Context(), t, env, name, fields)
	if err != nil {
		t.Fatalf("%s %v: %v", name, fields, err)
	}
	return out
}

// answersFailures are the operations whose answer says more of what was done, where it
// ended with an error. Any other's says nothing then: it would not be true.
var answersFailures = []string{"run", "exec", "execute", "session_run", "service_start", "sandbox_delete", "linux_unshare_exec", "linux_nsenter_exec"}

// emptyBeside checks that beside an error there is no answer.
func emptyBeside(t testing.TB, name string, out any, err error) {
	t.Helper()
	if err != nil && out != nil && !reflect.ValueOf(out).IsZero() && !slices.Contains(answersFailures, name) {
		t.Errorf("%s answers %+v beside %v", name, out, err)
	}
}

// Try calls an operation with fields.
func try[O any](ctx context.Context, t testing.TB, env *op.Env, name string, fields map[string]any) (O, error) {
	t.Helper()
	if fields == nil {
		fields = map[string]any{}
	}
	input, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	var none O
	out, err := operation(t, name).Call(ctx, env, input, nil)
	fits(t, name, out)
	emptyBeside(t, name, out, err)
	o, ok := out.(O)
	if !ok && err == nil {
		t.Fatalf("%s answers %T", name, out)
	}
	if !ok {
		o = none
	}
	return o, err
}
