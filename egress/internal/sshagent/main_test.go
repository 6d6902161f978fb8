package sshagent

import (
	"testing"

	"go.uber.org/goleak"
)

// Nothing is left of connections, whatever they did.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
