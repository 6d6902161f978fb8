package specfile

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/paddock-dev/paddock/policy"
)

// ProjectName is the name of a project's file, in the top directory of a workspace.
const ProjectName = ".paddock.yaml"

// MaxProject bounds a project's file, in bytes: a person reads all of it before trusting it.
const MaxProject = 16 << 10

// projectField is a field that a project's file may have.
type projectField struct {
	path string
	// value returns what the spec says, if only some values are allowed: those of values.
	value  func(policy.Spec) string
	values []string
}

// projectFields returns what a project's file may say. It is the word of whoever wrote the
// repository, or of commands that ran in it, so that it may make a sandbox stricter, and give
// it what stays inside it and the network. It may name no path or program of the host, choose
// no wall, and weaken none.
func projectFields() []projectField {
	return []projectField{
		{path: "network"},
		{path: "limits"},
		{path: "env"},
		{path: "hostname"},
		{path: "caches"},
		{path: "no_toolchains"},
		{path: "commands"},
		{path: "redaction"},
		{path: "workspace.mode"},
		{path: "workspace.access"},
		{"level", func(s policy.Spec) string { return s.Level }, []string{policy.LevelFull}},
		{"seccomp", func(s policy.Spec) string { return s.Seccomp }, []string{"default", "strict"}},
	}
}

// remedies are what to do about a field that a project's file must not have, where a flag of the
// same name does not exist.
var remedies = map[string]string{
	"mounts":           "`mounts.ro` or `mounts.rw`",
	"workspace.source": "`workspace.source`",
}

// ParseProject reads a project's file as strictly as [Parse] does, and refuses everything that
// such a file must not say, with the line and what to do instead. data has all bytes that were
// read.
func ParseProject(name string, data []byte) (*File, error) {
	if len(data) > MaxProject {
		return nil, &policy.FieldError{File: name, Reason: "it is larger than 16KiB"}
	}
	file, err := Parse(name, data)
	if err != nil {
		return nil, err
	}
	file.project = true
	paths := slices.SortedFunc(maps.Keys(file.lines), func(a, b string) int {
		return cmp.Or(cmp.Compare(file.lines[a], file.lines[b]), cmp.Compare(a, b))
	})
	var errs []error
	for _, path := range paths {
		if e := file.unfit(path); e != nil {
			errs = append(errs, e)
		}
	}
	errs = append(errs, file.wide()...)
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return file, nil
}

// wide returns what of the network opens more than hosts by name: an address can be this host's,
// or one behind its firewall.
func (f *File) wide() (errs []error) {
	if f.Spec.Network.Mode == policy.NetworkObserve {
		e := &policy.FieldError{Field: "network.mode", Value: policy.NetworkObserve, File: f.name, Reason: "the file of a project must not open every name",
			Hint: "use `network` observe when you start a sandbox"}
		if e.Line = f.line(e.Field); e.Line == 0 {
			e.Line = f.line("network")
		}
		errs = append(errs, e)
	}
	for i, rule := range f.Spec.Network.Allow {
		if rule.Secret != nil {
			field := "network.allow[" + strconv.Itoa(i) + "].secret"
			errs = append(errs, &policy.FieldError{Field: field, File: f.name, Line: f.line(field), Reason: "the file of a project must not name a secret of yours",
				Hint: "write it in a file of your own, and use it with `spec`"})
		}
		host, reason, _ := policy.CanonicalHost(rule.Host)
		if reason != "" { // the spec is refused for it
			continue
		}
		e := &policy.FieldError{Field: "network.allow[" + strconv.Itoa(i) + "].host", Value: rule.Host, File: f.name,
			Hint: "use `network.allow` " + policy.ShellWord(rule.String()) + " when you start a sandbox"}
		switch {
		case host == "**":
			e.Reason = "the file of a project must not open every name"
		case policy.IsAddress(host):
			e.Reason = "the file of a project must not open addresses"
		default:
			continue
		}
		e.Line = f.line(e.Field)
		errs = append(errs, e)
	}
	refuse := func(field, value, reason string) {
		errs = append(errs, &policy.FieldError{Field: field, Value: value, File: f.name, Line: f.line(field), Reason: reason,
			Hint: "use `" + strings.SplitN(field, "[", 2)[0] + "` " + policy.ShellWord(value) + " when you start a sandbox"})
	}
	for i, port := range f.Spec.Network.HostPorts {
		refuse("network.host_ports["+strconv.Itoa(i)+"]", strconv.FormatUint(uint64(port), 10), "the file of a project must not open ports of the host")
	}
	for i, text := range f.Spec.Network.Publish {
		if p, err := policy.ParsePublish(text); text == policy.PublishAny || err == nil && p.IP.IsValid() {
			refuse("network.publish["+strconv.Itoa(i)+"]", text, "the file of a project must publish single ports alone, and at no address of its choice")
		}
	}
	return errs
}

// unfit returns why a project's file must not have the field at path, or nil. It judges whole
// fields of the spec, and those of the workspace.
func (f *File) unfit(path string) error {
	top, below, nested := strings.Cut(path, ".")
	if strings.Contains(top, "[") || nested && (top != "workspace" || strings.ContainsAny(below, ".[")) || path == "workspace" {
		return nil // a part of a field that is judged itself
	}
	e := &policy.FieldError{Field: path, File: f.name, Line: f.lines[path], Reason: "the file of a project must not say it",
		Hint: "use " + cmp.Or(remedies[path], "`"+path+"`") + " when you start a sandbox"}
	switch path {
	case "docker", "codex", "wrapper":
		e.Hint = "use `backend` and the flags of that backend, or a file of your own with `spec`"
	}
	for _, row := range projectFields() {
		if row.path != path {
			continue
		}
		if row.value == nil || slices.Contains(row.values, row.value(f.Spec)) {
			return nil
		}
		e.Value, e.Reason = row.value(f.Spec), "the file of a project must not weaken a wall; here it must be "+strings.Join(row.values, " or ")
	}
	return e
}
