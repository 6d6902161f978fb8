package op

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/paddock-dev/paddock/policy"
)

// MaxInput bounds an operation's input, in bytes. It has room for the longest
// command that a kernel starts, with each byte escaped.
const MaxInput = 16 << 20

// decode reads input into in and refuses what it does not know.
func decode(name string, input []byte, in any) error {
	if len(input) > MaxInput {
		return fmt.Errorf("cannot read the input of %s: it is longer than %d bytes", name, MaxInput)
	}
	dec := json.NewDecoder(bytes.NewReader(input))
	dec.DisallowUnknownFields()
	if err := dec.Decode(in); err != nil {
		return fmt.Errorf("cannot read the input of %s: %w", name, inputError(err))
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("cannot read the input of %s: something follows the object", name)
	}
	return nil
}

// inputError says in the words of JSON, not of Go, what is wrong.
func inputError(err error) error {
	wrong := (*json.UnmarshalTypeError)(nil)
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the JSON object is not complete")
	case len(policy.FieldErrors(err)) > 0:
		return err
	case errors.As(err, &wrong):
		if wrong.Field == "" {
			return fmt.Errorf("a JSON %s stands where an object is needed", wrong.Value)
		}
		return fmt.Errorf("%s must not be a JSON %s", wrong.Field, wrong.Value)
	}
	return errors.New(strings.TrimPrefix(err.Error(), "json: "))
}
