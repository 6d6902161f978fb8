package files

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/paddock-dev/paddock/agent/internal/core"
	"github.com/paddock-dev/paddock/wire"
)

// Set stores named secrets in memory, all or none, and if the request says so in files, too.
// The values are hidden from then on, also in output of what runs already that the agent copies.
func (s *Secrets) Set(q *wire.SetSecretsRequest) (*wire.SecretsResult, error) {
	if len(q.Secrets) == 0 {
		return nil, core.BadField("secrets", "secrets is required")
	}
	for _, name := range slices.Sorted(maps.Keys(q.Secrets)) {
		if reason := unfitSecret(name, q.Secrets[name]); reason != "" {
			return nil, core.BadField("secrets", "cannot set secret "+strconv.Quote(core.ShortName(name))+": "+reason)
		}
	}
	return s.change(func(named map[string]string, inFiles []string) ([]string, error) {
		if q.Replace {
			clear(named)
			inFiles = nil
		}
		maps.Copy(named, q.Secrets)
		inFiles = slices.DeleteFunc(inFiles, func(name string) bool { _, given := q.Secrets[name]; return given })
		if q.Files {
			inFiles = slices.AppendSeq(inFiles, maps.Keys(q.Secrets))
		}
		return inFiles, nil
	})
}

// unfitSecret returns why a secret cannot be stored, or nothing. The reason has no part of the
// value.
func unfitSecret(name, value string) string {
	switch {
	case name == "" || !core.PortableName(name):
		return "a name has 1 to 64 letters, digits and underscores, the first of them no digit"
	case len(core.ShownValue(value)) < wire.MinSecretBytes:
		return fmt.Sprintf("a value must have at least %d bytes: shorter ones cannot be hidden in output", wire.MinSecretBytes)
	case len(value) > wire.MaxSecretBytes:
		return fmt.Sprintf("a value must have at most %d bytes: longer ones cannot be hidden in output", wire.MaxSecretBytes)
	case strings.IndexByte(value, 0) >= 0:
		return "a value cannot hold a NUL byte"
	}
	return ""
}

// Delete removes named secrets, all or none. What was started with them keeps them, and they stay
// hidden in its output.
func (s *Secrets) Delete(q *wire.DeleteSecretsRequest) (*wire.SecretsResult, error) {
	if len(q.Names) == 0 {
		return nil, core.BadField("names", "names is required")
	}
	return s.change(func(named map[string]string, inFiles []string) ([]string, error) {
		for _, name := range q.Names {
			if _, ok := named[name]; !ok {
				return nil, &wire.Error{Code: wire.CodeNotFound, Object: core.ShortName(name),
					Message: "cannot delete secret " + strconv.Quote(core.ShortName(name)) + ": unknown name"}
			}
		}
		for _, name := range q.Names {
			delete(named, name)
		}
		return slices.DeleteFunc(inFiles, func(name string) bool { _, left := named[name]; return !left }), nil
	})
}

// List returns the names of the secrets, and where those are that are files.
func (s *Secrets) List(*wire.ListSecretsRequest) (*wire.SecretsResult, error) {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.listed(), nil
}

func (s *Secrets) listed() *wire.SecretsResult {
	r := &wire.SecretsResult{Names: slices.AppendSeq([]string{}, maps.Keys(s.vault.Named()))}
	slices.Sort(r.Names)
	if len(s.inFiles) > 0 {
		r.Path = wire.OSString(cmp.Or(s.Shown, SecretPath))
	}
	return r
}

// change replaces the named secrets and the set of their files by what edit makes of copies of
// them. If that fails, everything stays as it was.
func (s *Secrets) change(edit func(named map[string]string, inFiles []string) ([]string, error)) (*wire.SecretsResult, error) {
	s.lock.Lock()
	defer s.lock.Unlock()
	before := s.vault.Named()
	named := maps.Clone(before)
	if named == nil {
		named = map[string]string{}
	}
	inFiles, err := edit(named, slices.Clone(s.inFiles))
	if err != nil {
		return nil, err
	}
	slices.Sort(inFiles)
	size := 0
	for _, value := range named {
		size += len(value)
	}
	if len(named) > wire.MaxSecrets || size > wire.MaxSecretsBytes {
		return nil, tooLarge(fmt.Sprintf("cannot set the secrets: a sandbox has at most %d, of %d bytes together", wire.MaxSecrets, wire.MaxSecretsBytes))
	}
	var n *newSecrets
	differs := func(name string) bool { return before[name] != named[name] }
	if !slices.Equal(inFiles, s.inFiles) || slices.ContainsFunc(inFiles, differs) {
		if n, err = s.filesOf(named, inFiles); err != nil {
			return nil, err
		}
		defer n.close()
	}
	if err := s.put(named, s.archived, n); err != nil {
		return nil, err
	}
	s.inFiles = inFiles
	return s.listed(), nil
}

// filesOf makes a set of files of named secrets. It must be closed.
func (s *Secrets) filesOf(named map[string]string, names []string) (*newSecrets, error) {
	if s.archive {
		return nil, &wire.Error{Code: wire.CodeConflict, Object: "files", Message: "cannot put secrets in files: those of install_secrets are there",
			Hint: "install an empty set first, or leave files out"}
	}
	n, err := s.begin()
	if err != nil {
		return nil, secretError(err)
	}
	for _, name := range names {
		m := &tarMember{name: name, names: []string{name}, size: int64(len(named[name]))}
		if err := n.file(m, strings.NewReader(named[name])); err != nil {
			n.close()
			return nil, secretError(err)
		}
	}
	return n, nil
}
