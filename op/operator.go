package op

import (
	"context"
	"os"
	"reflect"
	"strconv"

	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/policy"
)

// SpecFields returns the fields that describe a sandbox, which every operation has
// that opens one.
func SpecFields() []Field {
	return fieldsOf(reflect.TypeFor[SpecInput](), func(reflect.StructField) bool { return true })
}

// SpecOver lays an object of [SpecFields] over a spec.
func SpecOver(ctx context.Context, env *Env, spec policy.Spec, input []byte) (policy.Spec, error) {
	var in SpecInput
	if err := decode("the sandbox", input, &in); err != nil {
		return spec, err
	}
	return in.Over(ctx, env, spec)
}

// OperatorSpec is what an operator has written for the sandboxes of others, made
// fit to stand below a ceiling: with paths that are absolute and lead over no
// link, since under a ceiling none is followed. Where a default is meant it stays
// open: operations have their own.
func OperatorSpec(spec policy.Spec) (policy.Spec, error) {
	base := policy.Base{}
	base.Dir, _ = hostpath.Getwd()  // a relative path is refused where there is none
	base.Home, _ = os.UserHomeDir() // and so is "~"
	resolved, err := spec.Resolve(base)
	if err != nil {
		return spec, err
	}
	spec.Workspace.Source, spec.Mounts = resolved.Workspace.Source, resolved.Mounts
	if spec.RootFS != "" && spec.RootFS != policy.RootHost {
		spec.RootFS = resolved.RootFS
		if err := overNoLink("rootfs", &spec.RootFS); err != nil {
			return spec, err
		}
	}
	for i := range spec.Mounts {
		if err := overNoLink("mounts["+strconv.Itoa(i)+"].source", &spec.Mounts[i].Source); err != nil {
			return spec, err
		}
	}
	if err := overNoLink("workspace.source", &spec.Workspace.Source); err != nil {
		return spec, err
	}
	return spec, nil
}

func overNoLink(field string, path *string) error {
	if *path == "" {
		return nil
	}
	way, err := hostpath.Locate((&Env{}).StateDir(), *path)
	if err != nil {
		return FieldError(field, *path, err)
	}
	if !way.Exists {
		return &policy.FieldError{Field: field, Value: *path, Reason: "no such file or directory"}
	}
	*path = way.Path
	return nil
}
