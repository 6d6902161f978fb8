package policy

import (
	"slices"
	"strings"
)

// Backends returns the words that [Spec].Backend can be, the default first.
func Backends() []string {
	return []string{BackendLinux, BackendHost, BackendDocker, BackendCodex, BackendWrapper}
}

// Support says how one backend handles a field of a spec.
type Support struct {
	// Reason says why the field is refused; empty: the backend keeps it.
	Reason string
	// Remedy says what to do instead, if anything can be done.
	Remedy string
	// Allow is the word of [Degradations] that allows a refused field to be enforced only
	// in part, if there is one.
	Allow string
}

// Kept reports whether the backend keeps the field as it is written.
func (s Support) Kept() bool { return s.Reason == "" }

// FieldRow is a row of [Fields]: a field of a spec, or one value of it, and what each
// backend does with it.
type FieldRow struct {
	// Field is the path of the field, "limits.memory". Value is the value that the row
	// describes; empty stands for all values without another row.
	Field, Value string
	// By is the support, by backend; a backend that is not there keeps the field.
	By map[string]Support

	written func(Spec) []writtenValue
}

// Support says how the backend handles the field.
func (f FieldRow) Support(backend string) Support { return f.By[backend] }

// writtenValue is a field as it is written, with its index if it is in a list.
type writtenValue struct{ field, value string }

// Fields returns the table of what each backend keeps of a spec. [Spec.Resolve]
// refuses a field that is written and that the backend does not keep, and fills in
// defaults only for fields that it keeps.
func Fields() []FieldRow {
	return slices.Concat(wallFields(), workspaceFields(), limitFields(), optionFields())
}

// others returns the same support for every backend that is not named in but.
func others(s Support, but ...string) map[string]Support {
	by := map[string]Support{}
	for _, b := range Backends() {
		if !slices.Contains(but, b) {
			by[b] = s
		}
	}
	return by
}

// with sets the support of one backend.
func with(by map[string]Support, backend string, s Support) map[string]Support {
	by[backend] = s
	return by
}

// wallFields returns the rows for the wall and for fields without a separate section.
func wallFields() []FieldRow {
	const remedy = "leave it out, or use backend linux"
	root := others(Support{Reason: "the programs are those of the host", Remedy: remedy}, BackendLinux)
	root = with(root, BackendDocker, Support{Reason: "the programs are those of the image", Remedy: "name an image with `docker.image`"})
	root = with(root, BackendWrapper, Support{Reason: "the wrapper decides which programs there are", Remedy: "say it in `wrapper.command`"})
	return []FieldRow{
		{Field: "level", written: text("level", func(s Spec) string { return s.Level }),
			By: others(Support{Reason: "this backend has one level", Remedy: remedy}, BackendLinux)},
		{Field: "seccomp", written: text("seccomp", func(s Spec) string { return s.Seccomp }),
			By: map[string]Support{BackendHost: {Reason: "this backend has no walls", Remedy: remedy}}},
		{Field: "rootfs", written: text("rootfs", func(s Spec) string { return s.RootFS }), By: root},
		{Field: "network", Value: "none", written: text("network", func(s Spec) string { return s.Network.Asked() }),
			By: map[string]Support{
				BackendHost:    {Reason: "commands use the host's network", Remedy: remedy},
				BackendWrapper: {Reason: "the wrapper decides about the network", Remedy: "say it in `wrapper.command`"},
			}},
		{Field: "network", Value: "host", written: text("network", func(s Spec) string { return s.Network.Asked() }),
			By: map[string]Support{
				BackendWrapper: {Reason: "the wrapper decides about the network", Remedy: "say it in `wrapper.command`"},
			}},
		{Field: "network", Value: NetworkAllow, written: text("network", func(s Spec) string { return s.Network.Asked() }),
			By: map[string]Support{
				BackendHost:    {Reason: "commands use the host's network", Remedy: "use backend linux or docker, or leave it out: commands reach what this host reaches, its 127.0.0.1 too"},
				BackendCodex:   {Reason: "this backend cannot open single hosts", Remedy: "use backend linux or docker, or `network` none or host"},
				BackendWrapper: {Reason: "the wrapper decides about the network", Remedy: "use backend linux or docker, which keep rules, or leave it out, and bound the network in `wrapper.command`"},
			}},
		{Field: "network", Value: NetworkObserve, written: text("network", func(s Spec) string { return s.Network.Asked() }),
			By: map[string]Support{
				BackendHost:    {Reason: "commands use the host's network", Remedy: remedy},
				BackendDocker:  {Reason: "this backend cannot open single hosts", Remedy: "use backend linux, or `network` none or host"},
				BackendCodex:   {Reason: "this backend cannot open single hosts", Remedy: "use backend linux, or `network` none or host"},
				BackendWrapper: {Reason: "the wrapper decides about the network", Remedy: "say it in `wrapper.command`"},
			}},
		{Field: "ssh_agent", written: func(s Spec) []writtenValue { return present("ssh_agent", s.SSHAgent != nil) },
			By: others(Support{Reason: "this backend hands no socket of the SSH agent in", Remedy: "leave it out, or use backend linux or docker"}, BackendLinux, BackendDocker)},
		{Field: "host_sockets", written: func(s Spec) []writtenValue {
			var all []writtenValue
			for i, at := range s.HostSockets {
				all = append(all, writtenValue{index("host_sockets", i), at})
			}
			return all
		}, By: others(Support{Reason: "this backend hands no socket of the host in", Remedy: "leave it out, or use backend linux or docker"}, BackendLinux, BackendDocker)},
		{Field: "hostname", written: text("hostname", func(s Spec) string { return s.Hostname }),
			By: others(Support{Reason: "this backend sets no host name", Remedy: remedy}, BackendLinux, BackendDocker)},
		{Field: "commands", written: func(s Spec) []writtenValue { return present("commands", s.Commands != nil) },
			By: others(Support{Reason: "this backend cannot keep other programs from being executed", Remedy: "use backend linux"}, BackendLinux)},
		{Field: "redaction", written: func(Spec) []writtenValue { return nil }},
		{Field: "env", written: func(Spec) []writtenValue { return nil }},
		{Field: "no_toolchains", written: func(Spec) []writtenValue { return nil }},
		{Field: "allow_degraded", written: func(Spec) []writtenValue { return nil }},
	}
}

