package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/paddock-dev/paddock/egress"
	"github.com/paddock-dev/paddock/policy"
)

func startControl(t *testing.T, rules ...string) (*env, *egress.Client, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "control")
	e := start(t, func(o *Options) {
		l, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		o.Control = l
	}, rules...)
	client := &egress.Client{Dial: func(ctx context.Context) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}}
	return e, client, path
}

// TestRevisions: rules of a revision that others have replaced stay.
func TestRevisions(t *testing.T) {
	e, client, _ := startControl(t, "api.test")
	ctx := t.Context()
	state, err := client.Show(ctx)
	if err != nil || state.Revision != 0 {
		t.Fatalf("%+v, %v", state, err)
	}
	_, err = client.SetAt(ctx, e.network("other.test"), 1)
	if failed := (*egress.Error)(nil); !errors.As(err, &failed) || !failed.Changed {
		t.Errorf("rules of another revision: %v", err)
	}
	state, err = client.SetAt(ctx, e.network("new.test"), 0)
	if err != nil || state.Revision != 1 || state.Network.Allow[0].Host != "new.test" {
		t.Errorf("rules of this revision: %+v, %v", state, err)
	}
}

func TestClient(t *testing.T) {
	e, client, path := startControl(t, "api.test", "!bad.test")
	ctx := t.Context()
	state, err := client.Show(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if len(state.Network.Allow) != 1 || state.Network.Allow[0].Host != "api.test" || state.Network.Deny[0].Reason != "because" || state.Last != 0 {
		t.Errorf("the state is %+v", state)
	}
	e.Server.resolver.answer(question(t, "evil.test.", dnsmessage.TypeA, nil))
	state, err = client.Set(ctx, e.network("new.test"))
	if err != nil {
		t.Fatal(err)
	}
	if len(state.Network.Allow) != 1 || state.Network.Allow[0].Host != "new.test" || len(state.Network.Deny) != 0 || state.Last != 2 {
		t.Errorf("the state is %+v", state)
	}
	var kinds []string
	each := func(r egress.Record) error {
		kinds = append(kinds, r.Kind+" "+r.Host)
		return nil
	}
	if err := client.Log(ctx, 0, false, each); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(kinds, ", "); got != "denied evil.test, rules " {
		t.Errorf("the records are %q", got)
	}
	kinds = nil
	if err := client.Log(ctx, 1, false, each); err != nil || len(kinds) != 1 {
		t.Errorf("the records after the first are %q, %v", kinds, err)
	}

	// A follower gets what comes later, until it ends.
	following, end := context.WithCancelCause(ctx)
	enough := errors.New("enough")
	got := make(chan egress.Record)
	ended := make(chan error, 1)
	go func() {
		ended <- client.Log(following, 2, true, func(r egress.Record) error {
			got <- r
			return nil
		})
	}()
	e.Server.resolver.answer(question(t, "late.test.", dnsmessage.TypeA, nil))
	if r := <-got; r.Seq != 3 || r.Host != "late.test" {
		t.Errorf("the record is %+v", r)
	}
	end(enough)
	if err := <-ended; !errors.Is(err, enough) {
		t.Errorf("the follower ended with %v", err)
	}

	for what, network := range map[string]policy.Network{
		"invalid mode": {Mode: policy.NetworkHost},
		"invalid host": {Mode: policy.NetworkAllow, Allow: []policy.NetworkRule{{Host: "a b"}}},
		"ports[0]":     {Mode: policy.NetworkAllow, Allow: []policy.NetworkRule{{Host: "a.test", Ports: []policy.Port{70000}}}},
	} {
		_, err := client.Set(ctx, network)
		if e := (*egress.Error)(nil); !errors.As(err, &e) || !strings.Contains(e.Message, what) {
			t.Errorf("Set of %+v: %v", network, err)
		}
	}
	for _, line := range []string{
		"", "{}", "null", "{\"op\":\"stop\"}", "{\"op\":\"set\"}", "{\"op\":\"show\",\"op\":\"set\"}", "{\"op\":\"show\",\"x\":1}", "{\"Op\":\"show\"}",
		"{\"op\":\"show\",\"network\":{\"mode\":\"allow\"}}", "{\"op\":\"set\",\"network\":null}", "{\"op\":\"set\",\"network\":[]}",
		`{"op":"set","network":{"mode":"allow","allow":[{"host":"a.test","http":[]}]}}`,
		`{"op":"set","network":{"mode":"allow","allow":[{"host":"a.test","host":"b.test"}]}}`,
		`{"op":"set","network":{"mode":"allow","Allow":[]}}`,
		`{"op":"set","network":"none"}`,
	} {
		conn, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(conn, line+"\n")
		answer, err := io.ReadAll(conn)
		var a egress.Answer
		if err == nil {
			err = json.Unmarshal(answer, &a)
		}
		if err != nil || a.Error == nil || !strings.Contains(a.Error.Message, "invalid") {
			t.Errorf("the answer to %s is %s, %v", line, answer, err)
		}
		_ = conn.Close()
	}
	if s := e.State(); s.Network.Allow[0].Host != "new.test" {
		t.Errorf("the state is %+v", s)
	}
	// A word is rules, too: none.
	if _, err := client.Set(ctx, policy.Network{Mode: policy.NetworkAllow}); err != nil {
		t.Error(err)
	}
	if m := e.exchange(question(t, "new.test.", dnsmessage.TypeA, nil)); m.RCode != dnsmessage.RCodeNameError {
		t.Errorf("without rules: %v", m.GoString())
	}
}

func TestClientOfNoServer(t *testing.T) {
	e, client, _ := startControl(t, "api.test")
	ended := make(chan error, 1)
	started := make(chan struct{})
	e.Server.resolver.answer(question(t, "evil.test.", dnsmessage.TypeA, nil))
	go func() {
		ended <- client.Log(t.Context(), 0, true, func(egress.Record) error {
			close(started)
			return nil
		})
	}()
	<-started
	e.stop()
	if err := <-ended; !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a follower whose server ended: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for err := error(nil); err == nil; _, err = client.Show(ctx) {
		if ctx.Err() != nil {
			t.Fatal("a server that has ended answers")
		}
	}
}

// Who makes the sockets is not trusted.
func TestInvalidSockets(t *testing.T) {
	try := func(change func(*Options)) error {
		udp, tcp := sockets(t, 4)
		o := Options{Network: policy.Network{Mode: policy.NetworkAllow}, UDP: udp, TCP: tcp, HostSockets: true}
		change(&o)
		s, err := New(o)
		if err == nil {
			s.Close()
		}
		return err
	}
	for what, change := range map[string]func(*Options){
		"there are no sockets":                    func(o *Options) { o.TCP = nil },
		"invalid UDP socket: it is of the host's": func(o *Options) { o.HostSockets = false },
		"invalid UDP socket: it is of another":    func(o *Options) { o.UDP = o.TCP[0] },
		"invalid TCP socket 1: it is of another":  func(o *Options) { o.TCP[1] = o.UDP },
		"invalid TCP socket 2: it is listening": func(o *Options) {
			l, err := net.ListenTCP("tcp4", nil)
			if err != nil {
				t.Fatal(err)
			}
			o.TCP[2], _ = l.File()
			_ = l.Close()
		},
		"invalid TCP socket 3: it is bound": func(o *Options) {
			l, err := net.Listen("tcp4", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			conn, err := net.DialTCP("tcp4", nil, l.Addr().(*net.TCPAddr))
			if err != nil {
				t.Fatal(err)
			}
			o.TCP[3], _ = conn.File()
			_ = conn.Close()
		},
		"invalid TCP socket 0: it is not of IPv4": func(o *Options) {
			l, err := net.Listen("unix", filepath.Join(t.TempDir(), "socket"))
			if err != nil {
				t.Fatal(err)
			}
			o.TCP[0], _ = l.(*net.UnixListener).File()
			_ = l.Close()
		},
		"invalid rules": func(o *Options) { o.Network.Mode = "" },
	} {
		if err := try(change); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%v; want an error that says %q", err, what)
		}
	}
}
