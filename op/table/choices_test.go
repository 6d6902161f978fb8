package table

import (
	"strings"
	"testing"

	"github.com/paddock-dev/paddock/op"
)

// TestChoices: a word that a field does not have is refused before anything is done.
func TestChoices(t *testing.T) {
	for _, tt := range []struct{ name, input, want string }{
		{"output_read", `{"output":"o","stream":"nope"}`, `stream "nope"`},
		{"output_read", `{"output":"o","encoding":"nope"}`, `encoding "nope"`},
		{"file_read", `{"path":"a","encoding":"nope"}`, `encoding "nope"`},
		{"file_write", `{"path":"a","content":"a","encoding":"Base64"}`, `encoding "Base64"`},
		{"file_list", `{"kinds":["file","nope"]}`, `kinds[1] "nope"`},
	} {
		for _, o := range All() {
			if o.Name != tt.name {
				continue
			}
			_, err := o.Call(t.Context(), &op.Env{}, []byte(tt.input), &op.Stream{})
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), `it must be "`) {
				t.Errorf("%s %s: %v", tt.name, tt.input, err)
			}
		}
	}
}
