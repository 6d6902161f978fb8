package policy

import (
	"encoding/json"

	"github.com/paddock-dev/paddock/internal/osstring"
)

// storedSpec is a spec as JSON without loss: its paths, which need not be UTF-8, take the places
// of the fields of the same names in the structs that are embedded.
type storedSpec struct {
	Spec
	RootFS    osstring.String `json:"rootfs,omitempty"`
	Workspace storedWorkspace `json:"workspace,omitzero"`
	Mounts    []storedMount   `json:"mounts,omitempty"`
	Home      osstring.String `json:"home,omitempty"`
}

type storedWorkspace struct {
	Workspace
	Source osstring.String `json:"source,omitempty"`
	Layers osstring.String `json:"layers,omitempty"`
}

type storedMount struct {
	Mount
	Source osstring.String `json:"source"`
	Target osstring.String `json:"target,omitempty"`
}

// StoredSpec is a spec in the JSON of a stored record, where paths keep all their bytes.
type StoredSpec Spec

// MarshalJSON writes the spec.
func (s StoredSpec) MarshalJSON() ([]byte, error) {
	w := s.Workspace
	text := storedSpec{Spec(s), osstring.String(s.RootFS), storedWorkspace{w, osstring.String(w.Source), osstring.String(w.Layers)}, nil, osstring.String(s.Home)}
	for _, m := range s.Mounts {
		text.Mounts = append(text.Mounts, storedMount{m, osstring.String(m.Source), osstring.String(m.Target)})
	}
	return json.Marshal(text)
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (s *StoredSpec) UnmarshalJSON(data []byte) error {
	var text storedSpec
	if err := json.Unmarshal(data, &text); err != nil {
		return err
	}
	*s = StoredSpec(text.Spec)
	s.RootFS, s.Home = string(text.RootFS), string(text.Home)
	s.Workspace = text.Workspace.Workspace
	s.Workspace.Source, s.Workspace.Layers = string(text.Workspace.Source), string(text.Workspace.Layers)
	for _, m := range text.Mounts {
		m.Mount.Source, m.Mount.Target = string(m.Source), string(m.Target)
		s.Mounts = append(s.Mounts, m.Mount)
	}
	return nil
}
