package op

import (
	"testing"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/privilege"
)

// TestCachesOfPrincipals: each principal has caches of its own, and only the operator's own
// calls also read what the operator has downloaded.
func TestCachesOfPrincipals(t *testing.T) {
	local := privilege.Local()
	tests := []struct {
		name    string
		env     Env
		owner   string
		sources bool
	}{
		{"the local user", Env{Principal: local}, local.Name, true},
		{"its model", Env{Principal: privilege.ModelOf(local), Ceiling: &policy.Ceiling{}}, privilege.ModelOf(local).Name, false},
		{"with a token", Env{Principal: &privilege.Principal{Name: "agent:ann"}, Ceiling: &policy.Ceiling{}}, "agent:ann", false},
		{"unknown", Env{}, "", true},
	}
	seen := map[string]string{}
	for _, tt := range tests {
		tt.env.Options = paddock.Options{Caches: paddock.CacheOptions{Auto: true, Host: true}}
		o, err := tt.env.OptionsFor(policy.Spec{})
		if err != nil || o.Caches.Principal != tt.owner || o.Caches.Host != tt.sources || !o.Caches.Auto {
			t.Errorf("%s: %+v, %v", tt.name, o.Caches, err)
		}
		if seen[o.Caches.Principal] != "" {
			t.Errorf("%s shares the caches of %s", tt.name, seen[o.Caches.Principal])
		}
		seen[o.Caches.Principal] = tt.name
	}
}