// workspaceFields returns the rows for the workspace and for mounts.
func workspaceFields() []FieldRow {
	const (
		there = "commands work where the workspace is"
		seen  = "what commands see of the host is not this backend's to say"
		use   = "use backend linux or docker"
	)
	wrapped := Support{Reason: "the wrapper decides what commands see", Remedy: "say it in `wrapper.command`"}
	mounts := others(Support{Reason: seen, Remedy: use}, BackendLinux, BackendDocker)
	overlay := others(Support{Reason: there, Remedy: "use backend linux"}, BackendLinux)
	overlay = with(overlay, BackendDocker, Support{Reason: "this backend's engine mounts no layers of this host", Remedy: "use backend linux, or workspace mode copy"})
	access := others(Support{Reason: "this backend cannot make it read-only", Remedy: use}, BackendLinux, BackendDocker, BackendCodex)
	return []FieldRow{
		{Field: "workspace.source", written: func(Spec) []writtenValue { return nil }},
		{Field: "workspace.mode", Value: ModeCopy, written: text("workspace.mode", func(s Spec) string { return s.Workspace.Mode }),
			By: others(Support{Reason: there, Remedy: use}, BackendLinux, BackendDocker)},
		{Field: "workspace.mode", Value: ModeOverlay, written: text("workspace.mode", func(s Spec) string { return s.Workspace.Mode }), By: overlay},
		{Field: "workspace.layers", written: text("workspace.layers", func(s Spec) string { return s.Workspace.Layers }), By: overlay},
		{Field: "workspace.access", Value: "ro", written: text("workspace.access", func(s Spec) string { return s.Workspace.Access }),
			By: with(access, BackendWrapper, wrapped)},
		{Field: "workspace.unprotected", written: func(Spec) []writtenValue { return nil }},
		{Field: "mounts", written: func(s Spec) []writtenValue {
			var all []writtenValue
			for i, m := range s.Mounts {
				all = append(all, writtenValue{index("mounts", i), m.Source})
			}
			return all
		}, By: with(mounts, BackendWrapper, wrapped)},
		{Field: "caches", written: func(s Spec) []writtenValue { return present("caches", s.keepsCaches()) },
			By: others(Support{Reason: "this backend keeps no caches", Remedy: "leave it out, or use backend linux"}, BackendLinux)},
		{Field: "home", written: text("home", func(s Spec) string { return s.Home }),
			By: others(Support{Reason: "this backend cannot keep HOME", Remedy: "leave it out, or use backend linux"}, BackendLinux)},
	}
}

// optionFields returns the rows for the options of one backend each.
func optionFields() []FieldRow {
	option := func(backend string, written func(Spec) bool) FieldRow {
		return FieldRow{Field: backend, written: func(s Spec) []writtenValue { return present(backend, written(s)) },
			By: others(Support{Reason: "it is for backend " + backend, Remedy: "name backend " + backend + ", or leave it out"}, backend)}
	}
	return []FieldRow{
		option(BackendDocker, func(s Spec) bool { return s.Docker != nil }),
		option(BackendCodex, func(s Spec) bool { return s.Codex != nil }),
		option(BackendWrapper, func(s Spec) bool { return s.Wrapper != nil }),
	}
}

// text returns what finds the value of a field with a text, unless it is empty.
func text(field string, value func(Spec) string) func(Spec) []writtenValue {
	return func(s Spec) []writtenValue {
		if v := value(s); v != "" {
			return []writtenValue{{field, v}}
		}
		return nil
	}
}

// present returns a field without a value, if there is true.
func present(field string, there bool) []writtenValue {
	if !there {
		return nil
	}
	return []writtenValue{{field: field}}
}

// keeps reports whether the backend keeps a field whatever its value is, so that a
// default may be filled in.
func (r *resolver) keeps(field string) bool {
	return !slices.ContainsFunc(r.fields, func(row FieldRow) bool {
		return row.Field == field && !row.Support(r.backend).Kept()
	})
}

// kept refuses fields that are set and that the backend cannot enforce.
func (r *resolver) kept(s Spec) {
	for _, row := range r.fields {
		support := row.Support(s.Backend)
		if support.Kept() || support.Allow != "" && s.Allows(support.Allow) {
			continue
		}
		for _, w := range row.written(s) {
			if row.Value == "" || row.Value == w.value {
				reason := strings.Replace(support.Reason, "this backend", "backend "+s.Backend, 1)
				r.refuse(w.field, w.value, reason, support.Remedy)
			}
		}
	}
}
