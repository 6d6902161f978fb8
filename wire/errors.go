package wire

import (
	"fmt"
	"unicode"

	"github.com/paddock-dev/paddock/internal/text"
)

// Code is a stable, machine-readable name for a kind of failure.
type Code string

// The codes of this version. A client must treat an unknown code as CodeInternal.
const (
	CodeBadRequest    Code = "bad_request"    // malformed JSON, wrong types, impossible combination
	CodeUnknownAction Code = "unknown_action" // no such action
	CodeTooLarge      Code = "too_large"      // a bound of the protocol was exceeded
	CodeNotFound      Code = "not_found"      // the command (exit status 127), path, shell or service does not exist
	CodeNotExecutable Code = "not_executable" // the command exists and cannot be executed (exit status 126)
	CodeBadCwd        Code = "bad_cwd"        // the working directory cannot be used
	CodeStart         Code = "cannot_start"   // the kernel refused to start the command
	CodeExists        Code = "exists"         // the name is in use
	CodeConflict      Code = "conflict"       // the kind or state of the object forbids it
	CodeFailed        Code = "failed"         // the kernel refused an operation on a file; errno says why
	CodeUnauthorized  Code = "unauthorized"   // the token is missing or wrong
	CodeUnsupported   Code = "unsupported"    // a requested guarantee cannot be given here
	CodeTimeout       Code = "timeout"        // the peer took too long
	CodeBusy          Code = "busy"           // too many connections or commands
	CodeInternal      Code = "internal"       // a bug in the agent
	CodeGone          Code = "gone"           // the agent ended or the connection broke
)

// Error is a failure as it crosses the wire: an answer line with the key
// "error". No successful answer has a key of that name.
type Error struct {
	// Message is for people: "cannot VERB OBJECT: cause". On the wire it is
	// the key "error", the only one that the contract fixes.
	Message string `json:"error"`
	// Code is for programs.
	Code Code `json:"code,omitempty"`
	// Object names what the failure is about: a path, a program, a field.
	Object string `json:"object,omitempty"`
	// Hint says what to do about it; often empty.
	Hint string `json:"hint,omitempty"`
	// Errno is the kernel's error number, 0 if unknown.
	Errno int `json:"errno,omitempty"`
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// Errorf returns an Error with a formatted message.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

var knownCodes = map[Code]bool{
	CodeBadRequest: true, CodeUnknownAction: true, CodeTooLarge: true, CodeNotFound: true,
	CodeNotExecutable: true, CodeBadCwd: true, CodeStart: true, CodeUnsupported: true,
	CodeExists: true, CodeConflict: true, CodeFailed: true, CodeUnauthorized: true,
	CodeTimeout: true, CodeBusy: true, CodeInternal: true, CodeGone: true,
}

// fromPeer makes an error that came over the wire safe to act on and to
// print. It changes e and returns it.
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

// maxText bounds each text for people that a client keeps of an agent's
// error or denial, in characters.
const maxText = 4096

// printable shortens a text from the peer to maxText characters and replaces
// those that could control a terminal or forge a line of ours.
func printable(s string) string {
	return text.Printable(text.PrefixCharacters(s, maxText), unicode.ReplacementChar)
}
