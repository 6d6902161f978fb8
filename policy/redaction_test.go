package policy

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

func TestRedactionErrors(t *testing.T) {
	many := make([]Redaction, 65)
	for i := range many {
		many[i] = Redaction{Name: "n" + strings.Repeat("x", i), Pattern: "x"}
	}
	for _, tt := range []struct {
		rules []Redaction
		want  string
	}{
		{[]Redaction{{Type: "mail"}}, `cannot use redaction[0].type "mail": it is not one of email, credit_card, ip, mac_address, url, custom`},
		{[]Redaction{{Type: "ip"}, ParseRedaction("email=drop")}, `cannot use redaction[1].strategy "drop": it is not one of redact, mask, hash, block`},
		{[]Redaction{{Type: "ip"}, {Type: "ip"}}, `cannot use redaction[1].name "ip": it is that of another rule, too`},
		{[]Redaction{{Pattern: "x"}}, `cannot use redaction[0].name: it is needed where there is a pattern`},
		{[]Redaction{{Name: "a b", Pattern: "x"}}, `cannot use redaction[0].name "a b": it is not a letter and then letters, digits, "_" and "-", at most 64`},
		{[]Redaction{{Name: "x", Pattern: "[a"}}, `cannot use redaction[0].pattern "[a": it is no expression in RE2 syntax: missing closing ] "[a"`},
		{[]Redaction{{Name: "x", Pattern: "a?"}}, `cannot use redaction[0].pattern "a?": it matches where nothing is`},
		{many, `cannot use redaction: there are more rules than 64`},
	} {
		_, err := Spec{Redaction: tt.rules}.Resolve(Base{Dir: "/work"})
		var e *FieldError
		if !errors.As(err, &e) || err.Error() != tt.want {
			t.Errorf("got %v, want %s", err, tt.want)
		}
	}
}

// Defaults are filled in, and a resolved spec resolves to itself.
func TestRedactionDefaults(t *testing.T) {
	asked := []Redaction{ParseRedaction("email=mask"), ParseRedaction("ip"), {Name: "ticket", Pattern: "JIRA-[0-9]+"}}
	want := []Redaction{{"email", "email", "", "mask"}, {"ip", "ip", "", "redact"}, {"ticket", "custom", "JIRA-[0-9]+", "redact"}}
	for range 2 {
		s, err := Spec{Redaction: asked}.Resolve(Base{Dir: "/work"})
		if err != nil || !reflect.DeepEqual(s.Redaction, want) {
			t.Fatalf("got %v, %v, want %v", s.Redaction, err, want)
		}
		asked = s.Redaction
	}
}

// A ceiling's rules come first, and nobody takes them away or their place.
func TestCeilingRedaction(t *testing.T) {
	c := &Ceiling{Workspace: []Place{{Source: "/work", Mode: "rw"}}, Redaction: []Redaction{{Type: "email", Strategy: "block"}}}
	spec := Spec{Workspace: Workspace{Source: "/work"}}
	for _, own := range [][]Redaction{nil, {{Type: "ip"}}} {
		spec.Redaction = own
		got, err := c.Apply(spec)
		if want := append([]Redaction{{Type: "email", Strategy: "block"}}, own...); err != nil || !reflect.DeepEqual(got.Redaction, want) {
			t.Errorf("got %v, %v, want %v", got.Redaction, err, want)
		}
	}
	spec.Redaction = []Redaction{{Type: "ip"}, {Name: "Email", Pattern: "never"}}
	_, err := c.Apply(spec)
	var e *CeilingError
	if !errors.As(err, &e) || e.Rule != "ceiling.redaction" || e.Field != "redaction[1].name" {
		t.Errorf("got %v", err)
	}
	for _, own := range []Redaction{{Name: "email", Type: "email", Strategy: "block"}, ParseRedaction("email=block")} {
		spec.Redaction = []Redaction{own, {Type: "ip"}, own}
		got, err := c.Apply(spec)
		if want := []Redaction{{Type: "email", Strategy: "block"}, {Type: "ip"}}; err != nil || !reflect.DeepEqual(got.Redaction, want) {
			t.Errorf("the same rule: got %v, %v, want %v", got.Redaction, err, want)
		}
	}
	for _, own := range []Redaction{{Type: "email"}, {Type: "email", Strategy: "mask"}, {Name: "EMAIL", Type: "email", Strategy: "block"}} {
		spec.Redaction = []Redaction{own}
		if _, err := c.Apply(spec); !errors.As(err, &e) {
			t.Errorf("another rule of the name: got %v for %v", err, own)
		}
	}
	c.Redaction[0].Strategy = "nothing"
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "redaction[0].strategy") {
		t.Errorf("a bad ceiling: %v", err)
	}
}
