package agent

// ExecTimeout is how long a command may run.
var ExecTimeout = timeout
