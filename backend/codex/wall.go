//go:build linux

package codex

import (
	"cmp"
	"context"
	"maps"
	"os"
	"slices"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/policy"
)

// wall is the wall of one sandbox.
type wall struct {
	req      backend.Request
	id       binaryID
	platform string
	dialect  dialect
	written  settings // the settings of the spec
	settings settings // all that the CLI gets
	home     home
	// workspace is free of symbolic links; places is the same as a list of mounts.
	workspace string
	places    []hostpath.Mount
	// dir is the directory in which the CLI is started, and which its sandbox
	// makes writable; argv is its command line, up to the command inside.
	dir  string
	argv []string
	// temporary: commands can write their directory for temporary files.
	temporary bool
	// kernel: files that the kernel obeys can be written, unless the agent
	// prevents it.
	kernel bool
	// custom: overrides of the spec influence what can be written.
	custom bool
	// lost are sentences about operations that succeeded in the attempt because of the
	// overrides.
	lost []string
}

// newWall makes the wall of a resolved spec.
func newWall(ctx context.Context, req backend.Request, h home) (*wall, error) {
	var o policy.Codex
	if req.Spec.Codex != nil {
		o = *req.Spec.Codex
	}
	places, err := hostpath.Mounts(req, req.Spec.Workspace.Source)
	if err == nil {
		err = hostpath.RefuseBytes(places, "the sandbox CLI")
	}
	if err != nil {
		return nil, err
	}
	h.path = hostpath.SearchPath(req.StateDir, os.Getenv("PATH"), places)
	w := &wall{req: req, home: h, workspace: places[0].Source, places: places}
	if w.platform, err = platform(o.Platform); err != nil {
		return nil, &policy.FieldError{Field: "codex.platform", Value: o.Platform, Reason: err.Error()}
	}
	if w.written, err = readOverrides(o.ConfigOverrides); err != nil {
		return nil, err
	}
	w.custom = w.written.own() || slices.ContainsFunc([]string{keyMode, keyRoots, keySlashTmp, keyTmpdir}, func(k string) bool { return w.written[k] != "" })
	if w.id, err = find(cmp.Or(o.Binary, "codex"), req.StateDir, places); err != nil {
		return nil, err
	}
	if w.dialect, err = askDialect(ctx, h, w.id, w.platform); err != nil {
		return nil, err
	}
	return w.at(h)
}

// at completes the wall for the directories of a sandbox.
func (w *wall) at(h home) (*wall, error) {
	done := *w
	done.home, done.settings, done.temporary = h, maps.Clone(w.written), true
	done.kernel = os.Geteuid() == 0 // until it is known
	if done.dir = w.workspace; w.req.Spec.Workspace.Access == "ro" {
		done.dir = h.scratch
	}
	if err := done.settings.fill(w.req.Spec.Network.Mode, h.scratch); err != nil {
		return nil, err
	}
	done.argv = w.dialect.arguments(w.id.path, w.platform, done.settings)
	return &done, done.ownFiles()
}

// sparesState refuses settings that let commands write Paddock's state, because this wall
// cannot cover it.
func (w *wall) sparesState() error {
	if _, below := hostpath.Within(hostpath.Future(w.req.StateDir), hostpath.Real("/tmp")); !below || w.settings[keySlashTmp] != "false" {
		return nil
	}
	return &policy.FieldError{Field: policy.FieldPath(overridesField, keySlashTmp), Value: "false",
		Reason: "commands could then write Paddock's state, " + w.req.StateDir + ", since it is below /tmp",
		Hint:   "choose another place for it with PADDOCK_STATE_DIR, or leave the setting out"}
}

// command returns the command line up to the agent's own. The agent does not get the
// CLI's environment, but only the variables that it needs.
func (w *wall) command() []string {
	tmp := w.home.scratch
	if !w.temporary {
		tmp = "/tmp"
	}
	return append(slices.Clone(w.argv), "env", "-i", "PATH="+policy.SearchPath, "HOME="+tmp, "TMPDIR="+tmp)
}

// writable returns the directories that commands may write.
func (w *wall) writable() []string {
	if w.dir == w.home.scratch {
		return []string{w.home.scratch}
	}
	return []string{w.workspace, w.home.scratch}
}

// ownFiles refuses a workspace that holds files with which sandboxes are made, or below
// which the host has mounted something, because this wall cannot cover anything.
func (w *wall) ownFiles() error {
	if w.dir != w.workspace {
		return nil
	}
	for _, file := range []string{w.id.path, w.home.base} {
		at := hostpath.Future(file)
		if _, inside := hostpath.Within(at, w.workspace); inside {
			return hostpath.Refuse("workspace.source", w.workspace, "commands could change "+at+", with which sandboxes are started",
				"name another directory, or use backend linux, which covers it")
		}
	}
	const name = "the sandbox of codex"
	covers, err := hostpath.Covers(w.req, w.places)
	if err == nil {
		err = hostpath.Refused(covers, w.places, name, "backend linux")
	}
	if err == nil {
		err = hostpath.NothingBelow(w.places, name)
	}
	return err
}
