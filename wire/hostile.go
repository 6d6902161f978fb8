package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode"

	"github.com/paddock-dev/paddock/internal/text"
)

// MaxDenials is how many denials a result may carry. What exceeds it is an
// error when decoded: a denial of three bytes takes 72 in memory.
const MaxDenials = 1024

// maxText bounds each text for people that a client keeps of an agent's
// error or denial, in characters.
const maxText = 4096

// Denials is a list of refusals, of at most MaxDenials.
type Denials []Denial

// UnmarshalJSON reads the list and stops at MaxDenials.
func (d *Denials) UnmarshalJSON(data []byte) error {
	return decodeList(data, (*[]Denial)(d), MaxDenials, "denials")
}

// decodeList reads a list and stops where it is too long: an element of three
// bytes may take a hundred in memory.
func decodeList[T any](data []byte, into *[]T, most int, name string) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	open, err := dec.Token()
	if err != nil || open == nil {
		return err
	}
	if open != json.Delim('[') {
		return errors.New(name + " must be a list")
	}
	var list []T
	for dec.More() {
		if len(list) == most {
			return fmt.Errorf("more than %d %s", most, name)
		}
		var one T
		if err := dec.Decode(&one); err != nil {
			return err
		}
		list = append(list, one)
	}
	*into = list
	return nil
}

var knownCodes = map[Code]bool{
	CodeBadRequest: true, CodeUnknownAction: true, CodeTooLarge: true, CodeNotFound: true,
	CodeNotExecutable: true, CodeBadCwd: true, CodeStart: true, CodeUnsupported: true,
	CodeExists: true, CodeConflict: true, CodeFailed: true, CodeUnauthorized: true,
	CodeTimeout: true, CodeBusy: true, CodeInternal: true, CodeGone: true,
}

// fromPeer makes an error that came over the wire safe to act on and to
// print, in place.
func (e *Error) fromPeer() *Error {
	if !knownCodes[e.Code] {
		e.Code = CodeInternal
	}
	e.Message = printable(e.Message)
	e.Object = printable(e.Object)
	e.Hint = printable(e.Hint)
	e.Errno = max(e.Errno, 0)
	return e
}

// fromPeer checks a result that came over the wire and makes its texts, apart
// from the command's own output, safe to print.
func (r *ExecResult) fromPeer() error {
	counts := []struct {
		name  string
		value int64
	}{
		{"duration_ms", r.DurationMS},
		{"stdout_bytes", r.StdoutBytes},
		{"stderr_bytes", r.StderrBytes},
		{"user_cpu_ms", r.UserCPUMS},
		{"system_cpu_ms", r.SystemCPUMS},
		{"peak_memory_bytes", r.PeakMemoryBytes},
		{"throttled_ms", r.ThrottledMS},
		{"processes_peak", r.ProcessesPeak},
		{"io_read_bytes", r.IOReadBytes},
		{"io_write_bytes", r.IOWriteBytes},
		{"survivors", int64(r.Survivors)},
		{"survivors_killed", int64(r.SurvivorsKilled)},
		{"survivors that were not killed", int64(r.Survivors) - int64(r.SurvivorsKilled)},
	}
	for _, c := range counts {
		if c.value < 0 {
			return Errorf(CodeInternal, "cannot use the agent's result: %s is negative", c.name)
		}
	}
	if r.ExitCode < -64 || r.ExitCode > 255 {
		return Errorf(CodeInternal, "cannot use the agent's result: exit_code %d is out of range", r.ExitCode)
	}
	r.ID = printable(r.ID)
	r.Signal = printable(r.Signal)
	r.PeakMemorySource = printable(r.PeakMemorySource)
	r.Blocked = printable(r.Blocked)
	r.Denials.fromPeer()
	return nil
}

// fromPeer makes the texts safe to print.
func (d Denials) fromPeer() {
	for i := range d {
		d := &d[i]
		d.Layer, d.Rule = printable(d.Layer), printable(d.Rule)
		d.Object, d.Hint = printable(d.Object), printable(d.Hint)
		d.Count = max(d.Count, 0)
	}
}

// printable bounds a text from the peer and replaces what could steer a
// terminal or forge a line of ours.
func printable(s string) string {
	return text.Printable(text.PrefixCharacters(s, maxText), unicode.ReplacementChar)
}
