package paddock

import (
	"errors"
	"maps"
	"os"
	"slices"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/backend/hostpath/toolchain"
	"github.com/paddock-dev/paddock/policy"
)

// toolchainSecret is what messages call a file that is covered in a toolchain.
const toolchainSecret = "a file in which a toolchain may have credentials"

// showToolchains adds the toolchains below the caller's home to a request, as Options.Toolchains
// says: mounts, variables, and files to cover. What cannot be shown is left out.
func (o Options) showToolchains(req *backend.Request, seen *hostpath.Seen) {
	spec := req.Spec
	_, path := spec.Env["PATH"]
	if o.Toolchains == nil || spec.NoToolchains || path || spec.Backend != policy.BackendLinux || spec.Commands != nil || spec.RootFS != policy.RootHost {
		return
	}
	if !toolchain.Named(req.Path, req.Home) {
		return
	}
	plain := *req
	plain.Seen = seen.Apart()
	if _, err := hostpath.Mounts(plain, policy.WorkspacePath); err != nil {
		return // the start reports the error
	}
	found, left := toolchain.Find(plain, os.Getenv)
	all := backend.Toolchains{Home: hostpath.Real(req.Home), LeftOut: left, Search: map[string]string{}, Links: map[string]string{}}
	env, base := map[string]string{}, len(spec.Mounts)
	for _, t := range found {
		next, err := o.withToolchain(*req, t, base, seen)
		if err != nil {
			for entry := range t.Search {
				all.LeftOut[entry] = "the toolchain " + t.Name + ": " + toolchainReason(err)
			}
			continue
		}
		req.Spec.Mounts, req.Own = next.Spec.Mounts, next.Own
		all.Shown = append(all.Shown, policy.Toolchain{Name: t.Name, Dirs: t.Shown})
		all.Covered = all.Covered || len(t.Hidden) > 0
		maps.Copy(all.Search, t.Search)
		maps.Copy(all.Links, t.Links)
		for name, value := range t.Env {
			if _, set := env[name]; !set {
				env[name] = value
			}
		}
	}
	maps.Copy(env, spec.Env) // which may set these too
	all.Mounts = len(req.Spec.Mounts) - base
	req.Spec.Env, req.Toolchains = env, all
}

// withToolchain returns the request with a toolchain, or an error if a start with it would fail.
// The first mounts, as many as base, are the spec's own.
func (o Options) withToolchain(req backend.Request, t *toolchain.Toolchain, base int, seen *hostpath.Seen) (backend.Request, error) {
	req.Spec.Mounts, req.Own = slices.Clone(req.Spec.Mounts), slices.Clone(req.Own)
	bare := req.Spec.Level == policy.LevelLandlock
	switch {
	case bare && os.Geteuid() == 0:
		return req, errors.New("at level landlock commands of root's run as another user")
	case bare && len(t.Hidden) > 0:
		return req, errors.New(t.Hidden[0] + " may have credentials, which level landlock cannot cover")
	}
	for _, dir := range t.Shown {
		for _, m := range req.Spec.Mounts[:base] {
			if hostpath.Under(dir, m.Target) || hostpath.Under(m.Target, dir) {
				return req, errors.New(m.Target + " is a mount of the spec's")
			}
		}
		m := Mount{Source: dir, Target: dir, Mode: "ro"}
		if !o.Toolchains(m) {
			return req, errors.New(dir + " is not allowed")
		}
		if others := req.Spec.Mounts[base:]; !slices.ContainsFunc(others, func(o Mount) bool { return hostpath.Under(dir, o.Source) }) {
			others = slices.DeleteFunc(others, func(o Mount) bool { return hostpath.Under(o.Source, dir) })
			req.Spec.Mounts = append(req.Spec.Mounts[:base+len(others)], m)
		}
	}
	for _, file := range t.Hidden {
		req.Own = append(req.Own, backend.OwnFile{Path: file, What: toolchainSecret, Hidden: true, Spare: true})
	}
	if _, err := req.Spec.Resolve(policy.Base{}); err != nil {
		return req, err
	}
	req.Seen = seen.Apart()
	mounts, err := hostpath.Mounts(req, policy.WorkspacePath)
	if err == nil {
		_, err = hostpath.Covers(req, mounts)
	}
	return req, err
}

// toolchainReason returns why a toolchain is left out.
func toolchainReason(err error) string {
	if e := (*policy.FieldError)(nil); errors.As(err, &e) {
		return e.Reason
	}
	return hostpath.Reason(err)
}
