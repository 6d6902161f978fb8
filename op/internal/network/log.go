package network

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/egress"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/registry"
	"github.com/paddock-dev/paddock/policy"
)

type NetworkLogInput struct {
	Where
	Follow bool    `json:"follow,omitempty" flag:"follow" short:"f" only:"cli" help:"continue with new records as they come, until a signal or the sandbox's end"`
	After  uint64  `json:"after,omitempty" flag:"after" arg:"N" help:"only records after this number"`
	Limit  *uint64 `json:"limit,omitempty" flag:"limit" arg:"N" help:"only the newest N of these (default: 1000; for models 100)" min:"1" max:"4096"`
}

type NetworkLogOutput struct {
	Records []egress.Record `json:"records"`
	// Older counts records that were left out because of the limit.
	Older uint64 `json:"older"`
}

func (NetworkLogInput) Desc() op.Desc {
	return op.Desc{
		Name: "network_log", CLI: []string{"network", "log"}, Summary: "Print what commands of a sandbox asked the network for",
		Doc: `Print the log of a running sandbox whose network is "allow": each connection that has
ended, with its name, port and bytes, and what was refused, and why. The process that
holds the network keeps the newest 4096 records, as long as the sandbox lives.

  connection  a rule opened it, and it has ended
  request     of a connection that a rule looks into: method, path and status
  denied      no rule opened the name, the port or the address
  failed      a rule opened it, and the host could not be reached
  rules       they were replaced
  ssh         commands used the SSH agent`,
		Examples: `  paddock network log web
  paddock network log --follow web
  paddock network log --json web | jq -r '.records[] | select(.kind == "denied") | .host'`,
		Hints:   op.Hints{ReadOnly: true, Idempotent: true, Control: true},
		Streams: op.Streams{Out: true},
	}
}

// Do reads the log, and follows it if the input asks for that.
func (in NetworkLogInput) Do(ctx context.Context, env *op.Env, stream *op.Stream) (out NetworkLogOutput, err error) {
	if in.Follow && stream.Stdout == nil {
		return out, &paddock.Error{Message: "cannot follow the network's log: the output is one JSON object", Hint: "leave out --json"}
	}
	out.Records = []egress.Record{}
	most := uint64(1000)
	if env.Budget > 0 {
		most = 100
	}
	most = op.CountOr(in.Limit, most)
	err = in.in(ctx, env, func(ctx context.Context, h *registry.Sandbox) error {
		err := h.NetworkLog(ctx, in.After, false, func(r egress.Record) error {
			if out.Records = append(out.Records, r); uint64(len(out.Records)) > most {
				out.Records, out.Older = out.Records[1:], out.Older+1
			}
			return nil
		})
		if err != nil || !in.Follow {
			return err
		}
		return in.follow(ctx, h, &out, stream)
	})
	if err != nil {
		return NetworkLogOutput{}, err
	}
	return out, nil
}

// follow writes the records, and each new one, until a signal or the end of the sandbox.
func (in NetworkLogInput) follow(ctx context.Context, h *registry.Sandbox, out *NetworkLogOutput, stream *op.Stream) error {
	last := in.After
	for _, r := range out.Records {
		last = r.Seq
		if err := writeRecord(stream.Stdout, r); err != nil {
			return err
		}
	}
	out.Records = []egress.Record{}
	following, stop := stream.UntilInterrupted(ctx)
	defer stop()
	err := h.NetworkLog(following, last, true, func(r egress.Record) error { return writeRecord(stream.Stdout, r) })
	if ctx.Err() == nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// writeRecord writes a record as a line. Names are what commands asked for.
func writeRecord(w io.Writer, r egress.Record) error {
	host := text.Escape(r.Host)
	if r.Port > 0 {
		host += ":" + strconv.Itoa(int(r.Port))
	}
	var words []string
	switch r.Kind {
	case egress.KindConnection:
		words = append(words, fmt.Sprintf("%s sent, %s received in %s", policy.Size(r.Sent), policy.Size(r.Received), r.Duration))
	case egress.KindRules:
		host = "replaced"
	case egress.KindSSH:
		if r.Key != "" {
			words = append(words, text.Escape(r.Key))
		}
	}
	if r.Method != "" {
		request := text.Escape(r.Method + " " + r.Path)
		if r.Status > 0 {
			request += ": " + strconv.Itoa(r.Status)
		}
		words = append(words, request)
	}
	if r.Reason != "" {
		words = append(words, text.Escape(r.Reason))
	}
	if r.Count > 1 {
		words = append(words, strconv.FormatUint(r.Count, 10)+" times")
	}
	line := fmt.Sprintf("%s  %-10s  %s  %s", r.Time.UTC().Format(time.RFC3339), text.Escape(r.Kind), text.OrDash(host), strings.Join(words, "; "))
	_, err := io.WriteString(w, strings.TrimRight(line, " ")+"\n")
	return err
}

func (out NetworkLogOutput) Render(w io.Writer) error {
	if out.Older > 0 {
		if _, err := fmt.Fprintf(w, "(%d older)\n", out.Older); err != nil {
			return err
		}
	}
	for _, r := range out.Records {
		if err := writeRecord(w, r); err != nil {
			return err
		}
	}
	return nil
}
