package paddock

import (
	"testing"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/policy"
)

// A value that is a part of another one is refused: where it is replaced in an answer, the rest of
// the longer one would be left.
func TestSecretsWithinSecrets(t *testing.T) {
	t.Setenv("SHORT", "sk-12345678")
	t.Setenv("LONG", "sk-12345678-long")
	t.Setenv("SAME", "sk-12345678")
	t.Setenv("OTHER", "sk-87654321")
	for _, tt := range []struct {
		first, second string
		want          string
	}{
		{"SHORT", "LONG", "cannot use network.allow: the value of A is a part of that of B: answers could not be searched for both"},
		{"LONG", "SHORT", "cannot use network.allow: the value of B is a part of that of A: answers could not be searched for both"},
		{"SHORT", "SAME", ""},
		{"SHORT", "OTHER", ""},
	} {
		req := &backend.Request{}
		req.Spec.Network.Allow = []NetworkRule{
			{Host: "a.example", Secret: &policy.NetworkSecret{Name: "A", Source: "env:" + tt.first}},
			{Host: "b.example", Secret: &policy.NetworkSecret{Name: "B", Source: "env:" + tt.second}},
		}
		secrets, err := readSecrets(t.Context(), req)
		switch {
		case tt.want == "" && (err != nil || len(secrets) != 2):
			t.Errorf("%s and %s: %v", tt.first, tt.second, err)
		case tt.want != "" && (err == nil || err.Error() != tt.want):
			t.Errorf("%s and %s: %v; want %s", tt.first, tt.second, err, tt.want)
		}
	}
}
