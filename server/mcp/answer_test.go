package mcp

import (
	"testing"

	"github.com/paddock-dev/paddock/internal/osstring"
)

// TestEncodeBytes: clients that read JSON strictly refuse lone surrogates.
func TestEncodeBytes(t *testing.T) {
	got, err := encode(struct {
		Path osstring.String `json:"path"`
	}{"<caf\xe9>"})
	if want := `{"path":"<caf\ufffd>"}`; err != nil || string(got) != want {
		t.Errorf("%s, %v; want %s", got, err, want)
	}
}
