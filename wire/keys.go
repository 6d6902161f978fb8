package wire

import (
	"bytes"
	"encoding/json"
	"reflect"
)

// exactKeys drops the fields of a request whose names differ from those of
// v's fields in case only. Package json would take them for the fields
// themselves, where every other reader of the protocol ignores them: a
// request could then mean one thing to who checks it and another to the agent.
func exactKeys(line []byte, v any) []byte {
	if !hasOddKey(line) {
		return line
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(line, &fields) != nil {
		return line // an error that decoding meets, too
	}
	t := reflect.TypeOf(v).Elem()
	for name := range fields {
		if _, ok := fieldOf(t, name); !ok {
			delete(fields, name)
		}
	}
	return remarshal(fields, line)
}

// TokenOf finds the token in a line that may have only begun, and says whether
// it is there as a whole. What it finds is no word on the rest of the line.
func TokenOf(begun []byte) (token string, found bool) {
	depth, key := 0, false
	for i := 0; i < len(begun); i++ {
		switch begun[i] {
		case '{', '[':
			depth++
			key = depth == 1
		case '}', ']':
			depth--
		case ',':
			key = depth == 1
		case '"':
			end := stringEnd(begun, i+1)
			if key && string(begun[i+1:end]) == "token" {
				return stringValue(begun[min(end+1, len(begun)):])
			}
			key, i = false, end
		}
	}
	return "", false
}

// stringValue reads a colon and a whole string.
func stringValue(begun []byte) (value string, whole bool) {
	begun, _ = bytes.CutPrefix(bytes.TrimLeft(begun, space), []byte(":"))
	if begun = bytes.TrimLeft(begun, space); len(begun) == 0 || begun[0] != '"' {
		return "", false
	}
	end := stringEnd(begun, 1)
	if end == len(begun) {
		return "", false
	}
	return value, json.Unmarshal(begun[:end+1], &value) == nil
}

// hasOddKey says whether a field of the outermost object has a name with
// anything but small letters, digits and underscores, as all real ones have.
// It reads what is perhaps no JSON and then says anything.
func hasOddKey(line []byte) bool {
	depth, key := 0, false
	for i := 0; i < len(line); i++ {
		switch line[i] {
		case '{', '[':
			depth++
			key = depth == 1
		case '}', ']':
			depth--
		case ',':
			key = depth == 1
		case '"':
			end := stringEnd(line, i+1)
			if key && bytes.ContainsFunc(line[i+1:end], odd) {
				return true
			}
			key, i = false, end
		}
	}
	return false
}

func odd(r rune) bool {
	return r != '_' && (r < 'a' || 'z' < r) && (r < '0' || '9' < r)
}

// stringEnd is where the string that begins at i has its closing quote.
func stringEnd(line []byte, i int) int {
	for {
		quote := bytes.IndexByte(line[i:], '"')
		if quote < 0 {
			return len(line)
		}
		escaped := false
		for j := i + quote - 1; j >= i && line[j] == '\\'; j-- {
			escaped = !escaped
		}
		if !escaped {
			return i + quote
		}
		i += quote + 1
	}
}
