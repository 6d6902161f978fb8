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
func (o Options) showToolchains(req *backend.Request) {
	spec, seen := req.Spec, seenOf(req)
	_, path := spec.Env["PATH"]
	if o.Toolchains == nil || spec.NoToolchains || path || spec.Backend != policy.BackendLinux || spec.Commands != nil || spec.RootFS != policy.RootHost {
		return
	}
	req.Path = toolchain.WithGo(*req, os.Getenv)
	if !toolchain.Named(req.Path, req.Home) {
		return
	}
	plain := *req
	plain.Seen = seen.Apart()
	if _, err := hostpath.Mounts(plain, policy.WorkspacePath); err != nil {
		return // the start reports the error
	}
	found, left := toolchain.Find(plain, os.Getenv)
	with, err := o.withToolchains(*req, found, seen)
	if err != nil { // of one of them: each is tried with those before it
		all := found
		with, found = *req, nil
		for _, t := range all {
			tried := append(found[:len(found):len(found)], t)
			next, err := o.withToolchains(*req, tried, seen)
			if err == nil {
				with, found = next, tried
				continue
			}
			for entry := range t.Search {
				left[entry] = "the toolchain " + t.Name + ": " + toolchainReason(err)
			}
		}
	}
	own := len(req.Spec.Mounts)
	*req = with
	shown := backend.Toolchains{Home: hostpath.Real(req.Home), Mounts: len(req.Spec.Mounts) - own, LeftOut: left, Search: map[string]string{}, Links: map[string]string{}}
	env := map[string]string{}
	for _, t := range found {
		shown.Shown = append(shown.Shown, policy.Toolchain{Name: t.Name, Dirs: t.Shown})
		shown.Covered = shown.Covered || len(t.Hidden) > 0
		maps.Copy(shown.Search, t.Search)
		maps.Copy(shown.Links, t.Links)
		for name, value := range t.Env {
			if _, set := env[name]; !set {
				env[name] = value
			}
		}
	}
	maps.Copy(env, spec.Env) // which may set these too
	req.Spec.Env, req.Toolchains = env, shown
}

// withToolchains returns the request with mounts of toolchains, and files to cover in them, or an
// error if a start with it would fail. It has then read all that the start needs of the mounts.
func (o Options) withToolchains(req backend.Request, found []*toolchain.Toolchain, seen *hostpath.Seen) (backend.Request, error) {
	own := req.Spec.Mounts
	req.Own = slices.Clone(req.Own)
	var tools []Mount
	for _, t := range found {
		switch bare := req.Spec.Level == policy.LevelLandlock; {
		case bare && os.Geteuid() == 0:
			return req, errors.New("at level landlock commands of root's run as another user")
		case bare && len(t.Hidden) > 0:
			return req, errors.New(t.Hidden[0] + " may have credentials, which level landlock cannot cover")
		}
		for _, dir := range t.Shown {
			for _, m := range own {
				if hostpath.Under(dir, m.Target) || hostpath.Under(m.Target, dir) {
					return req, errors.New(m.Target + " is a mount of the spec's")
				}
			}
			m := Mount{Source: dir, Target: dir, Mode: "ro"}
			if !o.Toolchains(m) {
				return req, errors.New(dir + " is not allowed")
			}
			if !slices.ContainsFunc(tools, func(o Mount) bool { return hostpath.Under(dir, o.Source) }) {
				tools = append(slices.DeleteFunc(tools, func(o Mount) bool { return hostpath.Under(o.Source, dir) }), m)
			}
		}
		for _, file := range t.Hidden {
			req.Own = append(req.Own, backend.OwnFile{Path: file, What: toolchainSecret, Hidden: true, Spare: true})
		}
	}
	req.Spec.Mounts = slices.Concat(own, tools)
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
