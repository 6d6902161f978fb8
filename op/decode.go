package op

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"unicode/utf8"

	"github.com/paddock-dev/paddock/policy"
)

// The bounds of an operation's input. MaxInput, in bytes, has room for the
// longest command that a kernel starts, with each byte escaped; maxValues is
// what a request to the agent may hold.
const (
	MaxInput  = 16 << 20
	maxValues = 1 << 18
	maxDepth  = 32
)

// decode reads input into in, which points to a struct, and refuses what it
// does not know: encoding/json alone would take a field said twice or in other
// letters, null for anything, and put other characters in place of bad ones.
func decode(name string, input []byte, in any) error {
	if err := decodeObject(input, in); err != nil {
		if own := (*plainError)(nil); errors.As(err, &own) {
			return own.FieldError
		}
		return fmt.Errorf("cannot read the input of %s: %w", name, err)
	}
	return nil
}

func decodeObject(input []byte, in any) error {
	switch {
	case len(input) > MaxInput:
		return fmt.Errorf("it is longer than %d bytes", MaxInput)
	case !utf8.Valid(input):
		return errors.New("it is not valid UTF-8")
	case loneSurrogate(input):
		return errors.New("an escape in it is half of a character")
	}
	w := walker{dec: json.NewDecoder(bytes.NewReader(input))}
	w.dec.UseNumber()
	if err := w.value(reflect.TypeOf(in).Elem(), bounds{}, ""); err != nil {
		return inputError(err)
	}
	if _, err := w.dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the object")
	}
	return inputError(json.Unmarshal(input, in))
}

// inputError says in the words of JSON, not of Go, what is wrong.
func inputError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the JSON object is not complete")
	case len(policy.FieldErrors(err)) > 0, errors.As(err, new(*unknownFieldError)):
		return err
	}
	return errors.New(strings.TrimPrefix(err.Error(), "json: "))
}

// loneSurrogate finds an escape that stands for half of a character. In JSON a
// backslash is nowhere but in strings.
func loneSurrogate(input []byte) bool {
	for i := 0; i < len(input); i++ {
		if input[i] != '\\' {
			continue
		}
		i++
		switch escape(input, i) >> 10 {
		case 0xD800 >> 10:
			if i+5 >= len(input) || input[i+5] != '\\' || escape(input, i+6)>>10 != 0xDC00>>10 {
				return true
			}
			i += 10
		case 0xDC00 >> 10:
			return true
		}
	}
	return false
}

// escape is the number of an escape of four digits at i, else 0.
func escape(input []byte, i int) rune {
	if i+5 > len(input) || input[i] != 'u' {
		return 0
	}
	var n rune
	for _, c := range input[i+1 : i+5] {
		digit := strings.IndexByte("0123456789abcdef", c|0x20)
		if digit < 0 {
			return 0
		}
		n = n<<4 | rune(digit)
	}
	return n
}
