package mcp

import (
	"errors"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/privilege"
)

// errorKey is the metadata key of an error for programs. It is not in the structured content,
// which has to fit the tool's output schema.
const errorKey = "paddock/error"

// errorText returns an error for a model: one line per problem, and one for what to do about it,
// which say rewords for this door.
func errorText(err error, say func(string) string) string {
	var b strings.Builder
	for _, one := range op.Flatten(err) {
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(oneLine(one.Error()))
		if hint := oneLine(say(op.HintOf(one))); hint != "" {
			b.WriteString("\nhint: " + hint)
		}
	}
	return b.String()
}

// errorInfo is an error for programs.
type errorInfo struct {
	Error  string       `json:"error"`
	Code   string       `json:"code,omitempty"`
	Field  string       `json:"field,omitempty"`
	Hint   string       `json:"hint,omitempty"`
	Errors []*errorInfo `json:"errors,omitempty"` // if there are several, each one
}

// maxErrors bounds how many errors are listed.
const maxErrors = 32

func errorData(err error, say func(string) string) *errorInfo {
	all := op.Flatten(err)
	info := errorOf(all[0], say)
	if len(all) > 1 {
		for _, one := range all[:min(len(all), maxErrors)] {
			info.Errors = append(info.Errors, errorOf(one, say))
		}
	}
	return info
}

func errorOf(err error, say func(string) string) *errorInfo {
	info := &errorInfo{Error: clip(oneLine(err.Error()), 1000), Hint: clip(oneLine(say(op.HintOf(err))), 1000)}
	own, ceiling, denied := (*paddock.Error)(nil), (*policy.CeilingError)(nil), (*privilege.Denied)(nil)
	fields := policy.FieldErrors(err)
	if len(fields) > 0 {
		info.Field = fields[0].Field
	}
	switch {
	case errors.As(err, &denied), errors.As(err, &ceiling):
		info.Code = "denied"
	case errors.As(err, &own) && own.Code != "":
		info.Code = string(own.Code)
	case info.Field != "":
		info.Code = "bad_request"
	}
	return info
}

// coded turns an error of a method into one of the protocol, with a code, and bounds its length:
// some errors repeat their input.
func coded(method string, err error) error {
	if err == nil {
		return nil
	}
	own := (*jsonrpc.Error)(nil)
	if !errors.As(err, &own) {
		own = &jsonrpc.Error{Code: jsonrpc.CodeInternalError}
		if method == methodInitialize {
			own.Code = jsonrpc.CodeInvalidRequest // it was sent twice
		}
	}
	return &jsonrpc.Error{Code: own.Code, Message: clip(err.Error(), maxNotes), Data: own.Data}
}

func oneLine(s string) string {
	return strings.ReplaceAll(plain(strings.TrimSpace(s)), "\n", "; ")
}
