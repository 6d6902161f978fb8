package table

import (
	"testing"

	"github.com/paddock-dev/paddock/op/internal/registry"
)

// One principal's sessions are not another's, and nobody keeps too many.
func TestSessionsOfPrincipals(t *testing.T) {
	s := &registry.Sessions{}
	for range 16 {
		key, err := s.Reserve("ann", "")
		if err != nil || !s.Put(key, &registry.Session{Key: key}) {
			t.Fatal(key, err)
		}
	}
	if _, err := s.Reserve("ann", ""); err == nil {
		t.Error("ann keeps one too many")
	}
	key, err := s.Reserve("bob", "x")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Reserve("bob", "x"); err == nil {
		t.Error("two sessions have one name")
	}
	if _, err := s.Find("bob", "x"); err == nil {
		t.Error("a session that is being opened was found")
	}
	s.Put(key, &registry.Session{Key: key})
	if _, err := s.Find("ann", "x"); err == nil {
		t.Error("ann finds bob's session")
	}
	if _, err := s.Remove("ann", "x"); err == nil {
		t.Error("ann closes bob's session")
	}
	if k, err := s.Remove("bob", "x"); err != nil || k.Key != key {
		t.Error(k, err)
	}
	if got := len(s.Of("ann")); got != 16 {
		t.Errorf("ann has %d", got)
	}
	for _, bad := range []string{"../x", ".x", "a b", "é"} {
		if _, err := s.Reserve("cy", bad); err == nil {
			t.Errorf("a session is called %q", bad)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := s.Reserve("cy", "y"); err == nil {
		t.Error("a closed door keeps a session")
	}
}
