package mcp_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/server/mcp"
)

// Where a session has as many calls as it may have, it still can look at them and
// end them.
func TestControlGetsIn(t *testing.T) {
	const most = 64 + 512
	freed := make(chan struct{})
	blocks := does(op.Desc{Name: "blocks"}, func(ctx context.Context) error {
		select {
		case <-freed:
		case <-ctx.Done():
		}
		return nil
	})
	look := does(op.Desc{Name: "look", Hints: op.Hints{ReadOnly: true, Control: true}}, func(context.Context) error { return nil })
	other := does(op.Desc{Name: "other"}, func(context.Context) error { return nil })
	c := dial(t, serve(t, mcp.Options{Ops: []op.Op{blocks, look, other}}), nil)
	var all sync.WaitGroup
	for range most {
		all.Go(func() {
			if _, err := c.CallTool(context.Background(), &sdk.CallToolParams{Name: "blocks"}); err != nil {
				t.Error(err)
			}
		})
	}
	full := func() bool { // as soon as one is refused; one that is not waits for its end here
		ctx, cancel := context.WithTimeout(t.Context(), patient/60)
		defer cancel()
		res, err := c.CallTool(ctx, &sdk.CallToolParams{Name: "other"})
		return err == nil && res.IsError && strings.Contains(text(t, res), "too many of this session are waiting")
	}
	for try := 0; !full(); try++ {
		if try > 60 {
			t.Fatal("it is never full")
		}
	}
	for range 20 {
		if res := call(t, c, "look", nil); res.IsError {
			t.Error(text(t, res))
		}
	}
	close(freed)
	all.Wait()
}
