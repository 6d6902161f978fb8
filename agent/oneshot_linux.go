package agent

import (
	"context"
	"encoding/base64"
	"io"
	"strconv"

	"github.com/paddock-dev/paddock/internal/redact"
	"github.com/paddock-dev/paddock/wire"
)

// execCaptured runs a command and answers with its captured output.
func execCaptured(ctx context.Context, box *sandbox, r *wire.ExecRequest) (*wire.ExecResult, *wire.Error) {
	input := []byte(r.Stdin)
	if r.Encoding == "base64" {
		var err error
		if input, err = base64.StdEncoding.DecodeString(r.Stdin); err != nil {
			return nil, wire.Errorf(wire.CodeBadRequest, "cannot run the command: stdin is not base64: %v", err)
		}
	}
	limit := int(r.MaxOutputBytes)
	if limit == 0 {
		limit = defaultOutput
	}
	x, werr := box.startRun(r, len(input) > 0, nil)
	if werr != nil {
		return nil, werr
	}
	if in := x.stdio.stdin; in != nil {
		go func() {
			_, _ = in.Write(input) // a command may end without reading it
			_ = in.Close()
		}()
	}
	stdout, stderr := &capture{limit: limit}, &capture{limit: limit}
	go x.pump(stdout, stderr)
	res := x.finish(ctx)
	res.StdoutBytes, res.StdoutTruncated = stdout.total, stdout.truncated()
	res.StderrBytes, res.StderrTruncated = stderr.total, stderr.truncated()
	note := ""
	if res.TimedOut {
		note = "command timed out after " + strconv.FormatFloat(timeout(r).Seconds(), 'f', -1, 64) + "s"
	}
	if res.Blocked != "" { // what was printed before the match is not told either
		stdout, stderr = &capture{limit: limit}, &capture{limit: limit}
		_, _ = io.WriteString(stdout, redact.BlockedText(res.Blocked))
	}
	res.Stdout, res.Stderr = stdout.text(r.Encoding, ""), stderr.text(r.Encoding, note)
	return res, nil
}
