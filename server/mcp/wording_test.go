package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/privilege"
	"github.com/paddock-dev/paddock/server/mcp"
)

// deniedOut is an answer with denials.
type deniedOut struct {
	Denials []paddock.Denial `json:"denials"`
}

// Tell says them.
func (o deniedOut) Tell(w io.Writer) error {
	_, err := fmt.Fprintln(w, o.Denials[0].Hint)
	return err
}

// TestHints: hints are in the words of tools, and what no tool can ask for is said
// to be the operator's to give.
func TestHints(t *testing.T) {
	const hint = "it needs `network` host or `loudly`; close_it frees one, see paddock echo and paddock plan; docker has --privileged"
	denied := []paddock.Denial{{Layer: "network", Hint: hint}}
	refuse := op.New(op.Desc{Name: "refuse", Summary: "Refuse", Profile: op.ProfileWorkspace, Doc: "Refuse. --network says what.\n\nOn a command line it prints. --loud is heard.\n\nExit status: 1."},
		func(_ context.Context, _ *op.Env, in struct {
			Loud    bool    `json:"loudly,omitempty" flag:"loud" help:"…"`
			Network *string `json:"network,omitempty" flag:"network" help:"…" within:"network"`
		}, _ *op.Stream) (deniedOut, error) {
			if in.Loud {
				return deniedOut{}, &paddock.Error{Message: "cannot do it", Hint: hint}
			}
			return deniedOut{denied}, nil
		}, func(io.Writer, deniedOut) error { return nil })
	closeIt := does(op.Desc{Name: "it_close", Profile: op.ProfileWorkspace}, func(context.Context) error { return nil })
	plan := does(op.Desc{Name: "plan", CLI: []string{"plan"}, Profile: op.ProfileFull}, func(context.Context) error { return nil })
	for tokens, want := range map[bool]string{
		false: "it needs the operator's paddock mcp --network host or loudly; it_close frees one, see echo and paddock plan; docker has --privileged",
		true:  "it needs the operator's network host or loudly; it_close frees one, see echo and paddock plan; docker has --privileged (in the spec of paddock token create)",
	} {
		s := dial(t, serve(t, mcp.Options{Profile: op.ProfileWorkspace, Ops: []op.Op{echo(), refuse, closeIt, plan}, Tokens: tokens, Env: func(string) (*op.Env, error) {
			return &op.Env{Principal: &privilege.Principal{Name: "agent:ann"}, Ceiling: &policy.Ceiling{}}, nil
		}}), nil)
		good := call(t, s, "refuse", map[string]any{})
		if got := text(t, good); !strings.HasPrefix(got, want) {
			t.Errorf("the text is %q", got)
		}
		if told, _ := json.Marshal(good.StructuredContent); !strings.Contains(string(told), want) || denied[0].Hint != hint {
			t.Errorf("the content is %s", told)
		}
		if bad := call(t, s, "refuse", map[string]any{"loudly": true}); !bad.IsError || !strings.Contains(text(t, bad), "hint: "+want) {
			t.Errorf("the error is %q", text(t, bad))
		}
		list, err := s.ListTools(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, tool := range list.Tools {
			if tool.Name == "refuse" && tool.Description != "Refuse.\n\nloudly is heard." {
				t.Errorf("the description is %q", tool.Description)
			}
		}
	}
}

// TestHintsOfAProfile: hints name what this profile has, and what the ceiling allows.
func TestHintsOfAProfile(t *testing.T) {
	said := ""
	refuse := op.New(op.Desc{Name: "refuse", Summary: "Refuse", Profile: op.ProfileWorkspace},
		func(_ context.Context, _ *op.Env, in struct {
			Degraded []string `json:"allow_degraded,omitempty" flag:"allow-degraded" help:"…" within:"degraded"`
		}, _ *op.Stream) (deniedOut, error) {
			return deniedOut{}, &paddock.Error{Message: "cannot do it", Hint: said}
		}, func(io.Writer, deniedOut) error { return nil })
	here := does(op.Desc{Name: "it_open", Profile: op.ProfileWorkspace}, func(context.Context) error { return nil })
	elsewhere := does(op.Desc{Name: "it_list", Profile: op.ProfileFull}, func(context.Context) error { return nil })
	for hint, want := range map[string][2]string{ // in the profiles workspace and full
		"it_list names them":                           {"", "it_list names them"},
		"it_open opens one; it_list names them":        {"it_open opens one", "it_open opens one; it_list names them"},
		"list_it, and wait":                            {"", "it_list, and wait"},
		"allow it: `allow_degraded`=memory":            {"allow it: the operator's paddock mcp --allow-degraded=memory", "allow it: the operator's paddock mcp --allow-degraded=memory"},
		"`ceiling.allow_degraded`=cpus allows it":      {"the operator's paddock mcp --allow-degraded=cpus allows it", "the operator's paddock mcp --allow-degraded=cpus allows it"},
		"wait, or allow it: `allow_degraded`=cpus":     {"wait, or allow it: allow_degraded=cpus", "wait, or allow it: allow_degraded=cpus"},
		"some_other_words are no tool's; it_list does": {"some_other_words are no tool's", "some_other_words are no tool's; it_list does"},
	} {
		for i, profile := range []op.Profile{op.ProfileWorkspace, op.ProfileFull} {
			s := dial(t, serveText(t, mcp.Options{Profile: profile, Ops: []op.Op{refuse, here, elsewhere}, Env: func(string) (*op.Env, error) {
				return &op.Env{Ceiling: &policy.Ceiling{AllowDegraded: []string{"cpus"}}}, nil
			}}), nil)
			said = hint
			told := "cannot do it"
			if want[i] != "" {
				told += "\nhint: " + want[i]
			}
			if got := text(t, call(t, s, "refuse", nil)); got != told {
				t.Errorf("%q in %s reads %q, want %q", hint, profile, got, told)
			}
		}
	}
}
