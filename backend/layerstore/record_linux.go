package layerstore

import (
	"encoding/json"

	"github.com/paddock-dev/paddock/internal/osstring"
)

// plainRecord is a Record without its methods.
type plainRecord Record

// recordJSON is a Record in JSON, with paths that need not be UTF-8.
type recordJSON struct {
	plainRecord
	Source osstring.String `json:"source"`
	Place  osstring.String `json:"place"`
}

// MarshalJSON writes a record.
func (r Record) MarshalJSON() ([]byte, error) {
	return json.Marshal(recordJSON{plainRecord(r), osstring.String(r.Source), osstring.String(r.Place)})
}

// UnmarshalJSON reads a record.
func (r *Record) UnmarshalJSON(data []byte) error {
	var text recordJSON
	err := json.Unmarshal(data, &text)
	*r = Record(text.plainRecord)
	r.Source, r.Place = string(text.Source), string(text.Place)
	return err
}
