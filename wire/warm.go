package wire

// Warm builds what encoding and decoding an exec takes ahead of its first
// use. A side that has to wait anyway calls it then: it takes a few hundred
// microseconds, which are most of a short command's time otherwise.
func Warm() {
	request, err := encode(ExecRequest{Action: Exec.Name, Argv: []string{""}, Env: map[string]string{"": ""}})
	if err == nil {
		_ = DecodeRequest(request, new(ExecRequest))
	}
	if started, err := encode(ExecStarted{}); err == nil {
		_ = DecodeAnswer(started, new(ExecStarted))
	}
	if control, err := encode(Control{Result: &ExecResult{}}); err == nil {
		_, _ = DecodeControl(control)
	}
}
