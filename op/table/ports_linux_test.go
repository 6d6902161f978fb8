package table

import (
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/network"
	"github.com/paddock-dev/paddock/op/internal/sandbox"
	"github.com/paddock-dev/paddock/policy"
)

// A port is published in a persistent sandbox, as often as it is asked for at one address, is
// told wherever the sandbox is, and ends with it.
func TestPortPublish(t *testing.T) {
	env := lasting(t)
	out := well[network.PortPublishOutput](t, env, "port_publish", map[string]any{"ports": []string{"3000", "3001"}})
	if out.Sandbox != "default" || len(out.Published) != 2 || out.Published[0].Port != 3000 || out.Published[1].Port != 3001 {
		t.Fatalf("%+v", out)
	}
	again := well[network.PortPublishOutput](t, env, "port_publish", map[string]any{"ports": []string{"3001"}})
	if !slices.Equal(again.Published, out.Published[1:]) {
		t.Errorf("asked again: %+v, at first %+v", again, out)
	}
	show := well[network.NetworkOutput](t, env, "network_show", nil)
	if show.Network.Mode != policy.NetworkNone || len(show.Published) != 2 {
		t.Errorf("%+v", show)
	}
	var text strings.Builder
	if err := operation(t, "network_show").Render(&text, show); err != nil || !strings.HasPrefix(text.String(), "sandbox default, network none\n  published http://127.") {
		t.Errorf("%q, %v", text.String(), err)
	}
	status := well[sandbox.SandboxStatusOutput](t, env, "sandbox_status", nil)
	text.Reset()
	if err := status.Render(&text); err != nil || !strings.Contains(text.String(), out.Published[0].URL+" leads to port 3000") {
		t.Errorf("%s, %v", text.String(), err)
	}
	// One that cannot be had leaves none of the others.
	_, port, _ := net.SplitHostPort(out.Published[0].Address)
	_, err := try[network.PortPublishOutput](t.Context(), t, env, "port_publish", map[string]any{"ports": []string{"3002", port + ":3003"}})
	if err == nil || !strings.Contains(err.Error(), "the port is taken") {
		t.Errorf("%v", err)
	}
	if show := well[network.NetworkOutput](t, env, "network_show", nil); len(show.Published) != 2 {
		t.Errorf("after a failure: %+v", show.Published)
	}
	if err := env.Sandboxes.Close(); err != nil {
		t.Fatal(err)
	}
	if conn, err := net.Dial("tcp", out.Published[0].Address); err == nil {
		_ = conn.Close()
		t.Error("the listener outlives the sandbox")
	}
}

// Below a ceiling only what the operator named is published, and never at an address of the
// caller's choice.
func TestPortPublishBelowACeiling(t *testing.T) {
	for _, tt := range []struct{ operator, asked, refused string }{
		{"", "", "3000"},
		{"3000", "3000", "3001"},
		{"3000", "", "127.0.0.1:8080:3000"},
		{policy.PublishAny, "4000", "0.0.0.0::4000"},
	} {
		env := lasting(t)
		if tt.operator != "" {
			env.Default.Network.Publish = []string{tt.operator}
		}
		ceiling, err := env.Default.Ceiling()
		if err != nil {
			t.Fatal(err)
		}
		env.Ceiling = ceiling
		if tt.asked != "" {
			if out := well[network.PortPublishOutput](t, env, "port_publish", map[string]any{"ports": []string{tt.asked}}); len(out.Published) != 1 {
				t.Errorf("%s of %s: %+v", tt.asked, tt.operator, out)
			}
		}
		_, err = try[network.PortPublishOutput](t.Context(), t, env, "port_publish", map[string]any{"ports": []string{tt.refused}})
		found := (*policy.CeilingError)(nil)
		if !errors.As(err, &found) || found.Rule != "ceiling.publish" {
			t.Errorf("%s of %q: %v", tt.refused, tt.operator, err)
		}
	}
	create := operation(t, "sandbox_create")
	for _, c := range []policy.Ceiling{{}, {Publish: []string{"3000"}, HostPorts: []policy.Port{80}}} {
		schema := string(create.InputSchemaWithin(&c))
		for _, field := range []string{`"publish":`, `"host_ports":`} {
			if strings.Contains(schema, field) != (len(c.Publish) > 0) {
				t.Errorf("%+v: %s in %s", c, field, schema)
			}
		}
	}
}

// On a command line ports are forwarded until a signal, or until the sandbox ends.
func TestForward(t *testing.T) {
	env := lasting(t)
	s, err := paddock.Open(t.Context(), *env.Default, env.Options)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	own := &op.Env{Options: env.Options}
	input := []byte(`{"sandbox":"` + s.ID() + `","ports":["3000"]}`)
	if _, err := operation(t, "port_publish").Call(t.Context(), own, input, nil); err == nil || err.Error() != "cannot forward ports: the output is one JSON object" {
		t.Errorf("%v", err)
	}
	signals := make(chan string, 2)
	told := &countingWriter{at: func(int) {
		if list, err := s.Published(); err != nil || len(list) != 1 || list[0].Port != 3000 {
			t.Errorf("the owner sees %+v, %v", list, err)
		}
		signals <- "SIGWINCH"
		signals <- "SIGINT"
	}}
	if _, err := operation(t, "port_publish").Call(t.Context(), own, input, &op.Stream{Stdout: told, Stderr: io.Discard, Signals: signals}); err != nil {
		t.Error(err)
	}
	if !strings.HasPrefix(told.text, "http://127.") || !strings.HasSuffix(told.text, "/  port 3000 of sandbox "+s.ID()+"\n") {
		t.Errorf("%q", told.text)
	}
	if list, err := s.Published(); err != nil || len(list) > 0 {
		t.Errorf("after the signal: %+v, %v", list, err)
	}
	told = &countingWriter{at: func(int) { go func() { _ = s.Close() }() }}
	_, err = operation(t, "port_publish").Call(t.Context(), own, input, &op.Stream{Stdout: told, Stderr: io.Discard})
	if err == nil || err.Error() != "sandbox "+s.ID()+" has ended" {
		t.Errorf("%v", err)
	}
}
