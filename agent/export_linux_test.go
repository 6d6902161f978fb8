package agent

import "github.com/paddock-dev/paddock/agent/internal/exec"

// ExecTimeout is how long a command may run.
var ExecTimeout = exec.Timeout
