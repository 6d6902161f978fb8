package egress_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock/egress"
	"github.com/paddock-dev/paddock/policy"
)

// A client believes no answer that is not one.
func TestClientOfInvalidAnswers(t *testing.T) {
	for answer, want := range map[string]string{
		"":                                  "unexpected EOF",
		"{\"state\":{}":                     "unexpected EOF",
		"{}\n":                              "unexpected answer",
		"[]\n":                              "unexpected answer",
		"{\"done\":true}\n":                 "unexpected answer",
		"{\"state\":{\"unknown\":1}}\n":     "unexpected answer",
		"{\"error\":{\"error\":\"why\"}}\n": "why",
		strings.Repeat("x", 5<<20) + "\n":   "longer than",
	} {
		client := &egress.Client{Dial: func(context.Context) (net.Conn, error) {
			ours, theirs := net.Pipe()
			go func() {
				_, _ = bufio.NewReader(theirs).ReadString('\n')
				_, _ = io.WriteString(theirs, answer)
				_ = theirs.Close()
			}()
			return ours, nil
		}}
		if _, err := client.Set(t.Context(), policy.Network{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v; want an error that says %s", answer, err, want)
		}
	}
}

func TestClientIsCancelled(t *testing.T) {
	why := errors.New("no more time")
	ctx, cancel := context.WithCancelCause(t.Context())
	client := &egress.Client{Dial: func(context.Context) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go func() {
			_, _ = bufio.NewReader(theirs).ReadString('\n')
			cancel(why)
		}()
		return ours, nil
	}}
	if err := client.Log(ctx, 0, true, func(egress.Record) error { return nil }); !errors.Is(err, why) {
		t.Errorf("the error is %v", err)
	}
	refused := errors.New("refused")
	client.Dial = func(context.Context) (net.Conn, error) { return nil, refused }
	if _, err := client.Show(t.Context()); !errors.Is(err, refused) {
		t.Errorf("the error is %v", err)
	}
}
