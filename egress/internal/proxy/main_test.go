package proxy

import (
	"testing"

	"go.uber.org/goleak"
)

// Nothing is left of connections, whatever they did. But an HTTP server that has ended one waits
// half a second until the other end has read the answer.
func TestMain(m *testing.M) {
	spliceLeast = 0 // so that all that is long is spliced
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}
