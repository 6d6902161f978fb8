//go:build linux

package codex

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/policy"
)

// wall is what one sandbox is built with.
type wall struct {
	req      backend.Request
	id       binaryID
	platform string
	dialect  dialect
	settings settings
	home     home
	// dir is where the CLI is started, which is what its sandbox makes
	// writable; argv is its command line, up to the command inside.
	dir  string
	argv []string
	// custom: overrides of the spec have a say in what can be written.
	custom bool
	// lost are sentences about what the attempts showed to be open because the
	// overrides say so.
	lost []string
}

// newWall makes the command line for a resolved spec.
func newWall(ctx context.Context, req backend.Request, h home) (*wall, error) {
	var o policy.Codex
	if req.Spec.Codex != nil {
		o = *req.Spec.Codex
	}
	if err := supported(req); err != nil {
		return nil, err
	}
	w := &wall{req: req, home: h, dir: req.Spec.Workspace.Source}
	var err error
	if w.platform, err = platform(o.Platform); err != nil {
		return nil, &policy.FieldError{Field: "codex.platform", Value: o.Platform, Reason: err.Error()}
	}
	if w.settings, err = readOverrides(o.ConfigOverrides); err != nil {
		return nil, err
	}
	w.custom = w.settings.own() || slices.ContainsFunc([]string{keyMode, keyRoots, keySlashTmp, keyTmpdir}, func(k string) bool { return w.settings[k] != "" })
	if w.id, err = find(cmp.Or(o.Binary, "codex")); err != nil {
		return nil, err
	}
	if w.dialect, err = askDialect(ctx, h, w.id, w.platform); err != nil {
		return nil, err
	}
	if req.Spec.Workspace.Access == "ro" {
		w.dir = h.scratch
	}
	if err := w.settings.fill(req.Spec.Network, w.roots()); err != nil {
		return nil, err
	}
	w.argv = w.dialect.arguments(w.id.path, w.platform, w.settings)
	return w, w.ownFiles()
}

// roots are the directories beside the workspace that commands may write.
func (w *wall) roots() []string {
	roots := []string{w.home.scratch}
	for _, m := range w.req.Spec.Mounts {
		if m.Mode == "rw" {
			roots = append(roots, m.Source)
		}
	}
	return roots
}

// writable are all directories that commands may write.
func (w *wall) writable() []string {
	roots := w.roots()
	if w.req.Spec.Workspace.Access != "ro" {
		roots = append(roots, w.req.Spec.Workspace.Source)
	}
	return roots
}

// ownFiles refuses a writable directory that holds what the next sandbox is
// made with: this wall covers nothing.
func (w *wall) ownFiles() error {
	own := []string{w.req.Agent, w.id.path, w.home.dir, w.home.outside}
	if self, err := os.Executable(); err == nil {
		own = append(own, self)
	}
	for _, dir := range w.writable() {
		if dir == w.home.scratch {
			continue
		}
		real, err := filepath.EvalSymlinks(dir)
		if err != nil {
			return &policy.FieldError{Field: "workspace.source", Value: dir, Reason: cause(err)}
		}
		for _, file := range own {
			if file, err = filepath.EvalSymlinks(file); err == nil && beneath(real, file) {
				return &policy.FieldError{Field: "workspace.source", Value: dir, Reason: "commands could change " + file + ", which sandboxes are made with",
					Hint: "name another directory, or use backend linux, which covers it"}
			}
		}
	}
	return nil
}

// cause is what an error of the file system says without operation and path.
func cause(err error) string {
	var p *os.PathError
	if errors.As(err, &p) {
		return p.Err.Error()
	}
	return err.Error()
}

// beneath says whether a path is a directory or lies below it.
func beneath(dir, file string) bool {
	return file == dir || strings.HasPrefix(file, strings.TrimSuffix(dir, "/")+"/")
}

// supported refuses what this wall has no means for.
func supported(req backend.Request) error {
	s := req.Spec
	var errs []error
	refuse := func(field, value, reason, hint string) {
		errs = append(errs, &policy.FieldError{Field: field, Value: value, Reason: reason, Hint: hint})
	}
	const same = "the sandbox of codex shows the host's paths where they are"
	if s.RootFS != "" && s.RootFS != policy.RootHost {
		refuse("rootfs", s.RootFS, same, "use backend linux or docker")
	}
	if s.Workspace.Mode == policy.ModeCopy {
		refuse("workspace.mode", s.Workspace.Mode, "the sandbox of codex has no place for a copy", "use mode bind, or backend linux or docker")
	}
	for i, m := range s.Mounts {
		if m.Target != "" && m.Target != m.Source {
			refuse("mounts["+strconv.Itoa(i)+"].target", m.Target, same, "leave the target out, or use backend linux or docker")
		}
	}
	if s.Hostname != "" && s.Hostname != policy.DefaultHostname {
		refuse("hostname", s.Hostname, "the sandbox of codex has the host's own name", "use backend linux or docker")
	}
	return errors.Join(errs...)
}
